"""Rules that select rows through operations that index a tensor or set parts of it."""

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.basic import AllocEmpty, ARange
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.shape import Reshape
from pytensor.tensor.subtensor import AdvancedIncSubtensor, IncSubtensor, Subtensor

from pymc_sgmcmc.compile.pytensor_versions import GATHERS
from pymc_sgmcmc.rows.indices import entries_of, is_whole, places
from pymc_sgmcmc.rows.selection import NotByRow, Steps, select_through
from pymc_sgmcmc.rows.selection_rules import aligned, rebuilt


@select_through.register(Subtensor)
def _(op, x, axis, selection) -> Steps:
    whole, entries = x.owner.inputs[0], entries_of(x.owner)
    place = None if entries is None else places(entries)[axis].axis
    if entries is None or place is None or not is_whole(entries[place]):
        raise NotByRow("its rows depend on other rows, as in a time series")
    return rebuilt(x, [(yield whole, place), *x.owner.inputs[1:]])


def _indexed(op, x, axis, selection) -> Steps:
    whole, entries = x.owner.inputs[0], entries_of(x.owner)
    if entries is None:
        raise NotByRow("the rows are indexed")
    place = places(entries)[axis]
    if place.axis is not None:
        if not is_whole(entries[place.axis]):
            raise NotByRow("its rows depend on other rows, as in a time series")
        return (yield whole, place.axis)[tuple(entries)]
    indexed = [k for k, entry in enumerate(entries) if not isinstance(entry, slice)]
    ndim = max(entries[k].type.ndim for k in indexed)
    shape_of, new, part = selection.dependence.shape_of, list(entries), whole
    for k in indexed:
        index = entries[k]
        own = place.of_indices - (ndim - index.type.ndim)
        if own < 0 or index.type.broadcastable[own]:
            continue
        if _is_range(index, whole, k, own, shape_of):
            # x[range(n), i]: each row of x has an index of its own
            part = yield whole, k
            new[k] = clone_replace([index], {whole: part}, rebuild_strict=False)[0]
        elif index.owner is None or shape_of(index)[own] != 1:  # indices broadcast as arrays do
            new[k] = yield index, own
    return part[tuple(new)]


def _is_range(index, whole, axis: int, own: int, shape_of) -> bool:
    """Return whether `index` is 0, ..., n - 1 along `own`; n is the length of `whole`'s `axis`."""
    start = index
    while start.owner is not None and isinstance(start.owner.op, DimShuffle | Reshape | Elemwise):
        if isinstance(start.owner.op, Elemwise) and len(start.owner.inputs) != 1:
            return False
        start = start.owner.inputs[0]
    if start.owner is None or not isinstance(start.owner.op, ARange):
        return False
    first, stop, step = start.owner.inputs
    if whole not in ancestors([stop]) or whole.type.broadcastable[axis]:
        return False
    ends = getattr(first, "data", None), getattr(step, "data", None)
    others = [length for k, length in enumerate(shape_of(index)) if k != own]
    fits = shape_of(index)[own] == shape_of(whole)[axis] and set(others) <= {1}
    return ends == (0, 1) and fits


for gather in GATHERS:
    select_through.register(gather, _indexed)


@select_through.register(IncSubtensor)
def _(op, x, axis, selection) -> Steps:
    whole, part, *_ = x.owner.inputs
    entries = entries_of(x.owner, first=2)
    if entries is None or not is_whole(entries[axis]):
        raise NotByRow("some of the rows are set apart from the others")
    of_part = [place.axis for place in places(entries)].index(axis)
    (part,) = yield from aligned([part], of_part, len(places(entries)))
    return rebuilt(x, [(yield whole, axis), part, *x.owner.inputs[2:]])


@select_through.register(AdvancedIncSubtensor)
def _(op, x, axis, selection) -> Steps:
    """Select rows of which some are set from another variable, such as imputed values.

    Two functions of data tell for each row whether it is set, and from which entry.
    """
    whole, part = x.owner.inputs[:2]
    entries = entries_of(x.owner, first=2)
    fits = (
        op.set_instead_of_inc
        and entries is not None
        and all(is_whole(entry) for k, entry in enumerate(entries) if k != axis)
        and not isinstance(entries[axis], slice)
        and entries[axis].type.ndim == 1
        and not selection.dependence.moves(entries[axis])
        and part.type.ndim == x.type.ndim
        and not part.type.broadcastable[axis]
    )
    if entries is None or not fits:
        raise NotByRow("its rows are put together from several variables")
    index, n = entries[axis], selection.dependence.shape_of(x)[axis]
    comes = pt.set_subtensor(pt.zeros(n, dtype="bool")[index], np.array(True))
    which = pt.set_subtensor(
        pt.zeros(n, dtype="int64")[index], pt.arange(index.shape[0], dtype="int64")
    )
    rest = yield whole, axis
    if whole.owner is not None and isinstance(whole.owner.op, AllocEmpty):
        rest = rest.zeros_like()
        selection.unset.add(rest)
    if selection.is_left_out(part, comes):
        return rest
    taken = yield part[(slice(None),) * axis + (which,)], axis
    if rest in selection.unset:
        return taken
    comes_here = yield comes, 0
    shape: list[int | str] = ["x"] * x.type.ndim
    shape[axis] = 0
    return pt.switch(comes_here.dimshuffle(*shape), taken, rest).astype(x.dtype)
