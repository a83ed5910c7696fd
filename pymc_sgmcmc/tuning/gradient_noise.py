"""Noise of minibatch gradients, measured from small batches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigvalsh

from pymc_sgmcmc._utils.coordinates import Coordinates
from pymc_sgmcmc._utils.types import Array, Counts, Vector
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.tuning.curvature import Visit, stay

__all__ = ["SMALL", "WHERE_GRADIENTS_JUMP", "Gradient", "RowNoise", "measure_noise"]

BATCHES = 600
"""Number of small batches over all points; 8 a coordinate for a dense metric, if that is more."""
SOME = 1000
"""Largest number of coordinates whose correlations are examined, where the metric is not dense."""
SMALL, WHERE_GRADIENTS_JUMP = 16, 1024
"""Numbers of rows in a small batch. Of 1,000 rows, one may pass its kink."""


@dataclass(frozen=True, eq=False)
class Gradient:
    """A way to estimate gradients: a control variate of some order, 0 without.

    `anchor`: (d,), or one for each point, (k, d).
    """

    order: int = 0
    anchor: Array | None = None


class RowNoise:
    """Covariances of the gradients of single rows, times N_k^2, for each group of rows.

    A batch of n_k rows has the noise V = sum_k share_k S_k / n_k.

    Attributes
    ----------
    covariances : sequence of array, shape (d, d) or (d,)
    correlated : float
        Share of the noise that a diagonal S_k misses: 0 if coordinates are not correlated, near 1
        if all of them are.
    error : float
        Relative standard error of the largest variance: large where the noise differs much between
        points, or comes from few rows.
    count : int
        Number of batches behind each S_k.
    left_out : list of int
        Points at which gradients are not finite: every S_k excludes them.
    """

    def __init__(
        self,
        covariances: Sequence[Array],
        correlated: float,
        error: float,
        count: int,
        left_out: Sequence[int] = (),
    ):
        self.covariances, self.correlated, self.error = covariances, correlated, error
        self.count, self.left_out = count, list(left_out)

    def of(self, sizes: Sequence[int], shares: Sequence[float]) -> Array:
        """Return V of batches of `sizes`, a matrix (d, d) or its diagonal."""
        terms = zip(self.covariances, sizes, shares, strict=True)
        return sum((share * S / n for S, n, share in terms), start=np.zeros(()))


def measure_noise(
    target: Target,
    coordinates: Coordinates,
    points: Array,
    gradients: Mapping[str, Gradient],
    rng: np.random.Generator,
    precision: int = 1,
    visit: Visit = stay,
    size: int = SMALL,
) -> dict[str, RowNoise]:
    """Measure the noise of gradients at `points` (k, d), in coordinates z, by name of a gradient.

    `precision`: multiple of the usual number of batches. `visit`: called with the number of each
    point. A point at which a gradient, or its square, is not finite is left out. `size`: number of
    rows in a batch.
    """
    dense = coordinates.metric.dense
    wanted = precision * (max(BATCHES, 8 * target.size) if dense else BATCHES)
    each = max(2, -(-wanted // len(points)))
    found: dict[str, list[_Covariance]] = {name: [] for name in gradients}
    left_out: dict[str, set[int]] = {name: set() for name in gradients}
    for k, n_rows in enumerate(target.check_lengths()):
        n = int(min(size, n_rows))
        sums = {name: _Covariance(n) for name in gradients}
        for i, point in enumerate(points):
            visit(i)
            batches = [rng.integers(n_rows, size=n) for _ in range(each)]
            plain = np.array([target.row_gradient(point, k, rows) for rows in batches])
            for name, gradient in gradients.items():
                with np.errstate(over="ignore", invalid="ignore"):
                    estimates = _estimates(target, gradient, plain, i, point, k, batches)
                    vectors = coordinates.metric.pull(estimates)
                    if not np.isfinite(np.sum(vectors**2)):
                        left_out[name].add(i)
                        continue
                sums[name].add(vectors, dense)
        for name in gradients:
            found[name].append(sums[name])
    return {
        name: RowNoise(
            [group.covariance() for group in groups],
            max(group.correlated() for group in groups),
            max(group.error() for group in groups),
            each * (len(points) - len(left_out[name])),
            sorted(left_out[name]),
        )
        for name, groups in found.items()
    }


def _estimates(
    target: Target,
    gradient: Gradient,
    plain: Array,
    i: int,
    point: Vector,
    k: int,
    batches: Sequence[Counts],
) -> Array:
    """Return estimates from `batches` of group k at point number i, from the `plain` ones."""
    if gradient.anchor is None:
        return plain
    at = gradient.anchor if gradient.anchor.ndim == 1 else gradient.anchor[i]
    near = target.near_anchor
    if gradient.order == 1 and (near is None or not target.energy.coefficients):
        return plain - [target.row_gradient(at, k, rows) for rows in batches]
    assert near is not None  # without predictors there is no second order
    expansions = [near.of_rows(at, k, rows, gradient.order) for rows in batches]
    pairs = zip(batches, expansions, strict=True)
    return np.array([target.row_gradient(point, k, rows, own) for rows, own in pairs])


class _Covariance:
    """Pooled covariance, over points, of the gradients of batches of `size` rows."""

    def __init__(self, size: int):
        self._size, self._points, self._count = size, 0, 0
        self._total, self._variances, self._squares = np.zeros(1), np.zeros(1), np.zeros(1)
        self._some: list[Array] = []

    def add(self, vectors: Array, dense: bool) -> None:
        """Add the gradients at one point."""
        centred = vectors - vectors.mean(axis=0)
        variances = np.sum(centred**2, axis=0)
        self._total = self._total + (centred.T @ centred if dense else variances)
        self._variances = self._variances + variances
        self._squares = self._squares + variances**2
        self._count += len(vectors) - 1
        self._points += 1
        if not dense:
            self._some.append(centred[:, :: -(-centred.shape[1] // SOME)])

    def covariance(self) -> Array:
        """Return the covariance of the gradient of one row."""
        return self._size * self._total / max(self._count, 1)

    def error(self) -> float:
        """Return the relative standard error of the largest variance, from its spread by point."""
        k, n = np.argmax(self._variances), self._points
        total = self._variances[k]
        if n < 2 or total == 0:
            return 0.0
        return float(np.sqrt(max(0.0, n * (self._squares[k] / total) / total - 1) / (n - 1)))

    def correlated(self) -> float:
        """Return the share of the correlation matrix's largest eigenvalue that is not chance."""
        if not self._some:
            return 0.0
        some = np.concatenate(self._some)
        spread = np.sqrt(np.mean(some**2, axis=0))
        some = some[:, spread > 0] / spread[spread > 0]
        if some.shape[1] < 2:
            return 0.0
        n = min(some.shape)
        gram = some @ some.T if n == len(some) else some.T @ some
        top = float(eigvalsh(gram, subset_by_index=(n - 1, n - 1))[0]) / len(some)
        chance = (1 + np.sqrt(some.shape[1] / len(some))) ** 2  # the edge of Marchenko and Pastur
        return max(0.0, 1 - chance / top)
