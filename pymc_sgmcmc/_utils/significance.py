"""When a deviation is significant."""

import numpy as np

__all__ = ["ALPHA", "critical", "error_at_one", "excess", "is_wrong", "largest_energy"]

ALPHA = 0.004
"""Chance of a false alarm of a test of all chains, for all coordinates together."""


def critical(alpha: float, freedom: float, tests: int) -> float:
    """Standard errors beyond which one of `tests` deviations is significant.

    Two-sided, with a chance of at most `alpha` of a false alarm in all of them together, for errors
    that are estimated with so many degrees of `freedom`.
    """
    from scipy.special import stdtrit  # here, as it takes long to import

    return float(-stdtrit(freedom, alpha / (2 * tests)))


def largest_energy(d: int, chance: float = 1e-9) -> float:
    """What p.p of `d` standard normals exceeds with that chance."""
    from scipy.special import chdtri

    return float(chdtri(d, chance))


def is_wrong(deviation, error, tolerance: float, times: float):
    """Where a deviation is both beyond what is tolerable and significant; False where it is NaN.

    `times`: the standard errors that are significant.
    """
    with np.errstate(invalid="ignore"):
        return (np.abs(deviation) > tolerance) & (np.abs(deviation) > times * error)


def error_at_one(ratio, error):
    """The error that a ratio would have if it were 1: errors are in proportion to small ratios."""
    return error / np.clip(ratio, 0.1, 1.0)


def excess(ratio, error, tolerance: float, times: float):
    """How far a variance ratio is beyond what is tolerable and what is chance; below 0: it is not.

    The error of a small ratio is what it would be at 1. `times`: the standard errors that are
    significant. -inf where nothing is known.
    """
    beyond = np.abs(ratio - 1) - np.maximum(tolerance, times * error_at_one(ratio, error))
    return np.where(np.isfinite(beyond), beyond, -np.inf)
