"""Excursions that no stationary chain makes are divergences while they are still finite."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest
from scipy import stats

from pymc_sgmcmc import SGHMC, SGNHT
from pymc_sgmcmc.chain.divergences import (
    ENERGY_CHANCE,
    ENERGY_ROOM,
    FARTHEST,
    FRICTION_SDS,
    UNBOUNDED,
    Bounds,
    explain_divergence,
)
from pymc_sgmcmc.chain.kernel_output import KernelOutput
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.tuning.tuned import Tuned
from tests.cases import draws, sample
from tests.helpers import INTERPRETED, PYTHON, simple_tuner, unit_coordinates


def output(**facts):
    """What the kernel returns of a draw, with these figures."""
    return KernelOutput(np.zeros(2), (), summed=1, **facts)


def bounds(**facts):
    given = {"noise": np.zeros(3), "dimension": 3, "heat": 1.0, "expected_friction": 1.0,
             "temperature": 1.0, "thermal_mass": 4.0, "learned_metric": True}  # fmt: skip
    return Bounds.of_chain(SimpleNamespace(**given | facts))


@pytest.mark.parametrize("d", [1, 3, 50, 10_000])
def test_the_chances_of_a_false_alarm_are_those_stated(d):
    found = bounds(noise=np.zeros(d), dimension=d)
    quantile = found.energy / ENERGY_ROOM
    assert stats.chi2.sf(quantile, d) == pytest.approx(ENERGY_CHANCE, rel=1e-3)
    spread = found.most_friction - 100.0, -1.0 - found.least_friction
    np.testing.assert_allclose(spread, FRICTION_SDS / np.sqrt(4.0 * d))
    assert 2 * stats.norm.sf(FRICTION_SDS) < 1e-22
    assert 2 * stats.t(3).sf(FARTHEST**0.5 * stats.t(3).std()) < 1e-18
    assert 2 * stats.cauchy.sf(FARTHEST**0.5) < 1e-6


def test_what_is_not_known_bounds_nothing():
    assert bounds(heat=np.nan, expected_friction=None, learned_metric=False) == UNBOUNDED
    nothing = output(kinetic=np.nan, largest_energy=np.nan, friction=np.nan)
    assert not bounds().exceeded(nothing) and not UNBOUNDED.exceeded(output(reach=1e300))


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"reach": 3.1e12}, "1e+06 posterior sds away"),
        ({"largest_energy": 4.1 * stats.chi2.isf(1e-12, 3)}, "times the largest of 10^12 steps"),
        ({"friction": 107.0}, "friction was 107"),
        ({"friction": -7.0}, "friction was -7"),
        ({"is_finite": False}, "non-finite"),
    ],
)
def test_each_has_its_words(facts, said):
    found = output(**facts)
    assert not found.is_finite or bounds().exceeded(found)
    assert said in explain_divergence(found, bounds(), 3)


def test_a_chain_that_noise_heats_has_room_for_it():
    energy = 30 * stats.chi2.isf(1e-9, 3)
    assert bounds().exceeded(output(largest_energy=energy))
    assert not bounds(heat=12.0).exceeded(output(largest_energy=energy))


@pytest.fixture(scope="module")
def chain():
    with pm.Model() as model:
        pm.Normal("q", shape=3)
        step = SGHMC(step_size=0.3, metric="diag", compile_kwargs={"mode": PYTHON})
    step.start_chain(np.random.default_rng(3))
    point = model.initial_point()
    for _ in range(60):
        point, _ = step.step(point)
    step.stop_tuning()
    for _ in range(3):
        point, _ = step.step(point)
    return step, point, step.sampling_state


@pytest.mark.compiled
@pytest.mark.parametrize(("kick", "diverges"), [(5.0, False), (12.0, True), (1e9, True)])
def test_a_chain_that_is_thrown_off_is_rolled_back(chain, kick, diverges):
    step, point, state = chain
    step.sampling_state = state
    (p,) = step.state.carried
    step.state.carried = (p + kick,)
    after, (found,) = step.step(point)
    assert found["diverging"] == diverges
    np.testing.assert_array_equal(after["q"], point["q"]) if diverges else None
    if diverges:
        assert "thrown" in found["warning"].message
        _, (found,) = step.step(after)  # with fresh momentum
        assert not found["diverging"]


@pytest.mark.compiled
def test_a_position_that_left_the_metric_is_rolled_back(chain):
    step, point, state = chain
    step.sampling_state = state
    evidence = step.state.evidence
    bound = replace(evidence, bounds=evidence.bounds._replace(energy=np.inf))
    step.state.evidence = bound
    _, (found,) = step.step(point | {"q": np.array([0.0, 1e8, 0.0])})
    assert found["diverging"] and "posterior sds away" in found["warning"].message


def test_what_diverged_where_other_step_methods_began_is_forgotten():
    """The first metric is that of their first values: its short steps are not kept."""
    y = np.random.default_rng(1).normal(size=30)
    with pm.Model() as model:
        mu = pm.Normal("mu")
        pm.Normal("y", mu, pm.HalfNormal("other"), observed=y)
    shrinks = []
    for sampled in ([model["mu"]], [model["mu"], model["other"]]):
        values = [model.rvs_to_values[variable] for variable in sampled]
        target = Target(model, values, batch_size=5, backend=INTERPRETED)
        tuner = simple_tuner(target)
        d, rng = target.size, np.random.default_rng(2)
        tuned = Tuned.untuned([5], unit_coordinates(d, 2))
        tuned = replace(
            tuner._begun(tuned, 0), in_first_window=True, injected_noise=1.0, step_size=1.0
        )
        tuned = tuner.learn(tuned, None, rng)
        assert tuned.step_factor == 0.5
        while tuned.window.index == 0:
            tuned = tuner.learn(tuned, 0.1 * rng.standard_normal(d), rng)
        shrinks.append(tuned.step_factor)
    assert shrinks == [1.0, 0.5]


@pytest.mark.statistics
@pytest.mark.parametrize(
    "tail", [lambda: pm.StudentT("q", 3, shape=4), lambda: pm.Cauchy("q", 0, 1, shape=2)]
)
def test_heavy_tails_are_no_excursions(tail):
    with pm.Model():
        tail()
        idata = sample(SGNHT(), draws=3000, tune=1000, chains=4)
    assert not idata.sample_stats.diverging.any() and draws(idata, "q").std() > 1


@pytest.mark.statistics
def test_labels_beside_a_gibbs_step():
    """All labels are the same at first: the metric of that is 70 times too wide for half of mu."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(500) < 0.5, -2, 2) + rng.normal(size=500)
    with pm.Model():
        z = pm.Bernoulli("z", 0.5, shape=500)
        mu = pm.Normal("mu", 0, 3, shape=2)
        pm.Normal("y", mu[z], 1, observed=y)
        steps = [SGNHT([mu]), pm.BinaryGibbsMetropolis([z])]
        idata = sample(steps, draws=300, tune=400, chains=2)
    values = np.sort(draws(idata, "mu"), axis=-1)
    assert not idata.sample_stats.diverging.any()
    assert (abs(values.mean((0, 1)) - [-2, 2]) < 0.2).all() and values.std((0, 1)).max() < 0.2
