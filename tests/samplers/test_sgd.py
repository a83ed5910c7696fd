"""Constant-step SGD as a sampler: the step that it finds, and what it refuses."""

import numpy as np
import pymc as pm
import pytest

from pymc_sgmcmc import SGD, Polynomial
from pymc_sgmcmc.dynamics.noise_rules import Driving
from tests.cases import draws, regression, sample

pytestmark = pytest.mark.statistics


@pytest.mark.parametrize("T", [1.0, 2.5])
def test_each_direction_has_the_variance_of_the_posterior(T):
    """By the exact law of the tuned step, in directions with unequal noise."""
    V, longest = np.array([30.0, 60.0, 100.0, 4000.0]) * T, 0.09
    rule = Driving(T, count=np.inf)
    slow = rule.pace(np.diag(V), longest)
    v = slow**2 * V
    h = rule.step_size(v, slow, longest)
    # z <- z - h (slow^2 z + noise), where the posterior has the variance 1 / slow^2.
    variance = h**2 * v / (1 - (1 - h * slow**2) ** 2)
    np.testing.assert_allclose(variance * slow**2, T, rtol=1e-9)
    np.testing.assert_allclose(h * slow**2, 2 / (1 + V / T), rtol=1e-9)  # 2 n / (n + N)


def test_directions_with_too_little_noise_take_the_longest_step():
    V, longest = np.array([5.0, 100.0]), 0.09
    rule = Driving(1.0, count=np.inf)
    slow = rule.pace(V, longest)
    assert slow[0] == 1 and rule.step_size(slow**2 * V, slow, longest) == longest


def test_one_step_for_all_directions_is_right_for_the_mean_noise():
    V, ones = np.array([50.0, 150.0]), np.ones(2)
    assert Driving(2.0, count=100).step_size(V, ones, 1.0) == pytest.approx(2 / (1 + 100 / 2))


def test_noise_that_differs_by_chance_is_taken_for_one():
    d, count = 50, 6000
    vectors = np.random.default_rng(0).standard_normal((count, d)) * np.sqrt(300.0)
    measured = np.linalg.eigvalsh(vectors.T @ vectors / count)
    assert np.ptp(measured) > 80
    slow = Driving(1.0, count).pace(np.diag(measured), 0.09)
    assert np.ptp(slow**2) / np.mean(slow**2) < 0.06
    truly = np.linspace(100, 500, d)
    kept = 2 / (0.09 * Driving(1.0, count).pace(np.diag(truly), 0.09) ** 2) - 1
    np.testing.assert_allclose(kept, truly, rtol=0.15)


@pytest.mark.parametrize(("least", "factor"), [(30.0, 1.0), (57.0, 1.0), (70.0, 2.0), (10.0, 0.25)])
def test_batches_are_the_largest_with_enough_noise(least, factor):
    h = 2 / 30.0  # V is to be 29
    assert Driving(1.0, 100).batch_factor(np.diag([1000.0, least]), h) == factor
    assert Driving(2.0, 100).batch_factor(2 * np.array([1000.0, least]), h) == factor


N, D = 20_000, 4


@pytest.fixture(scope="module")
def large():
    """A regression with correlated features, and its posterior, which is normal."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((N, D)) @ np.linalg.cholesky(0.9 + 0.1 * np.eye(D)).T
    y = x.sum(axis=1) + rng.standard_normal(N)
    with pm.Model() as model:
        beta = pm.Normal("beta", shape=D)
        pm.Normal("y", pm.Data("x", x) @ beta, observed=y)
    S = np.linalg.inv(x.T @ x + np.eye(D))
    return model, S @ x.T @ y, S


def whitened(idata, mean, S):
    """Means and variances of each chain in coordinates in which the posterior is N(0, I)."""
    z = np.linalg.solve(np.linalg.cholesky(S), (draws(idata) - mean)[..., None])[..., 0]
    return z.mean(axis=1), z.var(axis=1)


def messages(idata):
    stored = idata.sample_stats["warning"].values.ravel()
    return [warning.message for warning in stored if warning is not None]


def test_tuned_by_itself(large):
    model, mean, S = large
    with model:
        step = SGD(steps_per_draw=50)
        idata = sample(step, draws=2000, tune=800, chains=4, keep_warning_stat=True)
    means, variances = whitened(idata, mean, S)
    error = variances.mean(axis=1).std(ddof=1) / 2
    assert error < 0.02, f"a Monte Carlo error of {error:.3f} says nothing"
    # Without the 1 of 1 + V the variance would be 1 / V too large, with V about 40.
    assert abs(variances.mean() - 1) < 4 * error + 0.02
    assert np.abs(variances.mean(axis=0) - 1).max() < 0.12
    assert np.abs(means.mean(axis=0)).max() < 0.12
    stats = idata.sample_stats
    assert (stats.batch_size < 1024).all() and (stats.batch_size >= 128).all()
    assert (stats.predicted_bias > 0.08).all()  # V is known to some percent
    assert not messages(idata)


def test_draws_that_are_too_narrow_are_told(large):
    model, mean, S = large
    with model:
        step = SGD(step_size=0.02, batch_size=400, metric=S)
        idata = sample(step, draws=400, initvals={"beta": mean}, keep_warning_stat=True)
    for message in messages(idata):
        assert "the draws are too narrow" in message and "with SGD a smaller" in message
    assert len(messages(idata)) == 2


@pytest.mark.parametrize(("settings", "error", "match"), [
    ({"batch_size": None}, ValueError, "batch_size=None is all rows.*take fewer"),
    ({"batch_size": 40}, ValueError, "batch_size=40 is all rows"),
    ({"metric": None}, ValueError, "metric=None: SGD is right in coordinates"),
    ({"metric": "diag"}, ValueError, "metric='diag'.*Use 'dense'"),
    ({"temperature": 2.0, "metric": "dense"}, ValueError, "covariance at 1: give metric="),
    ({"step_size": Polynomial(0.1)}, ValueError, "a constant one only"),
    ({"gradient": "svrg"}, TypeError, "leave out gradient"),
    ({"batches": "blocks"}, TypeError, "leave out batches"),
    ({"noise_estimate": 0.1}, TypeError, "leave out noise_estimate"),
])  # fmt: skip
def test_refuses(settings, error, match):
    with regression(), pytest.raises(error, match=match):
        SGD(**({"step_size": 0.1, "batch_size": 5, "metric": [0.025, 0.02]} | settings))


def test_refuses_data_with_exact_gradients():
    with regression(), pytest.raises(ValueError, match="no noise but that of minibatches"):
        SGD()
