"""Priors with kinks: second derivatives of a Laplace prior are zero wherever they exist."""

from functools import cache

import numpy as np
import pymc as pm
import pytest
from scipy.integrate import trapezoid
from scipy.stats import norm

from pymc_sgmcmc import SGHMC, SGNHT
from pymc_sgmcmc._utils.metric import identity
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.tuning.information import informed
from pymc_sgmcmc.tuning.locate import locate
from pymc_sgmcmc.tuning.sparse_metric import unit_factor
from tests.cases import draws, sample
from tests.helpers import INTERPRETED

G, N = 60, 600
GROUP = np.arange(N) % G
TRUTH = np.random.default_rng(1).laplace(0, 0.5, G)
Y = TRUTH[GROUP] + np.random.default_rng(2).normal(size=N)


def model_of(build):
    with pm.Model() as model:
        build()
    return model


def centred():
    pm.Normal("y", pm.Laplace("u", 0, pm.HalfNormal("t", 1), shape=G)[GROUP], 1.0, observed=Y)


def standardized():
    z, t = pm.Laplace("z", 0, 1, shape=G), pm.HalfNormal("t", 1)
    pm.Normal("y", pm.Deterministic("u", t * z)[GROUP], 1.0, observed=Y)


def penalty():
    u, t = pm.Flat("u", shape=G), pm.HalfNormal("t", 1)
    pm.Potential("prior", -pm.math.abs(u) / t - pm.math.log(2 * t))
    pm.Normal("y", u[GROUP], 1.0, observed=Y)


def smooth():
    pm.Normal("y", pm.Normal("u", 0, pm.HalfNormal("t", 1), shape=G)[GROUP], 1.0, observed=Y)


@cache
def target_of(build):
    model = model_of(build)
    return Target(
        model, model.continuous_value_vars, batch_size=64, backend=INTERPRETED,
        with_predictors=True, partial_centring=True,
    )  # fmt: skip


@pytest.mark.parametrize("build", [centred, standardized, penalty])
def test_kinks_are_seen(build):
    assert target_of(build).has_kinked_prior


def test_normal_effects_have_none():
    target = target_of(smooth)
    assert target.is_structured and not target.has_kinked_prior


@pytest.mark.parametrize("t", [0.3, 2.0])
def test_the_mean_hessian_is_that_over_an_sd(t):
    """For x from N(m, s^2), (sign(x + s) - sign(x - s)) / (2 s t) is 1 / (s t) where |x| < s."""
    target, r = target_of(centred), np.random.default_rng(3)
    k, sds, m = 1000, r.uniform(0.05, 0.5, G), r.normal(0, 0.3, G)
    at = target.energy.coordinates()
    names = {var.name: at[var] for var in target.vars}
    points = np.zeros((k, target.size))
    points[:, names["u"]] = m + sds * r.normal(size=(k, G))
    points[:, names["t_log__"]] = np.log(t)
    _, H = target.exact_part.mean(points)
    found = H.diagonal()[names["u"]]
    passes = norm.cdf(1 - m / sds) - norm.cdf(-1 - m / sds)
    error = np.sqrt(passes * (1 - passes) / k) / (sds * t)
    np.testing.assert_array_less(np.abs(found - passes / (sds * t)), 5 * error + 1e-6)


def test_second_derivatives_at_one_point():
    """Of |x| / t + log t, with t = exp(l): slopes in x are +-1 / t, and reach over t."""
    target, r = target_of(centred), np.random.default_rng(4)
    at = target.energy.coordinates()
    names = {var.name: at[var] for var in target.vars}
    q = np.zeros(target.size)
    q[names["u"]] = x = r.normal(size=G)
    q[names["t_log__"]] = log_t = np.log(0.7)
    H = target.exact_part.mean(q[None])[1].toarray()
    (j,), t = names["t_log__"], np.exp(log_t)
    np.testing.assert_allclose(H[j, j], np.sum(np.abs(x)) / t + 2 * t**2, rtol=1e-6)
    mixed = -(np.abs(x + t) - np.abs(x - t)) / (2 * t**2)
    np.testing.assert_allclose(H[j, names["u"]], mixed, rtol=1e-6)
    np.testing.assert_allclose(H.diagonal()[names["u"]], (np.abs(x) < t) / t**2, rtol=1e-6)


@cache
def exact():
    """Means and sds of t and of the effects, by quadrature over t and over each effect."""
    scales, u = np.linspace(0.05, 2.0, 300), np.linspace(-4, 4, 4001)
    means, n = np.array([Y[GROUP == g].mean() for g in range(G)]), N // G
    rows = np.exp(-n * (u - means[:, None]) ** 2 / 2)  # (G, 4001)
    weights, moments = [], []
    for t in scales:
        density = rows * np.exp(-np.abs(u) / t) / (2 * t)
        whole = trapezoid(density, u)
        weights.append(np.sum(np.log(whole)) - t**2 / 2)
        moments.append([trapezoid(density * u**k, u) / whole for k in (1, 2)])
    p = np.exp(np.array(weights) - max(weights))
    p /= p.sum()
    first, second = np.tensordot(p, moments, 1)
    t = p @ scales, np.sqrt(p @ scales**2 - (p @ scales) ** 2)
    return t, (first, np.sqrt(second - first**2))


@pytest.mark.parametrize(
    "build, metric",
    [
        (centred, identity(G + 1, dense=True)),
        pytest.param(centred, unit_factor(G + 1), marks=pytest.mark.statistics),
        pytest.param(standardized, unit_factor(G + 1), marks=pytest.mark.statistics),
        (penalty, identity(G + 1, dense=True)),
    ],
)
def test_the_mass_is_located(build, metric):
    target = informed(target_of(build))
    found = locate(target, target.initial + 0.5, np.random.default_rng(5), metric)
    values = target.centring.values(found.coordinates.centre)
    at = {var.name: own for var, own in target.energy.coordinates().items()}
    (t, sd), (u, sds) = exact()
    assert abs(np.exp(values[at["t_log__"]][0]) - t) < 2 * sd
    effects = values[at["u"]] if "u" in at else values[at["z"]] * np.exp(values[at["t_log__"]])
    assert np.sqrt(np.mean(((effects - u) / sds) ** 2)) < 0.5
    if build is not standardized:  # whose coordinates are others
        ratios = found.coordinates.metric.scales[at["u"]] / sds
        assert 0.7 < np.median(ratios) < 1.4


@pytest.mark.statistics
@pytest.mark.compiled
@pytest.mark.parametrize(
    "build, sampler, metric", [(centred, SGNHT, "auto"), (standardized, SGHMC, "sparse")]
)
def test_the_posterior(build, sampler, metric):
    with model_of(build):
        idata = sample(sampler(metric=metric), tune=1000, draws=2000, chains=4)
    assert (idata.sample_stats.step_size.values[:, -1] > 0.1).all()
    (t, sd), (u, sds) = exact()
    for name, mean, own in (("t", t, sd), ("u", u, sds)):
        found = draws(idata, name)  # (chains, draws, ...)
        off = (found.mean(axis=(0, 1)) - mean) / own
        assert np.abs(off).max() < 0.2 and np.sqrt(np.mean(off**2)) < 0.07
        ratios = found.std(axis=(0, 1)) / own
        assert np.abs(ratios - 1).max() < 0.12 and abs(np.mean(ratios) - 1) < 0.05
