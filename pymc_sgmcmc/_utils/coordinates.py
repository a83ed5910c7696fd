"""Coordinates in which a sampler moves: q = centre + L z."""

from dataclasses import dataclass, replace

from pymc_sgmcmc._utils.metric import Metric
from pymc_sgmcmc._utils.types import Array, Matrix, Vector

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

    centre: Vector
    metric: Metric

    def position(self, z: Array) -> Array:
        """Return q of z; also of several points, shape (..., d)."""
        return self.centre + self.metric.times(z)

    def of(self, q: Array) -> Array:
        """Return z of q; also of several points, shape (..., d)."""
        return self.metric.solve(q - self.centre)

    def scaled(self, by: Vector | Matrix) -> "Coordinates":
        """Return coordinates with L times diag(`by`), (d,), or times a matrix if L is dense."""
        return replace(self, metric=self.metric.scaled(by))

    def around(self, centre: Vector) -> "Coordinates":
        """Return coordinates with the same L around another centre."""
        return replace(self, centre=centre)
