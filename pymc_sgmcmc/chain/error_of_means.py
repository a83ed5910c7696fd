"""How far one chain knows means and sds, by the spread between batches of its inner steps."""

from dataclasses import dataclass

import numpy as np

from pymc_sgmcmc.chain.running_sums import RunningSums

__all__ = ["ChainError"]

ALPHA = 0.05
"""Chance that an error, of the coordinate where it is largest, is in truth below what is said."""


@dataclass(frozen=True)
class ChainError:
    """Monte Carlo errors of one chain, at least, (d,); NaN where they are not known.

    Batch means: the means of consecutive batches that are longer than the chain's memory are
    independent. With b of them the variance between them is known as a chi-square with b - 1
    degrees of freedom; what is reported is its lower end, for all coordinates together, so that
    chance alone makes no error look large.

    Attributes
    ----------
    mean : array
        Of the mean, in sds.
    sd : array
        Of the sd, relatively.
    """

    mean: np.ndarray
    sd: np.ndarray

    @classmethod
    def of(cls, sums: RunningSums) -> "ChainError":
        """Those of the inner steps that were summed."""
        from scipy.special import chdtri  # here, as it takes long to import

        q, *_, q2 = sums.batch_means()
        batches, d = q.shape
        if batches < 4:
            return cls(*np.full((2, d), np.nan))
        centre = q.mean(axis=0)
        square = q2 - 2 * centre * q + centre**2
        with np.errstate(invalid="ignore", divide="ignore"):
            variance = square.mean(axis=0)
            least = np.sqrt((batches - 1) / chdtri(batches - 1, ALPHA / (2 * d)) / batches)
            mean = least * q.std(axis=0, ddof=1) / np.sqrt(variance)
            sd = least * square.std(axis=0, ddof=1) / (2 * variance)
        return cls(mean, sd)
