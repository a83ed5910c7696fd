"""Coordinates in which a sampler moves: q = centre + L z."""

from dataclasses import dataclass, replace

import numpy as np

from pymc_sgmcmc._utils.metric import Metric

__all__ = ["Coordinates"]


@dataclass(frozen=True)
class Coordinates:
    """Coordinates z with q = centre + L z.

    Attributes
    ----------
    centre : array, shape (d,)
    metric : Metric
        L L'.
    """

    centre: np.ndarray
    metric: Metric

    def position(self, z: np.ndarray) -> np.ndarray:
        """Return q of z; also of several points, shape (..., d)."""
        return self.centre + self.metric.times(z)

    def of(self, q: np.ndarray) -> np.ndarray:
        """Return z of q; also of several points, shape (..., d)."""
        return self.metric.solve(q - self.centre)

    def scaled(self, by: np.ndarray) -> "Coordinates":
        """Return coordinates with L times diag(`by`), (d,), or times a matrix if L is dense."""
        return replace(self, metric=self.metric.scaled(by))

    def around(self, centre: np.ndarray) -> "Coordinates":
        """Return coordinates with the same L around another centre."""
        return replace(self, centre=centre)
