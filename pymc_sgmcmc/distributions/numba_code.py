"""Numba code of the distributions, apart because Numba takes seconds to import."""

import numpy as np

from pymc_sgmcmc.compile.numba_key import numba_key, version_of
from pymc_sgmcmc.compile.pytensor_internals import (
    numba_core_rv_funcify,
    numba_njit,
    register_funcify_and_cache_key,
)
from pymc_sgmcmc.distributions.bessel import Bessel, bessel
from pymc_sgmcmc.distributions.root_dirichlet import RootDirichletRV
from pymc_sgmcmc.distributions.uniform_sphere import UniformSphereRV
from pymc_sgmcmc.distributions.uniform_stiefel import UniformStiefelRV
from pymc_sgmcmc.distributions.von_mises_fisher import VonMisesFisherRV

VERSION = version_of(__name__)

_bessel = numba_njit(bessel)


@register_funcify_and_cache_key(Bessel)
def _numba_bessel(op, node, **kwargs):
    place, kind = op.place, np.dtype(node.outputs[0].type.dtype).type

    @numba_njit
    def one(order, k):
        return kind(_bessel(np.float64(order), np.float64(k))[place])

    return one, numba_key(__name__, place, kind.__name__, numba_key(bessel.__module__))


@numba_njit
def _on_sphere(rng, d):
    x = rng.standard_normal(d)
    return x / np.sqrt(np.sum(x * x))


@numba_core_rv_funcify.register(UniformSphereRV)
def _draw_uniform_sphere(op, node):
    @numba_njit
    def draw(rng, d):
        return _on_sphere(rng, d)

    return draw, VERSION


@numba_core_rv_funcify.register(UniformStiefelRV)
def _draw_uniform_stiefel(op, node):
    @numba_njit
    def draw(rng, n, p):
        x = np.empty((n, p))
        for j in range(p):
            column = rng.standard_normal(n)
            for _ in range(2):  # the second pass removes rounding errors
                for i in range(j):
                    column -= np.sum(x[:, i] * column) * x[:, i]
                column /= np.sqrt(np.sum(column * column))
            x[:, j] = column
        return x

    return draw, VERSION


@numba_core_rv_funcify.register(RootDirichletRV)
def _draw_root_dirichlet(op, node):
    @numba_njit
    def draw(rng, alpha):
        x = np.empty(len(alpha))
        for i in range(len(alpha)):
            if not alpha[i] > 0:
                raise ValueError("alpha of RootDirichlet must be positive.")
            log_gamma = np.log(rng.standard_gamma(alpha[i] + 1.0))
            x[i] = log_gamma - rng.standard_exponential() / alpha[i]
        x = np.exp((x - np.max(x)) / 2)
        x /= np.sqrt(np.sum(x * x))
        for i in range(len(alpha)):
            if rng.random() < 0.5:
                x[i] = -x[i]
        return x

    return draw, VERSION


@numba_core_rv_funcify.register(VonMisesFisherRV)
def _draw_von_mises_fisher(op, node):
    @numba_njit
    def draw(rng, mu, kappa):
        centre, k, n = mu.astype(np.float64), np.float64(kappa), len(mu) - 1
        if not (k >= 0 and np.isfinite(k)):
            raise ValueError("kappa of VonMisesFisher must be finite and at least 0.")
        length = np.sqrt(np.sum(centre * centre))
        if not abs(length - 1) <= 1e-3:
            raise ValueError("mu of VonMisesFisher must be unit vectors.")
        centre /= length
        root = np.hypot(2 * k, n)
        b = n / (2 * k + root)
        one_minus_b = (2 * k + 4 * k**2 / (root + n)) / (2 * k + root)
        while True:
            g1, g2 = rng.standard_gamma(n / 2), rng.standard_gamma(n / 2)
            mixed = g2 + b * g1
            y = one_minus_b * (g1 - g2) / (2 * mixed)
            if -rng.standard_exponential() <= n * (np.log1p(y) - y):
                break
        below, above = 2 * b * g1 / mixed, 2 * g2 / mixed
        tangent = rng.standard_normal(n + 1)
        for _ in range(2):
            tangent -= np.sum(centre * tangent) * centre
        tangent /= np.sqrt(np.sum(tangent * tangent))
        return (above - below) / 2 * centre + np.sqrt(below * above) * tangent

    return draw, VERSION
