"""Rules that select rows through a reshape."""

from pytensor.tensor.basic import MakeVector
from pytensor.tensor.shape import Reshape
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.compile.pytensor_versions import GATHERS
from pymc_sgmcmc.rows.indices import entries_of, is_whole
from pymc_sgmcmc.rows.selection import NotByRow, Steps, select_through


def _prefixes(shape, axis: int) -> int:
    product = 1
    for length in shape[:axis]:
        product *= length
    return product


@select_through.register(Reshape)
def _(op, x, axis, selection) -> Steps:
    whole, shape = x.owner.inputs
    before, after = selection.dependence.shape_of(whole), selection.dependence.shape_of(x)
    for own, length in enumerate(before):
        same = length == after[axis] and length > 1
        if same and _prefixes(before, own) == _prefixes(after, axis):
            lengths = [shape[k] for k in range(x.type.ndim)]
            lengths[axis] = selection.length(lengths[axis])
            return (yield whole, own).reshape(lengths, ndim=x.type.ndim)
    if (looked_up := _looked_up(whole, shape, before, after)) is not None:
        return (yield looked_up, axis)
    raise NotByRow("the rows are reshaped")


def _looked_up(whole, shape, before, after) -> TensorVariable | None:
    """Return ``x[index].reshape((n, m, ...))`` as ``x[index.reshape((n, m))]``; None otherwise."""
    node, kept = whole.owner, len(before) - 1
    split = len(after) - kept
    vector = (
        node is not None
        and isinstance(node.op, GATHERS)
        and (entries := entries_of(node)) is not None
        and not isinstance(entries[0], slice)
        and entries[0].type.ndim == 1
        and all(is_whole(entry) for entry in entries[1:])
    )
    if not vector or entries is None or split < 1 or after[split:] != before[1:]:
        return None
    # Take the lengths one by one: the vector may also hold the length of an axis of parameters.
    made = shape.owner is not None and isinstance(shape.owner.op, MakeVector)
    lengths = [shape.owner.inputs[k] if made else shape[k] for k in range(split)]
    return node.inputs[0][entries[0].reshape(lengths, ndim=split)]
