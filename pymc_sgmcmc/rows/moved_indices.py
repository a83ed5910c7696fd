"""Indices of rows, moved from a computed tensor to the data that it is computed from."""

from collections.abc import Iterable

import numpy as np
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import toposort
from pytensor.tensor.subtensor import Subtensor
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.compile.pytensor_versions import GATHERS
from pymc_sgmcmc.model.row_axes import FEW_ROWS
from pymc_sgmcmc.rows.dependence import Dependence
from pymc_sgmcmc.rows.indices import entries_of, is_whole, places
from pymc_sgmcmc.rows.parts import Part, cells
from pymc_sgmcmc.rows.selection import NotByRow

__all__ = ["INDEXING", "index_at_data", "with_indices_at_data"]

INDEXING = (Subtensor, *GATHERS)
"""Operations that take parts of a tensor by slices or indices."""


def index_at_data(x: TensorVariable, axis: int, dependence: Dependence) -> TensorVariable | None:
    """Return `x`, whose `axis` comes from an index, with the index moved to data; None if it stays.

    The index is moved if it is a function of data alone, acts on more than `FEW_ROWS` entries, and
    reaches data.
    """
    node = x.owner
    if not isinstance(node.op, INDEXING):
        return None
    entries = entries_of(node)
    if entries is None:
        return None
    whole, moves = node.inputs[0], dependence.moves
    place = places(entries)[axis]
    indexed = [k for k, entry in enumerate(entries) if not isinstance(entry, slice)]
    if place.axis is not None:  # a slice of rows
        k = place.axis
        if is_whole(entries[k]) or any(moves(v) for v in _variables(entries[k])):
            return None
        part, chosen = Part(entries[k], dependence), k
    elif any(entries[k].type.ndim != 1 or moves(entries[k]) for k in indexed):
        return None
    elif len(indexed) > 1:
        if np.prod([dependence.shape_of(whole)[k] for k in indexed]) <= FEW_ROWS:
            return None
        if any(not is_whole(entry) for entry in entries if isinstance(entry, slice)):
            return None
        found = cells(whole, {k: entries[k] for k in indexed}, moves)
        if found.owner is None or isinstance(found.owner.op, GATHERS):
            return None
        order = [*range(1, axis + 1), 0, *range(axis + 1, found.type.ndim)]
        return found.dimshuffle(*order) if axis else found
    else:
        (chosen,) = indexed
        part = Part(entries[chosen], dependence)
    if dependence.shape_of(whole)[chosen] <= FEW_ROWS:
        return None
    try:
        found = part(whole, chosen)
    except NotByRow:
        return None
    if not part.reaches:
        return None
    rest = [slice(None) if k == chosen else entry for k, entry in enumerate(entries)]
    return found if all(map(is_whole, rest)) else found[tuple(rest)]


def _variables(entry: slice) -> Iterable[Variable]:
    bounds = entry.start, entry.stop, entry.step
    return [bound for bound in bounds if isinstance(bound, Variable)]


def with_indices_at_data(term: TensorVariable, dependence: Dependence) -> TensorVariable:
    """Return `term` with indices of rows moved to data, for a term that is not sliced by row."""
    new: dict[Variable, Variable] = {}
    for node in toposort([term]):
        (x, *_) = node.outputs
        if isinstance(node.op, INDEXING) and dependence.moves(x):
            moved = (index_at_data(x, axis, dependence) for axis in range(x.type.ndim))
            found = next((one for one in moved if one is not None), None)
            if found is not None:
                new[x] = found
    return clone_replace(term, new, rebuild_strict=False) if new else term
