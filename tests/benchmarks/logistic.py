"""Logistic regressions of any size: labels, and the posterior to compare with."""

import numpy as np

__all__ = ["D", "chunks", "data", "labels", "posterior"]

CHUNK = 100_000

D = 20
"""Features of `data`."""


def chunks(n):
    return [slice(start, min(start + CHUNK, n)) for start in range(0, n, CHUNK)]


def labels(X, beta, rng):
    return rng.random(len(X)) < 1 / (1 + np.exp(-X @ beta))


def data(n, dtype):
    """Features (n, D) of scales 0.1 to 3 and labels, made in chunks."""
    rng = np.random.default_rng(0)
    scales, beta = np.geomspace(0.1, 3.0, D), 0.3 * rng.normal(size=D)
    X, y = np.empty((n, D), dtype), np.empty(n, "int8")
    for rows in chunks(n):
        X[rows] = scales * rng.standard_normal((rows.stop - rows.start, D))
        y[rows] = labels(X[rows], beta, rng)
    return X, y


def posterior(X, y, prior_sd):
    """Means and sds for priors N(0, prior_sd^2), where there are many rows.

    The mode, by Newton's method on all rows, corrected for the skewness; the inverse Hessian.
    """
    mode, prior = np.zeros(X.shape[1]), np.eye(X.shape[1]) / prior_sd**2
    for _ in range(50):
        gradient, H = prior @ mode, prior.copy()
        for rows in chunks(len(y)):
            x = X[rows].astype(float)
            p = 1 / (1 + np.exp(-x @ mode))
            gradient += x.T @ (p - y[rows])
            H += (x.T * (p * (1 - p))) @ x
        step = np.linalg.solve(H, gradient)
        mode = mode - step
        if gradient @ step < 1e-12:
            break
    covariance, skewness = np.linalg.inv(H), np.zeros(len(mode))
    for rows in chunks(len(y)):
        x = X[rows].astype(float)
        p = 1 / (1 + np.exp(-x @ mode))
        leverage = np.einsum("ij,ij->i", x @ covariance, x)
        skewness += x.T @ (p * (1 - p) * (1 - 2 * p) * leverage)
    return mode - covariance @ skewness / 2, np.sqrt(np.diag(covariance))
