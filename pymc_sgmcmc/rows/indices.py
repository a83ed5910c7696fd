"""Entries that an indexing node takes of each axis of a tensor."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant
from pytensor.tensor.subtensor import indices_from_subtensor
from pytensor.tensor.type import TensorType

__all__ = ["Place", "entries_of", "is_whole", "places"]

Entry: TypeAlias = Any
"""The index of one axis: a slice, or a tensor of integers with any number of axes."""


def entries_of(node: Apply, first: int = 1) -> list[Entry] | None:
    """Return the entry of each axis of the tensor that `node` indexes; None if it adds axes.

    `first`: position of the first input that is an index. A mask of several axes becomes the
    indices of its true elements, one entry an axis.
    """
    ndim = node.inputs[0].type.ndim
    idx_list = getattr(node.op, "idx_list", None)
    if idx_list is None:  # PyMC 5: each input is an entry
        given = [_as_entry(x) for x in node.inputs[first:]]
    else:
        given = list(indices_from_subtensor(node.inputs[first:], idx_list))
    entries: list[Entry] = []
    for entry in given:
        if isinstance(entry, slice):
            entries.append(entry)
        elif not isinstance(getattr(entry, "type", None), TensorType):
            scalar = hasattr(entry, "owner") or isinstance(entry, int)
            if not scalar:
                return None
            entries.append(pt.as_tensor(entry))
        elif entry.type.dtype == "bool":
            entries.extend(pt.nonzero(entry) if entry.type.ndim else [None])
        else:
            entries.append(entry)
    if any(entry is None for entry in entries) or len(entries) > ndim:
        return None
    return entries + [slice(None)] * (ndim - len(entries))


def _as_entry(x):
    if isinstance(x.type, TensorType):
        return x
    if isinstance(x, Constant):
        return x.data
    if x.owner is not None and len(x.owner.inputs) == 3:  # MakeSlice
        bounds = [None if isinstance(v, Constant) and v.data is None else v for v in x.owner.inputs]
        return slice(*bounds)
    return x if x.type.__class__.__name__ == "ScalarType" else None


def is_whole(entry: Entry) -> bool:
    """Return whether `entry` is the slice of a whole axis, in order."""
    if not isinstance(entry, slice):
        return False
    start, stop, step = (getattr(bound, "data", bound) for bound in _bounds(entry))
    return (
        stop is None and (start is None or _equals(start, 0)) and (step is None or _equals(step, 1))
    )


def _bounds(entry: slice):
    return entry.start, entry.stop, entry.step


def _equals(bound, number: int) -> bool:
    try:
        return int(bound) == number
    except (TypeError, ValueError):
        return False


@dataclass(frozen=True)
class Place:
    """Origin of an axis of an indexed tensor.

    Attributes
    ----------
    axis : int or None
        Axis of the tensor that is sliced; None for an axis of the indices.
    of_indices : int or None
        Axis of the indices after broadcasting; None for an axis that is sliced.
    """

    axis: int | None
    of_indices: int | None = None


def places(entries: Sequence[Entry]) -> list[Place]:
    """Return the origin of each axis of a tensor indexed by `entries`."""
    indexed = [k for k, entry in enumerate(entries) if not isinstance(entry, slice)]
    sliced = [Place(k) for k, entry in enumerate(entries) if isinstance(entry, slice)]
    if not indexed:
        return sliced
    block = [Place(None, j) for j in range(max(entries[k].type.ndim for k in indexed))]
    together = indexed == list(range(indexed[0], indexed[-1] + 1))
    start = indexed[0] if together else 0
    return sliced[:start] + block + sliced[start:]
