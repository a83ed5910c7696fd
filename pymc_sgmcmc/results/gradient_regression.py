"""Reported sds and means, compared with those that exact gradients at some draws imply.

Near a Gaussian the gradient of U is H (q - mean), with H the inverse of the posterior covariance. A
regression of gradients on q estimates both for any law of the draws. The idea is from TRUST: 2d to
4d gradients are enough, twenty times fewer than a mean of q times gradient would take.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from pymc_sgmcmc._utils.significance import ALPHA, critical, is_wrong

__all__ = [
    "BLOCKS",
    "MEAN_TOLERANCE",
    "VARIANCE_TOLERANCE",
    "GradientRegression",
    "regress_gradients",
]

BLOCKS = 20
"""Number of blocks of consecutive draws that the jackknife leaves out in turn."""


VARIANCE_TOLERANCE = 0.2
"""Largest relative error of a variance without an alarm: 10 % of the sd."""

MEAN_TOLERANCE = 0.2
"""Largest error of a mean without an alarm, in posterior sds."""


@dataclass(frozen=True, eq=False)
class GradientRegression:
    """Reported against implied variances and means, (d,), with jackknife standard errors.

    Attributes
    ----------
    variance_ratio, variance_ratio_error : array
        Variance of the draws divided by the implied one: 1 is right. NaN if none is implied.
    mean_error, mean_error_error : array
        Mean of the draws minus the implied one, in implied sds.
    joint : bool
        Whether the regression is on all coordinates together. If not, the ratio is that of each
        coordinate with the others as drawn, and the mean error is NaN.
    gradients : int
        Number of gradients.
    """

    variance_ratio: np.ndarray
    variance_ratio_error: np.ndarray
    mean_error: np.ndarray
    mean_error_error: np.ndarray
    joint: bool
    gradients: int

    def embed(self, which: np.ndarray) -> "GradientRegression":
        """Return the figures in longer vectors, at the positions `which`, and NaN elsewhere."""
        if which.all():
            return self
        spread: dict[str, Any] = {}
        for name in ("variance_ratio", "variance_ratio_error", "mean_error", "mean_error_error"):
            spread[name] = np.full(len(which), np.nan)
            spread[name][which] = getattr(self, name)
        return replace(self, **spread)

    @property
    def critical(self) -> float:
        """Least number of standard errors at which one of the deviations is significant."""
        return critical(ALPHA, BLOCKS - 1, len(self.variance_ratio))

    @property
    def wrong_sd(self) -> np.ndarray:
        """Mask of coordinates whose sd is an alarm, (d,)."""
        off, error = self.variance_ratio - 1, self.variance_ratio_error
        return is_wrong(off, error, VARIANCE_TOLERANCE, self.critical)

    @property
    def wrong_mean(self) -> np.ndarray:
        """Mask of coordinates whose mean is an alarm, (d,)."""
        return is_wrong(self.mean_error, self.mean_error_error, MEAN_TOLERANCE, self.critical)


@np.errstate(invalid="ignore", over="ignore")
def regress_gradients(
    q: np.ndarray, index: np.ndarray, gradients: np.ndarray
) -> GradientRegression:
    """Compare all draws with the variances and means that gradients at some of them imply.

    Parameters
    ----------
    q : array, shape (n, d)
        All draws, chain after chain, finite and not constant in any coordinate.
    index : int array, shape (m,)
        Rows of `q` at which gradients were taken, in order; m at least 2 `BLOCKS`.
    gradients : array, shape (m, d)
        Gradients of U.
    """
    # Scale by the sds, because coordinates may differ by many orders of magnitude.
    mean, sd = q.mean(axis=0), q.std(axis=0)
    z, g = (q[index] - mean) / sd, gradients * sd
    joint = z.shape[1] <= len(index) / 2
    blocks = index * BLOCKS // len(q)
    of_all = _all_without_each(q, mean, sd)
    ratios, errors = [], []
    for left_out, (z_mean, z_variance) in zip([None, *range(BLOCKS)], of_all, strict=True):
        kept = blocks != left_out if left_out is not None else np.ones(len(z), dtype=bool)
        ratio, error = (_jointly if joint else _singly)(z[kept], g[kept], z_mean, z_variance)
        ratios.append(ratio)
        errors.append(error)
    return GradientRegression(
        ratios[0],
        _jackknife(ratios[1:]),
        errors[0],
        _jackknife(errors[1:]),
        joint=joint,
        gradients=len(index),
    )


def _all_without_each(
    q: np.ndarray, mean: np.ndarray, sd: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield mean and variance (d,) of the scaled draws: of all, then with each block left out."""
    n, ends = len(q), -(-np.arange(BLOCKS + 1) * len(q) // BLOCKS)
    scaled = [(q[start:stop] - mean) / sd for start, stop in pairwise(ends)]
    sums = np.array([block.sum(axis=0) for block in scaled])
    squares = np.array([np.square(block).sum(axis=0) for block in scaled])
    lengths = np.diff(ends)
    for left_out in [None, *range(BLOCKS)]:
        number, total, square = n, sums.sum(axis=0), squares.sum(axis=0)
        if left_out is not None:
            number = number - lengths[left_out]
            total, square = total - sums[left_out], square - squares[left_out]
        average = total / number
        yield average, square / number - average**2


def _jointly(
    z: np.ndarray, g: np.ndarray, z_mean: np.ndarray, z_variance: np.ndarray
) -> Sequence[np.ndarray] | np.ndarray:
    """Compute variance ratio and mean error by regression of g on z, given the draws' moments."""
    average, centred = z.mean(axis=0), z - z.mean(axis=0)
    try:
        # The regression coefficients are S^-1 C, and the implied covariance is their inverse.
        covariance = np.linalg.solve(centred.T @ g, centred.T @ centred)
    except np.linalg.LinAlgError:
        return np.full((2, z.shape[1]), np.nan)
    variance = np.diagonal(covariance)
    variance = np.where(variance > 0, variance, np.nan)  # negative where U is not convex
    mean_error = covariance.T @ g.mean(axis=0) + z_mean - average
    return z_variance / variance, mean_error / np.sqrt(variance)


def _singly(
    z: np.ndarray, g: np.ndarray, z_mean: np.ndarray, z_variance: np.ndarray
) -> Sequence[np.ndarray]:
    """Compute the variance ratio as the mean of q times gradient, 1 for posterior draws."""
    ratio = np.mean((z - z.mean(axis=0)) * g, axis=0)
    return ratio, np.full_like(ratio, np.nan)


def _jackknife(values: list[np.ndarray]) -> np.ndarray:
    """Compute standard errors from the values with each block left out.

    The error of a coordinate is infinite if the value of any block is NaN. All errors are NaN if
    all values are.
    """
    each = np.array(values)
    if np.isnan(each).all(axis=0).all():
        return np.full(each.shape[1], np.nan)
    spread = np.sum(np.square(each - each.mean(axis=0)), axis=0)
    return np.nan_to_num(np.sqrt((BLOCKS - 1) / BLOCKS * spread), nan=np.inf)
