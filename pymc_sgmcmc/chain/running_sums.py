"""Running sums over the inner steps of one chain, per coordinate, as a whole and in batches."""

from typing import NamedTuple

import numpy as np

from pymc_sgmcmc.chain.moments import MOMENTS

__all__ = ["RunningSums"]

PAIRED = MOMENTS.index("q")
"""From here on are the moments that W and Monte Carlo errors are made of: q, g at q, qg, virial,
q2."""

BATCHES = 20
"""Batches, at least, from which errors are estimated, once there are that many draws; fewer where d
is large, so that they make some tens of MB."""


class RunningSums(NamedTuple):
    """Sums of `MOMENTS` since the end of tuning or the last divergence.

    Attributes
    ----------
    origin : array, shape (d,)
        What positions are relative to.
    draws, steps : int
        Draws and inner steps summed over.
    sums : array, shape (9, d), float64
    ends : tuple of array, shape (5, d)
        The sums of q, g at q, qg, virial and q2 so far at the end of each batch. Batches are
        consecutive and of equal length; what is left over at the end is in none.
    length : int
        Draws in a batch.
    """

    origin: np.ndarray
    draws: int
    steps: int
    sums: np.ndarray
    ends: tuple[np.ndarray, ...]
    length: int

    @classmethod
    def start(cls, origin: np.ndarray) -> "RunningSums":
        nothing = np.zeros((len(MOMENTS), len(origin)))
        return cls(np.asarray(origin, dtype=float), 0, 0, nothing, (), 1)

    def add(self, sums: np.ndarray, steps: int) -> "RunningSums":
        """The sums with those of one more draw, of `steps` inner steps; it takes over `sums`."""
        total, draws = np.add(self.sums, sums, out=sums), self.draws + 1
        ends, length = self.ends, self.length
        if draws % length == 0:
            ends = (*ends, total[PAIRED:].copy())
            fewest = max(4, min(BATCHES, 2**19 // total.shape[1]))
            if len(ends) == 2 * fewest:
                ends, length = ends[1::2], 2 * length
        return RunningSums(self.origin, draws, self.steps + steps, total, ends, length)

    def batch_means(self) -> np.ndarray:
        """Return means over the inner steps of each batch, (5, batches, d).

        Of q, g at q, qg, virial and q2.
        """
        steps = self.length * self.steps // max(self.draws, 1)
        ends = np.stack([np.zeros_like(self.sums[PAIRED:]), *self.ends], axis=1)
        return np.diff(ends, axis=1) / max(steps, 1)

    def mean(self, name: str) -> np.ndarray:
        """The mean of a moment over the inner steps, (d,); NaN before the first."""
        return self.sums[MOMENTS.index(name)] / (self.steps or np.nan)
