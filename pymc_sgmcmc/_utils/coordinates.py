"""Coordinates in which a sampler moves: q = centre + L z.

A sampler with a constant metric G = L L' is the same sampler with unit metric in z. All that is
done with L is here: L is a matrix (d, d), or its diagonal (d,).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

__all__ = ["Coordinates", "apply", "pull", "pull_all", "square_root"]


def apply(factor, z):
    """Return L z, for L given as a matrix or as its diagonal; arrays or graphs."""
    return factor @ z if factor.ndim == 2 else factor * z


def pull(factor, gradient):
    """Return L' g, the gradient in z."""
    return factor.T @ gradient if factor.ndim == 2 else factor * gradient


def pull_all(factor, gradients):
    """Return L' g for each row g of `gradients`."""
    return gradients @ factor if factor.ndim == 2 else gradients * factor


def square_root(covariance: np.ndarray) -> np.ndarray:
    """Return L with L L' equal to a covariance (d, d), or to its diagonal (d,)."""
    return np.linalg.cholesky(covariance) if covariance.ndim == 2 else np.sqrt(covariance)


@dataclass(frozen=True)
class Coordinates:
    """Coordinates z with q = centre + L z.

    Attributes
    ----------
    centre : array, shape (d,)
    factor : array, shape (d, d) or (d,)
        L, any invertible matrix, or its diagonal.
    """

    centre: np.ndarray
    factor: np.ndarray

    @classmethod
    def identity(cls, size: int, ndim: int = 1) -> "Coordinates":
        return cls(np.zeros(size), np.eye(size) if ndim == 2 else np.ones(size))

    @cached_property
    def _inverse(self) -> np.ndarray:
        return np.linalg.inv(self.factor) if self.factor.ndim == 2 else 1.0 / self.factor

    def position(self, z: np.ndarray) -> np.ndarray:
        """Return q of z; also of several points, shape (..., d)."""
        return self.centre + self._times(self.factor, z)

    def of(self, q: np.ndarray) -> np.ndarray:
        """Return z of q; also of several points, shape (..., d)."""
        return self._times(self._inverse, q - self.centre)

    @staticmethod
    def _times(matrix, vectors):
        return vectors @ matrix.T if matrix.ndim == 2 else vectors * matrix

    def scaled(self, matrix: np.ndarray) -> "Coordinates":
        """Return coordinates with L times `matrix` (or its diagonal)."""
        if self.factor.ndim == 2:
            product = self.factor @ (np.diag(matrix) if matrix.ndim == 1 else matrix)
        else:
            product = self.factor * matrix
        return Coordinates(self.centre, product)

    def around(self, centre: np.ndarray) -> "Coordinates":
        """Return coordinates with the same L around another centre."""
        return Coordinates(centre, self.factor)

    @property
    def scales(self) -> np.ndarray:
        """The square roots of the diagonal of L L', (d,): about the sds of q."""
        return np.linalg.norm(self.factor, axis=1) if self.factor.ndim == 2 else self.factor

    @cached_property
    def condition(self) -> float:
        """The condition number of the metric L L', after scaling its diagonal to one."""
        if self.factor.ndim == 1:
            return 1.0
        rows = self.factor / np.linalg.norm(self.factor, axis=1, keepdims=True)
        values = np.linalg.svd(rows, compute_uv=False)
        return float((values[0] / values[-1]) ** 2)
