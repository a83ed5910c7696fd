"""Information of rows on effects, and which centred effects need other coordinates."""

import numpy as np
import pymc as pm
import pytest
from scipy.special import logsumexp

from pymc_sgmcmc import SGNHT
from pymc_sgmcmc.posterior.effects import inform
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.tuning import adam
from pymc_sgmcmc.tuning.information import informed
from tests.helpers import INTERPRETED

G = 30
SIGMA = 0.5


def rows(each, groups=G):
    """Numbers of the group of each row: `each` rows a group, but twice as many of the first."""
    return np.concatenate([np.repeat(np.arange(groups), each), np.zeros(each, int)])


def response(group, deviation=1.0):
    r = np.random.default_rng(1)
    return deviation * r.normal(size=G)[group] + SIGMA * r.normal(size=len(group))


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    monkeypatch.setattr(adam, "STEPS", 300)


def informed_target(model, batch_size=16):
    vars = model.continuous_value_vars
    settings = {"batch_size": batch_size, "backend": INTERPRETED}
    return informed(Target(model, vars, partial_centring=True, **settings))


def information(target):
    return {own.var.name: own.information.get_value() for own in target.centring.effects}


@pytest.mark.parametrize("batch_size", [16, None])
def test_information_on_standardized_effects(batch_size):
    """n / sigma^2 for n rows with the sd sigma, in units of the effect, t z."""
    group = rows(4)
    with pm.Model() as model:
        z = pm.Normal("z", shape=G)
        pm.Normal("y", (3 * pm.HalfNormal("t") * z)[group], SIGMA, observed=response(group))
    (found,) = information(informed_target(model, batch_size)).values()
    # The scale that is known of z is t alone: three times an effect's.
    np.testing.assert_allclose(found, 9 * np.bincount(group) / SIGMA**2, rtol=1e-4)


def test_two_effects_of_a_row():
    """Exact to the chance of random signs, where rows have several effects."""
    group, x = rows(40), np.random.default_rng(2).normal(size=40 * (G + 1))
    with pm.Model() as model:
        u, v = pm.Normal("u", shape=G), pm.Normal("v", shape=G)
        effects = (pm.HalfNormal("s") * u)[group] + (pm.HalfNormal("t") * v)[group] * x
        pm.Normal("y", effects, SIGMA, observed=response(group))
    found = information(informed_target(model))
    np.testing.assert_allclose(found["u"], np.bincount(group) / SIGMA**2, rtol=0.5)
    of_slopes = np.bincount(group, x**2) / SIGMA**2
    np.testing.assert_allclose(found["v"], of_slopes, rtol=0.6)


def centred(group, *, deviation=1.0, scale=None):
    with pm.Model() as model:
        t = pm.HalfNormal("t", 1) if scale is None else scale
        a = pm.Normal("a", pm.Normal("m"), t, shape=G)
        pm.Normal("y", a[group], SIGMA, observed=response(group, deviation))
    return model


def test_well_known_centred_effects_stay():
    assert information(informed_target(centred(rows(10)))) == {}


@pytest.mark.parametrize("deviation", [0.0, 0.1])
def test_centred_effects_that_are_not_known_change(deviation):
    """Their deviations are no larger than the noise of their means."""
    found = information(informed_target(centred(rows(2), deviation=deviation)))
    np.testing.assert_allclose(found["a"], np.bincount(rows(2)) / SIGMA**2, rtol=1e-3)


def far_away(group):
    """Effects that are not known well, 150 times their scale from zero."""
    with pm.Model() as model:
        a = pm.Normal("a", pm.Normal("m", 0, 200), pm.HalfNormal("t"), shape=G)
        y = 150.0 + 0.01 * response(group)
        pm.Normal("y", a[group], SIGMA, observed=y)
    return model, y


def test_effects_that_are_far_from_zero():
    """Rows imply where they are, and that is not mistaken for a scale."""
    group = rows(2)
    model, y = far_away(group)
    (own,) = informed_target(model).centring.effects
    counts = np.bincount(group)
    np.testing.assert_allclose(own.information.get_value(), counts / SIGMA**2, rtol=1e-3)
    means, sd = np.bincount(group, y) / counts, SIGMA / np.sqrt(counts)
    assert (np.abs(own.centre.get_value() - means) < 0.1 * sd).all()


@pytest.mark.parametrize("exact", [True, False])
def test_the_conditional_law_of_a_coordinate(exact):
    """Given location and scale: mean zero, and an sd that does not depend on them.

    Not so if what rows imply is off: the comparison sees 1 % of 150.
    """
    group = rows(2)
    model, y = far_away(group)
    target = informed_target(model)
    (own,) = target.centring.effects
    at, counts = target.energy.coordinates(), np.bincount(group)
    means = np.bincount(group, y) / counts
    inform(own, counts / SIGMA**2, means if exact else 0.99 * means)
    place = {var.name: where for var, where in at.items()}
    slopes, curvatures = [], []
    for m, log_t in [(0.0, -3.0), (150.0, -1.0), (300.0, 1.0)]:
        q = np.zeros(target.size)
        q[place["m"]], q[place["t_log__"]] = m, log_t
        up, down = q.copy(), q.copy()
        up[place["a"]], down[place["a"]] = 0.5, -0.5
        of_up, of_down = (target.value_and_gradient(x)[1][place["a"]] for x in (up, down))
        slopes.append((of_up + of_down) / 2)
        curvatures.append(of_up - of_down)
    np.testing.assert_allclose(curvatures, np.tile(curvatures[0], (3, 1)), rtol=1e-6)
    # In sds, as the curvatures are about one.
    assert (np.abs(slopes).max() < 1e-6) == exact


def test_effects_with_a_fixed_scale_stay():
    assert information(informed_target(centred(rows(1), scale=2.0))) == {}


Y = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
SD = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])


def schools(shrink, *, is_centred):
    """The eight schools of Rubin (1981); sds are divided by `shrink`."""
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0, 5), pm.HalfNormal("tau", 5)
        theta = pm.Normal("theta", mu, tau, shape=8) if is_centred else None
        if theta is None:
            theta = mu + tau * pm.Normal("z", shape=8)
        pm.Normal("y", theta, SD / shrink, observed=Y)
    return model


def exact_moments(shrink):
    """Mean and sd of mu and log tau by quadrature: the effects are integrated out."""
    mu, log_tau = np.linspace(-20, 30, 501), np.linspace(-9, 4, 1301)
    m, t = np.meshgrid(mu, np.exp(log_tau), indexing="ij")
    log = -(m**2) / 50 - t**2 / 50 + np.log(t)
    for y, s in zip(Y, SD / shrink, strict=True):
        v = s**2 + t**2
        log -= (y - m) ** 2 / (2 * v) + np.log(v) / 2
    weights = np.exp(log - logsumexp(log))
    found = {}
    for name, grid, p in (
        ("mu", mu, weights.sum(axis=1)),
        ("log tau", log_tau, weights.sum(axis=0)),
    ):
        mean = p @ grid
        found[name] = mean, np.sqrt(p @ (grid - mean) ** 2)
    return found


@pytest.mark.statistics
@pytest.mark.parametrize("is_centred", [True, False])
@pytest.mark.parametrize("shrink", [1, 20])
def test_the_law_of_a_scale_of_few_effects(shrink, is_centred):
    """A funnel, and a thin ridge where rows know effects to a twentieth: both forms are right."""
    with schools(shrink, is_centred=is_centred):
        idata = pm.sample(
            2000, tune=1500, step=SGNHT(), chains=4, cores=1, random_seed=3, progressbar=False
        )
    posterior = idata.posterior
    for name, x in (("mu", posterior["mu"]), ("log tau", np.log(posterior["tau"]))):
        mean, sd = exact_moments(shrink)[name]
        x = np.asarray(x)
        parts = x.reshape(4 * 10, -1).mean(axis=1)
        error = parts.std(ddof=1) / np.sqrt(len(parts))
        assert error < 0.08 * sd  # it mixes
        assert abs(x.mean() - mean) < 4.5 * error + 0.05 * sd, name
        of_sd = (x.reshape(40, -1).var(axis=1).std(ddof=1) / np.sqrt(40)) / (2 * sd)
        assert abs(x.std() - sd) < 4.5 * of_sd + 0.05 * sd, name
