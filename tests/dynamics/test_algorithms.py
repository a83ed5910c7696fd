"""Algorithms on bare arrays, without a model, a chain or a compiler, against NumPy."""

import copy
import pickle
from dataclasses import fields

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

from pymc_sgmcmc import SGHMC
from pymc_sgmcmc._utils.values import equal_values
from pymc_sgmcmc.distributions.manifolds import FLAT
from pymc_sgmcmc.dynamics.setting import Context, Setting
from pymc_sgmcmc.dynamics.space import Space
from pymc_sgmcmc.samplers.psghmc import ScaleAdapted
from pymc_sgmcmc.samplers.psgld import PreconditionedLangevin
from pymc_sgmcmc.samplers.santa import AnnealedThermostat
from pymc_sgmcmc.samplers.sgd import ConstantSGD
from pymc_sgmcmc.samplers.sgfs import FisherScoring
from pymc_sgmcmc.samplers.sghmc import UnderdampedLangevin
from pymc_sgmcmc.samplers.sgld import OverdampedLangevin
from pymc_sgmcmc.samplers.sgnht import NoseHoover
from tests import mistakes
from tests.helpers import NORMALS, PYTHON, UPDATES, numbers

D, T = 3, 1.7
PRECISION = np.array([[2.0, 0.3, 0.0], [0.3, 1.0, -0.2], [0.0, -0.2, 0.5]])
FRICTION = np.array([0.3, 1.0, 2.5])
ESTIMATE = np.array([0.0, 0.2, 0.4])


class Gradient:
    """That of a Gaussian, as the kernel gives it to an update."""

    def __call__(self, q):
        return pt.dot(PRECISION, q)

    def keep(self, gradient):
        """Nothing is made of it here."""


def compiled(algorithm, state, names):
    """The update as a function of arrays: q, the carried variables, h, normals and numbers."""
    q, z, h = pt.vector("q"), pt.matrix("z"), pt.scalar("h")
    carried = [pt.tensor(name, dtype="float64", shape=np.shape(v)) for name, v in state.items()]
    given = {name: pt.tensor(name, dtype="float64", shape=np.shape(v)) for name, v in names.items()}
    count = iter(range(9))

    def noise():
        return z[next(count)]

    new = algorithm.update(q, *carried, grad=Gradient(), h=h, noise=noise, **given)
    inputs = [q, *carried, h, z, *given.values()]
    return pytensor.function(inputs, list(new), mode=PYTHON, on_unused_input="ignore")


def setting(**kwargs):
    return Setting(size=D, space=Space([FLAT], [(D,)]), temperature=T, **kwargs)


WORDS = {
    UnderdampedLangevin: ["euler", "symmetric", "BAOAB", "ABOBA", "OBABO", "UBU"],
    NoseHoover: ["euler", "symmetric", "BAOAB", "ABDODBA", "ODBABDO", "DUBUD"],
    AnnealedThermostat: ["euler", "symmetric"],
}


def cases():
    of_santa = {"damping": 0.02, "decay": 0.9, "N": 5.0, "v": np.full(D, 0.98**2)}
    for word in WORDS[UnderdampedLangevin]:
        algorithm = UnderdampedLangevin(friction=FRICTION, integrator=word)
        yield "SGHMC", word, algorithm, {"C": FRICTION, "B": ESTIMATE}, ESTIMATE
    for word in WORDS[NoseHoover]:
        for thermostat, A in (("scalar", 4.3), ("coordinate", FRICTION)):
            own = {"diffusion": A, "thermostat": thermostat, "thermal_mass": 3.7}
            yield "SGNHT", word, NoseHoover(integrator=word, **own), {"A": A, "Q": 3.7}, 0.0
    for word in WORDS[AnnealedThermostat]:
        for A in ("metric", FRICTION):
            own = {"diffusion": A, "thermal_mass": 3.7, "damping": 0.02, "decay": 0.9}
            c = of_santa | {"A": 1.0 if A is not FRICTION else A, "Q": 3.7}
            c["metric"] = A is not FRICTION
            yield "Santa", word, AnnealedThermostat(integrator=word, **own), c, 0.0
    adaptive = {"damping": 0.02, "decay": 0.9}
    yield "PSGLD", None, PreconditionedLangevin(**adaptive), of_santa, 0.0
    for subtracts in (False, True):
        algorithm = ScaleAdapted(friction=1.3, subtracts=subtracts, **adaptive)
        yield "PSGHMC", "BAOAB", algorithm, of_santa | {"C": 1.3, "metric": subtracts}, 0.0
    yield "SGLD", None, OverdampedLangevin(noise="fresh"), {}, 0.0
    yield "SGFS", None, FisherScoring(), {"B": 0.2}, 0.2
    yield "SGD", None, ConstantSGD(), {}, 0.0


CASES = list(cases())


def stepped(algorithm, name, word, c, estimate, steps=4):
    """The ends of some steps by the algorithm and by NumPy, from the same start and normals."""
    rng = np.random.default_rng(3)
    algorithm = algorithm.in_setting(setting(noise_estimate=estimate))
    context = Context(step_size=0.05, noise=np.zeros(D), batched=True, n_rows=5)
    state = algorithm.initial_state(rng, context)
    given = algorithm.coefficients(context)
    plan = algorithm.planned(np.arange(100, 100 + steps), tuning=True)
    given |= {key: values[0] for key, values in plan.items()}
    update, expected = compiled(algorithm, state, given), UPDATES[name, word]
    c = copy.copy(numbers(T=T, **c))
    q = rng.normal(size=D)
    here = [q, *map(np.asarray, state.values())]
    p, xi = state.get("p", np.zeros(D)), state.get("xi", 0.0)
    for _ in range(steps):
        h = float(rng.uniform(0.02, 0.1))
        z = rng.normal(size=(4, D))
        here = update(*here, h, z, *given.values())
        normals = z[: NORMALS[expected]] if expected in NORMALS else z[0]
        q, p, xi, _ = expected(q, p, xi, lambda at: PRECISION @ at, h, normals, c)
    carried = {"p": p, "xi": xi, "v": c.v}
    return here, [q, *(carried[key] for key in state)]


def named(case):
    return f"{case[0]}-{case[1]}"


@pytest.mark.parametrize("case", CASES, ids=named)
def test_an_update_is_that_of_numpy(case):
    name, word, algorithm, c, estimate = case
    found, expected = stepped(algorithm, name, word, c, estimate)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def broken(algorithm, update):
    """The same algorithm with another update."""
    kind = type("Broken", (type(algorithm),), {"update": update})
    return kind(**{own.name: getattr(algorithm, own.name) for own in fields(algorithm) if own.init})


@pytest.mark.planted
@pytest.mark.parametrize("case", CASES, ids=named)
def test_a_drift_of_one_in_a_million_is_seen(case):
    name, word, algorithm, c, estimate = case

    def drifts(self, *state, h, **given):
        q, *carried = type(algorithm).update(self, *state, h=h, **given)
        return [q + 1e-6 * h, *carried]

    with pytest.raises(AssertionError):
        test_an_update_is_that_of_numpy((name, word, broken(algorithm, drifts), c, estimate))


SIMPLE = {"SGHMC": UnderdampedLangevin(friction=FRICTION, integrator="euler"),
          "SGNHT": NoseHoover(diffusion=4.3, integrator="euler", thermal_mass=3.7)}  # fmt: skip
OWN = {"SGHMC": {"C": FRICTION}, "SGNHT": {"A": 4.3, "Q": 3.7}}
MISTAKES = [("SGHMC", one) for one in mistakes.OF_SGHMC]
MISTAKES += [("SGNHT", one) for one in mistakes.OF_SGNHT]


@pytest.mark.parametrize(("name", "update"), [("SGHMC", mistakes.sghmc), ("SGNHT", mistakes.sgnht)])
def test_the_right_updates_that_mistakes_are_made_of(name, update):
    own = broken(SIMPLE[name], staticmethod(update))
    test_an_update_is_that_of_numpy((name, "euler", own, OWN[name], 0.0))


@pytest.mark.planted
@pytest.mark.parametrize(
    ("name", "mistake"), MISTAKES, ids=lambda own: getattr(own, "__name__", own)
)
def test_a_mistake_is_seen(name, mistake):
    own = broken(SIMPLE[name], staticmethod(mistake))
    with pytest.raises(AssertionError):
        test_an_update_is_that_of_numpy((name, "euler", own, OWN[name], 0.0))


def test_an_algorithm_is_a_value():
    one = NoseHoover(diffusion=2.0)
    other = one.in_setting(setting())
    assert one.setting.size == 1 and other.setting.size == D and other.diffusion == 2.0
    assert repr(one).startswith("NoseHoover(diffusion=2.0, thermal_mass='auto'")
    with pytest.raises(AttributeError):
        one.diffusion = 3.0


@pytest.mark.compiled
def test_the_state_of_a_chain_is_one_value():
    with pm.Model() as model:
        pm.Normal("x", shape=2)
        step = SGHMC(step_size=0.1, compile_kwargs={"mode": PYTHON})
    point = model.initial_point()
    step.start_chain(np.random.default_rng(1))
    for _ in range(3):
        point, _ = step.step(point)
    kept = copy.deepcopy(step.state)
    again = pickle.loads(pickle.dumps(kept))
    assert kept == step.state == again and "draw=3" in repr(kept)
    step.step(point)
    assert kept != step.state and kept == again
    step.state = kept
    assert step.state.draw == 3


def test_values_that_hold_arrays_are_compared():
    nan = np.array([1.0, np.nan])
    assert equal_values((nan, {"a": [1, "x"]}), (nan.copy(), {"a": [1, "x"]}))
    for other in (nan.astype("float32"), nan[:1], [1.0, np.nan], np.array([1.0, 2.0])):
        assert not equal_values(nan, other)
    assert equal_values(np.nan, np.nan) and not equal_values({"a": 1}, {"b": 1})


@pytest.mark.parametrize("cls", [PreconditionedLangevin, ScaleAdapted, AnnealedThermostat])
def test_the_metric_of_rmsprop_is_known_to_be_below_one_where_the_step_is_tuned(cls):
    context = Context(n_rows=5, coefficients={})
    for tunes, n_rows in ((True, 1), (False, 5)):
        algorithm = cls().in_setting(setting(tunes_step=tunes))
        assert algorithm.coefficients(context)["rows"] == n_rows
        assert np.isfinite(algorithm.longest_step(4.0)) == tunes
