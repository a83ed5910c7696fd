"""Find the predictors of the rows of a likelihood, or of the entries of a prior, in its graph."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations_with_replacement
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor import shared
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.tensor.basic import Alloc
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.shape import SpecifyShape
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.model.log_density import has_kinks, inside
from pymc_sgmcmc.posterior.affine_ways import Ways
from pymc_sgmcmc.posterior.derivatives import Derivatives, expand
from pymc_sgmcmc.posterior.lifting import lifted
from pymc_sgmcmc.posterior.predictors import Predictors, Reach
from pymc_sgmcmc.rows.groups import RowGroup

__all__ = ["MANY", "Cut", "cut_entries", "cut_rows", "predictors_of"]

MANY = 7
"""Largest number of predictors of which all pairs have second derivatives, if that can be helped.
With more, what rows select from is a coefficient, if there are fewer so: of correlated effects each
is a predictor, and each entry of their factor."""


@dataclass(frozen=True, eq=False)
class Cut:
    """Where a sum over rows is cut into predictors and what is a function of them.

    Its predictors can be counted; derivatives are taken when they are asked for.

    Attributes
    ----------
    terms : list of TensorVariable
        The summands, elementwise in the variables of `whole`.
    whole : dict
        The variables at which they are cut: one number for each row, of the shape of the terms.
    inner : dict
        Of variables of `whole` that are no predictors: their graph, and the numbers that these are
        functions of, each with its value and a symbol.
    values : dict
        The predictors: one number for each row, of the shape of the terms.
    coefficients : list of TensorVariable
        Functions of q without rows that occur in `values`.
    reach : callable
        A function that returns how far slopes are compared in a variable; None for second
        derivatives.
    """

    terms: Sequence[Any]
    whole: Mapping[Variable, TensorVariable]
    inner: Mapping[Variable, tuple[Any, Mapping[Any, tuple[Any, Any]]]]
    values: Mapping[Variable, TensorVariable]
    coefficients: Sequence[TensorVariable]
    reach: Callable[[Any], SharedVariable | None]

    def __len__(self) -> int:
        return len(self.values)

    def predictors(self, *, curved: bool = True) -> Predictors:
        """Take the derivatives in the predictors; `curved`: whether second ones are wanted."""
        inner = {x: Derivatives({x: pt.ones(())}, {}) for x in self.whole}
        for x, (value, numbers) in self.inner.items():
            inner[x] = expand(value.sum(), numbers, curved=curved)
        energy = -pt.add(*map(pt.sum, self.terms), 0.0)
        at = {x: (value, pt.tensor(dtype=x.dtype, shape=(None,) * value.type.ndim))
              for x, value in self.whole.items()}  # fmt: skip
        reaches = {x: own for x in self.whole if curved and (own := self.reach(x)) is not None}
        outer = expand(energy, at, curved=curved, reaches=reaches)
        found, second = outer.of(inner), outer.second or {}
        return Predictors(
            _flat(self.values.values()),
            _flat(found.first[x] for x in self.values),
            _flat(self._curvatures(found)),
            self.coefficients,
            [
                Reach(by, self.whole[x], outer.first[x], second[x, x])
                for x, by in reaches.items()
                if second
            ],
        )

    def _curvatures(self, found: Derivatives) -> Iterator[Any]:
        if found.second is None:
            return
        none = pt.zeros_like(next(iter(self.values.values())))
        for pair in combinations_with_replacement(self.values, 2):
            yield found.second.get(pair, none)


def _flat(graphs) -> list[Any]:
    return [x.ravel() if x.type.ndim > 1 else x for x in graphs]


def predictors_of(
    groups: Sequence[RowGroup],
    vars: Sequence[TensorVariable],
    *,
    curved: bool = True,
    over_kinks: bool = False,
) -> list[Predictors] | None:
    """Return the predictors of all groups, functions of `vars`; None if one has none.

    `curved`: whether curvatures are wanted. `over_kinks`: whether they are changes of slopes over
    some distance, which see kinks.
    """
    found = [cut_rows(own, vars, over_kinks=over_kinks) for own in groups]
    known = [own.predictors(curved=curved) for own in found if own]
    return known if len(known) == len(found) else None


def cut_rows(
    group: RowGroup, vars: Sequence[TensorVariable], *, over_kinks: bool = False
) -> Cut | None:
    """Cut the likelihood of the rows of a group, where it has predictors."""
    given = [inside(term) for term in group.terms]
    found = _of_rows(lifted(given, vars), group, vars, over_kinks)
    if found is not None and len(found) > MANY:
        terms = lifted(given, vars, through_sums=False)
        of_coefficients = _of_rows(terms, group, vars, over_kinks)
        if of_coefficients is not None and len(of_coefficients) < len(found):
            return of_coefficients
    return found


def _of_rows(
    terms: Sequence[Any], group: RowGroup, vars: Sequence[TensorVariable], over_kinks: bool
) -> Cut | None:
    slices = {data.slice for data in group.data}
    terms = Ways(terms, vars, slices, coefficients=True).gathered(terms)
    ways = Ways(terms, vars, slices, coefficients=True)
    n = group.data[0].slice.shape[group.data[0].axis]

    def by_row(x):
        return x if x in ways.of_rows else pt.alloc(x.reshape(()), n)

    def reach(x):
        return shared(np.ones((), x.dtype), name="reach") if over_kinks else None

    return _cut(terms, ways, ways.is_row, by_row, reach)


def cut_entries(
    term: TensorVariable, vars: Sequence[TensorVariable], shape: tuple[int, ...]
) -> Cut | None:
    """Cut the entries of a log-density, as if these were rows, where they have predictors.

    `shape`: of `term`, whose graph is elementwise where predictors are found. Where it may have
    kinks, as that of a Laplace distribution has, curvatures reach over them.
    """
    shape = shape or (1,)
    terms = lifted([inside(term)], vars)
    ways = Ways(terms, vars, ())

    def by_entry(x):
        return pt.alloc(x, *shape)

    def reach(x):
        is_kinked = x in ways.affine and has_kinks(terms, [x])
        return shared(np.ones(shape, x.dtype), name="reach", shape=shape) if is_kinked else None

    return _cut(terms, ways, ways.is_entry, by_entry, reach)


def _cut(
    terms: Sequence[Any],
    ways: Ways,
    is_cut: Callable[[Any], bool],
    spread: Callable[[Any], Any],
    reach: Callable[[Any], SharedVariable | None],
) -> Cut | None:
    """Cut terms that are elementwise in variables that `is_cut`, if there are any.

    `spread` gives such a variable the shape of the terms.
    """
    rows = ways.back(terms, is_cut, through=(Elemwise, Alloc, SpecifyShape))
    if not rows:
        return None
    inner = {}
    for x in rows:
        if not ways.is_linear(x):
            of_numbers = ways.of_scalars(x)
            if of_numbers is None:
                return None
            inner[x] = of_numbers
    whole = {x: spread(x) for x in rows}
    found = dict.fromkeys(chain(*(inner[x][1] if x in inner else [x] for x in rows)))
    values = {x: whole[x] if x in whole else spread(x) for x in found}
    return Cut(terms, whole, inner, values, ways.coefficients_of([*values.values()]), reach)
