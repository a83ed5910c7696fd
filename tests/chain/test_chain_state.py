"""The state of a chain is a value: compared, copied, pickled, printed and written, uncompiled."""

import copy
import pickle
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from pymc_sgmcmc._utils.alarm import Alarm
from pymc_sgmcmc.chain.moments import MOMENTS
from pymc_sgmcmc.chain.start import initial_chain_state
from pymc_sgmcmc.saving.state_text import state_from_text, state_to_text
from tests.helpers import unit_coordinates

D = 2


def begun():
    target = SimpleNamespace(size=D, groups=("a",), batch_sizes=(10,))
    return initial_chain_state(target, SimpleNamespace(start=(3, 1)), unit_coordinates(D))


def later():
    """The state of a chain that has made three draws and has something to say."""
    state, sums = begun(), np.arange(float(len(MOMENTS) * D)).reshape(-1, D)
    for _ in range(3):
        state.running_sums = state.running_sums.add(sums.copy(), 10)
    state.carried = np.array([0.1, np.nan], dtype="float32"), np.array(2.0)
    state.evidence = state.evidence.with_alarms([Alarm("width", "Too wide.")])
    state.draw, state.inner_steps, state.started, state.noise_key = 3, 30, True, 2**63 + 1
    return state


CHANGES = {
    "batch_states": ((4, 1),),
    "running_sums": begun().running_sums,
    "evidence": begun().evidence,
    "tuned": replace(begun().tuned, step_size=0.1),
    "tune": False,
    "started": False,
    "inner_steps": 31,
    "draw": 4,
    "divergences": 1,
    "failures": 1,
    "noise_key": 2**63,
    "carried": (np.array([0.1, np.nan]), np.array(2.0)),  # of another precision
    "is_monitored": True,
}


def test_a_state_equals_its_copies():
    state = later()
    assert state == later() and state is not later()
    assert state == copy.copy(state) == copy.deepcopy(state) == pickle.loads(pickle.dumps(state))
    assert state_from_text(state_to_text(state), begun()) == state
    assert state != begun() and state != "state"
    with pytest.raises(TypeError, match="unhashable"):
        hash(state)


def test_every_field_counts():
    assert set(CHANGES) == set(vars(later()))


@pytest.mark.parametrize("name", CHANGES)
def test_a_state_differs_if_a_field_does(name):
    assert replace(later(), **{name: CHANGES[name]}) != later()


def test_a_copy_is_a_snapshot():
    """A chain replaces fields of its state; what they hold stays as it is."""
    state = later()
    kept = copy.copy(state)
    state.draw, state.evidence = 4, state.evidence.without_first()
    state.running_sums = state.running_sums.add(np.ones((len(MOMENTS), D)), 10)
    assert kept == later() != state


def test_a_state_is_printed():
    text = repr(later())
    assert text.startswith("ChainState(batch_states=((3, 1),), running_sums=RunningSums(")
    for part in ("draw=3", "inner_steps=30", "is_monitored=False", "Alarm(kind='width'"):
        assert part in text
