"""Tuning windows: their lengths in draws, and the moments of the draws in them."""

from dataclasses import dataclass, replace

import numpy as np

__all__ = ["Window", "typical_points", "window_length"]

LENGTHS = (100, 250, 450)
"""Draws of the first windows; later ones double."""
POINTS = 200
"""Draws of a window that are kept; fewer where d is large, so that they make some MB."""


def typical_points(size: int) -> int:
    """How many points of length `size` are looked at."""
    return max(20, min(POINTS, 2**18 // size))


def window_length(index: int) -> int:
    """Draws of window `index`."""
    if index < len(LENGTHS):
        return LENGTHS[index]
    return LENGTHS[-1] * 2 ** (index - len(LENGTHS) + 1)


@dataclass(frozen=True)
class Window:
    """Moments of the draws z of one tuning window, after its first fifth."""

    index: int
    draws: int
    """All draws so far, with the first fifth."""
    total: np.ndarray
    products: np.ndarray
    """Sum of z z', or of z^2."""
    lagged: np.ndarray
    """Sum of z_t z_(t-1), by the coordinate."""
    last: np.ndarray
    points: tuple[np.ndarray, ...]
    most: int
    """How many points are kept."""
    others: tuple[tuple[np.ndarray, ...], ...] = ()
    """The values of other step methods' variables at each of the points."""

    @classmethod
    def start(cls, index: int, size: int, ndim: int, others: int = 0) -> "Window":
        """An empty window; `others`: how many numbers are kept with each point beside z."""
        zeros, most = np.zeros(size), typical_points(size + others)
        return cls(index, 0, zeros, np.zeros((size,) * ndim), zeros, zeros, (), most)

    @property
    def skipped(self) -> int:
        return window_length(self.index) // 5

    @property
    def spacing(self) -> int:
        """Draws from one of the points to the next."""
        return -(-(window_length(self.index) - self.skipped) // self.most)

    @property
    def is_over(self) -> bool:
        return self.draws >= window_length(self.index)

    def add(self, z: np.ndarray, others: tuple[np.ndarray, ...] = ()) -> "Window":
        """The moments with one draw more, made where other variables had the values `others`."""
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
        """The same without its points."""
        return replace(self, points=(), others=())

    def mean(self) -> np.ndarray:
        return self.total / (self.draws - self.skipped)

    def shrunk_covariance(self, before: np.ndarray) -> np.ndarray:
        """The covariance (or the variances), shrunk towards the variances `before`, (d,).

        Variances and correlations weigh as much as the effective number of draws allows (the median
        over coordinates, from their first autocorrelation): variances need few, correlations as
        many as there are coordinates.
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
