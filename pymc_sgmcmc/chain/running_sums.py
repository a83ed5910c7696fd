"""Running sums over the inner steps of one chain, per coordinate, as a whole and in batches."""

from typing import NamedTuple

import numpy as np

from pymc_sgmcmc.chain.moments import MOMENTS

__all__ = ["RunningSums"]

PAIRED = MOMENTS.index("q")
"""Index of the first moment for W and Monte Carlo errors, which are q, g at q, qg, virial, q2."""

BATCHES = 20
"""Least number of batches for estimates of errors, once there are that many draws. The number is
less if d is large, so that the batches take some tens of MB."""


class RunningSums(NamedTuple):
    """Sums of `MOMENTS` since the end of tuning or the last divergence.

    Attributes
    ----------
    origin : array, shape (d,)
        The point that is subtracted from positions.
    draws, steps : int
        Draws and inner steps summed over.
    sums : array, shape (9, d), float64
    ends : tuple of array, shape (5, d)
        Cumulative sums of q, g at q, qg, virial and q2 at the end of each batch. Batches are
        consecutive and of equal length. Draws after the last full batch are in none.
    length : int
        Number of draws in a batch.
    """

    origin: np.ndarray
    draws: int
    steps: int
    sums: np.ndarray
    ends: tuple[np.ndarray, ...]
    length: int

    @classmethod
    def start(cls, origin: np.ndarray) -> "RunningSums":
        """Return sums over nothing, of positions relative to `origin`."""
        nothing = np.zeros((len(MOMENTS), len(origin)))
        return cls(np.asarray(origin, dtype=float), 0, 0, nothing, (), 1)

    def add(self, sums: np.ndarray, steps: int) -> "RunningSums":
        """Return the sums including one more draw of `steps` inner steps. Overwrites `sums`."""
        total, draws = np.add(self.sums, sums, out=sums), self.draws + 1
        ends, length = self.ends, self.length
        if draws % length == 0:
            ends = (*ends, total[PAIRED:].copy())
            fewest = max(4, min(BATCHES, 2**19 // total.shape[1]))
            if len(ends) == 2 * fewest:
                ends, length = ends[1::2], 2 * length
        return RunningSums(self.origin, draws, self.steps + steps, total, ends, length)

    def batch_means(self) -> np.ndarray:
        """Return the means of q, g at q, qg, virial and q2 in each batch, (5, batches, d)."""
        steps = self.length * self.steps // max(self.draws, 1)
        ends = np.stack([np.zeros_like(self.sums[PAIRED:]), *self.ends], axis=1)
        return np.diff(ends, axis=1) / max(steps, 1)

    def mean(self, name: str) -> np.ndarray:
        """Return the mean of a moment over the inner steps, (d,); NaN before the first step."""
        return self.sums[MOMENTS.index(name)] / (self.steps or np.nan)

    def means(self) -> dict[str, np.ndarray]:
        """Return the means of all moments by name, as `mean` does."""
        return {name: self.mean(name) for name in MOMENTS}
