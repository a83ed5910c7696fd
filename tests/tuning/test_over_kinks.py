"""Second derivatives of rows with kinks, in hierarchies."""

from functools import cache

import numpy as np
import pymc as pm
import pytest

from pymc_sgmcmc import SGNHT
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.tuning.locate import locate
from pymc_sgmcmc.tuning.over_kinks import has_kinked_rows, over_kinks
from pymc_sgmcmc.tuning.sparse_metric import unit_factor
from tests.cases import draws, sample
from tests.helpers import INTERPRETED
from tests.posterior.test_second_order import estimates, partition

N, G, SPREAD = 6000, 60, 0.5


def rng(seed):
    return np.random.default_rng(seed)


GROUP = np.concatenate([np.arange(G), rng(1).integers(G, size=N - G)])
EFFECTS = SPREAD * rng(2).normal(size=G)
Y = 2 + EFFECTS[GROUP] + rng(3).laplace(size=N)


def laplace(group=GROUP, y=Y, groups=G):
    u = pm.Normal("u", 0, SPREAD, shape=groups)
    pm.Laplace("y", pm.Normal("a", 0, 9) + u[group], 1.0, observed=y)


def few():
    laplace(GROUP[:24] % 5, Y[:24], 60)


def counts():
    """Its log-density has comparisons for rates of zero, and no kink."""
    mu = pm.math.exp(pm.Normal("a") + pm.Normal("u", 0, SPREAD, shape=G)[GROUP])
    pm.NegativeBinomial("y", mu=mu, alpha=3.0, observed=rng(4).poisson(np.exp(EFFECTS[GROUP])))


@cache
def target_of(build):
    with pm.Model() as model:
        build()
    return over_kinks(Target(
        model, model.continuous_value_vars, batch_size=6, with_predictors=True, backend=INTERPRETED,
    ))  # fmt: skip


def test_only_kinks_are_reached_over():
    assert has_kinked_rows(target_of(laplace)) and not has_kinked_rows(target_of(counts))


def test_the_sum_of_second_derivatives():
    """For each row with Laplace errors, the mean density within the reach, twice."""
    target = target_of(laplace)
    (own,) = target.energy.predictors
    (reach,) = [float(one.distance.get_value()) for one in own.reaches]
    assert 0.02 < reach < 0.5
    q = np.concatenate([EFFECTS, [2.0]])
    H = target.near_anchor.hessian(q) + np.zeros((G + 1, G + 1))
    expected = -np.expm1(-reach) / reach * np.bincount(GROUP)
    errors = np.sqrt(expected / (2 * reach))  # of counts in 2 reach
    assert (np.abs(np.diag(H)[:G] - expected) < 4 * errors + 1).all()
    assert abs(H[G, G] / expected.sum() - 1) < 4 / np.sqrt(2 * reach * N)
    np.testing.assert_allclose(H[G, :G], np.diag(H)[:G], rtol=1e-9)


@pytest.mark.parametrize("order", [1, 2])
def test_control_variates_are_unbiased(order):
    target = target_of(few)
    assert has_kinked_rows(target)
    c, q = target.initial + rng(5).normal(size=(2, target.size))
    found = np.array(estimates(target, order, c, q, partition(target)))
    exact = target.value_and_gradient(q)[1]
    np.testing.assert_allclose(found.mean(axis=0), exact, atol=1e-10 * np.abs(exact).max())


def test_the_mass_is_located_from_afar():
    target = target_of(laplace)
    found = locate(target, target.initial + 20, rng(6), unit_factor(target.size))
    assert found.jumps and found.decrement < target.size
    z = found.coordinates.metric.pull(target.value_and_gradient(np.append(EFFECTS, 2.0))[1])
    assert np.sum(z**2) < 3 * target.size  # the truth is a typical point


def by_gibbs(chains=8, steps=2000, seed=7):
    """Draws of the effects and their level, (chains, steps, G + 1).

    The Laplace distribution is a mixture of normals with exponential variances (Park and Casella,
    2008). A chain is a sweep over variances, level and effects.
    """
    r, n = rng(seed), np.bincount(GROUP)
    u, a, found = np.zeros((chains, G)), np.full(chains, 2.0), []

    def sums(x):
        return np.stack([np.bincount(GROUP, weights=row, minlength=G) for row in x])

    assert (n > 0).all()
    for _ in range(steps + 200):
        error = Y - a[:, None] - u[:, GROUP]
        w = r.wald(1 / np.maximum(np.abs(error), 1e-12), 1.0)  # 1 / variance
        total, of_y = sums(w), sums(w * Y)
        a_mean = (of_y - total * u).sum(axis=1) / (total.sum(axis=1) + 1 / 81)
        a = a_mean + r.normal(size=chains) / np.sqrt(total.sum(axis=1) + 1 / 81)
        precision = total + SPREAD**-2
        u = (of_y - total * a[:, None]) / precision + r.normal(size=u.shape) / np.sqrt(precision)
        # A level that all effects share moves slowly by itself: move it against them.
        shift_precision = G / SPREAD**2 + 1 / 81
        mean = (a / 81 - u.sum(axis=1) / SPREAD**2) / shift_precision
        shift = -mean + r.normal(size=chains) / np.sqrt(shift_precision)
        a, u = a + shift, u - shift[:, None]
        found.append(np.column_stack([u, a]))
    return np.array(found[200:]).swapaxes(0, 1)


@pytest.mark.statistics
def test_median_regression_with_groups():
    with pm.Model():
        laplace()
        idata = sample(SGNHT(), draws=1000, tune=1000, chains=4)
    got = np.concatenate([draws(idata, "u"), draws(idata, "a")[..., None]], axis=-1)
    exact = by_gibbs()
    sd = exact.std(axis=(0, 1))

    def error(x):
        return x.mean(axis=1).std(axis=0, ddof=1) / np.sqrt(len(x))

    errors = np.hypot(error(got), error(exact))
    assert np.median(errors / sd) < 0.06
    difference = got.mean(axis=(0, 1)) - exact.mean(axis=(0, 1))
    rms = np.sqrt(np.mean((difference / sd) ** 2))
    assert rms < 0.05 + 2 * np.sqrt(np.mean((errors / sd) ** 2))
    np.testing.assert_allclose(got.std(axis=(0, 1)), sd, rtol=0.2)
    assert abs(np.mean(got.std(axis=(0, 1)) / sd) - 1) < 0.05
