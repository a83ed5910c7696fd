"""`check_sampler` passes right samplers, and fails what is wrong with one that has one mistake."""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytensor.scalar as ps
import pytensor.tensor as pt
import pytest
from pytensor.tensor.elemwise import Elemwise

from pymc_sgmcmc import SGHMC, SGLD, SGMCMC, SGNHT, Algorithm, check_sampler
from pymc_sgmcmc.conformance.check_sampler import NAMES
from pymc_sgmcmc.conformance.models import regression
from pymc_sgmcmc.samplers.sghmc import UnderdampedLangevin
from pymc_sgmcmc.samplers.sgnht import NoseHoover
from tests.samplers.test_new_sampler import AveragedLangevin
from tests.tiers import statistics_but

OF_LAW = ("law", "step_bias", "gradient noise", "thermostat", "virial")
OF_CHAINS = tuple(name for name in NAMES if name not in OF_LAW)


class Right(Algorithm):
    """Langevin dynamics, to plant mistakes in: each class below makes one."""

    name = "right"

    def coefficients(self, context):
        return {"temperature": self.temperature}

    def update(self, q, *, grad, h, noise, temperature):
        return (q - h * grad(q) + pt.sqrt(2 * h * temperature) * noise(),)


class Carries(Right):
    """The same, with a vector that it carries."""

    def initial_state(self, rng, context):
        return {"z": rng.standard_normal(self.size)}

    def update(self, q, z, *, grad, h, noise, temperature):
        new = noise()
        return q - h * grad(q) + pt.sqrt(2 * h * temperature) * new, new


def update_of(change: Callable) -> type[Right]:
    """`Right`, with something else in place of its noise."""

    class Changed(Right):
        def update(self, q, *, grad, h, noise, temperature):
            return (q - h * grad(q) + change(q, h, noise),)

    return Changed


class Remembers(Right):
    memory: list = []  # noqa: RUF012

    def update(self, q, **given):
        self.memory.append(len(self.memory))
        return super().update(q, **given)


class StartsAtChance(Carries):
    def initial_state(self, rng, context):
        return {"z": np.random.standard_normal(self.size)}


class CarriesMore(Right):
    def update(self, q, *, noise, **given):
        return *super().update(q, noise=noise, **given), noise()


class TwoGradients(Right):
    def update(self, q, *, grad, **given):
        return super().update(q + 0 * grad(q), grad=grad, **given)


class AnotherShape(Carries):
    def update(self, q, z, **given):
        q, z = super().update(q, z, **given)
        return q, z[:1]


class NoTuple(Right):
    def update(self, q, **given):
        return super().update(q, **given)[0]


class CountsFromZero(Right):
    def planned(self, steps, *, tuning):
        return {"pace": 1 / (1.0 + np.arange(len(steps)))}

    def update(self, q, *, pace, **given):
        return super().update(q, **given)


class KnowsItsBlock(CountsFromZero):
    def planned(self, steps, *, tuning):
        return {"pace": np.full(len(steps), 0.9 if len(steps) > 8 else 1.0)}

    def update(self, q, *, pace, h, **given):
        return super(CountsFromZero, self).update(q, h=pace * h, **given)


class WithoutName(Algorithm):
    coefficients, update = Right.coefficients, Right.update


class StatThatIsNotThere(Right):
    stats = ("acceptance",)


class StatThatIsAVector(Carries):
    stats = ("z",)


@dataclass(frozen=True, kw_only=True, eq=False)
class HoldsALock(Right):
    lock: Any = field(default_factory=threading.Lock)


class Accepting(Right):
    """Every draw is accepted, and what it carries is added to the next."""

    accepts_draws = True
    kept_energy = ("u",)

    def initial_state(self, rng, context):
        return {"u": np.nan, "more": 0.0}

    def update(self, q, u, more, *, h, **given):
        return *super().update(q + 1e-2 * h * more, h=h, **given), u, more


class AcceptsByChance(Accepting):
    def accept_draw(self, start, end, normal, draw, *, tuning):
        return True, dict(end) | {"more": np.random.standard_normal()}


@dataclass(frozen=True, kw_only=True, eq=False)
class RemembersOutsideTheState(Accepting):
    count: dict = field(default_factory=lambda: {"draws": 0})

    def initial_state(self, rng, context):
        self.count["draws"] = 0
        return super().initial_state(rng, context)

    def accept_draw(self, start, end, normal, draw, *, tuning):
        self.count["draws"] += 1
        return True, dict(end) | {"more": float(self.count["draws"])}


class KnowsItsProcess(Carries):
    def initial_state(self, rng, context):
        return {"z": rng.standard_normal(self.size) + os.getpid()}

    def update(self, q, z, *, grad, h, noise, temperature):
        q, _ = super().update(q, z, grad=grad, h=h, noise=noise, temperature=temperature)
        return q + 1e-9 * z, z


class KeepsTheFirstStepSize(Carries):
    """The noise of each step is that of the first."""

    def initial_state(self, rng, context):
        return {"z": np.full(self.size, np.sqrt(context.step_size))}

    def update(self, q, z, *, grad, h, noise, temperature):
        return q - h * grad(q) + pt.sqrt(2 * temperature) * z * noise(), z


class Bounded(AveragedLangevin):
    """No coordinate moves farther than 1: it never overflows."""

    def update(self, q, z, *, grad, h, noise, temperature):
        return q + pt.tanh(pt.sqrt(2 * h * temperature) * noise() - h * grad(q)), z


class BoundedByComparison(Bounded):
    def update(self, q, z, *, grad, h, noise, temperature):
        side = pt.switch(pt.gt(grad(q), 0), -1.0, 1.0)
        return q + side * pt.tanh(pt.sqrt(2 * h * temperature) * abs(noise())), z


class HidesInfinity(Right):
    def update(self, q, **given):
        (q,) = super().update(q, **given)
        return (pt.switch(pt.isnan(q) | pt.isinf(q) | pt.gt(pt.abs(q), 1e9), 0.0, q),)


class Halved(ps.UnaryScalarOp):
    """x in Python, and x / 2 in C."""

    def impl(self, x):
        return x

    def c_code(self, node, name, inputs, outputs, sub):
        return f"{outputs[0]} = {inputs[0]} / 2;"


HALVED = Elemwise(Halved(ps.upgrade_to_float, name="halved"))


class DoublePrecisionOnly(Right):
    def update(self, q, **given):
        if q.dtype != "float64":
            raise TypeError("It knows double precision alone.")
        return super().update(q, **given)


class RefusesSinglePrecision(Right):
    def update(self, q, **given):
        if q.dtype != "float64":
            raise TypeError("Use floatX=float64: float32 has too few digits.")
        return super().update(q, **given)


IMPURE = {
    "remembers": Remembers(),
    "starts at chance": StartsAtChance(),
    "noise of a global generator": update_of(
        lambda q, h, noise: pt.sqrt(2 * h) * np.random.standard_normal()
    )(),
    "reads the clock": update_of(lambda q, h, noise: pt.sqrt(2 * h) * noise() + time.time())(),
    "carries more than it names": CarriesMore(),
    "two gradients": TwoGradients(),
    "another shape": AnotherShape(),
    "no tuple": NoTuple(),
    "counts from zero": CountsFromZero(),
}
OF_A_CHAIN = {
    "without a name": (WithoutName(), "construction"),
    "C differs": (update_of(lambda q, h, noise: HALVED(pt.sqrt(2 * h) * noise()))(), "arrays"),
    "stat that is not there": (StatThatIsNotThere(), "stats"),
    "stat that is a vector": (StatThatIsAVector(), "stats"),
    "accepts by chance": (AcceptsByChance(), "seeds"),
    "holds a lock": (HoldsALock(), "pickles"),
    "remembers outside the state": (RemembersOutsideTheState(), "state"),
    "knows its process": (KnowsItsProcess(), "cores"),
    "knows its block": (KnowsItsBlock(), "blocks"),
    "keeps the first step size": (KeepsTheFirstStepSize(), "schedules"),
    "hides infinity": (HidesInfinity(), "divergences"),
    "double precision only": (DoublePrecisionOnly(), "float32"),
}
QUICK = ["without a name"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Underdamped(UnderdampedLangevin):
    """By Euler, with noise that is `louder` times too large."""

    integrator: str = "euler"
    louder: float = 1.0

    def update(self, q, p, *, diffusion, **given):
        return super().update(q, p, diffusion=self.louder * diffusion, **given)


class ClaimsNoBias(AveragedLangevin):
    def update(self, q, z, *, grad, h, noise, temperature):
        return q - h * grad(q) + pt.sqrt(2 * h * temperature) * noise(), z

    def step_bias(self, h, curvature):
        return 0.01 * h

    def injected_noise(self):
        return self.temperature


class ClaimsMoreNoise(AveragedLangevin):
    def injected_noise(self):
        return 2 * self.temperature


class ClaimsLessFriction(NoseHoover):
    def expected_friction(self, rate, context):
        return 0.5 * super().expected_friction(rate, context)


class ClaimsMoreWidth(UnderdampedLangevin):
    def virial(self, q, p, **given):
        return 1.1 * super().virial(q, p, **given)


OF_THE_LAW = {
    "sqrt(h)": (update_of(lambda q, h, noise: pt.sqrt(h) * noise())(), 0.2, "law"),
    "noise proportional to h": (update_of(lambda q, h, noise: 2 * h * noise())(), 0.2, "law"),
    "drifts": (update_of(lambda q, h, noise: pt.sqrt(2 * h) * noise() + 0.1 * h)(), 0.2, "law"),
    "twice the noise of friction": (Underdamped(louder=2.0), 0.3, "law"),
    "a tenth more noise": (Underdamped(louder=1.1), 0.3, "law"),
    "a step too short to tell": (Right(), 1e-4, "law"),
    "claims no bias": (ClaimsNoBias(), 0.4, "step_bias"),
    "claims more noise": (ClaimsMoreNoise(), 0.4, "gradient noise"),
    "claims less friction": (ClaimsLessFriction(), 0.4, "thermostat"),
    "claims more width": (ClaimsMoreWidth(), 0.4, "virial"),
}


@pytest.mark.planted
@pytest.mark.parametrize("algorithm", IMPURE.values(), ids=IMPURE)
def test_what_is_no_function_is_seen_before_anything_is_compiled(algorithm):
    report = check_sampler(algorithm, step_size=0.2)
    assert report.failed == ("update",), str(report)
    assert {one.verdict for one in report.findings[1:]} == {"not applicable"}


@pytest.mark.planted
@pytest.mark.compiled
@pytest.mark.parametrize("mistake", statistics_but(QUICK, OF_A_CHAIN))
def test_a_mistake_of_a_chain_fails_its_check(mistake):
    algorithm, check = OF_A_CHAIN[mistake]
    report = check_sampler(algorithm, step_size=0.2, only=OF_CHAINS)
    assert report.failed == (check,), str(report)


@pytest.mark.compiled
def test_on_a_model_of_ones_own_the_interpreter_is_what_c_is_compared_with():
    algorithm, check = OF_A_CHAIN["C differs"][0], ("update", "construction", "backends", "law")
    report = check_sampler(algorithm, step_size=0.2, model=regression, only=check)
    assert report.failed == ("backends",), str(report)
    assert report.findings[-1].verdict == "not applicable"


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("algorithm", "passes"),
    [pytest.param(Bounded(), True, marks=pytest.mark.statistics), (BoundedByComparison(), False)],
)
def test_a_bounded_update_passes_unless_it_hides_what_is_not_finite(algorithm, passes):
    names = ("update", "construction", "stats", "divergences")
    report = check_sampler(algorithm, step_size=0.2, only=names)
    assert report.passed == passes, str(report)
    assert ("finite at any step size" in str(report)) == passes


@pytest.mark.compiled
def test_a_refusal_of_single_precision_passes():
    names = ("update", "construction", "stats", "float32")
    report = check_sampler(RefusesSinglePrecision(), step_size=0.2, only=names)
    assert report.passed and "are refused: Use floatX=float64" in report.findings[-1].seen


FAR_OFF = ["sqrt(h)", "noise proportional to h", "a step too short to tell"]


@pytest.mark.planted
@pytest.mark.statistics
@pytest.mark.parametrize("mistake", OF_THE_LAW)
def test_a_wrong_law_or_claim_fails_its_check(mistake, monkeypatch):
    algorithm, h, check = OF_THE_LAW[mistake]
    if mistake in FAR_OFF:  # an eighth of the draws shows it
        monkeypatch.setattr("pymc_sgmcmc.conformance.law.DRAWS", 60)
        monkeypatch.setattr("pymc_sgmcmc.conformance.law.TUNE", 15)
    report = check_sampler(algorithm, step_size=h, only=("update", "construction", *OF_LAW))
    assert report.failed == (check,), str(report)
    too_slowly = "moves too slowly to tell" in str(report)
    assert too_slowly == (mistake == "a step too short to tell"), str(report)


RIGHT = {
    "SGLD": (SGLD, 0.2),
    "SGHMC": (SGHMC, 0.4),
    "SGNHT": (SGNHT, 0.4),
    "AveragedLangevin": (AveragedLangevin(), 0.4),
}
"""Samplers that are right, and step sizes."""


@pytest.mark.compiled
def test_a_right_chain_passes_and_each_finding_is_shown(capsys):
    report = check_sampler(AveragedLangevin(), step_size=0.4, only=OF_CHAINS, verbose=True)
    assert report.passed, str(report)
    assert [one.check for one in report.findings] == list(OF_CHAINS)
    shown = capsys.readouterr().out
    assert all(f"{one.check} " in shown and one.seen[:20] in shown for one in report.findings)


@pytest.mark.statistics
@pytest.mark.parametrize("name", RIGHT)
def test_right_samplers_pass(name):
    sampler, h = RIGHT[name]
    report = check_sampler(sampler, step_size=h)
    assert report.passed, str(report)
    assert [one.check for one in report.findings] == list(NAMES)
    claims = {one.check for one in report.findings if one.verdict == "not applicable"}
    assert claims == {"AveragedLangevin": set(OF_LAW[1:]), "SGNHT": set()}.get(name, {"thermostat"})


def test_a_report_can_be_raised_and_printed(capsys):
    with pytest.raises(AssertionError, match=r"1 failed, 17 not applicable(?s:.*)update +failed"):
        check_sampler(TwoGradients(), step_size=0.2, raise_on_failure=True)
    report = check_sampler(Right(), step_size=0.2, only="update", raise_on_failure=True)
    assert report.passed and str(report).startswith("Check of the sampler Right(): 1 passed\n\n")
    assert not capsys.readouterr().out


@pytest.mark.parametrize(
    ("sampler", "settings", "match"),
    [
        (Right, {}, "is no sampler: pass an instance of it"),
        (SGMCMC, {}, "pass yours, as MyAlgorithm"),
        (SGLD, {"stepsize": 0.1}, "takes no argument 'stepsize': did you mean step_size"),
        (SGLD, {"temperature": -1}, "temperature=-1 must be positive"),
        (SGLD, {"only": "laws"}, r"only='laws' is not accepted: pass one or several of \['update"),
    ],
)
def test_what_is_not_accepted(sampler, settings, match):
    with pytest.raises((TypeError, ValueError), match=match):
        check_sampler(sampler, step_size=0.2, **settings)
