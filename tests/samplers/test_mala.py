"""MALA: exact at any step size, adapted to its acceptance, and on all rows only."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_sgmcmc import MALA, Gibbs, full_data
from tests.cases import draws, regression, sample
from tests.helpers import prior_only, score_mean, score_variance, simulate, subject

pytestmark = pytest.mark.statistics

SD = np.geomspace(0.2, 2.0, 4)


def step_on(h, **kwargs):
    return prior_only(MALA, 1 / SD**2, step_size=h, **kwargs).step


def check_width(h=0.03, update=None, temperature=1.0):
    """Many short vectors are many chains: a step that is accepted in 6 of 10 cases."""
    step = step_on(h, temperature=temperature)
    chain, of_all = subject(step, update=update), []
    for seed in range(4):
        state = tuple(chain.state.values())
        of_all.append(simulate(chain, 0 * SD, state, h, draws=6000, inner=20, seed=seed))
    q = np.concatenate([part.q for part in of_all])
    score_variance(q, 0.0, temperature * SD**2, "q", 0.02)
    score_mean(q / SD, 0.0, 0.03, "mean")


def always(q, g, u, factor, acceptance, *, grad, h, noise, gain, temperature):
    z = noise()
    proposal = q - h * g + pt.sqrt(2 * h * temperature) * z
    noise()
    return proposal, grad(proposal), grad.potential(), factor, acceptance


def proposal_taken_for_symmetric(q, g, u, factor, acceptance, *, grad, h, noise, gain, temperature):
    proposal = q - h * g + pt.sqrt(2 * h * temperature) * noise()
    there, u_there = grad(proposal), grad.potential()
    accepted = pt.lt(0.5 * pt.erfc(-noise()[0] / np.sqrt(2.0)), pt.exp((u - u_there) / temperature))
    q, g, u = (pt.switch(accepted, a, b) for a, b in ((proposal, q), (there, g), (u_there, u)))
    return q, g, u, factor, acceptance


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_the_law_is_exact_at_a_long_step(temperature):
    check_width(temperature=temperature)


@pytest.mark.planted
@pytest.mark.parametrize("update", [always, proposal_taken_for_symmetric])
def test_the_law_shows_a_wrong_accept_step(update):
    with pytest.raises(AssertionError, match=r"where the law says|diverged"):
        check_width(update=update)


@pytest.mark.parametrize("start", [1e-4, 1e3])
def test_tuning_finds_the_acceptance(start):
    with pm.Model():
        pm.Normal("x", 0.0, SD)
        step = MALA(step_size=start, steps_per_draw=5)
        stats = sample(step, draws=600, tune=600).sample_stats
    assert np.all(np.abs(stats.acceptance.mean("draw") - 0.574) < 0.06)
    factor = stats.factor.values
    assert (factor == factor[:, :1]).all()  # at rest after tuning
    assert not stats.diverging.any()


def test_it_tunes_itself_on_a_regression():
    with regression():
        idata = sample(MALA(), draws=2000, tune=1000, chains=2)
        exact = sample(None, draws=2000, tune=1000, chains=2)
    sd = draws(exact).std(axis=(0, 1))
    np.testing.assert_allclose(draws(idata).std(axis=(0, 1)), sd, rtol=0.1)
    difference = draws(idata).mean(axis=(0, 1)) - draws(exact).mean(axis=(0, 1))
    assert np.all(np.abs(difference) < 0.15 * sd)


def test_a_proposal_outside_of_the_support_is_rejected():
    with pm.Model():
        pm.HalfNormal("s", default_transform=None, initval=0.3)
        idata = sample(MALA(step_size=0.3, target_accept=None), draws=500, tune=0)
    assert (draws(idata, "s") >= 0).all() and not idata.sample_stats.diverging.any()


@pytest.mark.parametrize("steps", [1, 3])
def test_beside_a_step_method_that_moves_the_other_variable(steps):
    """U and its gradient are those of the other's value of now: Var 1 in both."""
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0, shape=200)
        pm.Normal("y", 0.8 * x, 0.6, shape=200)
        mala = MALA([x], step_size=0.05, target_accept=None, steps_per_draw=steps)
        conditional = lambda point, rng: 0.8 * point["x"] + 0.6 * rng.standard_normal(200)  # noqa: E731
        idata = sample([mala, Gibbs(model["y"], conditional)], draws=4000, tune=100, chains=1)
    for name in ("x", "y"):
        score_mean(draws(idata, name)[0] ** 2, 1.0, 0.02, f"Var {name}")


def test_a_rejected_proposal_without_a_gradient_is_no_divergence():
    with pm.Model():
        x = pm.HalfNormal("x", default_transform=None, initval=0.3)
        pm.Normal("z", shape=50)
        pm.Potential("edge", -1e-6 * pm.math.sqrt(x))
        step = MALA(step_size=0.1, target_accept=None, steps_per_draw=1)
        idata = sample(step, draws=6000, tune=0, chains=1)
    assert not idata.sample_stats.diverging.any()
    score_mean(draws(idata, "z")[0, 500:] ** 2, 1.0, 0.03, "z^2")


def test_minibatches_are_refused():
    with regression():
        with pytest.raises(TypeError, match="gradients on all rows: leave out batch_size"):
            MALA(step_size=0.1, batch_size=5)
        with pytest.raises(ValueError, match=r"target_accept=1.2 must be below 1"):
            MALA(step_size=0.1, target_accept=1.2)
    with pm.Model() as model:
        y = pm.Minibatch(np.arange(20.0), batch_size=5)
        pm.Normal("y", pm.Normal("mu"), observed=y, total_size=20)
        with pytest.raises(ValueError, match=r"pm.Minibatch: sample full_data\(model\)"):
            MALA(step_size=0.1)
    with full_data(model):
        MALA(step_size=0.1)
