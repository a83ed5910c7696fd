"""The noise of minibatch gradients, measured from small batches."""

from collections.abc import Sequence

import numpy as np

from pymc_sgmcmc.coordinates import Coordinates, pull
from pymc_sgmcmc.target import Target

__all__ = ["RowNoise", "measure_noise"]

BATCHES = 400
"""Small batches over all points; 8 a coordinate for a dense L, if that is more."""
SMALL = 16
"""Rows in one of them."""


class RowNoise:
    """Covariances of the gradients of single rows, times N_k^2, for each group of rows.

    A batch of n_k rows has the noise V = sum_k share_k S_k / n_k.
    """

    def __init__(self, covariances: Sequence[np.ndarray]):
        self.covariances = covariances

    def of(self, sizes: Sequence[int], shares: Sequence[float]) -> np.ndarray:
        """V of batches of `sizes`, a matrix (d, d) or its diagonal."""
        terms = zip(self.covariances, sizes, shares, strict=True)
        return sum(share * S / n for S, n, share in terms)


def largest(V: np.ndarray) -> float:
    """The largest eigenvalue of a covariance, or of a diagonal."""
    return float(np.linalg.eigvalsh(V)[-1] if V.ndim == 2 else V.max())


def measure_noise(
    target: Target,
    coordinates: Coordinates,
    points: np.ndarray,
    centres: np.ndarray | None,
    rng: np.random.Generator,
) -> tuple[RowNoise, RowNoise | None]:
    """The noise of plain gradients and of control variates, in the coordinates z.

    `points` (k, d) and the `centres` (k, d) of the control variates are positions q.
    """
    dense = coordinates.factor.ndim == 2
    wanted = max(BATCHES, 8 * target.size) if dense else BATCHES
    each = -(-wanted // len(points))
    plain, control = [], []
    for k, n_rows in enumerate(target.check_lengths()):
        size = int(min(SMALL, n_rows))
        sums = [_Covariance(), _Covariance()]
        for point, centre in zip(points, points if centres is None else centres, strict=True):
            differences = [[], []]
            for _ in range(each):
                rows = rng.integers(n_rows, size=size)
                here = target.row_gradient(point, k, rows)
                differences[0].append(pull(coordinates.factor, here))
                if centres is not None:
                    there = here - target.row_gradient(centre, k, rows)
                    differences[1].append(pull(coordinates.factor, there))
            for total, values in zip(sums, differences, strict=True):
                if values:
                    total.add(np.array(values), dense)
        plain.append(size * sums[0].mean())
        if centres is not None:
            control.append(size * sums[1].mean())
    return RowNoise(plain), RowNoise(control) if centres is not None else None


class _Covariance:
    """Pools covariances within groups of vectors."""

    def __init__(self):
        self.total, self.count = 0.0, 0

    def add(self, vectors: np.ndarray, dense: bool) -> None:
        centred = vectors - vectors.mean(axis=0)
        self.total = self.total + (centred.T @ centred if dense else np.sum(centred**2, axis=0))
        self.count += len(vectors) - 1

    def mean(self) -> np.ndarray:
        return self.total / self.count
