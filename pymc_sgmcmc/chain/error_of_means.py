"""Monte Carlo errors of the means and sds of one chain, from batches of its inner steps."""

import numpy as np

from pymc_sgmcmc.chain.running_sums import RunningSums

__all__ = ["errors_of_means"]

ALPHA = 0.05
"""Chance that the true error of some coordinate is below the reported one."""


def errors_of_means(sums: RunningSums) -> tuple[np.ndarray, np.ndarray]:
    """Return lower bounds on the Monte Carlo errors of one chain, (d,); NaN if unknown.

    The errors are those of batch means: means of consecutive batches longer than the chain's memory
    are independent. The variance between b of them is distributed as a chi-square with b - 1
    degrees of freedom. The errors are its lower confidence limit, simultaneous for all coordinates,
    so that chance alone makes no error look large.

    Returns
    -------
    mean : array
        Error of the mean, in sds; NaN with fewer than 4 batches.
    sd : array
        Relative error of the sd.
    """
    from scipy.special import chdtri  # imported here because importing it takes long

    q, *_, q2 = sums.batch_means()
    batches, d = q.shape
    if batches < 4:
        return np.full(d, np.nan), np.full(d, np.nan)
    centre = q.mean(axis=0)
    square = q2 - 2 * centre * q + centre**2
    with np.errstate(invalid="ignore", divide="ignore"):
        variance = square.mean(axis=0)
        least = np.sqrt((batches - 1) / chdtri(batches - 1, ALPHA / (2 * d)) / batches)
        mean = least * q.std(axis=0, ddof=1) / np.sqrt(variance)
        sd = least * square.std(axis=0, ddof=1) / (2 * variance)
    return mean, sd
