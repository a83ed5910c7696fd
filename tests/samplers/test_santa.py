"""Santa's life: a metric that rests after tuning, annealing, refinement, and what it tells."""

import logging
import warnings

import numpy as np
import pymc as pm
import pytensor
import pytest
from pymc.variational.updates import rmsprop

from pymc_sgmcmc import GeometricAnnealing, PowerAnnealing, Santa
from pymc_sgmcmc.dynamics.schedules import as_schedule
from tests.cases import Case, begin, draws, regression, sample
from tests.helpers import change_part, score_variance
from tests.laws.test_stationarity import double_well_potential

pytestmark = pytest.mark.statistics

ANNEALED = Case(Santa, {"step_size": 0.02, "annealing": PowerAnnealing(0.3), "exploration": 120})


def average(step):
    return step.state.carried[2]


def tune(step, point, n, seed=1):
    """A chain after `n` draws of tuning."""
    begin(step, seed)
    step.tune = True
    for _ in range(n):
        point, _ = step.step(point)
    step.stop_tuning()
    return point


@pytest.fixture(scope="module")
def model():
    return regression()


@pytest.fixture(scope="module")
def step(model):
    with model:
        return Santa(step_size=0.02, diffusion=3.0, batch_size=5)


def test_the_metric_adapts_while_tuning_and_rests_afterwards(step, model):
    point = tune(step, model.initial_point(), 20)
    learned = average(step)
    point, _ = step.step(point)
    np.testing.assert_array_equal(average(step), learned)
    # The mean square of the gradient of one row, over the coordinates: about 1 / 5.
    assert (learned > 0.02).all() and (learned < 2).all()


def test_a_new_chain_learns_anew(step, model):
    tune(step, model.initial_point(), 20)
    learned = average(step)
    tune(step, model.initial_point(), 20)
    np.testing.assert_array_equal(average(step), learned)
    tune(step, model.initial_point(), 20, seed=2)
    assert (average(step) != learned).all()
    tune(step, model.initial_point(), 0)
    step.step(model.initial_point())
    np.testing.assert_allclose(average(step), 1.0, rtol=1e-4)


def test_a_divergence_leaves_the_learned_metric(step, model):
    point = tune(step, model.initial_point(), 20)
    learned, momentum = average(step), step.state.carried[0]
    schedule = step.chain.parts.schedule
    change_part(step, schedule=as_schedule(1e200))
    _, (stats,) = step.step(point)
    change_part(step, schedule=schedule)
    assert stats["diverging"] and (step.state.carried[0] != momentum).all()
    np.testing.assert_array_equal(average(step), learned)


def test_no_tuning_is_told(model, caplog):
    with model:
        step = Santa(step_size=0.02, batch_size=5)
        for tuning in (0, 1):
            caplog.clear()
            with caplog.at_level(logging.INFO):
                sample(step, tune=tuning, chains=2)
            told = [r.message for r in caplog.records if "tune=0 leaves no draw" in r.message]
            assert len(told) == (0 if tuning else 2)


def test_sampling_says_its_temperature_and_does_not_warn(step, model):
    with model, warnings.catch_warnings():
        warnings.simplefilter("error")
        stats = sample(Santa(step_size=0.02, batch_size=5, temperature=1.5)).sample_stats
    assert (stats.temperature == 1.5).all()


def test_an_optimiser_says_so(model, caplog):
    """At construction, in the stats of every draw, and where refinement begins."""
    with model:
        with pytest.warns(UserWarning, match=r"is an optimiser: .*not from the posterior"):
            step = Santa(batch_size=5, **ANNEALED.settings)
        with caplog.at_level(logging.INFO):
            stats = sample(step, tune=5, draws=20, discard_tuned_samples=True).sample_stats
    told = [r.message for r in caplog.records if "refinement begins" in r.message]
    assert told and all("santa, draw 12: refinement begins" in message for message in told)
    assert len(told) == 2
    # Draw 12, the first of refinement, is the one with the inner steps 120 to 129.
    temperature = stats.temperature.values
    np.testing.assert_array_equal(temperature[:, 7:], 0.0)
    last = 10 * np.arange(5, 12) + 9
    np.testing.assert_allclose(temperature[:, :7], [1 / (0.3 * np.sqrt(1 + last))] * 2)


def test_refinement_descends_to_the_mode(model):
    """Exact gradients: all chains end at one point, where the gradient is zero."""
    settings = ANNEALED.settings | {"step_size": 0.01, "batch_size": None, "damping": 0.1}
    with model:
        idata = sample(ANNEALED.step(**settings), draws=400)
    x, y = model["x"].get_value(), model["y"].get_value()
    mode = np.linalg.solve(x.T @ x + np.eye(2), x.T @ y)
    np.testing.assert_allclose(draws(idata)[:, -1], [mode, mode], atol=1e-4)
    assert idata.sample_stats.kinetic_temperature[:, -1].max() < 1e-6


def test_the_learned_metric_leaves_the_posterior_as_it_is():
    """A metric that went on to move, with the noise of a fifth that it has here, would show."""
    sd, h = np.repeat(np.geomspace(0.1, 3.0, 4), 250), 0.15
    with pm.Model():
        pm.Normal("x", 0.0, sd)
        step = Santa(step_size=h, decay=0.8, steps_per_draw=20)
    point, path = tune(step, {"x": np.zeros(1000)}, 100), []
    for _ in range(1500):
        point, _ = step.step(point)
        path.append(point["x"])
    g = 1 / np.sqrt(1e-5 + np.sqrt(average(step)))
    law = sd**2 * (np.cosh(h / 2) - (h * g / sd) ** 2 / 4)
    score_variance(np.array(path), 0.0, law, "q", 0.02, groups=4)


# The double well of the paper's authors: one coordinate, one run. Everything in Santa is for each
# coordinate (momentum, thermostat, metric, noise), so that a vector of independent wells is as many
# independent runs with seeds of their own.

LOCAL, GLOBAL, RUNS = 2.223663594487441, -2.935361278848432, 100


def wells(settings, steps, seed, start=LOCAL):
    """Where `RUNS` runs end."""
    with pm.Model():
        x = pm.Flat("x", shape=RUNS)
        pm.Potential("wells", -pm.math.sum(double_well_potential(x)))
        start = {"x": np.full(RUNS, start)}
        step = Case(Santa, settings).step(
            batch_size=None, steps_per_draw=1000, jitter=False, initial_point=start
        )
    begin(step, seed)
    point = start
    for _ in range(steps // 1000):
        point, (stats,) = step.step(point)
        assert not stats["diverging"]
    return point["x"]


@pytest.mark.parametrize(
    "annealing",
    [PowerAnnealing(0.01), GeometricAnnealing(0.5, 5.0, 80_000)],
    ids=["power", "geometric"],
)
@pytest.mark.parametrize("integrator", ["euler", "symmetric"])
def test_annealing_finds_the_global_mode_from_the_local_one(integrator, annealing):
    settings = {"step_size": 0.1, "annealing": annealing, "exploration": 100_000,
                "integrator": integrator}  # fmt: skip
    for seed in range(3):
        ends = wells(settings, 110_000, seed)
        assert np.sum(np.abs(ends - GLOBAL) < 0.02) >= 95


@pytest.mark.parametrize("learning_rate", [0.001, 0.01, 0.1, 0.3])
def test_rmsprop_stays_in_the_local_mode(learning_rate):
    """PyMC's own, from points all over the well."""
    x = pytensor.shared(np.linspace(0.5, 3.5, RUNS))
    loss = pytensor.tensor.sum(double_well_potential(x))
    updates = rmsprop(loss, [x], learning_rate=learning_rate)
    descend = pytensor.function([], [], updates=updates)
    for _ in range(20_000):
        descend()
    np.testing.assert_allclose(x.get_value(), LOCAL, atol=learning_rate)


def test_a_noise_by_the_metric_tunes_itself_with_euler_too(model):
    with model:
        stats = sample(Santa(diffusion="metric", integrator="euler"), tune=110).sample_stats
    # The error of Euler's thermostat, of the first order: h / 2 where xi starts at 1.
    assert (0 < stats.step_size).all() and (stats.step_size <= 2 * 0.6 * 0.05 * (1 + 1e-9)).all()
