"""Names and habits that differ between PyTensor 2 and 3."""

import warnings
from collections.abc import Callable
from typing import Any

import pytensor
from pytensor.graph.basic import Apply, Variable
from pytensor.tensor import subtensor
from pytensor.tensor.basic import get_underlying_scalar_constant_value
from pytensor.tensor.type import TensorType, integer_dtypes
from pytensor.tensor.variable import TensorVariable

__all__ = ["ADDITIONS", "GATHERS", "indices_of_addition", "integer_of", "joined_parts",
           "scan"]  # fmt: skip


def scan(step: Callable[..., Any], **kwargs: Any) -> list[TensorVariable]:
    """Return the list of trajectories of `pytensor.scan`, each with its starting value.

    PyTensor returns slices of these trajectories, without the starting values. PyTensor 3 links the
    inner function of a C scan with its Python virtual machine, twice as slow, unless a mode is
    given; it deprecates that argument.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The `mode` argument", FutureWarning)
        paths = pytensor.scan(step, return_list=True, return_updates=False, **kwargs)
    return [path.owner.inputs[0] for path in paths]


GATHERS = tuple(
    getattr(subtensor, name)
    for name in ("AdvancedSubtensor", "AdvancedSubtensor1")
    if hasattr(subtensor, name)
)
"""Operations that index by tensors of integers: x[i]."""

ADDITIONS = [
    getattr(subtensor, name)
    for name in ("AdvancedIncSubtensor", "AdvancedIncSubtensor1")  # the latter in PyTensor 2
    if hasattr(subtensor, name)
]
"""Operations that add or set values at indices."""


def indices_of_addition(node: Apply) -> list[TensorVariable] | None:
    """Return the indices if `node` adds at integer arrays, one for each leading axis; else None."""
    op, (_, _, *indices) = node.op, node.inputs
    if op.set_instead_of_inc or getattr(op, "ignore_duplicates", False):
        return None
    if getattr(op, "idx_list", tuple(range(len(indices)))) != tuple(range(len(indices))):
        return None
    arrays = [isinstance(x.type, TensorType) and x.type.dtype in integer_dtypes for x in indices]
    return indices if all(arrays) else None


def joined_parts(node: Apply) -> tuple[int | None, list[Any]]:
    """Return the axis along which a `Join` joins, and what it joins; None: it is not known."""
    axis = getattr(node.op, "axis", None)
    if axis is not None:  # PyTensor 3.3
        return axis, list(node.inputs)
    first, *parts = node.inputs
    axis = integer_of(first)
    return (None if axis is None else axis % parts[0].type.ndim), parts


def integer_of(x: Any) -> int | None:
    """Return the value of an integer constant, in any form; None if `x` is not constant."""
    value: Any = get_underlying_scalar_constant_value(x, raise_not_constant=False)
    return None if isinstance(value, Variable) else int(value)
