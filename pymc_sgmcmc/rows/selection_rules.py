"""Rules that select rows through operations: each rule is an identity."""

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Apply
from pytensor.tensor.basic import (
    Alloc,
    AllocEmpty,
    Join,
    Split,
)
from pytensor.tensor.blas import BatchedDot
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.math import Argmax, Dot
from pytensor.tensor.shape import SpecifyShape
from pytensor.tensor.sort import ArgSortOp, SortOp
from pytensor.tensor.special import LogSoftmax, Softmax
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.compile.pytensor_versions import integer_of, joined_parts
from pymc_sgmcmc.compile.sparse_dot import SparseDot, SparsePull
from pymc_sgmcmc.rows.selection import NotByRow, Selection, Steps, select_through

__all__ = ["aligned", "rebuilt"]


def rebuilt(x: TensorVariable, inputs: list) -> TensorVariable:
    """Return the output of the operation of `x` for other inputs."""
    node: Apply = x.owner
    if isinstance(node.op, OpFromGraph):  # The inner graph has static shapes, too.
        outputs = node.op(*inputs, return_list=True)
    else:
        outputs = node.clone_with_new_inputs(inputs, strict=False).outputs
    return outputs[node.outputs.index(x)]


def aligned(inputs, axis: int, ndim: int) -> Steps:
    """Select from inputs that are broadcast together; an axis of length one stays."""
    found = []
    for x in inputs:
        own = axis - (ndim - x.type.ndim)
        found.append(x if own < 0 or x.type.broadcastable[own] else (yield x, own))
    return found


@select_through.register(Elemwise)
def _(op, x, axis, selection: Selection) -> Steps:
    return rebuilt(x, (yield from aligned(x.owner.inputs, axis, x.type.ndim)))


@select_through.register(DimShuffle)
def _(op, x, axis, selection) -> Steps:
    return rebuilt(x, [(yield x.owner.inputs[0], op.new_order[axis])])


@select_through.register(CAReduce)
def _(op, x, axis, selection) -> Steps:
    (whole,) = x.owner.inputs
    return rebuilt(x, [(yield whole, _kept(op.axis, whole.type.ndim)[axis])])


@select_through.register(Argmax)
def _(op, x, axis, selection) -> Steps:
    (whole,) = x.owner.inputs
    return rebuilt(x, [(yield whole, _kept(op.axis, whole.type.ndim)[axis])])


def _kept(reduced, ndim: int) -> list[int]:
    """Return the axes that a reduction keeps, in order."""
    gone = range(ndim) if reduced is None else [axis % ndim for axis in reduced]
    return [axis for axis in range(ndim) if axis not in gone]


@select_through.register(Softmax)
@select_through.register(LogSoftmax)
@select_through.register(CumOp)
def _(op, x, axis, selection) -> Steps:
    (whole,) = x.owner.inputs
    ndim = whole.type.ndim
    along = range(ndim) if op.axis is None else np.atleast_1d(op.axis) % ndim
    if axis in along:
        raise NotByRow(f"{type(op).__name__} takes all rows together")
    return rebuilt(x, [(yield whole, axis)])


@select_through.register(SortOp)
@select_through.register(ArgSortOp)
def _(op, x, axis, selection) -> Steps:
    whole, along = x.owner.inputs[:2]
    number = integer_of(along)
    if number is None or number % whole.type.ndim == axis:
        raise NotByRow("all rows are sorted together")
    return rebuilt(x, [(yield whole, axis), *x.owner.inputs[1:]])


@select_through.register(Dot)
def _(op, x, axis, selection) -> Steps:
    left, right = x.owner.inputs
    if left.type.ndim == 2 and axis == 0:
        return rebuilt(x, [(yield left, 0), right])
    return rebuilt(x, [left, (yield right, right.type.ndim - 1)])


@select_through.register(SparseDot)
def _(op, x, axis, selection) -> Steps:
    *design, rows, dense = x.owner.inputs
    if axis == 0:
        return rebuilt(x, [*design, (yield rows, 0), dense])
    return rebuilt(x, [*design, rows, (yield dense, 1)])


@select_through.register(SparsePull)
def _(op, x, axis, selection) -> Steps:
    *design, rows, dense, width = x.owner.inputs
    if axis == 0:
        raise NotByRow("a sparse matrix is summed over its rows")
    return rebuilt(x, [*design, rows, (yield dense, 1), width])


@select_through.register(BatchedDot)
def _(op, x, axis, selection) -> Steps:
    left, right = x.owner.inputs
    if axis == 0:
        return rebuilt(x, [(yield left, 0), (yield right, 0)])
    if axis < left.type.ndim - 1:
        return rebuilt(x, [(yield left, axis), right])
    return rebuilt(x, [left, (yield right, right.type.ndim - 1)])


@select_through.register(Blockwise)
def _(op, x, axis, selection) -> Steps:
    inputs = x.owner.inputs
    own = op.outputs_sig[x.owner.outputs.index(x)]
    lead = x.type.ndim - len(own)
    if axis < lead:  # entries along a batch axis are computed independently
        found = []
        for given, sig in zip(inputs, op.inputs_sig, strict=True):
            place = axis - (lead - (given.type.ndim - len(sig)))
            alone = place < 0 or given.type.broadcastable[place]
            found.append(given if alone else (yield given, place))
        return rebuilt(x, found)
    if isinstance(op.core_op, Dot):
        left, right = inputs
        if axis == lead and len(op.inputs_sig[0]) == 2:
            return rebuilt(x, [(yield left, left.type.ndim - 2), right])
        return rebuilt(x, [left, (yield right, right.type.ndim - 1)])
    if getattr(op.core_op, "b_ndim", None) == 2 and axis == x.type.ndim - 1:
        solved, right = inputs  # each column of the right side is solved for by itself
        return rebuilt(x, [solved, (yield right, right.type.ndim - 1)])
    raise NotByRow(f"{type(op.core_op).__name__} takes all rows together")


@select_through.register(Alloc)
def _(op, x, axis, selection) -> Steps:
    value, *shape = x.owner.inputs
    (value,) = yield from aligned([value], axis, x.type.ndim)
    shape[axis] = selection.length(shape[axis])
    return pt.alloc(value, *shape)


@select_through.register(AllocEmpty)
def _(op, x, axis, selection) -> Steps:
    shape = list(x.owner.inputs)
    shape[axis] = selection.length(shape[axis])
    return op(*shape)
    yield


@select_through.register(SpecifyShape)
def _(op, x, axis, selection) -> Steps:
    whole, *shape = x.owner.inputs
    shape[axis] = None
    return pt.specify_shape((yield whole, axis), shape)


@select_through.register(Join)
def _(op, x, axis, selection) -> Steps:
    along, parts = joined_parts(x.owner)
    if along is None or along == axis:
        raise NotByRow("its rows are joined from parts, as in a time series")
    found = []
    for part in parts:
        found.append((yield part, axis))
    return pt.join(along, *found)


@select_through.register(Split)
def _(op, x, axis, selection) -> Steps:
    whole, *how = x.owner.inputs
    along = op.axis if hasattr(op, "axis") else integer_of(how[0])
    if along is None or along % whole.type.ndim == axis:
        raise NotByRow("the rows are split")
    return rebuilt(x, [(yield whole, axis), *how])
