"""What tells the runs of two posteriors apart. Nothing is compiled, and little is sampled."""

import functools
import multiprocessing
import threading
from types import SimpleNamespace

import cloudpickle
import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

from pymc_sgmcmc import Gibbs, Resumable, resume, save
from pymc_sgmcmc.saving.graph_fingerprints import GraphFingerprints
from pymc_sgmcmc.saving.identity import NotIdentified, check_identity, declare
from pymc_sgmcmc.saving.resumable import sampled_identity
from tests.cases import sample
from tests.tiers import name_of

ROWS = np.linspace(-1, 1, 6)
SCALE = 1.0


def fingerprint(value):
    return GraphFingerprints().text(value)


def model_of(x=ROWS, y=2 * ROWS, mu=(1.0, 5.0), sigma=(5.0, 1.0), **more):
    with pm.Model(coords={"part": more.get("labels", ["u", "v"])}) as model:
        x, y = pm.Data("x", x), pm.Data("y", y)
        a = pm.Normal("a", np.array(mu), np.array(sigma), dims="part")
        pm.Deterministic("d", more.get("factor", 2.0) * a)
        pm.Normal("o", a[0] + a[1] * x, 3, observed=y)
        logp = more.get("logp", lambda value, a: -((value - a) ** 2))
        pm.CustomDist("c", a[0], logp=logp, observed=more.get("seen", [1.0, 2.0]))
    return model


def conditional(point, rng):
    return SCALE * rng.normal(size=2)


def step_on(model, f=conditional, **kwargs):
    """A conditional of the user, which needs no compiling: no variable has a transform."""
    with model:
        return Resumable([Gibbs(model["a"], f)], every=2, **kwargs)


def identity(*args, **kwargs):
    return step_on(model_of(*args, **kwargs)).identity()


@pytest.fixture(scope="module")
def plain():
    return identity()


def test_the_same_model_is_the_same(plain):
    assert identity() == plain and not plain["not identified"]


@pytest.mark.parametrize(
    "args, kwargs, what",
    [
        ((2 * ROWS, ROWS), {}, "data '[xy]'"),
        ((ROWS, 2 * ROWS + 1e-15), {}, "data 'y'"),
        ((), {"seen": [1.0, 2.5]}, "data 'observed c'"),
        ((), {"mu": (5.0, 1.0), "sigma": (1.0, 5.0)}, "log-density 'a'"),
        ((), {"mu": (1.0, 6.0)}, "log-density 'a'"),
        ((), {"logp": lambda value, a: -2 * ((value - a) ** 2)}, "log-density 'c'"),
        ((), {"factor": 3.0}, "stored variables 'd'"),
        ((), {"labels": ["v", "u"]}, "coordinates 'a'"),
    ],
    ids=name_of,
)
def test_other_models_are_other(args, kwargs, what, plain):
    with pytest.raises(ValueError, match=f"it has other {what}: .*, and here it is .*cure"):
        check_identity(plain, identity(*args, **kwargs), "it", "cure")


class Blackbox(pytensor.graph.op.Op):
    """An operation without props, whose code is the user's."""

    itypes, otypes = (pt.dvector,), (pt.dscalar,)

    def __init__(self, scale):
        self.scale = scale

    def perform(self, node, inputs, outputs):
        outputs[0][0] = np.array(-self.scale * (inputs[0] ** 2).sum())


def test_operations_of_the_user_are_known_by_their_code_and_state():
    def graph(op):
        return fingerprint(op(pt.constant(ROWS)))

    class Blackbox2(Blackbox):
        def perform(self, node, inputs, outputs):
            outputs[0][0] = np.array(-self.scale * (inputs[0] ** 4).sum())

    assert graph(Blackbox(1.0)) == graph(Blackbox(1.0))
    assert len({graph(op) for op in (Blackbox(1.0), Blackbox(2.0), Blackbox2(1.0))}) == 3


def closure(value):
    return lambda point, rng: value * rng.normal()


def default(value):
    return lambda point, rng, by=value: by * rng.normal()


def recursive(value):
    def f(n):
        return value if n == 0 else f(n - 1)

    return f


class Method:
    def __init__(self, value):
        self.value = value

    def __call__(self, point, rng):
        return self.value

    def draw(self, point, rng):
        return self.value


MAKERS = {
    "closure": closure,
    "array in a closure": lambda v: closure(np.array([v, 1])),
    "default": default,
    "keyword": lambda v: lambda point, rng, *, by=v: by,
    "constant": lambda v: eval(f"lambda point, rng: {v} * rng.normal()"),
    "nested function": lambda v: eval(f"lambda point, rng: (lambda: {v})()"),
    "partial": lambda v: functools.partial(closure, v),
    "cached": lambda v: functools.lru_cache(closure(v)),
    "wrapped": lambda v: functools.wraps(closure(0))(closure(v)),
    "method": lambda v: Method(v).draw,
    "callable object": Method,
    "recursive": recursive,
    "frame": lambda v: closure(pd.DataFrame({"a": [v, 2]}, index=["x", "y"])),
    "namespace": lambda v: closure(SimpleNamespace(a=[v], b={v: {v}})),
    "model": lambda v: closure(model_of(mu=(v, v))),
    "graph": lambda v: closure(pt.as_tensor(v) + 1),
    "shared variable": lambda v: closure(pytensor.shared(v)),
    "class": lambda v: type("Schedule", (), {"__call__": closure(v)}),
    "vectorized": lambda v: np.vectorize(closure(v)),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_functions_are_known_by_their_code_and_closure(make):
    assert fingerprint(make(1)) == fingerprint(make(1))
    assert fingerprint(make(1)) != fingerprint(make(2))


def test_other_code_is_other():
    same = [lambda p, r: p + 1, lambda p, r: p + 1]
    others = [lambda p, r: p - 1, lambda p, r: p.a + 1, lambda p, r: p.b + 1, lambda r, p: p + 1]
    others += [lambda p, r: np.sin(p), lambda p, r: np.cos(p), np.sin, np.cos, len, sorted]
    assert fingerprint(same[0]) == fingerprint(same[1])
    assert len({fingerprint(f) for f in (same[0], *others)}) == len(others) + 1


def test_globals_that_a_function_reads_count(monkeypatch):
    before = fingerprint(conditional)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert fingerprint(conditional) != before
    monkeypatch.setitem(globals(), "ROWS", None)  # it is not read
    monkeypatch.setitem(globals(), "SCALE", 1.0)
    assert fingerprint(conditional) == before


def test_generators_of_random_numbers_are_known_by_their_kind():
    a, b = np.random.default_rng(1), np.random.default_rng(2)
    assert fingerprint(closure(a)) == fingerprint(closure(b)) == fingerprint(closure(a))


@pytest.mark.parametrize("value", [threading.Lock(), (x for x in "ab"), np.frompyfunc(abs, 1, 1)],
                         ids=name_of)  # fmt: skip
def test_what_cannot_be_read_is_not_identified(value):
    with pytest.raises(NotIdentified, match=r"cannot be read|no code"):
        fingerprint(closure(value))


def in_another_process(data, queue):
    queue.put(fingerprint(cloudpickle.loads(data)))


@pytest.mark.statistics
def test_another_process_finds_the_same(monkeypatch):
    """With another seed of hashes: sets come in another order."""
    value = [closure({"a", "b", "c"}), Method(1), conditional, closure(pd.DataFrame({"a": [1]}))]
    monkeypatch.setenv("PYTHONHASHSEED", "77")
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=in_another_process, args=(cloudpickle.dumps(value), queue))
    process.start()
    assert queue.get(timeout=60) == fingerprint(value)
    process.join()


# The identity is that of what was sampled.


def run(step, **kwargs):
    return sample(step, model=step.model, draws=4, tune=1, **kwargs)


QUIET = {"progressbar": False, "compute_convergence_checks": False, "cores": 1}


def identities(idata):
    texts = idata.sample_stats["snapshot"].values
    return [sampled_identity(next(filter(None, chain.ravel()))) for chain in texts]


@pytest.mark.compiled
def test_data_that_were_changed_after_sampling(tmp_path):
    step = step_on(model_of())
    idata = run(step)
    pm.set_data({"x": 3 * ROWS}, model=step.model)
    save(idata, step, tmp_path)
    with pytest.raises(ValueError, match="has other data 'x'"):
        resume(tmp_path, step, 3, **QUIET)
    pm.set_data({"x": ROWS}, model=step.model)
    assert resume(tmp_path, step, 3, **QUIET).posterior.sizes["draw"] == 7


@pytest.mark.compiled
def test_data_that_are_changed_while_the_run_is_resumed(tmp_path):
    step = step_on(model_of())
    save(run(step), step, tmp_path)

    def change(trace, draw):
        pm.set_data({"x": 3 * ROWS}, model=step.model)

    with pytest.raises(ValueError, match=r"Chain 0 .* not of the run of chain 1.*data 'x'"):
        resume(tmp_path, step, 3, callback=change, **QUIET)


@pytest.mark.statistics
@pytest.mark.parametrize("mp_ctx", ["fork", "spawn"])
def test_workers_say_what_they_sampled(mp_ctx):
    step = step_on(model_of())
    pm.set_data({"x": 3 * ROWS}, model=step.model)
    idata = run(step, cores=2, mp_ctx=mp_ctx)
    now = step.identity()
    pm.set_data({"x": ROWS}, model=step.model)
    assert identities(idata) == [now, now] != [step.identity()] * 2


@pytest.mark.compiled
def test_draws_of_another_step_are_refused(tmp_path):
    step = step_on(model_of())
    other = step_on(step.model, lambda point, rng: 3 * rng.normal(size=2))
    idata = run(step)
    with pytest.raises(ValueError, match=r"not come from this step.*Gibbs of a, 'conditional'"):
        save(idata, other, tmp_path / "run")
    save(idata, step_on(step.model), tmp_path / "run")
    with pytest.raises(ValueError, match="other step methods: Gibbs of a, 'conditional'"):
        resume(tmp_path / "run", other, 3, **QUIET)


@pytest.mark.compiled
def test_a_function_that_is_not_identified_takes_a_word_of_the_user(tmp_path):
    lock, model = threading.Lock(), model_of()

    def locked(point, rng):
        with lock:
            return rng.normal(size=2)

    step = step_on(model, locked)
    idata = run(step)
    with pytest.raises(ValueError, match=r"'conditional' of Gibbs\(\['a'\]\).*lock.*identity='"):
        save(idata, step, tmp_path / "run")
    save(idata, step, tmp_path / "run", identity="first")
    for wrong in (None, "second"):
        with pytest.raises(ValueError, match=r"Nothing says|other identity=.*first"):
            resume(tmp_path / "run", step, 3, identity=wrong, **QUIET)
    other = step_on(model)  # another function, under the same word
    done = resume(tmp_path / "run", other, 3, identity="first", **QUIET)
    assert done.posterior.sizes["draw"] == 7
    with pytest.raises(TypeError, match="identity=3 is not a text"):
        declare(step.identity(), 3)


@pytest.mark.compiled
def test_another_model_is_refused(tmp_path):
    step = step_on(model_of())
    with pytest.raises(ValueError, match="model= is not the model"):
        save(run(step), step, tmp_path, model=model_of())
