"""Predictors: affine functions of q that determine the likelihood of a row.

The predictors of a linear regression are X @ beta and the logarithm of the scale. A control variate
then needs only the slopes of each row's likelihood in the predictors at its anchor. These slopes
can be kept, and one product with X maps a difference of slopes to a gradient in q.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import toposort
from pytensor.scalar.basic import Add, Cast, Identity, Mul, Neg, Sub, TrueDiv
from pytensor.tensor.basic import Alloc, Join, MakeVector
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot, Sum
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor
from pytensor.tensor.type import float_dtypes
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.compile.sparse_dot import SparseDot
from pymc_sgmcmc.model.log_density import flat_gradient, inside, stabilized
from pymc_sgmcmc.rows.groups import RowGroup

__all__ = ["Predictor", "find_predictors", "kept_predictors"]

KEPT = 2**21
"""Largest number of slopes of rows that a chain keeps, for any number of rows: 16 MB, and as much
again where rows are drawn in blocks."""

_SUMS = Add | Sub | Neg | Identity | Cast
_MOVES = (DimShuffle, Reshape, Subtensor, AdvancedSubtensor, Sum, Join, MakeVector, Alloc,
          SpecifyShape)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Predictor:
    """One predictor: a number for each row of a group.

    Attributes
    ----------
    value, slope : TensorVariable
        The predictor, and minus the derivative of the row's log-likelihood with respect to it,
        (n,): functions of q and of the slices.
    """

    value: TensorVariable
    slope: TensorVariable

    def pull(self, slopes: TensorVariable, vars: Sequence[TensorVariable]) -> TensorVariable:
        """Return the gradient in q, (d,), of a function with slopes (n,) in the predictor."""
        known = {self.value: slopes.astype(self.value.dtype)}
        return flat_gradient(None, vars, known)


def kept_predictors(
    groups: Sequence[RowGroup], lengths: np.ndarray, vars: Sequence[TensorVariable]
) -> list[list[Predictor]] | None:
    """Return the predictors of all groups; None if one has none, or slopes exceed `KEPT`.

    `lengths`: the number of rows of each group.
    """
    found = [find_predictors(group, vars) for group in groups]
    known = [own for own in found if own]
    if len(known) < len(found):  # also where a group has none at all
        return None
    kept = sum(n * len(own) for n, own in zip(lengths, known, strict=True))
    return known if kept <= KEPT else None


def find_predictors(group: RowGroup, vars: Sequence[TensorVariable]) -> list[Predictor] | None:
    """Return the predictors of a group, functions of `vars`; None if none are found."""
    terms = [inside(term) for term in group.terms]
    ways = _Ways(terms, group, vars)
    rows = ways.back(terms, ways.is_row, through=(Elemwise, Alloc, SpecifyShape))
    if not rows:
        return None
    n = group.data[0].slice.shape[group.data[0].axis]

    def by_row(x):
        return x if x in ways.of_rows else pt.alloc(x.reshape(()), n)

    energy = -pt.add(*map(pt.sum, terms), 0.0)
    slopes = _derivatives(energy, {x: (by_row(x), pt.vector(dtype=x.dtype)) for x in rows})
    found: dict[Variable, TensorVariable] = {}
    for row, slope in slopes.items():
        if row in ways.affine:
            found[row] = found.get(row, 0.0) + slope
            continue
        scalars = ways.back([row], ways.is_scalar, through=(Elemwise, DimShuffle))
        if scalars is None:
            return None
        for scalar, own in _derivatives(row.sum(), {x: (x, x.type()) for x in scalars}).items():
            found[scalar] = found.get(scalar, 0.0) + slope * own.reshape(())
    return [Predictor(by_row(value), slope) for value, slope in found.items()]


def _derivatives(
    value: TensorVariable, cut: Mapping[Variable, tuple[TensorVariable, TensorVariable]]
) -> dict[Variable, TensorVariable]:
    """Return the derivatives of `value` in the variables of `cut`.

    `cut`: for each variable, the value at which to differentiate, and a symbol for differentiation.
    """
    symbols = {x: symbol for x, (_, symbol) in cut.items()}
    freed = clone_replace(value, symbols, rebuild_strict=False)
    gradients = pt.grad(stabilized(freed), list(symbols.values()), disconnected_inputs="ignore")
    at = {symbol: where for where, symbol in cut.values()}
    return dict(zip(cut, clone_replace(gradients, at, rebuild_strict=False), strict=True))


class _Ways:
    """The paths from `vars` to `terms`: variables that depend on vars, are affine, or have rows."""

    def __init__(self, terms, group: RowGroup, vars: Sequence[TensorVariable]):
        self.depends, self.affine = set(vars), set(vars)
        self.of_rows = {data.slice for data in group.data}
        for node in toposort(terms):
            if not self.of_rows.isdisjoint(node.inputs):
                self.of_rows.update(node.outputs)
            through = [x for x in node.inputs if x in self.depends]
            self.depends.update(node.outputs if through else [])
            if through and self.affine.issuperset(through) and _is_linear(node, through):
                self.affine.update(node.outputs)

    def is_row(self, x: Variable) -> bool:
        """Return whether `x` has a number of each row, affine in vars, or one for all rows."""
        one = all(x.type.broadcastable)
        return not one and x in self.affine if x in self.of_rows else one

    def is_scalar(self, x: Variable) -> bool:
        return x in self.affine and all(x.type.broadcastable)

    def back(self, ends, is_cut: Callable, through: tuple[type, ...]) -> list[Variable] | None:
        """Go back from `ends` to variables that `is_cut`; None if other operations are met."""
        ways, seen, found = [*ends], set(), []
        while ways:
            x = ways.pop()
            # Derivatives do not pass through variables that are not floats, such as conditions.
            if x not in self.depends or x in seen or x.dtype not in float_dtypes:
                continue
            seen.add(x)
            if x.type.ndim <= 1 and is_cut(x):
                found.append(x)
            elif x.owner and isinstance(x.owner.op, through):
                ways += x.owner.inputs
            else:
                return None
        return found


def _is_linear(node: Apply, through: Sequence[Variable]) -> bool:
    """Return whether the outputs of `node` are affine in its inputs `through`."""
    op = node.op
    if node.outputs[0].dtype not in float_dtypes:
        return False
    if isinstance(op, Elemwise):
        if isinstance(op.scalar_op, Mul):
            return len(through) == 1
        divides = isinstance(op.scalar_op, TrueDiv) and through == node.inputs[:1]
        return divides or isinstance(op.scalar_op, _SUMS)
    if isinstance(op, Dot) or (isinstance(op, Blockwise) and isinstance(op.core_op, Dot)):
        return len(through) == 1
    return isinstance(op, (*_MOVES, SparseDot))
