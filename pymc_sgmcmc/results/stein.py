"""The kernel Stein discrepancy of points with scores, and its distribution where they fit.

For a density p with the score s = grad log p, the Stein kernel of a kernel k is

    u(x, y) = s(x).s(y) k + s(x).grad_y k + s(y).grad_x k + div_x grad_y k.

Its mean over y from p is 0 for every x; over independent x and y from another law q it is the
squared discrepancy, KSD^2. Here k(x, y) = (1 + |x - y|^2)^(-1/2).
"""

import numpy as np

__all__ = ["signs", "standardized", "stein_sums"]

BLOCK = 2**20
"""Pairs of points at once: some arrays of 8 MB, whatever the number of points."""

WELL_KNOWN = 10
"""Points for each coordinate from which their covariance is known well enough to divide by."""

CONSECUTIVE = 5
"""Points of a chain that share a sign. They are about an autocorrelation time apart, so that sums
over so many are nearly independent."""


def standardized(points: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
    """The points and scores (n, d) in coordinates in which the points are about N(0, I).

    By the covariance of the points where there are `WELL_KNOWN` times as many as coordinates; else
    by their sds. The last value says whether it is by the covariance. A wrong width is not lost:
    the scores then have it.
    """
    n, d = points.shape
    mean, sd = points.mean(axis=0), points.std(axis=0)
    z, scores = (points - mean) / sd, scores * sd
    if n < WELL_KNOWN * d:
        return z, scores, False
    try:
        root = np.linalg.cholesky(z.T @ z / n)
    except np.linalg.LinAlgError:  # One coordinate is a sum of others.
        return z, scores, False
    return np.linalg.solve(root, z.T).T, scores @ root, True


def signs(lengths: list[int], repetitions: int, rng: np.random.Generator) -> np.ndarray:
    """Random signs for chains of so many points, (n, repetitions): the wild bootstrap's."""
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
    """Sums of w_i w_j u(x_i, x_j) over all pairs i != j, for each column of weights, (m,).

    Parameters
    ----------
    points, scores : array, shape (n, d)
    weights : array, shape (n, m)
    """
    n, total = len(points), np.zeros(weights.shape[1])
    rows = max(1, BLOCK // n)
    for start in range(0, n, rows):
        stop = min(start + rows, n)
        # u is symmetric: pairs to the right of the block stand for two.
        u = _stein_kernel(points[start:stop], scores[start:stop], points[start:], scores[start:])
        own = u[:, : stop - start]
        np.fill_diagonal(own, 0.0)
        mixed = 2 * (u @ weights[start:]) - own @ weights[start:stop]
        total += np.einsum("ij,ij->j", weights[start:stop], mixed)
    return total


def _stein_kernel(x, s, y, t) -> np.ndarray:
    """The kernel u of points x (n, d) with scores s, and y (m, d) with scores t: (n, m)."""
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
