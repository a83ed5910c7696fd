"""What would make a step slow without making it wrong."""

import tracemalloc
from types import SimpleNamespace
from typing import ClassVar

import cloudpickle
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.graph.utils import MethodNotDefined
from pytensor.link.c.basic import CLinker
from pytensor.link.c.op import COp
from pytensor.scan.op import Scan
from pytensor.tensor.math import All

from pymc_sgmcmc import AMAGOLD, GMC, SGHMC, SGLD, SGNHT
from pymc_sgmcmc.chain.kernel_output import KernelOutput
from pymc_sgmcmc.chain.moments import MOMENTS
from pymc_sgmcmc.compile.backend import Backend
from pymc_sgmcmc.compile.c_loop import Loop
from pymc_sgmcmc.compile.c_subgraph import Call
from pymc_sgmcmc.compile.take_rows import TakeRows
from pymc_sgmcmc.posterior import near_anchor
from pymc_sgmcmc.step.assembly import SUMMED
from tests.cases import begin, draws, sample, walk
from tests.tiers import statistics_but

N, D = 300, 4


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(1)
    with pm.Model() as built:
        X, y = pm.Data("X", rng.normal(size=(N, D))), pm.Data("y", rng.integers(2, size=N))
        sd = pm.HalfNormal("sd")
        beta = pm.Normal("beta", 0, sd, shape=D)
        pm.Bernoulli("label", logit_p=X @ beta, observed=y)
    return built


def loop_of(step):
    """The function of a draw, and that of one inner step."""
    function = step.chain.parts.kernel._function._function
    (scan,) = [n for n in function.maker.fgraph.apply_nodes if isinstance(n.op, Scan | Loop)]
    return function, scan.tag.inner.function if isinstance(scan.op, Loop) else scan.op.fn


@pytest.mark.compiled
@pytest.mark.parametrize("sampler", statistics_but([SGNHT], [SGLD, SGHMC, SGNHT]))
def test_no_python_runs_in_the_c_kernel(model, sampler):
    with model:
        step = sampler(step_size=0.001, batch_size=20)
    function, loop = loop_of(step)
    for each in (function, loop, step.target._evaluation._function._function):
        assert isinstance(each.maker.linker, CLinker)  # which makes one function
    nodes = function.maker.fgraph.apply_nodes
    assert sum(isinstance(node.op, Call) for node in nodes) == 1  # for the sums


def factors(rows, columns, y, X):
    U, V = pm.Normal("U", shape=(5, 2)), pm.Normal("V", shape=(7, 2))
    pm.Normal("seen", pm.math.sum(U[rows] * V[columns], axis=1), 1, observed=y)


def several_effects(rows, columns, y, X):
    slopes = pm.Normal("slopes", shape=(5, D))
    pm.Poisson("seen", pm.math.exp(pm.math.sum(slopes[rows] * X, axis=1)), observed=columns)


def classes(rows, columns, y, X):
    hidden = pm.math.tanh(X @ pm.Normal("W", shape=(D, 6)))
    pm.Categorical("seen", logit_p=hidden @ pm.Normal("V", shape=(6, 7)), observed=columns)


@pytest.mark.compiled
@pytest.mark.parametrize("build", statistics_but([factors], [factors, several_effects, classes]))
def test_no_python_runs_in_the_c_kernel_of_models_with_indices(build):
    rng = np.random.default_rng(2)
    data = {
        "rows": rng.integers(5, size=N), "columns": rng.integers(7, size=N),
        "y": rng.normal(size=N), "X": rng.normal(size=(N, D)),
    }  # fmt: skip
    with pm.Model():
        build(**{name: pm.Data(name, value) for name, value in data.items()})
        _, loop = loop_of(SGNHT(step_size=0.001, batch_size=20))
    assert isinstance(loop.maker.linker, CLinker)


@pytest.mark.compiled
def test_clang_is_told_that_one_function_is_deeper_than_it_expects(model, monkeypatch):
    with model:
        _, loop = loop_of(SGLD(step_size=0.001, batch_size=20))
    assert not any("bracket" in flag for flag in loop.maker.linker.compile_args())
    monkeypatch.setattr(
        "pymc_sgmcmc.compile.c_linker.config", SimpleNamespace(cxx="/usr/bin/clang++")
    )
    assert "-fbracket-depth=100000" in loop.maker.linker.compile_args()


@pytest.mark.compiled
def test_gcc_is_told_that_no_part_of_one_function_is_cold(model):
    with model:
        _, loop = loop_of(SGLD(step_size=0.001, batch_size=20))
    assert loop.maker.linker.struct_code.count("__attribute__((hot)) int run(void) {") == 1


class Opaque(Op):
    """One without C code."""

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = inputs[0].copy()

    def grad(self, inputs, gradients):
        return gradients

    pullback = lambda self, inputs, outputs, gradients: gradients  # noqa: E731


class Unsized(Opaque):
    """One that does not tell its shape, and remembers how many rows it has seen."""

    seen: ClassVar[set[int]] = set()

    def make_node(self, x):
        return Apply(self, [x], [pt.dmatrix()])

    def perform(self, node, inputs, outputs):
        self.seen.add(len(inputs[0]))
        super().perform(node, inputs, outputs)


@pytest.mark.compiled
def test_a_mean_of_a_row_does_not_compute_all_rows_for_their_length():
    with pm.Model():
        x = pm.Data("X", np.ones((N, 3)))
        mean = pt.mean(Unsized()(x * pm.Normal("x")), axis=1)
        pm.Normal("seen", mean, observed=np.ones(N))
        step = SGLD(step_size=1e-4, batch_size=20)
        Unsized.seen.clear()
        sample(step, draws=3)
    assert Unsized.seen == {20}


class Undefined(Opaque, COp):
    """One that says later that it has none."""

    def c_code_cache_version(self):
        return (1,)

    def c_code(self, *args):
        raise MethodNotDefined("c_code", type(self))


@pytest.mark.statistics
@pytest.mark.parametrize("op", [Opaque(), Undefined()], ids=["Op", "COp"])
def test_where_python_is_needed_it_runs(op):
    with pm.Model():
        x = pm.Normal("x", shape=3)
        pm.Normal("seen", op(x), observed=np.ones((N, 3)))
        step = SGNHT(step_size=0.01)
        _, loop = loop_of(step)
        assert not isinstance(loop.maker.linker, CLinker)
        cloudpickle.loads(cloudpickle.dumps(step))
        found = draws(sample(step, draws=400), "x").mean()
    assert abs(found - N / (N + 1)) < 0.01


@pytest.mark.statistics
def test_rows_are_gathered_once_for_both_points_of_a_control_variate(model, monkeypatch):
    monkeypatch.setattr(near_anchor, "KEPT", 0)
    with model:
        _, loop = loop_of(SGLD(step_size=0.001, batch_size=20, gradient="control_variate"))
    gathers = [node for node in loop.maker.fgraph.apply_nodes if isinstance(node.op, TakeRows)]
    assert len(gathers) == 2  # X and y


@pytest.mark.statistics
def test_slopes_that_are_kept_save_the_products_at_the_centre(model):
    """What is left are X @ beta and its transpose times slopes."""
    with model:
        _, loop = loop_of(SGLD(step_size=0.001, batch_size=20, gradient="control_variate"))
    ops = [type(node.op).__name__.lower() for node in loop.maker.fgraph.apply_nodes]
    assert sum("gemv" in op or "dot" in op for op in ops) == 2


@pytest.mark.compiled
def test_no_step_checks_parameters_or_supports(model):
    """Their derivative is zero, or they are of no consequence: the value at the end tells."""
    with model:
        _, loop = loop_of(SGLD(step_size=0.001, batch_size=20))
    assert not any(isinstance(node.op, All) for node in loop.maker.fgraph.apply_nodes)


@pytest.mark.statistics
@pytest.mark.parametrize(("backend", "summed"), [("c", 2), ("c", SUMMED), ("numba", 2)])
def test_nothing_is_compiled_while_sampling(model, backend, summed, monkeypatch):
    """With `summed` 2 a kernel has two functions, of which one is all that it has otherwise."""
    monkeypatch.setattr("pymc_sgmcmc.step.assembly.SUMMED", summed)
    with model:
        step = SGNHT(backend=backend, batch_size=20)
        by_c = SGNHT(batch_size=20) if backend == "numba" else step

    def forbidden(*_):
        raise AssertionError("compiled while sampling")

    monkeypatch.setattr(Backend, "function", forbidden)
    with model:
        found = sample(step, draws=20, tune=100)
    assert step.chain.parts.kernel.leaps == (summed == 2)
    if backend == "numba":
        with model:  # a chain that is tuned draws the same
            expected = sample(by_c, draws=20, tune=100)
        np.testing.assert_allclose(draws(found, "beta"), draws(expected, "beta"), rtol=0, atol=1e-6)
        kernel, evaluation = step.chain.parts.kernel, step.target._evaluation
        for compiled in (kernel._function, kernel._leap, evaluation._function):
            if compiled is not None:
                assert len(compiled._function.vm.jit_fn.signatures) == 1


class Threads(SGLD):
    """Reports the threads of BLAS in place of the number of steps."""

    def astep(self, q0):
        from threadpoolctl import threadpool_info

        q, (stats,) = super().astep(q0)
        blas = [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]
        return q, [stats | {"n_steps": max(blas)}]


@pytest.mark.compiled
@pytest.mark.parametrize("mp_ctx", statistics_but(["fork"], ["fork", "spawn"]))
def test_chains_side_by_side_use_one_thread_of_blas(model, mp_ctx):
    with model:
        step = Threads(step_size=0.001, batch_size=20)
        idata = sample(step, cores=2, chains=2, draws=3, mp_ctx=mp_ctx)
    assert (idata.sample_stats.n_steps.values == 1).all()


@pytest.mark.statistics
@pytest.mark.parametrize(
    ("d", "summed"), [(SUMMED // 8, 8), (SUMMED, 1)], ids=["every fourth", "the last"]
)
def test_many_coordinates_are_summed_at_some_steps_only(d, summed, monkeypatch):
    """And the draws are the same, and the sums of the steps that are summed."""
    seen, after, steps = [], KernelOutput.after, 32

    def spy(self, earlier):
        seen.append(after(self, earlier))
        return seen[-1]

    monkeypatch.setattr(KernelOutput, "after", spy)

    def run():
        step = SGNHT(step_size=0.1, steps_per_draw=steps, jitter=False)
        return draws(sample(step, draws=3), "x")

    with pm.Model():
        pm.Normal("x", shape=d)
        some, of_some = run(), seen[-1]
        monkeypatch.setattr("pymc_sgmcmc.step.assembly.SUMMED", d * steps)
        every, of_all = run(), seen[-1]
    np.testing.assert_array_equal(some, every)
    assert (of_some.summed, of_all.summed) == (summed, steps)
    assert of_some.kinetic_temperature == pytest.approx(of_all.kinetic_temperature, rel=0.1)
    momentum = MOMENTS.index("p2")
    means = [output.sums[momentum].mean() / output.summed for output in (of_some, of_all)]
    assert means[0] == pytest.approx(means[1], rel=0.1)


@pytest.mark.statistics
def test_the_memory_of_a_draw_is_that_of_one_block(monkeypatch):
    """Whatever the number of its steps: here 50 blocks of one step."""
    monkeypatch.setattr("pymc_sgmcmc.chain.frame.BLOCK", 1)
    d = 10_000
    peak = {}

    class Peak(SGNHT):
        def astep(self, q0):
            tracemalloc.start()
            try:
                return super().astep(q0)
            finally:
                peak[self.state.draw] = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()

    with pm.Model():
        pm.Normal("x", shape=d)
        sample(Peak(step_size=0.1, steps_per_draw=50, jitter=False), draws=3)
    assert max(peak.values()) < 8 * d * 100, peak  # 50 states and more would be 200 vectors


@pytest.mark.statistics
@pytest.mark.parametrize("sampler", [AMAGOLD, GMC])
def test_trajectories_are_summed_once_a_draw_whatever_the_blocks(sampler, monkeypatch):
    def run():
        with pm.Model() as model:
            pm.Normal("x", shape=3)
            step = sampler(step_size=0.3, steps_per_draw=10)
        begin(step)
        walk(step, model.initial_point(), 6)
        return step.state.running_sums

    whole = run()
    monkeypatch.setattr("pymc_sgmcmc.chain.frame.BLOCK", 1)  # blocks of one step
    parts = run()
    assert whole.steps == parts.steps == 6
    np.testing.assert_allclose(parts.sums, whole.sums)
