"""Predictors: affine functions of coefficients that determine the likelihood of a row.

The predictors of a linear regression are X @ beta and the logarithm of the scale. Coefficients are
entries of q, or functions of q without rows, such as the products of scales and standardized
coefficients of a sparse regression or of a Gaussian process by basis functions. A control variate
then needs only the slopes of each row's likelihood in the predictors at its anchor. These slopes
can be kept, and one product with X maps a difference of slopes to a gradient in q.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from typing import Any, TypeAlias

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
from pymc_sgmcmc.model.log_density import flat_gradient, inside
from pymc_sgmcmc.posterior.derivatives import Derivatives, expand
from pymc_sgmcmc.posterior.lifting import lifted
from pymc_sgmcmc.rows.groups import RowGroup

__all__ = ["Predictors", "find_predictors", "predictors_of", "predictors_of_entries"]

Columns: TypeAlias = Sequence[Any]
"""Arrays or graphs, each with one number for each row."""

_SUMS = Add | Sub | Neg | Identity | Cast
_MOVES = (DimShuffle, Reshape, Subtensor, AdvancedSubtensor, Sum, Join, MakeVector, Alloc,
          SpecifyShape)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Predictors:
    """The P predictors of a group of rows, and the derivatives of the rows' energies u in them.

    u is minus the log-likelihood of a row as a function of its predictors. All graphs are functions
    of q and of the slices, with n numbers.

    Attributes
    ----------
    values : list of TensorVariable
        The predictors, affine in q and in `coefficients`.
    coefficients : list of TensorVariable
        Functions of q without rows that occur in `values`.
    slopes : list of TensorVariable
        The derivatives of u.
    curvatures : list of TensorVariable
        The second derivatives of u, in the order of `pairs`; none where PyTensor has none, or where
        they are not wanted.
    """

    values: Sequence[TensorVariable]
    slopes: Sequence[TensorVariable]
    curvatures: Sequence[TensorVariable]
    coefficients: Sequence[TensorVariable] = ()

    def __len__(self) -> int:
        return len(self.values)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Pairs (j, k) of predictors with j <= k."""
        return [*combinations_with_replacement(range(len(self)), 2)]

    @property
    def width(self) -> int:
        """Numbers in the expansion of one row: see `expansion`."""
        return len(self) + len(self.curvatures)

    def expansion(self, values: Columns, slopes: Columns, curvatures: Columns) -> list[Any]:
        """Return b and W, `width` columns, where b + W x is the slope near the `values` of x.

        With the derivatives there. Columns are arrays or graphs of one number for each row.
        """
        moved = self.turn(curvatures, values)
        return [s - m for s, m in zip(slopes, moved, strict=True)] + [*curvatures]

    def slopes_near(self, expansion: Columns, values: Columns) -> list[Any]:
        """Return b + W x, P columns, for an `expansion` at `values` of x."""
        moved = self.turn(expansion[len(self) :], values)
        return [b + m for b, m in zip(expansion, moved, strict=False)]

    def turn(self, curvatures: Columns, x: Columns) -> list[Any]:
        """Return W x, P columns; zeros where there are no curvatures."""
        products: list[Any] = [0.0] * len(self)
        for curvature, (j, k) in zip(curvatures, self.pairs, strict=False):
            products[j] = products[j] + curvature * x[k]
            if j != k:
                products[k] = products[k] + curvature * x[j]
        return products

    def gauss_newton(
        self, derivatives: np.ndarray, products: Sequence[tuple[int, int]]
    ) -> np.ndarray:
        """Return the curvatures of rows, (n, len(pairs)), about as a positive matrix has them.

        `derivatives`: values, slopes and curvatures, as columns. `products`: pairs (i, j) such that
        u depends on exp(x_i) x_j = t alone. Of its curvatures, u'' (dt/dx_i)^2 and u'' dt/dx_i
        dt/dx_j stay, and u' d^2t/dx_i^2 and u' d^2t/dx_i dx_j go: t is affine in x_j alone. Of all
        others, W_jk is at most the root of W_jj W_kk, and these are at least zero.
        """
        values, slopes, curvatures = np.split(derivatives, [len(self), 2 * len(self)], axis=1)
        W = dict(zip(self.pairs, curvatures.T.copy(), strict=True))
        for i, j in products:
            W[i, i] -= values[:, j] * slopes[:, j]
            W[min(i, j), max(i, j)] -= slopes[:, j]
        roots = [np.sqrt(np.maximum(W[j, j], 0)) for j in range(len(self))]
        for j, k in self.pairs:
            most = roots[j] * roots[k]
            W[j, k] = most if j == k else np.clip(W[j, k], -most, most)
        return np.stack([*W.values()], axis=1)

    def pull(
        self, slopes: Sequence[TensorVariable], coefficients: Mapping[Variable, TensorVariable],
        vars: Sequence[TensorVariable],
    ) -> TensorVariable:
        """Return the gradient, (D,), of a function with `slopes` in the predictors, (n,).

        In `vars`, and in the `coefficients` as if these were variables of their own: they map to
        symbols that stand for them.
        """
        values = clone_replace(list(self.values), coefficients, rebuild_strict=False)
        pairs = zip(values, slopes, strict=True)
        known = {value: slope.astype(value.dtype) for value, slope in pairs}
        free = flat_gradient(None, [*vars, *coefficients.values()], known)
        (found,) = clone_replace([free], {own: x for x, own in coefficients.items()})
        return found


def predictors_of(
    groups: Sequence[RowGroup], vars: Sequence[TensorVariable], *, curved: bool = True
) -> list[Predictors] | None:
    """Return the predictors of all groups; None if one has none.

    `curved`: whether curvatures are wanted.
    """
    found = [find_predictors(group, vars, curved=curved) for group in groups]
    known = [own for own in found if own]
    return known if len(known) == len(found) else None


def find_predictors(
    group: RowGroup, vars: Sequence[TensorVariable], *, curved: bool = True
) -> Predictors | None:
    """Return the predictors of a group, functions of `vars`; None if none are found."""
    terms = lifted([inside(term) for term in group.terms], vars)
    ways = _Ways(terms, vars, {data.slice for data in group.data}, coefficients=True)
    n = group.data[0].slice.shape[group.data[0].axis]

    def by_row(x):
        return x if x in ways.of_rows else pt.alloc(x.reshape(()), n)

    found = _found(terms, ways, ways.is_row, by_row, curved=curved)
    return found and replace(found, coefficients=ways.coefficients_of(found.values))


def predictors_of_entries(
    term: TensorVariable, vars: Sequence[TensorVariable], shape: tuple[int, ...]
) -> Predictors | None:
    """Return the predictors of the entries of a log-density, as if these were rows; or None.

    `shape`: of `term`, whose graph is elementwise where predictors are found.
    """
    terms = lifted([inside(term)], vars)
    ways = _Ways(terms, vars, ())

    def by_entry(x):
        return pt.alloc(x, *shape or (1,))

    return _found(terms, ways, ways.is_entry, by_entry, curved=True)


def _found(
    terms: Sequence[Any],
    ways: "_Ways",
    is_cut: Callable[[Any], bool],
    spread: Callable[[Any], Any],
    *,
    curved: bool,
) -> Predictors | None:
    """Return the predictors of terms that are elementwise in variables that `is_cut`.

    `spread` gives such a variable the shape of the terms.
    """
    rows = ways.back(terms, is_cut, through=(Elemwise, Alloc, SpecifyShape))
    if not rows:
        return None
    inner = {row: Derivatives({row: pt.ones(())}, {}) for row in rows}
    for row in rows:
        if row not in ways.affine:
            scalars = ways.back([row], ways.is_scalar, through=(Elemwise, DimShuffle))
            if scalars is None:
                return None
            inner[row] = expand(row.sum(), {x: (x, x.type()) for x in scalars}, curved=curved)
    energy = -pt.add(*map(pt.sum, terms), 0.0)
    whole = {x: spread(x) for x in rows}
    at = {x: (value, pt.tensor(dtype=x.dtype, shape=(None,) * value.type.ndim))
          for x, value in whole.items()}  # fmt: skip
    found = expand(energy, at, curved=curved).of(inner)
    values = [whole.get(x, spread(x)) for x in found.first]
    curvatures = []
    if found.second is not None:
        pairs = combinations_with_replacement(found.first, 2)
        none = pt.zeros_like(values[0])
        curvatures = [found.second.get(pair, none) for pair in pairs]
    return Predictors(*(
        [x.ravel() if x.type.ndim > 1 else x for x in graphs]
        for graphs in (values, found.first.values(), curvatures)
    ))  # fmt: skip


class _Ways:
    """The paths from `vars` to `terms`: variables that depend on vars, are affine, or have rows.

    `coefficients`: whether arrays without rows count as affine, whatever they are of `vars`.
    """

    def __init__(
        self,
        terms: Sequence[Any],
        vars: Sequence[TensorVariable],
        slices: Iterable[Variable],
        *,
        coefficients: bool = False,
    ):
        self.depends, self.affine, self.of_rows = set(vars), set(vars), set(slices)
        self._coefficients: set[Variable] = set()
        for node in toposort(terms):
            if not self.of_rows.isdisjoint(node.inputs):
                self.of_rows.update(node.outputs)
            through = [x for x in node.inputs if x in self.depends]
            self.depends.update(node.outputs if through else [])
            if not through:
                continue
            if self.affine.issuperset(through) and _is_linear(node, through):
                self.affine.update(node.outputs)
            elif coefficients and _is_array(node) and self.of_rows.isdisjoint(node.outputs):
                self.affine.update(node.outputs)
                self._coefficients.update(node.outputs)

    def coefficients_of(self, graphs: Sequence[Variable]) -> list[Any]:
        """Return the coefficients on which affine `graphs` depend, but for `vars`."""
        ways, seen, found = [*graphs], set(), []
        while ways:
            x = ways.pop()
            if x in seen or x not in self.depends:
                continue
            seen.add(x)
            if x in self._coefficients:
                found.append(x)
            elif x.owner is not None:
                ways += x.owner.inputs
        return found

    def is_row(self, x: Variable) -> bool:
        """Return whether `x` has a number of each row, affine in vars, or one for all rows."""
        one = all(x.type.broadcastable)
        if x.type.ndim > 1:
            return False
        return not one and x in self.affine if x in self.of_rows else one

    def is_entry(self, x: Variable) -> bool:
        """Return whether `x` is affine in vars, or one number for all entries."""
        return x in self.affine or all(x.type.broadcastable)

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
            if is_cut(x):
                found.append(x)
            elif x.owner and isinstance(x.owner.op, through):
                ways += x.owner.inputs
            else:
                return None
        return found


def _is_array(node: Apply) -> bool:
    """Return whether the output of `node` has several floating-point numbers."""
    (out, *_) = node.outputs
    return out.dtype in float_dtypes and not all(getattr(out.type, "broadcastable", (True,)))


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
