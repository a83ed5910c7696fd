"""Rules of `join_node` for operations on joined variables, by class of operation."""

from collections.abc import Sequence

import pytensor.tensor as pt
from pytensor.graph.op import Op
from pytensor.scalar.basic import AND, ScalarType
from pytensor.tensor.basic import Alloc, MakeVector, ScalarFromTensor, TensorFromScalar
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.math import Dot
from pytensor.tensor.shape import SpecifyShape
from pytensor.tensor.subtensor import Subtensor, indices_from_subtensor
from pytensor.tensor.type import TensorType

from pymc_sgmcmc.compile.evaluate import evaluate
from pymc_sgmcmc.compile.pytensor_versions import GATHERS
from pymc_sgmcmc.rows.joining import Joining, Joint, Kind, NotJoined, join_node

COMMON, EACH, ROWS = Kind


def _has(inputs: Sequence[Joint], kind: Kind) -> bool:
    return any(joint.kind is kind for joint in inputs)


@join_node.register
def _(op: Elemwise, nodes, inputs, joining):
    if _has(inputs, ROWS):
        return Joint(ROWS, op(*(joint.as_rows() for joint in inputs)))
    if _has(inputs, EACH):
        return Joint(EACH, op(*(joint.as_each() for joint in inputs)))
    return Joint(COMMON, op(*(joint.graph for joint in inputs)))


@join_node.register
def _(op: DimShuffle, nodes, inputs, joining):
    (given,), order = inputs, op.new_order
    if given.kind is EACH:
        return Joint(EACH, given.graph.dimshuffle(0, *(k if k == "x" else k + 1 for k in order)))
    if given.kind is ROWS and (not order or order[0] != 0):
        raise NotJoined("rows are moved to another axis")
    return Joint(given.kind, given.graph.dimshuffle(*order))


@join_node.register
def _(op: CAReduce, nodes, inputs, joining):
    (given,) = inputs
    axes = op.axis if op.axis is not None else range(nodes[0].inputs[0].type.ndim)
    if given.kind is EACH:
        return Joint(EACH, _reduced(op, given.graph, [axis + 1 for axis in axes]))
    if given.kind is ROWS and 0 in axes:
        # One check serves all terms: if it fails for one of them, their sum is -inf anyway.
        if not isinstance(op.scalar_op, AND):
            raise NotJoined(f"{op} is over rows")
        return Joint(COMMON, pt.all(given.graph))
    return Joint(given.kind, _reduced(op, given.graph, axes))


def _reduced(op: CAReduce, graph, axes):
    return op.clone(axis=tuple(axes))(graph)


@join_node.register
def _(op: Alloc, nodes, inputs, joining):
    (given,) = inputs
    lengths = evaluate([x for node in nodes for x in node.inputs[1:]], {})
    ndim = len(nodes[0].inputs) - 1
    shapes = [tuple(map(int, lengths[k : k + ndim])) for k in range(0, len(lengths), ndim)]
    if [shape[0] for shape in shapes] != joining.lengths or len({s[1:] for s in shapes}) > 1:
        raise NotJoined("an allocation of another shape than that of rows")
    if given.graph.type.ndim - (given.kind is EACH) < len(shapes[0]):
        if given.kind is ROWS:
            raise NotJoined("rows are moved to another axis")
        filled = given.as_each()
        missing = 1 + len(shapes[0]) - filled.type.ndim
        new = [0, *["x"] * missing, *range(1, filled.type.ndim)]
        given = Joint(EACH, filled.dimshuffle(*new))
    return Joint(ROWS, pt.alloc(given.as_rows(), joining.number, *shapes[0][1:]))


@join_node.register
def _(op: SpecifyShape, nodes, inputs, joining):
    return inputs[0]


@join_node.register(ScalarFromTensor)
@join_node.register(TensorFromScalar)
def _(op, nodes, inputs, joining):
    (given,) = inputs
    return given if given.kind is not COMMON else Joint(COMMON, op(given.graph))


@join_node.register
def _(op: MakeVector, nodes, inputs, joining):
    if not _has(inputs, EACH):
        return Joint(COMMON, op(*(joint.graph for joint in inputs)))
    columns = [pt.alloc(joint.as_each(), joining.number) for joint in inputs]
    return Joint(EACH, pt.stack(columns, axis=1).astype(op.dtype))


@join_node.register
def _(op: Subtensor, nodes, inputs, joining):
    return _indexed(
        inputs, joining, indices_from_subtensor(list(range(1, len(inputs))), op.idx_list)
    )


def _by_tensors(op, nodes, inputs, joining):
    if getattr(op, "idx_list", None) is not None:
        entries = indices_from_subtensor(list(range(1, len(inputs))), op.idx_list)
    else:  # PyTensor 2: slices are inputs
        given = [joint.graph for joint in inputs]
        entries = [k if isinstance(given[k].type, TensorType | ScalarType)
                   else getattr(given[k], "data", None) for k in range(1, len(inputs))]  # fmt: skip
    return _indexed(inputs, joining, entries)


for gather in GATHERS:
    join_node.register(gather, _by_tensors)


def _indexed(inputs: Sequence[Joint], joining: Joining, entries: Sequence) -> Joint:
    """Return ``x[entries]``; an entry is a position in `inputs`, or a slice of positions."""
    base, entries = inputs[0], list(entries)
    slices = [entry for entry in entries if isinstance(entry, slice)]
    if any(entry != slice(None) for entry in slices):
        bounds = [k for s in slices for k in (s.start, s.stop, s.step) if k is not None]
        if _has([inputs[k] for k in bounds], EACH) or base.kind is not COMMON:
            raise NotJoined("slices that differ")
        if entries[0] != slice(None) and _has(inputs, ROWS):
            raise NotJoined("a slice before rows")
    indices = [inputs[k] for k in entries if not isinstance(k, slice)]
    if base.kind is COMMON and not (_has(indices, EACH) or _has(indices, ROWS)):
        return Joint(COMMON, base.graph[tuple(_entry(entry, inputs) for entry in entries)])
    if any(_ndim(joint) > 1 or (joint.kind is COMMON and _ndim(joint)) for joint in indices):
        raise NotJoined("an index of several axes")
    kind = ROWS if _has(indices, ROWS) or base.kind is ROWS else EACH
    if base.kind is not COMMON:
        if base.kind is ROWS:
            if entries[:1] != [slice(None)]:
                raise NotJoined("an index of rows")
            if _has(indices, ROWS):
                raise NotJoined("an index of rows in rows")
            entries = entries[1:]
        if not indices:
            return base
        rows = pt.arange(joining.number)
    else:
        rows = None
    # The axis of the index has to become the first axis, which has the rows.
    if rows is None and isinstance(entries[0], slice) and len(indices) == 1 and kind is EACH:
        place = entries.index(next(k for k in entries if not isinstance(k, slice)))
        moved = base.graph.dimshuffle(
            place, *(k for k in range(base.graph.type.ndim) if k != place)
        )
        return Joint(EACH, moved[indices[0].graph])
    first = entries[: len(indices)]
    if any(isinstance(entry, slice) for entry in first):
        raise NotJoined("an index of a later axis")
    given = [_entry(entry, inputs) for entry in entries]
    return Joint(kind, base.graph[tuple(given if rows is None else [rows, *given])])


def _ndim(joint: Joint) -> int:
    return getattr(joint.graph.type, "ndim", 0)


def _entry(entry, inputs):
    if isinstance(entry, slice):
        bounds = (entry.start, entry.stop, entry.step)
        return slice(*(None if k is None else inputs[k].graph for k in bounds))
    return inputs[entry].graph


@join_node.register(Dot)
def _(op, nodes, inputs, joining):
    return _product(op, inputs)


@join_node.register(Blockwise)
def _(op, nodes, inputs, joining):
    if not isinstance(op.core_op, Dot):
        raise NotJoined(f"the operation {op} has no rule")
    return _product(op, inputs)


def _product(op: Op, inputs: Sequence[Joint]) -> Joint:
    left, right = inputs
    if left.kind is COMMON and right.kind is COMMON:
        return Joint(COMMON, op(left.graph, right.graph))
    if left.kind is ROWS and left.graph.type.ndim == 2:
        if right.kind is COMMON:
            return Joint(ROWS, op(left.graph, right.graph))
        if right.kind is EACH and right.graph.type.ndim == 2:
            return Joint(ROWS, (left.graph * right.graph).sum(axis=1))
        if right.kind is EACH and right.graph.type.ndim == 3:
            return Joint(ROWS, (left.graph[:, :, None] * right.graph).sum(axis=1))
    raise NotJoined("a product of other matrices than rows and parameters")
