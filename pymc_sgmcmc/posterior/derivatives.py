"""First and second derivatives of sums over rows, by row, as graphs."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, product
from typing import Any

import pytensor.tensor as pt
from pytensor.gradient import NullTypeGradError
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace
from pytensor.graph.utils import MethodNotDefined
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.model.log_density import stabilized

__all__ = ["Derivatives", "expand"]


@dataclass(frozen=True, eq=False)
class Derivatives:
    """Derivatives of a function of variables: of each, and of each pair in both orders.

    There are no second derivatives where PyTensor has none, or where they are not wanted.
    """

    first: Mapping[Variable, TensorVariable]
    second: Mapping[tuple[Variable, Variable], TensorVariable] | None

    def of(self, inner: Mapping[Variable, "Derivatives"]) -> "Derivatives":
        """Return the derivatives where each variable is itself a function: the chain rule."""
        first: dict[Any, Any] = {}
        second: dict[Any, Any] = {}

        def add(to, key, value):
            to[key] = to[key] + value if key in to else value

        for x, slope in self.first.items():
            for p, own in inner[x].first.items():
                add(first, p, slope * own.reshape(()))
        if self.second is None:
            return Derivatives(first, None)
        for x, slope in self.first.items():
            of_x = inner[x].second
            if of_x is None:
                return Derivatives(first, None)
            for pair, own in of_x.items():
                add(second, pair, slope * own.reshape(()))
        for (x, y), curvature in self.second.items():
            for p, of_p in inner[x].first.items():
                for r, of_r in inner[y].first.items():
                    add(second, (p, r), curvature * of_p.reshape(()) * of_r.reshape(()))
        return Derivatives(first, second)


def expand(
    value: TensorVariable,
    cut: Mapping[Variable, tuple[TensorVariable, TensorVariable]],
    *,
    curved: bool,
    reaches: Mapping[Variable, TensorVariable] | None = None,
) -> Derivatives:
    """Return the derivatives of a sum over rows of functions of the variables of `cut`, by row.

    `cut`: for each variable, the value at which to differentiate, and a symbol for differentiation.
    `curved`: whether second derivatives are wanted. `reaches`: how far to each side of the value of
    some variables slopes are compared, in place of second derivatives: these miss kinks.
    """
    symbols = {x: symbol for x, (_, symbol) in cut.items()}
    freed = stabilized(clone_replace(value, symbols, rebuild_strict=False))
    slopes = _gradients(freed, symbols.values())
    rows, reaches = None, reaches or {}
    if curved:
        smooth = [x for x in cut if x not in reaches]
        with suppress(MethodNotDefined, NotImplementedError, NullTypeGradError):
            second = []
            for slope in slopes:
                of = {x: _secant(slope, symbols[x], reach) for x, reach in reaches.items()}
                of |= zip(smooth, _gradients(slope.sum(), [symbols[x] for x in smooth]))
                second.append([of[x] for x in cut])
            rows = second
    at = {symbol: where for where, symbol in cut.values()}
    graphs = clone_replace([*slopes, *chain(*rows or ())], at, rebuild_strict=False)
    first = dict(zip(cut, graphs))
    pairs = product(cut, cut)
    return Derivatives(first, None if rows is None else dict(zip(pairs, graphs[len(cut) :])))


def _gradients(value, symbols) -> list[TensorVariable]:
    if not symbols:
        return []
    return pt.grad(value, list(symbols), disconnected_inputs="ignore")


def _secant(slope: TensorVariable, x: Variable, reach: TensorVariable) -> TensorVariable:
    """Return the change of `slope` over `reach` to each side of `x`, by distance."""
    ends = [clone_replace(slope, {x: x + by}, rebuild_strict=False) for by in (reach, -reach)]
    return (ends[0] - ends[1]) / (2 * reach)
