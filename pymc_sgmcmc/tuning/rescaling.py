"""Scales that multiply standardised effects, and moves along which their product stays.

Rows see a scale t = exp(s) and effects z only in the product t z, where a hierarchy is not centred:
they say nothing of the way (s + a, exp(-a) z).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pytensor.graph.traversal import graph_inputs

from pymc_sgmcmc._utils.types import Counts, Vector
from pymc_sgmcmc.posterior.exact_part import ExactPart
from pymc_sgmcmc.posterior.target import Target

__all__ = ["Product", "multiplies", "products_of", "rescaled"]

FURTHEST, BISECTIONS = 3.0, 12
"""Longest move of a logarithm, and number of bisections by which it is found."""


@dataclass(frozen=True, eq=False)
class Product:
    """The coordinate of the logarithm of a scale, and those of the effects that it multiplies."""

    log_scale: int
    effects: Counts

    def moved(self, q: Vector, by: float) -> Vector:
        """Return points (..., d) with the scale times exp(by), and effects divided by it."""
        q = q.copy()
        q[..., self.log_scale] += by
        q[..., self.effects] *= np.exp(-by)
        return q

    def slope(self, gradient: Vector, q: Vector) -> float:
        """Return the derivative of a function along the way, from its `gradient` at `q`."""
        return float(gradient[self.log_scale] - gradient[self.effects] @ q[self.effects])


def products_of(target: Target) -> list[Product]:
    """Return the products of a scale and the effects of a variable in the predictors of rows."""
    of_rows, at = _variables(target)
    everywhere = [vars for group in of_rows for vars in group]
    found = {}
    for group, i, j in _pairs(target, of_rows):
        scale, effects = group[i], group[j]
        is_one_of_each = len(scale) == len(effects) == 1 and at[scale[0]].size == 1
        if is_one_of_each and sum(effects[0] in vars for vars in everywhere) == 1:
            found[effects[0]] = Product(int(at[scale[0]][0]), at[effects[0]])
    return [*found.values()]


def multiplies(target: Target) -> NDArray[np.bool_]:
    """Return whether each coordinate is of a predictor that multiplies another, (d,)."""
    of_rows, at = _variables(target)
    found = np.zeros(target.size, bool)
    for group, i, _ in _pairs(target, of_rows):
        for var in group[i]:
            found[at[var]] = True
    return found


def _variables(target: Target) -> tuple[list[list[list[Any]]], dict[Any, Counts]]:
    """Return the variables of each predictor of each group, and the coordinates of each."""
    energy = target.energy
    assert energy.predictors is not None
    at: dict[Any, Counts] = {**energy.coordinates()}
    of_rows = [
        [[x for x in graph_inputs([value]) if x in at] for value in own.values]
        for own in energy.predictors
    ]
    return of_rows, at


def _pairs(target: Target, of_rows: list[Any]) -> Iterator[tuple[list[list[Any]], int, int]]:
    """Yield a group's variables by predictor, and a pair (i, j) of these: exp(x_i) x_j."""
    assert target.near_anchor is not None
    for group, pairs in zip(of_rows, target.near_anchor.products, strict=True):
        for i, j in pairs:
            yield group, i, j


def rescaled(exact: ExactPart, products: Sequence[Product], mean: Vector, draws: Vector) -> Vector:
    """Return the mean moved to where the prior is likeliest, along the ways of `products`.

    `draws` (k, d): of the normal around the mean, which moves as well. Where the divergence from
    the posterior is least, the mean of U's derivative along a way is its divergence, minus the
    number of effects (Stein's identity).
    """
    for product in products:

        def slope(by: float, product: Product = product) -> float:
            points = product.moved(draws, by)
            gradients = exact.gradients(points)
            pairs = zip(gradients, points, strict=True)
            total = sum(product.slope(gradient, q) for gradient, q in pairs)
            return total / len(points) + len(product.effects)

        low, high = -FURTHEST, FURTHEST
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            low, high = (low, middle) if slope(middle) > 0 else (middle, high)
        by = (low + high) / 2
        mean, draws = product.moved(mean, by), product.moved(draws, by)
    return mean
