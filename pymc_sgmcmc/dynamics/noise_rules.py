"""Rules on the allowed or required gradient noise, which set batch sizes and step sizes."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from pymc_sgmcmc._utils.types import Matrix, Vector

__all__ = ["SLOWEST", "Driving", "Heating", "NoiseRule", "largest"]

SLOWEST = 0.05
"""Least relative pace of the directions with the noisiest gradients."""


class NoiseRule(ABC):
    """Rule for gradients of variance V, a matrix or its diagonal, in whitened coordinates."""

    precision: ClassVar[int] = 1
    """Factor of the usual number of batches, from which V is measured."""
    smallest: ClassVar[int] = 64
    """Least number of rows in a batch with a tuned size."""

    @abstractmethod
    def batch_factor(self, V: Vector | Matrix, h: float) -> float:
        """Return the power of two by which to multiply batch sizes, for the step size `h`."""

    @abstractmethod
    def matters(self, V: Vector | Matrix, h: float) -> bool:
        """Return whether the directions of the noise matter."""

    @abstractmethod
    def pace(self, V: Vector | Matrix, h: float) -> Vector:
        """Return the factors, (d,), that shorten directions so that `h` is right in all of them.

        If the directions matter, V is diagonal.
        """

    @abstractmethod
    def step_size(self, v: Vector, pace: Vector, longest: float) -> float:
        """Return the step size, at most `longest`, for noise `v` in shortened directions."""


@final
@dataclass(frozen=True)
class Heating(NoiseRule):
    """Rule for samplers that inject noise: gradient noise adds at most a rate h V / 2 of `room`."""

    room: float

    def batch_factor(self, V: Vector | Matrix, h: float) -> float:
        return 2.0 ** np.ceil(np.log2(max(largest(V) * h / (3 * self.room), 1e-6)))

    def matters(self, V: Vector | Matrix, h: float) -> bool:
        return h * largest(V) / 2 > 0.01 * self.room

    def pace(self, V: Vector | Matrix, h: float) -> Vector:
        return np.clip(np.sqrt(2 * self.room / (h * diagonal(V))), SLOWEST, 1.0)

    def step_size(self, v: Vector, pace: Vector, longest: float) -> float:
        return min(longest, 2 * self.room / max(v.max(), 1e-300))


@final
@dataclass(frozen=True)
class Driving(NoiseRule):
    """Rule for samplers whose only noise is that of gradients, which must make the `temperature`.

    The step size is h = 2 / (1 + V / temperature). Directions with too little noise take the
    longest step, and their variances are too small. `count` is the number of batches from which V
    was measured.
    """

    temperature: float
    count: int
    precision: ClassVar[int] = 10  # errors of V are errors of the posterior
    smallest: ClassVar[int] = 8

    def batch_factor(self, V: Vector | Matrix, h: float) -> float:
        least = np.linalg.eigvalsh(V)[0] if V.ndim == 2 else V.min()
        return 2.0 ** np.floor(np.log2(max(least / (self.temperature * (2 / h - 1)), 1e-6)))

    def matters(self, V: Vector | Matrix, h: float) -> bool:
        return True

    def pace(self, V: Vector | Matrix, h: float) -> Vector:
        v = diagonal(V)
        # Shrink eigenvalues to their mean if they differ no more than by chance (Ledoit and Wolf,
        # 2004).
        mean, chance = v.mean(), (len(v) + 1 if V.ndim == 2 else 2) / self.count
        v = mean + max(0.0, 1 - chance * mean**2 / max(v.var(), 1e-300)) * (v - mean)
        return np.sqrt(np.minimum(1.0, 2 / (h * (1 + v / self.temperature))))

    def step_size(self, v: Vector, pace: Vector, longest: float) -> float:
        return min(longest, 2 / np.mean(pace**2 + v / self.temperature))


def diagonal(V: Vector | Matrix) -> Vector:
    """Return the variances, none of them zero."""
    return np.maximum(np.diag(V) if V.ndim == 2 else V, 1e-300)


def largest(V: Vector | Matrix) -> float:
    """Return the largest eigenvalue of a covariance, or of a diagonal."""
    return float(np.linalg.eigvalsh(V)[-1] if V.ndim == 2 else V.max())
