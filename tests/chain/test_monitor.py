"""The monitor of a chain on given sums, and the alarms on given figures: nothing is compiled."""

from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr

from pymc_sgmcmc import running_sums
from pymc_sgmcmc._utils.alarm import Alarm
from pymc_sgmcmc._utils.coordinates import Coordinates
from pymc_sgmcmc._utils.metric import metric_of
from pymc_sgmcmc.chain.alarms import inspect_end_of_tuning, is_inspection_due
from pymc_sgmcmc.chain.evidence import Evidence
from pymc_sgmcmc.chain.frame import Frame
from pymc_sgmcmc.chain.kernel_output import KernelOutput
from pymc_sgmcmc.chain.moments import MOMENTS
from pymc_sgmcmc.chain.monitor import Monitor
from pymc_sgmcmc.chain.monitor_input import MonitorInput
from pymc_sgmcmc.chain.parts import Parts
from pymc_sgmcmc.chain.running_sums import RunningSums
from pymc_sgmcmc.chain.sampler_warning import as_sampler_warning
from pymc_sgmcmc.chain.start import initial_chain_state
from pymc_sgmcmc.chain.width import KINDS, Width, width_ratio
from pymc_sgmcmc.distributions.manifolds import FLAT
from pymc_sgmcmc.dynamics.schedules import Constant
from pymc_sgmcmc.dynamics.setting import Setting
from pymc_sgmcmc.dynamics.space import Space
from pymc_sgmcmc.results.width_check import CombinedWidth, sums_with_errors
from pymc_sgmcmc.samplers.sghmc import UnderdampedLangevin
from pymc_sgmcmc.saving.state_text import state_from_text, state_to_text
from tests.helpers import unit_coordinates

D, STEPS = 3, 10


def parts_of(**facts):
    """The parts of a chain that a monitor asks: exact gradients, a constant step size."""
    target = SimpleNamespace(size=D, groups=(), batch_sizes=(), coordinate=lambda k: f"q[{k}]")
    settings = dict.fromkeys(("normals", "starts", "tuner", "untuned", "every")) | {
        "name": "sghmc",
        "target": target,
        "algorithm": UnderdampedLangevin().in_setting(Setting(D, Space([FLAT], [(D,)]))),
        "source": SimpleNamespace(independent=True, start=None),
        "estimator": SimpleNamespace(metric=None),
        "kernel": SimpleNamespace(carried=["p"], constant=True),
        "plan": SimpleNamespace(metric=False, tolerance=0.05),
        "schedule": Constant(0.1),
        "places": np.arange(D),
        "steps": STEPS,
    }
    return Parts(**settings | facts)


class Chain:
    """A monitor and what it is told: draws of a normal law whose variances are `width`."""

    def __init__(self, width=1.0, seed=1, **facts):
        self.parts = parts_of(**facts)
        self.monitor = Monitor(self.parts)
        identity = unit_coordinates(D)
        self.state = initial_chain_state(self.parts.target, self.parts.source, identity)
        self.frame = Frame(self.state.tuned, np.zeros(0, dtype=int), (), {}, [], 1)
        self.width, self.rng, self.stored = width, np.random.default_rng(seed), []

    def draw(self, energy=3.0):
        """Tell the monitor of one draw, whose largest p.p is `energy`, and take an alarm."""
        state, monitor = self.state, self.monitor
        q = np.sqrt(self.width) * self.rng.standard_normal(D)
        monitor.start_sums(state, self.frame, q)
        moments = dict.fromkeys(MOMENTS, np.ones(D))
        at = q - state.running_sums.origin
        moments |= {"q": at, "g_at_q": q, "qg": at * q, "virial": q**2, "q2": at**2}
        sums = STEPS * np.array([moments[name] for name in MOMENTS])
        output = KernelOutput(q, (), sums=sums, summed=STEPS, largest_energy=energy)
        monitor.add_draw(state, self.frame, q, output)
        alarm = monitor.next_alarm(state)
        self.stored.append(monitor.rows_to_store(state))
        state.draw += 1
        return alarm

    def draws(self, number):
        """The alarms of so many draws."""
        alarms = [self.draw() for _ in range(number)]
        return [alarm for alarm in alarms if alarm is not None]

    def stop_tuning(self):
        self.state.tune, self.stored = False, []
        return self

    def idata(self):
        """What `pm.sample` returns of it."""
        stored = xr.DataArray(np.array([self.stored]), dims=("chain", "draw", "row", "turn"))
        return SimpleNamespace(sample_stats=xr.Dataset({"running_sums": stored}))


def test_sums_start_where_they_are_to_start():
    """While tuning at powers of two; at its end once more, about the mean of what came before."""
    chain = Chain()
    chain.draws(21)
    sums = chain.state.running_sums
    assert sums.draws == 5 and not chain.state.is_monitored  # since draw 16
    centre = sums.origin + sums.mean("q")
    chain.stop_tuning().draws(30)
    sums = chain.state.running_sums
    assert chain.state.is_monitored and sums.draws == 30 and sums.steps == 30 * STEPS
    np.testing.assert_array_equal(sums.origin, centre)


def test_a_right_chain_raises_no_alarm():
    assert Chain().stop_tuning().draws(2100) == []


def test_draws_that_are_too_wide_are_said_once_with_their_width():
    chain = Chain(width=1.5).stop_tuning()
    assert chain.draws(249) == []
    (alarm,) = chain.draws(1000)
    assert alarm.kind == "width" and "too wide" in alarm.text and "times what it" in alarm.text
    assert chain.state.evidence.reported_kinds == ("width",) and chain.state.evidence.queue == ()


def test_one_large_energy_is_an_excursion():
    chain = Chain().stop_tuning()
    chain.draws(100)
    chain.draw(energy=200.0)
    assert chain.state.evidence.largest_energy == 200.0
    assert [alarm.kind for alarm in chain.draws(200)] == ["excursion"]


def test_what_is_not_from_one_law_is_not_judged_by_its_width():
    source = SimpleNamespace(independent=False, start=None)
    assert Chain(width=1.5, source=source).stop_tuning().draws(600) == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("draws", [250, 500])
def test_a_chain_and_a_check_of_what_it_stores_know_the_same_width(kind, draws):
    """W, its error and its mean, on running sums with batches and on stored sums without."""
    chain = Chain(width=1.2).stop_tuning()
    chain.draws(draws)
    live, found = Width(chain.state.running_sums), sums_with_errors(chain.idata(), 0)
    stored = CombinedWidth(found, kind)
    np.testing.assert_allclose(stored.ratio, live.ratio(kind), rtol=1e-12)
    np.testing.assert_allclose(stored.error, live.error(kind), rtol=1e-12)
    pooled = stored.pooled, stored.pooled_error
    np.testing.assert_allclose(pooled, live.pooled(kind), rtol=1e-12)
    if kind == "direct":
        bare = width_ratio(kind, live.sums.means(), 0.0)
        assert (live.correction != 0).all() and np.abs(stored.ratio - bare).min() > 1e-6
        public = running_sums(chain.idata()).isel(chain=0)
        by_hand = public.qg - public.q * public.g_at_q + public.direct_correction / public.steps
        np.testing.assert_allclose(by_hand, stored.ratio, rtol=1e-12)


def test_between_inspections_the_correction_shrinks_with_the_steps():
    chain = Chain(width=1.2).stop_tuning()
    chain.draws(400)
    live = Width(chain.state.running_sums)
    stored = CombinedWidth(sums_with_errors(chain.idata(), 0), "direct")
    # At 250 draws there were other batches: what differs is the estimate of a small correction.
    np.testing.assert_allclose(stored.ratio, live.ratio("direct"), atol=2e-3)


def test_an_alarm_as_the_warning_of_pymc():
    alarm = Alarm("width", "Too wide.")
    warning = as_sampler_warning(alarm, 7)
    assert (warning.message, warning.level, warning.step) == ("Too wide.", "warn", 7)
    assert warning.extra == "width" and warning.kind.name == "CONVERGENCE"
    later = as_sampler_warning(Alarm("divergence", "Away.", "debug"), 8)
    assert later.kind.name == "DIVERGENCE" and later.level == "debug"


def test_a_queue_of_alarms_is_saved_with_the_state():
    evidence = Evidence.empty(D).with_alarms([Alarm("a", "first"), None, Alarm("b", "x", "info")])
    again = evidence.with_alarms([Alarm("a", "again")])
    assert again.queue == evidence.queue and again.reported_kinds == ("a", "b")
    saved = state_from_text(state_to_text(evidence), Evidence.empty(D))
    assert saved.queue == evidence.queue == (Alarm("a", "first"), Alarm("b", "x", "info"))
    assert saved.without_first().queue == (Alarm("b", "x", "info"),)


def test_when_it_looks():
    assert [n for n in range(5000) if is_inspection_due(n)] == [250, 500, 1000, 2000, 4000]


def inputs_of(**facts):
    """What is seen of a chain that has nothing wrong, but for `facts`."""
    tuned = SimpleNamespace(pace=np.ones(3), batch_sizes=(64,), coordinates=unit_coordinates(3, 2))
    for name in ("pace", "batch_sizes", "coordinates"):
        if name in facts:
            setattr(tuned, name, facts.pop(name))
    width = Width(RunningSums.start(np.zeros(3)))
    target = SimpleNamespace(coordinate=lambda k: f"q[{k}]")
    settings = {
        "where": "x, draw 7", "target": target, "tuned": tuned, "width": width,
        "noise": np.full(3, 0.2), "tolerance": 0.05, "temperature": 1.0,
        "expected_friction": None, "duration": 0.0, "plain_noise": None,
        "dimension": 3, "has_width": True, "stationary": True, "located": True,
        "learned_metric": True, "thermal_mass": np.nan,
    }  # fmt: skip
    return MonitorInput(**settings | facts)


def alarms_at_end_of_tuning(**facts):
    return inspect_end_of_tuning(Evidence.empty(3), inputs_of(**facts)).queue


def kinds_at_end_of_tuning(**facts):
    return [alarm.kind for alarm in alarms_at_end_of_tuning(**facts)]


def test_bounds_of_tuning():
    slow = np.array([1.0, 1.0, 0.05])
    for facts, said in [
        ({}, False),
        ({"pace": slow}, True),
        ({"pace": np.array([1.0, 0.3, 1.0])}, False),
        ({"pace": np.array([1.0, 0.3, 1.0]), "batch_sizes": (8192,)}, True),
        ({"batch_sizes": (8192,)}, False),
        ({"pace": slow, "noise": np.full(3, 0.04)}, False),  # within the tolerance
    ]:
        assert (kinds_at_end_of_tuning(**facts) == ["bound"]) == said
    (alarm,) = alarms_at_end_of_tuning(pace=slow)
    assert "with batches of 64 rows" in alarm.text and "at 0.05 of their pace" in alarm.text


def test_a_metric_that_is_close_to_singular():
    factor = np.array([[1.0, 0.0, 0.0], [1.0, 1e-4, 0.0], [0.0, 0.0, 1.0]])
    near = Coordinates(np.zeros(3), metric_of(factor))
    (alarm,) = alarms_at_end_of_tuning(coordinates=near)
    assert alarm.kind == "metric" and alarm.level == "warn"
    assert "2e+04 times better" in alarm.text and "collinear" in alarm.text
    fine = Coordinates(np.zeros(3), metric_of(np.diag([1e-9, 1.0, 1e9]) + np.eye(3, k=-1)))
    assert kinds_at_end_of_tuning(coordinates=fine) == []
