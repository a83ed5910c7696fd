"""Schedules and sources of minibatches, by themselves."""

import numpy as np
import pymc as pm
import pytest

from pymc_sgmcmc import (
    MALA,
    PSGLD,
    SGLD,
    SGNHT,
    Constant,
    CyclicalCosine,
    GeometricAnnealing,
    Polynomial,
    PowerAnnealing,
    Santa,
    Schedule,
)
from pymc_sgmcmc.dynamics.schedules import as_schedule
from pymc_sgmcmc.posterior.batch_sources import MANY, SOURCES, Random
from tests.cases import draws, sample


def test_schedules_follow_their_formulas():
    t = np.arange(50)
    np.testing.assert_array_equal(Constant(0.3)(t), np.full(50, 0.3))
    np.testing.assert_allclose(Polynomial(2.0, 3.0, 0.7)(t), 2.0 / (3.0 + t) ** 0.7)
    cosine = 0.05 * (np.cos(np.pi * (t % 20) / 20) + 1)
    np.testing.assert_allclose(CyclicalCosine(0.1, 20)(t), cosine)
    assert (CyclicalCosine(0.1, 20)(t) > 0).all()


def test_a_cycle_explores_and_then_samples():
    t = np.arange(50)
    np.testing.assert_array_equal(CyclicalCosine(0.1, 20, 0.25).explores(t), t % 20 < 5)
    assert CyclicalCosine(0.1, 20).explores(t) is None and Constant(0.1).explores(t) is None
    with pytest.raises(ValueError, match="exploration=1 must be below 1"):
        CyclicalCosine(0.1, 20, 1)


@pytest.mark.compiled
def test_exploration_is_descent_and_its_draws_are_marked():
    """Cycles of four draws, of which the first has no noise: q <- q - h q on N(0, 1)."""
    schedule = CyclicalCosine(0.4, 20, exploration=0.25)
    with pm.Model():
        pm.Normal("q", shape=3)
        step = SGLD(step_size=schedule, steps_per_draw=5)
        idata = sample(step, draws=12, tune=0)
    q, stats = draws(idata, "q"), idata.sample_stats
    np.testing.assert_array_equal(stats.sampling.values, [np.arange(12) % 4 > 0] * 2)
    shrunk = np.prod(1 - schedule(np.arange(5)))
    np.testing.assert_allclose(q[:, 4::4], shrunk * q[:, 3:-1:4])
    assert (np.abs(q[:, 5::4] / q[:, 4:-1:4]) != shrunk).all()
    kept = idata.posterior["q"].where(stats.sampling)
    assert kept.isnull().sum() == 2 * 3 * 3
    with pm.Model():
        pm.Normal("q")
        for sampler in (SGNHT, MALA, Santa):
            with pytest.raises(ValueError, match="exploration stage, without noise, in which"):
                sampler(step_size=schedule)
        with pytest.raises(ValueError, match="psgld finds no mode"):
            PSGLD(step_size=schedule, gamma=True)
        constant = sample(SGLD(step_size=CyclicalCosine(0.4, 20)), draws=2, tune=0)
    assert "sampling" not in constant.sample_stats


@pytest.mark.compiled
def test_a_schedule_may_be_a_table():
    """Counts are whole numbers, by which arrays are indexed."""

    class Table(Schedule):
        def __call__(self, steps):
            return np.array([0.4, 0.2, 0.1])[np.minimum(steps, 2)]

        def explores(self, steps):
            return np.array([True, False, False])[np.minimum(steps, 2)]

    with pm.Model():
        pm.Normal("q", shape=3)
        idata = sample(SGLD(step_size=Table(), steps_per_draw=1), draws=4, tune=0)
    np.testing.assert_array_equal(idata.sample_stats.step_size.values[0], [0.4, 0.2, 0.1, 0.1])
    np.testing.assert_array_equal(idata.sample_stats.sampling.values[0], [False, True, True, True])


def test_a_schedule_is_a_pure_function_of_the_count():
    schedule = CyclicalCosine(0.1, 7)
    np.testing.assert_array_equal(schedule(np.arange(30))[10:], schedule(np.arange(10, 30)))
    assert as_schedule(schedule) is schedule and as_schedule(0.5) == Constant(0.5)


def test_inverse_temperatures_follow_their_formulas_and_grow():
    t = np.arange(50)
    np.testing.assert_allclose(PowerAnnealing(0.2, 3.0, 0.7)(t), 0.2 * (3.0 + t) ** 0.7)
    geometric = GeometricAnnealing(0.1, 1000.0, 30)(t)
    np.testing.assert_allclose(geometric[:31], 0.1 * 10 ** (4 * t[:31] / 30))
    np.testing.assert_allclose(geometric[30:], 1000.0)
    for schedule in (PowerAnnealing(0.2, 3.0, 0.7), GeometricAnnealing(0.1, 1000.0, 60)):
        np.testing.assert_array_equal(schedule(t)[10:], schedule(np.arange(10, 50)))
        assert (np.diff(schedule(t)) > 0).all()
        with pytest.raises(TypeError, match="not a number"):
            as_schedule(schedule)  # no step size


@pytest.mark.parametrize("batch, n_rows", [(4, 12), (5, 12), (12, 12), (7, 10)])
def test_epochs_visit_every_row_once_before_any_again(batch, n_rows):
    source, rng = SOURCES["epochs"]([], []), np.random.default_rng(1)
    state, seen = source.start, []
    for steps in (1, 3, 8):
        rows, state = source.draw(state, rng, n_rows, steps, batch)
        assert rows.shape == (steps, batch)
        seen.append(rows.ravel())
    seen = np.concatenate(seen)
    passes = seen[: len(seen) // n_rows * n_rows].reshape(-1, n_rows)
    assert (np.sort(passes, axis=1) == np.arange(n_rows)).all()
    assert len({tuple(one) for one in passes}) == len(passes)


def test_epochs_do_not_depend_on_how_the_steps_are_cut():
    source = SOURCES["epochs"]([], [])
    rng = np.random.default_rng(2)
    whole, _ = source.draw(source.start, rng, 11, 6, 4)
    rng = np.random.default_rng(2)
    first, state = source.draw(source.start, rng, 11, 2, 4)
    rest, _ = source.draw(state, rng, 11, 4, 4)
    np.testing.assert_array_equal(whole, np.concatenate([first, rest]))


def test_a_random_batch_of_all_rows_holds_each_once():
    source = Random([], [])
    rows, _ = source.draw((), np.random.default_rng(0), 7, 3, 7)
    np.testing.assert_array_equal(rows, [range(7)] * 3)
    assert source.share(7, 7) == 0.0 and source.share(7, 6) == 1.0


@pytest.mark.compiled
@pytest.mark.parametrize("steps", [MANY - 1, MANY + 1])  # of NumPy's generator, and of a key
@pytest.mark.parametrize("n_rows", [1000, 2**33])
def test_random_rows_are_those_of_a_seed_and_others_at_each_draw(steps, n_rows):
    source, one, other = Random([], []), np.random.default_rng(4), np.random.default_rng(4)
    first, second = (source.draw((), one, n_rows, steps, 1)[0] for _ in range(2))
    assert first.shape == (steps, 1) and first.dtype == np.int64
    assert 0 <= first.min() and 0.9 * n_rows < first.max() < n_rows
    np.testing.assert_array_equal(first, source.draw((), other, n_rows, steps, 1)[0])
    assert np.mean(first == second) < 0.02


def test_random_rows_are_uniform_and_independent():
    rows, _ = SOURCES["random"]([], []).draw((), np.random.default_rng(3), 10, 20_000, 2)
    counts = np.zeros((10, 10))
    np.add.at(counts, (rows[:, 0], rows[:, 1]), 1)
    chi2 = ((counts - 200) ** 2 / 200).sum()  # 99 degrees of freedom
    assert abs(chi2 - 99) < 4 * np.sqrt(2 * 99)
