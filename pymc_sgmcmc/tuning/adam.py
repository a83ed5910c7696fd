"""Adam: the way to the posterior from far away, on small batches."""

import numpy as np

from pymc_sgmcmc._utils.types import Vector
from pymc_sgmcmc.posterior.target import Target

__all__ = ["PART", "adam"]

STEPS, ROWS = 1500, 128

PART = 2048
"""Number of rows in a fixed part of the data; 64 a coordinate for a Hessian, if that is more."""


def adam(target: Target, start: Vector, rng: np.random.Generator, rate: float) -> Vector:
    """Run Adam with a rate falling geometrically to 1e-3; return the mean of its last quarter."""
    rates = np.geomspace(rate, 1e-3, STEPS)
    mean, square, total = np.zeros_like(start), np.zeros_like(start), np.zeros_like(start)
    q = last = start
    for t, rate in enumerate(rates):
        value, gradient = target.value_and_gradient(q, target.random_rows(rng, ROWS))
        if np.isfinite(value) and np.isfinite(gradient).all():
            mean = 0.9 * mean + 0.1 * gradient
            square = 0.99 * square + 0.01 * gradient**2
            unbiased = np.sqrt(square / (1 - 0.99 ** (t + 1))) + 1e-300
            last, q = q, q - rate * mean / (1 - 0.9 ** (t + 1)) / unbiased
        else:
            q, mean = (q + last) / 2, np.zeros_like(mean)
        if t >= STEPS * 3 // 4:
            total += q
    settled = total / (STEPS - STEPS * 3 // 4)
    value, gradient = target.value_and_gradient(settled, target.fixed_rows(rng, PART))
    return settled if np.isfinite(value) and np.isfinite(gradient).all() else last
