"""Predictors: affine functions of coefficients that determine the likelihood of a row.

The predictors of a linear regression are X @ beta and the logarithm of the scale. Coefficients are
entries of q, or functions of q without rows, such as the products of scales and standardized
coefficients of a sparse regression or of a Gaussian process by basis functions. A control variate
then needs only the slopes of each row's likelihood in the predictors at its anchor. These slopes
can be kept, and one product with X maps a difference of slopes to a gradient in q.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from typing import Any, TypeAlias

import numpy as np
import pytensor.tensor as pt
from pytensor import shared
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace
from pytensor.tensor.basic import Alloc
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.shape import SpecifyShape
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.model.log_density import has_kinks, inside, pulled_back
from pymc_sgmcmc.posterior.affine_ways import Ways
from pymc_sgmcmc.posterior.derivatives import Derivatives, expand
from pymc_sgmcmc.posterior.lifting import lifted
from pymc_sgmcmc.rows.groups import RowGroup

__all__ = [
    "MANY",
    "Predictors",
    "Reach",
    "find_predictors",
    "predictors_of",
    "predictors_of_entries",
]

MANY = 7
"""Largest number of predictors of which all pairs have second derivatives, if that can be helped.
With more, what rows select from is a coefficient, if there are fewer so: of correlated effects each
is a predictor, and each entry of their factor."""

Columns: TypeAlias = Sequence[Any]
"""Arrays or graphs, each with one number for each row."""


@dataclass(frozen=True, eq=False)
class Reach:
    """How far slopes are compared in a quantity of each row, to each side of its value.

    Attributes
    ----------
    distance : SharedVariable
    value : TensorVariable
        The quantity itself.
    slope : TensorVariable
        The slope in that quantity, (n,).
    curvature : TensorVariable
        The change of the slope from one side to the other, by the distance between them, (n,).
    """

    distance: SharedVariable
    value: TensorVariable
    slope: TensorVariable
    curvature: TensorVariable


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
    reaches : list of Reach
        What takes the place of second derivatives over kinks; empty where nothing does.
    """

    values: Sequence[TensorVariable]
    slopes: Sequence[TensorVariable]
    curvatures: Sequence[TensorVariable]
    coefficients: Sequence[TensorVariable] = ()
    reaches: Sequence[Reach] = ()

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
        self,
        slopes: Sequence[TensorVariable],
        coefficients: Mapping[Variable, TensorVariable],
        vars: Sequence[TensorVariable],
    ) -> TensorVariable:
        """Return the gradient, (D,), of a function with `slopes` in the predictors, (n,).

        In `vars`, and in the `coefficients` as if these were variables of their own: they map to
        symbols that stand for them.
        """
        values = clone_replace(list(self.values), coefficients, rebuild_strict=False)
        pairs = zip(values, slopes, strict=True)
        slopes_of = {value: slope.astype(value.dtype) for value, slope in pairs}
        free = pulled_back(slopes_of, [*vars, *coefficients.values()])
        (found,) = clone_replace([free], {own: x for x, own in coefficients.items()})
        return found


def predictors_of(
    groups: Sequence[RowGroup],
    vars: Sequence[TensorVariable],
    *,
    curved: bool = True,
    over_kinks: bool = False,
) -> list[Predictors] | None:
    """Return the predictors of all groups; None if one has none.

    `curved`: whether curvatures are wanted. `over_kinks`: whether they are changes of slopes over
    some distance, which see kinks.
    """
    found = [find_predictors(own, vars, curved=curved, over_kinks=over_kinks) for own in groups]
    known = [own for own in found if own]
    return known if len(known) == len(found) else None


def find_predictors(
    group: RowGroup,
    vars: Sequence[TensorVariable],
    *,
    curved: bool = True,
    over_kinks: bool = False,
) -> Predictors | None:
    """Return the predictors of a group, functions of `vars`; None if none are found."""
    given = [inside(term) for term in group.terms]
    through_sums = lifted(given, vars)
    found = _of_rows(through_sums, group, vars, curved=False)
    if found is not None and len(found) > MANY:
        terms = lifted(given, vars, through_sums=False)
        of_coefficients = _of_rows(terms, group, vars, curved=curved, over_kinks=over_kinks)
        if of_coefficients is not None and len(of_coefficients) < len(found):
            return of_coefficients
    if found is None or not curved:
        return found
    return _of_rows(through_sums, group, vars, curved=True, over_kinks=over_kinks)


def _of_rows(
    terms: Sequence[Any],
    group: RowGroup,
    vars: Sequence[TensorVariable],
    *,
    curved: bool,
    over_kinks: bool = False,
) -> Predictors | None:
    slices = {data.slice for data in group.data}
    terms = Ways(terms, vars, slices, coefficients=True).gathered(terms)
    ways = Ways(terms, vars, slices, coefficients=True)
    n = group.data[0].slice.shape[group.data[0].axis]

    def by_row(x):
        return x if x in ways.of_rows else pt.alloc(x.reshape(()), n)

    def reach(x):
        return shared(np.ones((), x.dtype), name="reach") if over_kinks else None

    found = _found(terms, ways, ways.is_row, by_row, reach, curved=curved)
    return found and replace(found, coefficients=ways.coefficients_of(found.values))


def predictors_of_entries(
    term: TensorVariable,
    vars: Sequence[TensorVariable],
    shape: tuple[int, ...],
    *,
    curved: bool = True,
) -> Predictors | None:
    """Return the predictors of the entries of a log-density, as if these were rows; or None.

    `shape`: of `term`, whose graph is elementwise where predictors are found. Where it may have
    kinks, as that of a Laplace distribution has, curvatures reach over them. `curved`: whether
    curvatures are wanted.
    """
    shape = shape or (1,)
    terms = lifted([inside(term)], vars)
    ways = Ways(terms, vars, ())

    def by_entry(x):
        return pt.alloc(x, *shape)

    def reach(x):
        is_kinked = x in ways.affine and has_kinks(terms, [x])
        return shared(np.ones(shape, x.dtype), name="reach", shape=shape) if is_kinked else None

    return _found(terms, ways, ways.is_entry, by_entry, reach, curved=curved)


def _found(
    terms: Sequence[Any],
    ways: Ways,
    is_cut: Callable[[Any], bool],
    spread: Callable[[Any], Any],
    reach: Callable[[Any], SharedVariable | None],
    *,
    curved: bool,
) -> Predictors | None:
    """Return the predictors of terms that are elementwise in variables that `is_cut`.

    `spread` gives such a variable the shape of the terms. `reach`: a function that returns how far
    slopes are compared in a variable, or None for second derivatives.
    """
    rows = ways.back(terms, is_cut, through=(Elemwise, Alloc, SpecifyShape))
    if not rows:
        return None
    inner = {row: Derivatives({row: pt.ones(())}, {}) for row in rows}
    for row in rows:
        if not ways.is_linear(row):
            value, scalars = ways.of_scalars(row)
            if scalars is None:
                return None
            inner[row] = expand(value.sum(), scalars, curved=curved)
    energy = -pt.add(*map(pt.sum, terms), 0.0)
    whole = {x: spread(x) for x in rows}
    at = {x: (value, pt.tensor(dtype=x.dtype, shape=(None,) * value.type.ndim))
          for x, value in whole.items()}  # fmt: skip
    reaches = {x: own for x in rows if curved and (own := reach(x)) is not None}
    outer = expand(energy, at, curved=curved, reaches=reaches)
    found = outer.of(inner)
    values = [whole.get(x, spread(x)) for x in found.first]
    curvatures = []
    if found.second is not None:
        pairs = combinations_with_replacement(found.first, 2)
        none = pt.zeros_like(values[0])
        curvatures = [found.second.get(pair, none) for pair in pairs]
    values, slopes, curvatures = (
        [x.ravel() if x.type.ndim > 1 else x for x in graphs]
        for graphs in (values, found.first.values(), curvatures)
    )
    own = outer.second
    kinked = [Reach(by, whole[x], outer.first[x], own[x, x]) for x, by in reaches.items() if own]
    return Predictors(values, slopes, curvatures, reaches=kinked)
