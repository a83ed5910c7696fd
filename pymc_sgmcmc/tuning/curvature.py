"""Second derivatives of U from differences of its gradient."""

from collections.abc import Callable

import numpy as np
import pytensor

from pymc_sgmcmc._utils.types import Array, Counts, Matrix, Vector

__all__ = [
    "Gradient",
    "Visit",
    "equilibrated",
    "factor_of",
    "hessian",
    "largest_curvature",
    "stay",
    "steepest",
]

Gradient = Callable[[Vector], Vector]
Visit = Callable[[int], None]
"""Function of the number of a point, called before gradients are computed there: it sets the other
variables on which the gradient depends."""


def stay(i: int) -> None:
    """Leave other variables as they are: they do not change from point to point."""


def _coarse() -> bool:
    return pytensor.config.floatX == "float32"


def hessian(gradient: Gradient, q: Vector, scale: Vector | None = None) -> Matrix:
    """Compute the Hessian at `q` from d + 1 gradients, symmetrised.

    `scale`: posterior sds, if known, for the width of the differences.
    """
    width = (1e-3 if _coarse() else 1e-5) * (np.abs(q) + 0.01)
    if scale is not None:
        width = np.clip((0.05 if _coarse() else 1e-3) * scale, width, 1e3 * width)
    at = gradient(q)
    columns = [(gradient(q + w) - at) / w.sum() for w in np.diag(width)]
    H = np.nan_to_num(np.array(columns))
    return (H + H.T) / 2


def factor_of(H: Matrix) -> Matrix:
    """Return L such that L L' is the inverse of H with the absolute values of its eigenvalues.

    The eigenvalues are those of H scaled to a unit diagonal, and at least 1e-6 of the largest.
    """
    diagonal = np.abs(np.diag(H))
    floor = 1e-12 * diagonal.max() if diagonal.max() > 0 else 1.0
    scale = 1 / np.sqrt(np.maximum(diagonal, floor))
    values, vectors = np.linalg.eigh(scale[:, None] * H * scale)
    values = np.abs(values)
    values = np.maximum(values, 1e-6 * max(values.max(), 1e-300))
    # A triangular factor is a continuous function of H; a factor of eigenvectors is not.
    return scale[:, None] * np.linalg.cholesky((vectors / values) @ vectors.T)


def equilibrated(gradient: Gradient, q: Vector, rng: np.random.Generator) -> Vector:
    """Estimate the root mean squares of the Hessian's rows at `q`, by 30 probes.

    Source: Dauphin et al. (2015).
    """
    width = (1e-2 if _coarse() else 1e-4) / np.sqrt(len(q))
    total = np.zeros(len(q))
    for _ in range(30):
        direction = width * (1 + np.abs(q)) * (2 * rng.integers(2, size=len(q)) - 1)
        change = (gradient(q + direction) - gradient(q - direction)) / 2
        total += (change / (width * (1 + np.abs(q)))) ** 2
    total = np.nan_to_num(total / 30)
    return np.sqrt(np.maximum(total, 1e-12 * max(total.max(), 1e-300)))


def largest_curvature(
    gradient: Gradient,
    points: Array,
    rng: np.random.Generator,
    iterations: int = 8,
    visit: Visit = stay,
    width: float | None = None,
) -> float:
    """Estimate the largest absolute eigenvalue of the Hessian at `points` (k, d).

    The method is power iteration. `gradient` and `points` are in coordinates in which the
    posterior's sds are about one. `width`: of the differences, to both sides.
    """
    largest = 0.0
    for i, point in enumerate(points):
        visit(i)
        v = rng.standard_normal(len(point))
        for _ in range(iterations):
            product = _product(gradient, point, v, width)
            if product is None:
                break
            v, largest = product, max(largest, float(np.linalg.norm(product)))
    return largest


def steepest(
    gradient: Gradient,
    points: Array,
    rng: np.random.Generator,
    number: int,
    visit: Visit = stay,
    width: float | None = None,
) -> Counts:
    """Return the indices of the `number` of `points` (k, d) with the largest curvature, (number,).

    The curvature comes from one power iteration at each point. Its start is the direction found at
    the previous point plus a random one, as directions differ between points.
    """
    direction, norms = np.zeros(points.shape[1]), np.zeros(len(points))
    for i, point in enumerate(points):
        visit(i)
        chance = rng.standard_normal(len(point))
        # The random direction has twice the length, so that the two cannot cancel.
        product = _product(gradient, point, direction + 2 * chance / np.linalg.norm(chance), width)
        if product is not None:
            norms[i] = np.linalg.norm(product)
            direction = product / norms[i]
    return np.argsort(-norms, kind="stable")[:number]


def _product(gradient: Gradient, point: Vector, v: Vector, width: float | None) -> Vector | None:
    """Return the Hessian at `point` times `v` / |v|; None where it is zero or not finite."""
    width = width or (0.05 if _coarse() else 1e-3)
    step = width * v / np.linalg.norm(v)
    with np.errstate(over="ignore", invalid="ignore"):
        product = (gradient(point + step) - gradient(point - step)) / (2 * width)
    return product if 0 < np.linalg.norm(product) < np.inf else None  # 0 also by underflow
