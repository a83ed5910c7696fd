"""Schedules are pure functions of the step count, whatever their settings, by Hypothesis."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pymc_sgmcmc import Constant, CyclicalCosine, Polynomial

LENGTHS = st.floats(1e-6, 10)
SCHEDULES = st.one_of(
    st.builds(Constant, LENGTHS),
    st.builds(Polynomial, a=LENGTHS, b=st.floats(0.1, 1e4), gamma=st.floats(0.01, 1)),
    st.builds(CyclicalCosine, LENGTHS, st.integers(1, 500), st.floats(0, 0.99)),
)
COUNTS = st.lists(st.integers(0, 10**7), min_size=1, max_size=20).map(np.array)


@given(SCHEDULES, COUNTS)
def test_a_step_does_not_know_its_neighbours(schedule, counts):
    whole = schedule(counts)
    assert whole.shape == counts.shape and (whole >= 0).all()
    alone = [schedule(counts[k : k + 1])[0] for k in range(len(counts))]
    np.testing.assert_array_equal(whole, alone)


@given(LENGTHS, st.floats(0.1, 1e4), st.floats(0.01, 1), COUNTS)
def test_polynomial_steps_decrease_and_halve_where_the_formula_says(a, b, gamma, counts):
    schedule = Polynomial(a=a, b=b, gamma=gamma)
    steps = schedule(np.unique(counts))
    assert (np.diff(steps) < 0).all() or len(steps) == 1
    np.testing.assert_allclose(schedule(counts) / a, (b + counts) ** -gamma, rtol=1e-12)


@given(LENGTHS, st.integers(1, 500), st.floats(0, 0.99), COUNTS)
def test_cycles_repeat_and_explore_first(initial, cycle, exploration, counts):
    schedule = CyclicalCosine(initial, cycle, exploration)
    np.testing.assert_allclose(schedule(counts), schedule(counts + cycle), rtol=1e-9, atol=1e-12)
    assert (schedule(counts) <= initial * (1 + 1e-12)).all()
    if exploration == 0:
        assert schedule.explores(counts) is None
    else:
        np.testing.assert_array_equal(
            schedule.explores(counts), (counts % cycle) / cycle < exploration
        )
