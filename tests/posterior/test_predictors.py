"""The numbers of a row through which its likelihood depends on q: which are found."""

import numpy as np
import pymc as pm
import pytensor
import pytest

from pymc_sgmcmc import SGHMC
from pymc_sgmcmc.posterior import near_anchor
from pymc_sgmcmc.posterior.target import Target
from tests.cases import draws, sample

N, K = 60, 4


def rng(seed):
    return np.random.default_rng(seed)


X, GROUP = rng(1).normal(size=(N, 3)), rng(2).integers(K, size=N)
Y, COUNT = rng(3).normal(size=N), rng(4).poisson(2.0, size=N)


def linear():
    pm.Normal("y", pm.Normal("a") + X @ pm.Normal("b", shape=3), pm.HalfNormal("s"), observed=Y)


def by_hand():
    b = pm.Normal("b", shape=3)
    pm.Poisson("y", pm.math.exp((X * b).sum(axis=1) / 2 - 1), observed=COUNT)


def grouped():
    a = pm.Normal("a", pm.Normal("m"), pm.HalfNormal("t"), shape=K)
    pm.Bernoulli("y", logit_p=a[GROUP] - X[:, 0] * pm.Normal("b"), observed=COUNT > 1)


def two_scales():
    mean, log_scale = pm.Normal("a"), X @ pm.Normal("b", shape=3)
    pm.Normal("y", mean, pm.math.exp(log_scale), observed=Y)


def not_centred():
    a = pm.Normal("m") + pm.HalfNormal("t") * pm.Normal("z", shape=K)
    pm.Normal("y", a[GROUP], 1.0, observed=Y)


def product():
    pm.Normal("y", X[:, :2] @ (pm.Normal("b", shape=2) * pm.Normal("c")), 1.0, observed=Y)


def network():
    hidden = pm.math.tanh(X @ pm.Normal("w", shape=(3, 2)))
    pm.Normal("y", hidden @ pm.Normal("v", shape=2), 1.0, observed=Y)


def vectors():
    pm.MvNormal("y", pm.Normal("a", shape=3), np.eye(3), observed=X)


def in_one_another():
    a = pm.Normal("a", shape=K)[GROUP]
    mu, sigma = a + X[:, 0] * pm.Normal("b"), pm.math.exp(a / 2 + pm.Normal("c"))
    pm.Normal("y", mu * pm.math.exp(a), sigma, observed=Y)


def mirrored():
    """Its log-density has y - mu and mu - y, of which one is enough."""
    scale = pm.HalfNormal("s")
    pm.AsymmetricLaplace("y", mu=X @ pm.Normal("b", shape=3), b=scale, kappa=2.0, observed=Y)


FOUND = {
    linear: 2, by_hand: 1, grouped: 1, two_scales: 2, not_centred: 3, product: 1,
    in_one_another: 3, mirrored: 2,
}  # fmt: skip
NOT_FOUND = [network, vectors]


def target_of(build, **settings):
    with pm.Model() as model:
        build()
    settings = {"batch_size": 10, "with_predictors": True} | settings
    return Target(model, model.continuous_value_vars, **settings)


def slopes_at(target, q):
    """The slopes of all rows in their predictors, (N, P)."""
    (expansions,), (own,) = target.near_anchor.of_all(q, 1), target.energy.predictors
    return expansions[:, : len(own)]


@pytest.mark.compiled
@pytest.mark.parametrize("build", FOUND)
def test_they_are_found(build):
    target = target_of(build)
    (predictors,) = target.energy.predictors
    assert len(predictors) == FOUND[build]
    slopes = slopes_at(target, rng(5).normal(size=target.size) / 3)
    assert slopes.shape == (N, FOUND[build]) and slopes.std(axis=0).min() > 0.1


@pytest.mark.compiled
@pytest.mark.parametrize("build", FOUND)
def test_the_gradient_through_them(build):
    """Predictors may be functions of each other: a, and a + b x."""
    target = target_of(build)
    q = rng(5).normal(size=target.size) / 3
    steps = 1e-5 * np.eye(len(q))
    values = [[target.value_and_gradient(q + sign * e)[0] for sign in (1, -1)] for e in steps]
    expected = np.diff(values)[:, 0] / -2e-5
    np.testing.assert_allclose(target.value_and_gradient(q)[1], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.compiled
@pytest.mark.parametrize("build", NOT_FOUND)
def test_others_are_not(build):
    assert target_of(build).energy.predictors is None


@pytest.mark.compiled
def test_slopes_of_a_poisson_regression():
    target, q = target_of(by_hand), np.array([0.3, -0.5, 0.2])
    slopes = slopes_at(target, q)
    np.testing.assert_allclose(slopes[:, 0], np.exp(X @ q / 2 - 1) - COUNT, rtol=1e-12)


@pytest.mark.compiled
def test_slopes_follow_the_data_and_the_point():
    with pm.Model() as model:
        x, y = pm.Data("x", X), pm.Data("y_data", Y)
        pm.Normal("y", x @ pm.Normal("b", shape=3), 1.0, observed=y)
        target = Target(model, model.continuous_value_vars, batch_size=10, with_predictors=True)
        # The predictor is y - x @ b.
        for q in (np.zeros(3), np.ones(3)):
            np.testing.assert_allclose(slopes_at(target, q)[:, 0], Y - X @ q, atol=1e-12)
        pm.set_data({"x": X[:40] + 1, "y_data": Y[:40]})
        target.examine()
        np.testing.assert_allclose(slopes_at(target, q)[:, 0], Y[:40] - (X[:40] + 1) @ q)


@pytest.mark.compiled
def test_a_group_of_other_variables_has_none():
    with pm.Model(coords={"one": range(N), "two": range(N)}) as model:
        for name, y in (("one", Y), ("two", COUNT)):
            pm.Normal(f"y_{name}", X @ pm.Normal(f"b_{name}", shape=3), 1.0, observed=y, dims=name)
    for vars, found in ((model.value_vars, True), (model.value_vars[:1], False)):
        target = Target(model, vars, batch_size=10, with_predictors=True)
        assert (target.energy.predictors is not None) == found
        assert target.batched_gradient(np.ones(target.size)).shape == (target.size,)


def test_many_rows_are_not_kept(monkeypatch):
    monkeypatch.setattr(near_anchor, "KEPT", 2 * N - 1)
    assert not target_of(linear).near_anchor.is_kept
    assert target_of(by_hand).near_anchor.is_kept


@pytest.mark.statistics
def test_in_float32_all_of_it_is():
    x = rng(6).integers(-3, 4, size=(N, 3))  # an integer and a float32 make a float64
    with pytensor.config.change_flags(floatX="float32"):
        with pm.Model():
            pm.Normal("y", x @ pm.Normal("b", shape=3), pm.HalfNormal("s"), observed=Y)
            step = SGHMC(step_size=1e-3, batch_size=10, gradient="control_variate")
            idata = sample(step, draws=20, tune=50)
    (slopes,) = step.target.near_anchor.of_all(np.zeros(4), 1)
    assert slopes.dtype == draws(idata, "b").dtype == np.float32
    assert {value.dtype for value in step.chain.frame.fixed} == {np.dtype("float32")}
    assert "expansions_y" in step.chain.parts.estimator.numbers(step.state.tuned)
    assert np.isfinite(draws(idata, "b")).all()
