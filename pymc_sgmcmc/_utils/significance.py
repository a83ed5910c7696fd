"""Significance of deviations."""

from typing import Any

import numpy as np

__all__ = ["ALPHA", "critical", "error_at_one", "excess", "is_wrong", "largest_energy"]

ALPHA = 0.004
"""Chance of a false alarm of a test of all chains, for all coordinates together."""


def critical(alpha: float, freedom: float, tests: int) -> float:
    """Return the standard errors beyond which one of `tests` deviations is significant.

    The test is two-sided, with a chance of at most `alpha` of a false alarm in all tests together.
    `freedom`: degrees of freedom of the estimated errors.
    """
    from scipy.special import stdtrit  # here, as it takes long to import

    return float(-stdtrit(freedom, alpha / (2 * tests)))


def largest_energy(d: int, chance: float = 1e-9) -> float:
    """Return the value that p.p of `d` standard normals exceeds with probability `chance`."""
    from scipy.special import chdtri

    return float(chdtri(d, chance))


def is_wrong(deviation: Any, error: Any, tolerance: float, times: Any) -> Any:
    """Return where a deviation is both intolerable and significant; False where it is NaN.

    `times`: the number of standard errors that is significant.
    """
    with np.errstate(invalid="ignore"):
        return (np.abs(deviation) > tolerance) & (np.abs(deviation) > times * error)


def error_at_one(ratio: Any, error: Any) -> Any:
    """Return the error of a ratio if it were 1: errors are in proportion to small ratios."""
    return error / np.clip(ratio, 0.1, 1.0)


def excess(ratio: Any, error: Any, tolerance: float, times: Any) -> Any:
    """Return the excess of a variance ratio's deviation over tolerance and chance.

    The excess is negative if the deviation is within either; -inf where the ratio or its error is
    not finite. The error of a small ratio is that of a ratio of 1. `times`: the number of standard
    errors that is significant.
    """
    beyond = np.abs(ratio - 1) - np.maximum(tolerance, times * error_at_one(ratio, error))
    return np.where(np.isfinite(beyond), beyond, -np.inf)
