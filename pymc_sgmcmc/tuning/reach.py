"""Limits on a first guess of the posterior's covariance: U has to be finite within its reach."""

from collections.abc import Callable

import numpy as np

from pymc_sgmcmc._utils.coordinates import Coordinates
from pymc_sgmcmc._utils.types import Array, Vector
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.tuning.degenerate import not_finite

__all__ = ["within_reach"]

ROWS = 16
"""Number of rows on which U is checked: an overflow occurs on most rows, or in the prior."""

LOOKED_AT, ENOUGH = 40, 0.9
"""Number of points of the guess that are checked, and the part of them that has to pass."""

STEEP = 1e8
"""Gradient in z, relative to that of N(0, I), at which no step that is long enough is stable."""

HALVINGS = 20

MOST = 1000
"""Largest number of coordinates that are checked one by one."""


def within_reach(target: Target, guess: Coordinates, points: Array) -> Coordinates:
    """Return `guess`, with L shortened until U is finite and not too steep at most points.

    The Hessian at a mode says little of the sd along a direction in which the density is far from
    normal, such as the logarithm of a length scale, along which U overflows. First each column of L
    is shortened at whose ends U is not finite, then all of L.

    Parameters
    ----------
    target : Target
    guess : Coordinates
        Coordinates around a point where U is finite.
    points : array, shape (k, d)
        Typical points z.

    Raises
    ------
    SamplingError
        If U is not finite at most points, however short L is; the message names the part at fault.
    """
    rows, points = target.fixed_rows(np.random.default_rng(0), ROWS), points[:LOOKED_AT]

    def is_fine(q: Vector) -> bool:
        with np.errstate(over="ignore", invalid="ignore"):
            value, gradient = target.value_and_gradient(q, rows)
            steepness = np.linalg.norm(guess.metric.pull(gradient)) / np.sqrt(len(q))
        return bool(np.isfinite(value) and steepness < STEEP)

    seen = [is_fine(q) for q in guess.position(points)]
    if np.mean(seen) >= ENOUGH:
        return guess
    coordinates = guess.scaled(_lengths(guess, is_fine))
    for _ in range(HALVINGS):
        if np.mean([is_fine(q) for q in coordinates.position(points)]) >= ENOUGH:
            return coordinates
        coordinates = coordinates.scaled(np.full(len(guess.centre), 0.5))
    often = f"So it is at {len(seen) - sum(seen)} of {len(seen)} such points."
    raise not_finite(target, guess.position(points[seen.index(False)]), often)


def _lengths(guess: Coordinates, is_fine: Callable[[Array], bool]) -> Array:
    """Return the factor (d,) of each column of L that makes U finite two columns away."""
    lengths = np.ones(len(guess.centre))
    for j in range(len(lengths) if len(lengths) <= MOST else 0):
        z = np.zeros(len(lengths))
        for _ in range(HALVINGS):
            z[j] = 2 * lengths[j]
            if is_fine(guess.position(z)) and is_fine(guess.position(-z)):
                break
            lengths[j] /= 2
    return lengths
