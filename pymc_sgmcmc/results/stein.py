"""Kernel Stein discrepancy of points with scores, and its bootstrap distribution.

For a density p with the score s = grad log p, the Stein kernel of a kernel k is

    u(x, y) = s(x).s(y) k + s(x).grad_y k + s(y).grad_x k + div_x grad_y k.

Its mean over y from p is 0 for every x. Its mean over independent x and y from another law q is the
squared discrepancy, KSD^2. Here k(x, y) = (1 + |x - y|^2)^(-1/2).
"""

import numpy as np

__all__ = ["signs", "standardized", "stein_sums"]

BLOCK = 2**20
"""Number of pairs of points computed at once: some arrays of 8 MB for any number of points."""

WELL_KNOWN = 10
"""Least number of points per coordinate for standardizing by the covariance."""

CONSECUTIVE = 5
"""Number of consecutive points of a chain that share a sign. Points are about an autocorrelation
time apart, so that sums over so many are nearly independent."""


def standardized(points: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
    """Transform points and scores (n, d) to coordinates in which the points are about N(0, I).

    The transformation uses the covariance of the points if there are `WELL_KNOWN` times as many as
    coordinates, else their sds. The last returned value says whether it uses the covariance. A
    wrong width stays visible, because the scores are transformed too.
    """
    n, d = points.shape
    mean, sd = points.mean(axis=0), points.std(axis=0)
    z, scores = (points - mean) / sd, scores * sd
    if n < WELL_KNOWN * d:
        return z, scores, False
    try:
        root = np.linalg.cholesky(z.T @ z / n)
    except np.linalg.LinAlgError:  # one coordinate is a combination of others
        return z, scores, False
    return np.linalg.solve(root, z.T).T, scores @ root, True


def signs(lengths: list[int], repetitions: int, rng: np.random.Generator) -> np.ndarray:
    """Draw signs of the wild bootstrap for chains of the given lengths, (n, repetitions)."""
    parts = [
        np.repeat(
            rng.choice([-1.0, 1.0], size=(-(-length // CONSECUTIVE), repetitions)),
            CONSECUTIVE,
            axis=0,
        )[:length]
        for length in lengths
    ]
    return np.concatenate(parts)


def stein_sums(points: np.ndarray, scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Sum w_i w_j u(x_i, x_j) over all pairs i != j, for each column of weights, (m,).

    Parameters
    ----------
    points, scores : array, shape (n, d)
    weights : array, shape (n, m)
    """
    n, total = len(points), np.zeros(weights.shape[1])
    rows = max(1, BLOCK // n)
    for start in range(0, n, rows):
        stop = min(start + rows, n)
        # u is symmetric, so pairs to the right of the block count twice.
        u = _stein_kernel(points[start:stop], scores[start:stop], points[start:], scores[start:])
        own = u[:, : stop - start]
        np.fill_diagonal(own, 0.0)
        mixed = 2 * (u @ weights[start:]) - own @ weights[start:stop]
        total += np.einsum("ij,ij->j", weights[start:stop], mixed)
    return total


def _stein_kernel(x: np.ndarray, s: np.ndarray, y: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Compute the kernel u of points x (n, d) with scores s, and y (m, d) with scores t: (n, m)."""
    squares, others = np.sum(x * x, axis=1), np.sum(y * y, axis=1)
    distance = np.maximum(squares[:, None] + others - 2 * x @ y.T, 0.0)
    inverse = 1 / (1 + distance)
    # (s(x) - s(y)).(x - y)
    difference = np.sum(s * x, axis=1)[:, None] + np.sum(t * y, axis=1) - s @ y.T - x @ t.T
    u = x.shape[1] - 3 * distance * inverse
    u += difference
    u *= inverse
    u += s @ t.T
    u *= np.sqrt(inverse)
    return u
