"""Search for the region of high posterior density, where control variates and metrics start.

Where second derivatives are known, it is the nearest normal distribution that is searched for: see
`normal_approximation`. Elsewhere, Adam covers the distance, and Newton's method converges: first on
a fixed part of the rows, where U is a deterministic function and allows a line search, then on all
rows. Where d is too large for matrices, Adam is used alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pymc_sgmcmc._utils.coordinates import Coordinates
from pymc_sgmcmc._utils.metric import Dense, Diagonal, Metric, identity
from pymc_sgmcmc._utils.types import Counts, Vector
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.tuning.adam import PART, adam
from pymc_sgmcmc.tuning.curvature import equilibrated, factor_of, hessian
from pymc_sgmcmc.tuning.jumps import may_jump, own_sds, rows_that_pass, secants
from pymc_sgmcmc.tuning.normal_approximation import Normal, nearest_from
from pymc_sgmcmc.tuning.over_kinks import has_kinked_rows
from pymc_sgmcmc.tuning.sparse_metric import SparseFactor, unit_factor

__all__ = ["Located", "Locator", "locate"]

ROUNDS = 3

Energy = Callable[[Vector], tuple[float, Vector]]


@dataclass(frozen=True)
class Located:
    """The located region of the posterior.

    Attributes
    ----------
    coordinates : Coordinates
        Coordinates centred at the mode, or near it, with the inverse Hessian for L L'.
    decrement : float
        g' L L' g at the centre: d at a typical point, near 0 at the mode.
    value : float
        U at the centre, on all rows.
    gradient : array, shape (d,)
        Gradient of U at the centre, on all rows.
    jumps : bool
        Whether gradients jump: see `jumps`.
    """

    coordinates: Coordinates
    decrement: float
    value: float
    gradient: Vector
    jumps: bool = False


class Locator(Protocol):
    """A search for the region of high posterior density, where tuning starts."""

    def __call__(
        self, target: Target, start: Vector, rng: np.random.Generator, metric: Metric
    ) -> Located:
        """Search from `start` (d,), for a chain with a metric like `metric`."""


def locate(target: Target, start: Vector, rng: np.random.Generator, metric: Metric) -> Located:
    """Search from `start` for the region of high posterior density."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        # With few variables, the mode takes less time than derivatives of coefficients.
        if target.is_structured and not (metric.dense and target.energy.coefficients):
            found = _normal(target, start, rng, metric)
            if found is not None:
                return found
        return _mode(target, start, rng, metric)


def _normal(
    target: Target, start: Vector, rng: np.random.Generator, metric: Metric
) -> Located | None:
    """Search for the nearest normal, from `start` and else from where Adam leads."""
    kinked = has_kinked_rows(target)
    may_have_more = not kinked and may_jump(target, exact=False)
    jumps = (lambda q: own_sds(target, q, rng) is not None) if may_have_more else None
    found = nearest_from(target, start, rng, jumps)
    if found is None:
        return None
    value, gradient = target.value_and_gradient(found.mean)
    of_all = found.metric.pull(gradient)
    coordinates = Coordinates(found.mean, _like(metric, found))
    return Located(coordinates, float(of_all @ of_all), value, gradient, jumps=kinked)


def _like(metric: Metric, found: Normal) -> Metric:
    """Return a metric of the form of `metric`, for the covariance that is found."""
    if metric.dense:
        return Dense(factor_of(found.precision.toarray()))
    if isinstance(metric, SparseFactor):
        return found.metric
    return Diagonal(1 / np.sqrt(np.abs(found.precision.diagonal()) + 1e-300))


def _mode(target: Target, start: Vector, rng: np.random.Generator, metric: Metric) -> Located:
    """Search for the mode: by Newton's method where `metric` is dense, else without matrices."""
    best: Located | None = None
    for attempt in range(ROUNDS):
        q = adam(target, start, rng, rate=0.3 * 10.0**attempt)
        sds = own_sds(target, q, rng)
        if metric.dense:
            located = _newton(target, q, rng, sds)
        else:
            located = _diagonal(target, q, rng, metric, sds)
        if best is None or not best.decrement <= located.decrement:
            best = located
        if best.decrement < 2 * target.size:
            break
    assert best is not None  # there is more than one round
    return best


def _newton(target: Target, q: Vector, rng: np.random.Generator, sds: Vector | None) -> Located:
    """Descend from `q`. `sds`: of the coordinates, where gradients jump."""
    rows = target.fixed_rows(rng, PART) if sds is None else rows_that_pass(target, rng)
    part = _on(target, rows)
    located = _descend(part, part, q, 40, sds)
    if np.any(target.check_lengths() > max(map(len, rows), default=0)):
        # A Hessian needs many rows for each coordinate; where gradients jump, it needs all rows.
        more = target.fixed_rows(rng, max(PART, 64 * target.size)) if sds is None else None
        q = located.coordinates.centre
        located = _descend(_on(target, None), _on(target, more), q, 4, sds)
    return located


def _on(target: Target, rows: Sequence[Counts] | None) -> Energy:
    return lambda q: target.value_and_gradient(q, rows)


def _descend(
    energy: Energy, curved: Energy, q: Vector, iterations: int, sds: Vector | None
) -> Located:
    """Run Newton's method on `energy` with the Hessian of `curved` and a line search.

    `sds`: of the coordinates, where gradients jump.
    """
    d, scale = len(q), None
    shortest = radius = 10 * np.sqrt(d)  # in the metric of the Hessian

    def slope(q: Vector) -> Vector:
        return curved(q)[1]

    value, gradient = energy(q)
    for iteration in range(iterations + 1):
        H = hessian(slope, q, scale) if sds is None else secants(slope, q, sds)
        factor = factor_of(H)
        scale = 1 / np.sqrt(np.abs(np.diag(H)) + 1e-300)
        sds = None if sds is None else scale
        step = -factor @ (factor.T @ gradient)
        decrement = float(-gradient @ step)
        if not decrement >= 0.05 * d or iteration == iterations:
            break
        step = step * min(1.0, radius / np.sqrt(decrement))
        found = _line_search(energy, value, gradient, q, step)
        if found is None:
            break
        q, value, gradient, halvings = found
        radius = 4 * radius if halvings == 0 else shortest
    coordinates = Coordinates(q, Dense(factor))
    return Located(coordinates, decrement, value, gradient, jumps=sds is not None)


def _line_search(
    energy: Energy, value: float, gradient: Vector, q: Vector, step: Vector
) -> tuple[Vector, float, Vector, int] | None:
    """Halve `step` until the energy decreases enough (Armijo); return the point, or None."""
    slope = float(gradient @ step)
    for halvings in range(30):
        new, new_gradient = energy(q + step)
        if np.isfinite(new_gradient).all() and new <= value + 1e-4 * slope:
            return q + step, new, new_gradient, halvings
        step, slope = step / 2, slope / 2
    return None


def _diagonal(
    target: Target, q: Vector, rng: np.random.Generator, metric: Metric, sds: Vector | None
) -> Located:
    factor = sds
    if factor is None:
        part = _on(target, target.fixed_rows(rng, PART))
        factor = 1 / np.sqrt(equilibrated(lambda at: part(at)[1], q, rng))
    value, gradient = target.value_and_gradient(q)
    decrement = float(np.sum((factor * gradient) ** 2))
    unit = unit_factor(len(q)) if isinstance(metric, SparseFactor) else identity(len(q))
    coordinates = Coordinates(q, unit.scaled(factor))
    return Located(coordinates, decrement, value, gradient, jumps=sds is not None)
