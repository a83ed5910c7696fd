"""Searches for the posterior that end elsewhere: chains tell, and the search is repeated."""

from dataclasses import replace
from functools import cache

import numpy as np
import pymc as pm
import pytest

from pymc_sgmcmc import SGNHT
from pymc_sgmcmc._utils.coordinates import Coordinates
from pymc_sgmcmc._utils.metric import Dense
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.tuning.locate import Located, locate
from pymc_sgmcmc.tuning.lost import falls_far
from pymc_sgmcmc.tuning.tuned import Tuned
from pymc_sgmcmc.tuning.tuner import SEARCHES
from pymc_sgmcmc.tuning.windows import window_length
from tests.helpers import INTERPRETED, STEP_AND_METRIC, simple_tuner

D, N = 4, 5000  # more rows than are looked at
Y = np.random.default_rng(1).normal(2.0, 3.0, size=(N, D))
MEAN, SD = Y.mean(axis=0), 3.0 / np.sqrt(N)


@cache
def target_of(rows):
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu", 0, 100, shape=D), 3.0, observed=Y[:rows])
    return Target(model, model.continuous_value_vars, batch_size=64, backend=INTERPRETED)


@pytest.mark.parametrize("rows", [200, N])
def test_a_fall_is_seen_from_far_away_alone(rows):
    target, r = target_of(rows), np.random.default_rng(2)
    mean, sd = Y[:rows].mean(axis=0), 3.0 / np.sqrt(rows)
    for _ in range(50):
        near, other = mean + sd * r.normal(size=(2, D))
        assert not falls_far(target, near, other)
        assert not falls_far(target, near, mean)
    # U falls by d times 32 ^ 2 / 2; with 8 samples of rows its error is a tenth of that.
    assert falls_far(target, mean + 32 * sd, mean)
    assert not falls_far(target, mean, mean + 32 * sd)


NOISELESS = replace(STEP_AND_METRIC, gradient="control_variate")  # of rows that are normal


def wrong_place(target, start, rng, metric):
    """A search that ends 40 sds away, but for its second attempt."""
    wrong_place.searches += 1
    found = locate(target, start, rng, metric)
    if wrong_place.searches == 2:
        return found
    coordinates = Coordinates(MEAN + 40 * SD, Dense(SD * np.eye(D)))
    return Located(coordinates, found.decrement, found.value, found.gradient)


def started(r, searches):
    """A tuner whose search, after so many `searches`, was `wrong_place`, and what it found."""
    wrong_place.searches = searches
    tuner = simple_tuner(target_of(N), NOISELESS, locator=wrong_place)
    untuned = Tuned.untuned([64], Coordinates(np.zeros(D), Dense(np.eye(D))))
    return tuner, tuner.start(untuned, np.zeros(D), r)


def test_the_search_is_repeated_from_where_the_chain_fell():
    r = np.random.default_rng(3)
    tuner, tuned = started(r, 0)
    for _ in range(window_length(0)):
        assert tuned.searches == 1
        tuned = tuner.learn(tuned, MEAN + SD * r.normal(size=D), r)
    assert tuned.searches == 2 and tuned.in_first_window and tuned.window.index == 1
    assert np.abs(tuned.coordinates.centre - MEAN).max() < SD
    for _ in range(window_length(1)):
        tuned = tuner.learn(tuned, MEAN + SD * r.normal(size=D), r)
    assert tuned.searches == 2 and tuned.window.index == 2


@pytest.mark.statistics
def test_searches_have_an_end():
    r = np.random.default_rng(4)
    tuner, tuned = started(r, 2)
    for _ in range(sum(map(window_length, range(SEARCHES)))):
        tuned = tuner.learn(tuned, MEAN + SD * r.normal(size=D), r)
    assert tuned.searches == SEARCHES


@pytest.mark.compiled
def test_the_chain_goes_on_from_there_with_a_fresh_thermostat():
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu", 0, 100, shape=D), 3.0, observed=Y)
        step = SGNHT(rng=5, bias_tolerance=0.2)
    state = step.chain.state
    wrong_place.searches = 0
    step.chain.parts.tuner._locator = wrong_place
    point, seen = model.initial_point(), []
    for draw in range(window_length(0) + 1):
        if draw == window_length(0) - 1:  # as if it were stiff from the fall
            before = step.chain.parts.carried(state)
            state.carried = tuple({**before, "xi": 1e3 + 0 * before["xi"]}.values())
        point, (stats,) = step.step(point)
        seen.append(stats["thermostat"])
    assert state.tuned.searches == 2
    assert seen[-2] > 500 and seen[-1] < 20
    assert np.abs(point["mu"] - MEAN).max() < 8 * SD


def test_a_metric_of_drifting_draws_is_eased_to_the_geometric_mean():
    """Draws spread 16 times as far as U allows in one direction, and half as far in another."""
    target = target_of(N)
    choice = simple_tuner(target)._choice
    turn, _ = np.linalg.qr(np.random.default_rng(6).normal(size=(D, D)))
    factor = SD * turn * [16.0, 1.0, 1.0, 0.5]
    points = np.random.default_rng(7).normal(size=(40, D))
    eased = choice.eased(Coordinates(MEAN, Dense(factor)), points).metric.factor
    # 4 times as far: its variance is the mean of 16^2 and 1 on a log scale.
    expected = SD**2 * (turn * [16.0, 1.0, 1.0, 0.25]) @ turn.T
    np.testing.assert_allclose(eased @ eased.T, expected, rtol=0.1, atol=0.1 * SD**2)


@pytest.mark.parametrize("spread, steep", [(4.0, False), (16.0, True)])
def test_steepness_tells_whether_to_ease(spread, steep):
    target, r = target_of(N), np.random.default_rng(8)
    tuner = simple_tuner(target, NOISELESS)
    coordinates = Coordinates(MEAN, Dense(SD * np.eye(D)))
    tuned = replace(tuner._begun(Tuned.untuned([64], coordinates), 0), injected_noise=1.0)
    sds = SD * np.array([spread, 1.0, 1.0, 1.0])
    for _ in range(window_length(0)):
        tuned = tuner.learn(tuned, MEAN + sds * r.normal(size=D), r)
    found = np.linalg.norm(tuned.coordinates.metric.factor[0]) / SD
    expected = np.sqrt(spread) if steep else spread
    assert 0.75 < found / expected < 1.25
