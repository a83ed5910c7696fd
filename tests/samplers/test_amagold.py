"""AMAGOLD: exact with minibatches, at long steps and with much gradient noise."""

import math
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest

from pymc_sgmcmc import AMAGOLD, Gibbs
from tests.cases import draws, regression, sample
from tests.helpers import noisy_posterior, score_mean

pytestmark = pytest.mark.statistics


def check_law(count=8000, temperature=1.0, **settings):
    """A Gaussian with real minibatches, where SGHMC would be 1.6 times too wide."""
    posterior = noisy_posterior(
        AMAGOLD, d=2, n_rows=50, batch=5, noise=4.0, step_size=0.6, steps_per_draw=3,
        friction=2.0, target_accept=None, temperature=temperature, **settings,
    )  # fmt: skip
    with posterior.step.target.model:
        idata = sample(posterior.step, draws=count, tune=20, chains=2)
    acceptance = float(idata.sample_stats.acceptance.mean())
    assert 0.1 < acceptance < 0.9, acceptance
    q = draws(idata, "q") - posterior.mean
    longer = np.sqrt(8000 / count)
    score_mean(np.moveaxis(q, 1, 0) ** 2, temperature, 0.04 * longer, "Var")
    score_mean(np.moveaxis(q, 1, 0), 0.0, 0.05 * longer, "mean")


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_the_law_is_exact_with_minibatches(temperature):
    check_law(temperature=temperature)


@pytest.mark.planted
def test_the_law_shows_a_wrong_accept_step(monkeypatch):
    wrong = SimpleNamespace(exp=lambda log_ratio: 0.89, erfc=math.erfc, sqrt=math.sqrt)
    monkeypatch.setattr("pymc_sgmcmc.samplers.amagold.math", wrong)
    with pytest.raises(AssertionError, match="where the law says"):
        check_law(3000)


@pytest.mark.planted
def test_the_law_shows_energy_that_is_not_summed(monkeypatch):
    right = AMAGOLD.algorithm_class.update

    def without_r(self, *args, **numbers):
        q, p, r, *rest = right(self, *args, **numbers)
        return q, p, 0 * r, *rest

    monkeypatch.setattr(AMAGOLD.algorithm_class, "update", without_r)
    with pytest.raises(AssertionError, match="where the law says"):
        check_law(3000)


def test_tuning_finds_the_acceptance():
    with regression():
        stats = sample(AMAGOLD(), draws=500, tune=1000).sample_stats
    assert np.all(np.abs(stats.acceptance.mean("draw") - 0.8) < 0.1)
    factor = stats.factor.values
    assert (factor == factor[:, :1]).all()  # at rest after tuning
    assert not stats.svrg.any()


def test_beside_a_step_method_that_moves_the_other_variable():
    """U is that of the other's value of now: Var 1 in both."""
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0, shape=50)
        pm.Normal("y", 0.8 * x, 0.6, shape=50)
        step = AMAGOLD([x], step_size=0.3, target_accept=None, steps_per_draw=3)
        conditional = lambda point, rng: 0.8 * point["x"] + 0.6 * rng.standard_normal(50)  # noqa: E731
        idata = sample([step, Gibbs(model["y"], conditional)], draws=4000, tune=100, chains=1)
    for name in ("x", "y"):
        score_mean(draws(idata, name)[0] ** 2, 1.0, 0.03, f"Var {name}")


def test_what_remembers_the_chain_is_refused():
    with regression():
        with pytest.raises(TypeError, match="leave out noise_estimate"):
            AMAGOLD(step_size=0.1, noise_estimate=0.1)
        for settings in ({"batches": "epochs", "batch_size": 5}, {"gradient": "svrg"}):
            with pytest.raises(ValueError, match="gradients do not remember the chain"):
                AMAGOLD(step_size=0.1, **settings)
        with pytest.raises(ValueError, match=r"target_accept=1.2 must be below 1"):
            AMAGOLD(step_size=0.1, target_accept=1.2)
