"""Arrays joined from parts along an axis, taken apart: what is done to them is done to each part.

The correlated effects of groups, L z, are a matrix whose rows are different functions. Where a row
of data selects one of them by its number, that function alone is selected from.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.tensor.basic import Alloc, Join
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Sum
from pytensor.tensor.subtensor import Subtensor

from pymc_sgmcmc.compile.pytensor_versions import GATHERS, integer_of, joined_parts
from pymc_sgmcmc.rows.indices import entries_of, is_whole

__all__ = ["Stack", "stacked"]


@dataclass(frozen=True, eq=False)
class Stack:
    """Parts that are joined along an `axis`, which they do not have themselves."""

    axis: int
    parts: Sequence[Any]


def stacked(node: Apply, inputs: Sequence[Any], stacks: dict[Any, Stack]) -> Stack | Any | None:
    """Return what `node` makes of `inputs`, of which some are `stacks`: a stack, or one variable.

    None if its parts are not known.
    """
    if isinstance(node.op, Join):
        return _joined(node, inputs)
    given = [stacks.get(x) for x in node.inputs]
    if not any(given):
        return None
    if isinstance(node.op, Elemwise):
        return _elementwise(node, inputs, given)
    stack = given[0]
    if stack is None:
        return None
    if isinstance(node.op, DimShuffle):
        return _turned(node, stack)
    if isinstance(node.op, Alloc):
        return _spread(node, stack)
    if isinstance(node.op, Sum) and node.op.axis == (stack.axis,):
        return pt.add(*stack.parts)
    if isinstance(node.op, (Subtensor, *GATHERS)):
        return _selected(node, stack)
    return None


def _joined(node: Apply, inputs: Sequence[Any]) -> Stack | None:
    axis, joined = joined_parts(node)
    parts = inputs[len(inputs) - len(joined) :]
    if axis is None or not all(part.type.broadcastable[axis] for part in parts):
        return None
    return Stack(axis, [_without_axis(part, axis) for part in parts])


def _without_axis(x: Any, axis: int) -> Any:
    """Return `x` without an axis of length one; if that was added, what it was added to."""
    order = [k for k in range(x.type.ndim) if k != axis]
    if x.owner is not None and isinstance(x.owner.op, DimShuffle):
        inner = x.owner.op.new_order
        if inner[axis] == "x" and [inner[k] for k in order] == list(range(len(order))):
            return x.owner.inputs[0]
    return x.dimshuffle(order)


def _elementwise(node: Apply, inputs: Sequence[Any], given: Sequence[Stack | None]) -> Stack | None:
    known = [stack for stack in given if stack is not None]
    axis, n = known[0].axis, len(known[0].parts)
    if any(stack.axis != axis or len(stack.parts) != n for stack in known):
        return None
    parts = []
    for k in range(n):
        own = [
            stack.parts[k] if stack is not None else _part(x, axis, k)
            for x, stack in zip(inputs, given, strict=True)
        ]
        parts.append(node.op(*own))
    return Stack(axis, parts)


def _part(x: Any, axis: int, k: int) -> Any:
    if x.type.broadcastable[axis]:
        return _without_axis(x, axis)
    return x[(slice(None),) * axis + (k,)]


def _turned(node: Apply, stack: Stack) -> Stack | None:
    order = list(node.op.new_order)
    if stack.axis not in order:
        return None
    at = order.index(stack.axis)
    rest = [k if k == "x" else k - (k > stack.axis) for k in order if k != stack.axis]
    return Stack(at, [part.dimshuffle(rest) for part in stack.parts])


def _spread(node: Apply, stack: Stack) -> Stack:
    whole, *shape = node.inputs
    axis = stack.axis + len(shape) - whole.type.ndim
    rest = [length for k, length in enumerate(shape) if k != axis]
    return Stack(axis, [pt.alloc(part, *rest) for part in stack.parts])


def _selected(node: Apply, stack: Stack) -> Stack | Variable | None:
    """Return one part, or some entries of each."""
    entries = entries_of(node)
    if entries is None or len(entries) != 2:
        return None
    own, other = entries[stack.axis], entries[1 - stack.axis]
    number = None if isinstance(own, slice) or own.type.ndim else integer_of(own)
    if number is not None:
        return _entries(stack.parts[number], other)
    if is_whole(own) and node.outputs[0].type.ndim == 2:
        return Stack(stack.axis, [_entries(part, other) for part in stack.parts])
    return None


def _entries(part: Any, entry: Any) -> Any:
    return part if is_whole(entry) else part[entry]
