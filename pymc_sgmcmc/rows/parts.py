"""Entries of a tensor at an index, computed from the same entries of the data.

``exp(X @ b)[mask]`` is ``exp(X[mask] @ b)``, and ``(U @ V.T)[i, j]`` is
``sum(U[i] * V[j], axis=1)``. With the index at the data, a batch needs its own rows alone.
"""

from collections.abc import Callable, Mapping

import pytensor.tensor as pt
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.rows.dependence import Dependence
from pymc_sgmcmc.rows.indices import Entry
from pymc_sgmcmc.rows.selection import NotByRow, Selection, select_through
from pymc_sgmcmc.rows.selection_rules import rebuilt

__all__ = ["Part", "cells"]


class Part(Selection):
    """Selection of the entries of an index along one axis.

    Parameters
    ----------
    entry : slice or TensorVariable
        A vector of integers, or a slice: a function of data alone.
    dependence : Dependence
        Which variables depend on data alone.

    Attributes
    ----------
    reaches : bool
        Whether data have been indexed. If not, moving the index has no benefit.
    """

    def __init__(self, entry: Entry, dependence: Dependence):
        super().__init__(dependence)
        self.entry, self.reaches = entry, False

    def length(self, whole):
        if isinstance(self.entry, slice):
            return pt.arange(whole)[self.entry].shape[0]
        return self.entry.shape[0]

    def steps(self, x, axis):
        if x.type.broadcastable[axis]:
            raise NotByRow("an index takes a row that is the same for all")
        if not self.dependence.moves(x):
            self.reaches = True
        elif x.owner is not None:
            try:
                return (yield from select_through(x.owner.op, x, axis, self))
            except NotByRow:
                pass
        return x[(slice(None),) * axis + (self.entry,)]


def cells(
    x: TensorVariable, indices: Mapping[int, TensorVariable], moves: Callable
) -> TensorVariable:
    """Return the entries of `x` at vectors of `indices` by axis: (n, *other axes in order)."""
    node, ndim = x.owner, x.type.ndim
    others = [axis for axis in range(ndim) if axis not in indices]
    if not indices:
        return x.dimshuffle("x", *range(ndim))
    if any(x.type.broadcastable[axis] for axis in indices):
        kept = {axis: i for axis, i in indices.items() if not x.type.broadcastable[axis]}
        alone = [axis for axis in range(ndim) if axis in kept or axis in others]
        squeezed = {alone.index(axis): i for axis, i in kept.items()}
        return cells(x.dimshuffle(*alone), squeezed, moves)
    if node is not None and moves(x):
        if isinstance(node.op, Elemwise):
            # Selected axes come first, so that all inputs have them in the same place.
            return rebuilt(x, [cells(given, indices, moves) for given in node.inputs])
        if isinstance(node.op, DimShuffle):
            order = node.op.new_order
            whole = cells(node.inputs[0], {order[k]: i for k, i in indices.items()}, moves)
            left = [
                k
                for k in range(node.inputs[0].type.ndim)
                if k not in map(order.__getitem__, indices)
            ]
            new = ["x" if order[k] == "x" else 1 + left.index(order[k]) for k in others]
            return whole.dimshuffle(0, *new)
        product = _matrices(x)
        if product is not None:
            left, right = product
            rows = cells(left, {0: indices[0]}, moves) if 0 in indices else None
            columns = cells(right, {1: indices[1]}, moves) if 1 in indices else None
            if columns is None:
                return pt.dot(rows, right)
            if rows is None:
                return pt.dot(columns, left.T)
            return pt.sum(rows * columns, axis=-1)
    first = x.dimshuffle(*indices, *others)
    return first[tuple(indices.values())]


def _matrices(x: TensorVariable) -> tuple[TensorVariable, TensorVariable] | None:
    """Return the two matrices whose product is `x`; None if it is no such product."""
    op, inputs = x.owner.op, x.owner.inputs
    core = op.core_op if isinstance(op, Blockwise) else op
    if isinstance(core, Dot) and [given.type.ndim for given in inputs] == [2, 2]:
        return inputs[0], inputs[1]
    return None
