"""How far a first guess of the posterior's covariance may go: where U is finite."""

from collections.abc import Callable

import numpy as np

from pymc_sgmcmc._utils.coordinates import Coordinates, pull
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.tuning.degenerate import not_finite

__all__ = ["within_reach"]

ROWS = 16
"""Rows on which U is looked at: what overflows does so on most rows, or in the prior."""

LOOKED_AT, ENOUGH = 40, 0.9
"""Points of the guess that are looked at, and the part of them that must do."""

STEEP = 1e8
"""A gradient in z, relative to that of N(0, I), at which no step that is long enough is stable."""

HALVINGS = 20

MOST = 1000
"""Coordinates that are looked at one by one."""


def within_reach(target: Target, guess: Coordinates, points: np.ndarray) -> Coordinates:
    """Return `guess`, with L shortened until U and its gradient are finite at most points.

    The Hessian at a mode says little of the sd along a direction in which the density is no bell: a
    length scale on its logarithm, say, along which U overflows. First the columns of L are
    shortened at whose ends it is not finite, then all of it.

    Parameters
    ----------
    target : Target
    guess : Coordinates
        Around a point where U is finite.
    points : array, shape (k, d)
        Typical points z.

    Raises
    ------
    SamplingError
        If they are not, however short L is; it names what is not finite.
    """
    rows, points = target.fixed_rows(np.random.default_rng(0), ROWS), points[:LOOKED_AT]

    def is_fine(q: np.ndarray) -> bool:
        with np.errstate(over="ignore", invalid="ignore"):
            value, gradient = target.value_and_gradient(q, rows)
            steepness = np.linalg.norm(pull(guess.factor, gradient)) / np.sqrt(len(q))
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


def _lengths(guess: Coordinates, is_fine: Callable[[np.ndarray], bool]) -> np.ndarray:
    """What to multiply each column of L with, so that U is finite two columns away, (d,)."""
    lengths = np.ones(len(guess.centre))
    for j in range(len(lengths) if len(lengths) <= MOST else 0):
        z = np.zeros(len(lengths))
        for _ in range(HALVINGS):
            z[j] = 2 * lengths[j]
            if is_fine(guess.position(z)) and is_fine(guess.position(-z)):
                break
            lengths[j] /= 2
    return lengths
