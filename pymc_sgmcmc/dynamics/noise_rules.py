"""How much noise gradients may have, or must, and the batch size and step size that follow."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

__all__ = ["SLOWEST", "Driving", "Heating", "NoiseRule", "largest"]

SLOWEST = 0.05
"""The pace of the directions with the noisiest gradients, at least."""


class NoiseRule(ABC):
    """For gradients of variance V, a matrix or its diagonal, in whitened coordinates."""

    precision: ClassVar[int] = 1
    """How many times as many batches as usual V is to be measured from."""
    smallest: ClassVar[int] = 64
    """Rows in a batch, where the size is tuned, at least."""

    @abstractmethod
    def batch_factor(self, V: np.ndarray, h: float) -> float:
        """By which power of two batches should be larger, for the step size `h`."""

    @abstractmethod
    def matters(self, V: np.ndarray, h: float) -> bool:
        """Whether it matters in which directions the noise is large."""

    @abstractmethod
    def slow(self, V: np.ndarray, h: float) -> np.ndarray:
        """By how much directions should be shortened so that `h` is right in all of them, (d,).

        Where it matters, V is diagonal.
        """

    @abstractmethod
    def step_size(self, v: np.ndarray, slow: np.ndarray, longest: float) -> float:
        """The step size, at most `longest`, with noise `v` in directions that were shortened."""


@final
@dataclass(frozen=True)
class Heating(NoiseRule):
    """Noise comes on top of what is injected: a rate h V / 2 of at most `room`."""

    room: float

    def batch_factor(self, V, h):
        return 2.0 ** np.ceil(np.log2(max(largest(V) * h / (3 * self.room), 1e-6)))

    def matters(self, V, h):
        return h * largest(V) / 2 > 0.01 * self.room

    def slow(self, V, h):
        return np.clip(np.sqrt(2 * self.room / (h * diagonal(V))), SLOWEST, 1.0)

    def step_size(self, v, slow, longest):
        return min(longest, 2 * self.room / max(v.max(), 1e-300))


@final
@dataclass(frozen=True)
class Driving(NoiseRule):
    """Noise is all that there is, and must make the `temperature`: h = 2 / (1 + V / temperature).

    In directions with too little of it the longest step is taken, and variances are too small.
    `count`: of the batches from which V was measured.
    """

    temperature: float
    count: int
    precision: ClassVar[int] = 10  # the posterior is no better known than V
    smallest: ClassVar[int] = 8

    def batch_factor(self, V, h):
        least = np.linalg.eigvalsh(V)[0] if V.ndim == 2 else V.min()
        return 2.0 ** np.floor(np.log2(max(least / (self.temperature * (2 / h - 1)), 1e-6)))

    def matters(self, V, h):
        return True

    def slow(self, V, h):
        v = diagonal(V)
        # Eigenvalues that differ no more than by chance are one (Ledoit and Wolf, 2004).
        mean, chance = v.mean(), (len(v) + 1 if V.ndim == 2 else 2) / self.count
        v = mean + max(0.0, 1 - chance * mean**2 / max(v.var(), 1e-300)) * (v - mean)
        return np.sqrt(np.minimum(1.0, 2 / (h * (1 + v / self.temperature))))

    def step_size(self, v, slow, longest):
        return min(longest, 2 / np.mean(slow**2 + v / self.temperature))


def diagonal(V: np.ndarray) -> np.ndarray:
    """The variances, none of them zero."""
    return np.maximum(np.diag(V) if V.ndim == 2 else V, 1e-300)


def largest(V: np.ndarray) -> float:
    """Return the largest eigenvalue of a covariance, or of a diagonal."""
    return float(np.linalg.eigvalsh(V)[-1] if V.ndim == 2 else V.max())
