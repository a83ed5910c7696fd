"""Whether a chain fell far from where the search for the posterior ended: that was not its mass."""

import numpy as np

from pymc_sgmcmc._utils.types import Vector
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.tuning.adam import PART

__all__ = ["falls_far"]

PARTS = 8
"""Samples of rows, from which a difference of U and its error are estimated."""

SURE = 6.0
"""Standard errors, with 7 degrees of freedom: a chance of 3 in 10,000 where U does not fall."""


def falls_far(target: Target, start: Vector, end: Vector) -> bool:
    """Return whether U falls from `start` to `end`, points (d,), by more than 2 d.

    Where a search succeeded, U falls by d on the way to the mode if a step of Newton's method says
    how far that is: see `start_alarm`. U is about d / 2 higher at a typical point than at the mode.
    """
    if max(target.check_lengths(), default=0) <= PART:
        rise, error = _rise(target, start, end, None), 0.0
    else:
        rng, size = np.random.default_rng(0), PART // PARTS
        rises = [_rise(target, start, end, target.random_rows(rng, size)) for _ in range(PARTS)]
        rise, error = float(np.mean(rises)), float(np.std(rises, ddof=1)) / np.sqrt(PARTS)
    return rise < -2 * target.size - SURE * error


def _rise(target: Target, start: Vector, end: Vector, rows: list[np.ndarray] | None) -> float:
    (before, _), (after, _) = (target.value_and_gradient(q, rows) for q in (start, end))
    return after - before
