"""Tuning windows: their lengths in draws, and the moments of the draws in them."""

from dataclasses import dataclass, replace

import numpy as np

from pymc_sgmcmc._utils.types import Array, Vector

__all__ = ["Window", "typical_points", "window_length"]

LENGTHS = (100, 250, 450)
"""Numbers of draws in the first windows; each later window has twice as many as the one before."""
POINTS = 200
"""Largest number of draws of a window that are kept; fewer where d is large, to take some MB."""


def typical_points(size: int) -> int:
    """Return the number of points of length `size` that are kept and examined."""
    return max(20, min(POINTS, 2**18 // size))


def window_length(index: int) -> int:
    """Return the number of draws in window `index`."""
    if index < len(LENGTHS):
        return LENGTHS[index]
    return LENGTHS[-1] * 2 ** (index - len(LENGTHS) + 1)


@dataclass(frozen=True)
class Window:
    """Moments of the draws z of one tuning window, after its first fifth."""

    index: int
    draws: int
    """Number of draws so far, including the first fifth."""
    total: Vector
    products: Array
    """Sum of z z' (dense), or of z^2 (diagonal)."""
    lagged: Vector
    """Sum of z_t z_(t-1), by coordinate."""
    last: Vector
    points: tuple[Array, ...]
    most: int
    """Largest number of points that are kept."""
    others: tuple[tuple[Array, ...], ...] = ()
    """The values of other step methods' variables at each of the points."""

    @classmethod
    def start(cls, index: int, size: int, others: int = 0, *, dense: bool) -> "Window":
        """Return an empty window; `others`: the count of numbers kept with each point beside z."""
        zeros, most = np.zeros(size), typical_points(size + others)
        products = np.zeros((size, size)) if dense else zeros
        return cls(index, 0, zeros, products, zeros, zeros, (), most)

    @property
    def skipped(self) -> int:
        return window_length(self.index) // 5

    @property
    def spacing(self) -> int:
        """Number of draws from one kept point to the next."""
        return -(-(window_length(self.index) - self.skipped) // self.most)

    @property
    def is_over(self) -> bool:
        return self.draws >= window_length(self.index)

    def add(self, z: Vector, others: tuple[Array, ...] = ()) -> "Window":
        """Return the window with one more draw, made at the values `others` of other variables."""
        draws = self.draws + 1
        kept = draws - self.skipped
        if kept <= 0:
            return replace(self, draws=draws, last=z)
        products = np.outer(z, z) if self.products.ndim == 2 else z * z
        keeps = kept % self.spacing == 0 and len(self.points) < self.most
        return replace(
            self,
            draws=draws,
            total=self.total + z,
            products=self.products + products,
            lagged=self.lagged + z * self.last,
            last=z,
            points=(*self.points, z) if keeps else self.points,
            others=(*self.others, others) if keeps else self.others,
        )

    def emptied(self) -> "Window":
        """Return the window without its points."""
        return replace(self, points=(), others=())

    def mean(self) -> Array:
        return self.total / (self.draws - self.skipped)

    def shrunk_covariance(self, before: Vector) -> Array:
        """Return the covariance (or variances), shrunk towards the variances `before`, (d,).

        The weight of the draws grows with their effective number (the median over coordinates, from
        their first autocorrelation): variances need few draws, correlations as many as there are
        coordinates.
        """
        n, d, mean = self.draws - self.skipped, len(self.total), self.mean()
        dense = self.products.ndim == 2
        S = self.products / n - (np.outer(mean, mean) if dense else mean**2)
        variance = np.diag(S) if dense else S
        moves = variance > 1e-12 * mean**2
        rho = (self.lagged / n - mean**2) / np.where(moves, variance, 1.0)
        rho = np.where(moves, np.clip(rho, -0.9, 0.999), 0.999)
        effective = np.median(n * (1 - rho) / (1 + rho))
        weight = effective / (effective + 5)
        variance = weight * variance + (1 - weight) * before
        if not dense:
            return variance
        weight = effective / (effective + 5 + d)
        return weight * S + (1 - weight) * np.diag(variance)
