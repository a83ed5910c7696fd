"""The noise of minibatch gradients, measured from small batches."""

from collections.abc import Mapping, Sequence

import numpy as np

from pymc_sgmcmc.coordinates import Coordinates, pull_all
from pymc_sgmcmc.target import Target

__all__ = ["RowNoise", "measure_noise"]

BATCHES = 400
"""Small batches over all points; 8 a coordinate for a dense L, if that is more."""
SOME = 1000
"""Coordinates of which correlations are looked at, where L is diagonal."""
SMALL = 16
"""Rows in one of them."""


class RowNoise:
    """Covariances of the gradients of single rows, times N_k^2, for each group of rows.

    A batch of n_k rows has the noise V = sum_k share_k S_k / n_k.

    Attributes
    ----------
    covariances : sequence of array, shape (d, d) or (d,)
    correlated : float
        How far a diagonal S_k is from the whole truth: 0 if coordinates are not correlated, near 1
        if all of them are.
    """

    def __init__(self, covariances: Sequence[np.ndarray], correlated: float):
        self.covariances, self.correlated = covariances, correlated

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
    centres: Mapping[str, np.ndarray | None],
    rng: np.random.Generator,
) -> dict[str, RowNoise]:
    """The noise of gradients at `points` (k, d), in the coordinates z, by the name of a gradient.

    `centres`: None for the plain gradient, or where that of a control variate is taken, (d,) for
    all points or (k, d).
    """
    dense = coordinates.factor.ndim == 2
    wanted = max(BATCHES, 8 * target.size) if dense else BATCHES
    each = -(-wanted // len(points))
    found: dict[str, list] = {name: [] for name in centres}
    for k, n_rows in enumerate(target.check_lengths()):
        size = int(min(SMALL, n_rows))
        sums = {name: _Covariance() for name in centres}
        for i, point in enumerate(points):
            batches = [rng.integers(n_rows, size=size) for _ in range(each)]
            here = np.array([target.row_gradient(point, k, rows) for rows in batches])
            for name, centre in centres.items():
                gradients = here
                if centre is not None:
                    at = centre if centre.ndim == 1 else centre[i]
                    gradients = here - [target.row_gradient(at, k, rows) for rows in batches]
                sums[name].add(pull_all(coordinates.factor, gradients), dense)
        for name in centres:
            found[name].append(sums[name].scaled(size))
    return {name: _pooled(groups) for name, groups in found.items()}


def _pooled(groups: Sequence[tuple[np.ndarray, float]]) -> RowNoise:
    covariances, correlated = zip(*groups, strict=True)
    return RowNoise(covariances, max(correlated))


class _Covariance:
    """Pools covariances within groups of vectors."""

    def __init__(self):
        self.total, self.count, self.some = 0.0, 0, []

    def add(self, vectors: np.ndarray, dense: bool) -> None:
        centred = vectors - vectors.mean(axis=0)
        self.total = self.total + (centred.T @ centred if dense else np.sum(centred**2, axis=0))
        self.count += len(vectors) - 1
        if not dense:
            self.some.append(centred[:, :: -(-centred.shape[1] // SOME)])

    def scaled(self, size: int) -> tuple[np.ndarray, float]:
        """The covariance times `size`, and how far coordinates are correlated."""
        return size * self.total / self.count, _correlated(self.some) if self.some else 0.0


def _correlated(vectors: Sequence[np.ndarray]) -> float:
    """How far the largest eigenvalue of the correlation matrix exceeds that of chance."""
    some = np.concatenate(vectors)
    spread = np.sqrt(np.mean(some**2, axis=0))
    some = some[:, spread > 0] / spread[spread > 0]
    if some.shape[1] < 2:
        return 0.0
    top = np.linalg.norm(some, 2) ** 2 / len(some)
    chance = (1 + np.sqrt(some.shape[1] / len(some))) ** 2  # Marchenko and Pastur
    return max(0.0, 1 - chance / top)
