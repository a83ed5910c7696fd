"""What would make a step slow without making it wrong."""

import subprocess
import sys
import tracemalloc

import numpy as np
import pymc as pm
import pytest
from pytensor.scan.op import Scan
from pytensor.tensor.math import All

from pymc_sgmcmc import SGHMC, SGLD, SGNHT, target
from pymc_sgmcmc.backends import Backend
from pymc_sgmcmc.gather import TakeRows
from pymc_sgmcmc.kernel import SUMMED
from pymc_sgmcmc.kernel_output import KernelOutput
from pymc_sgmcmc.moments import MOMENTS
from tests.samplers import draws, sample

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
    """The function of one inner step."""
    function = step._kernel._function._function
    (scan,) = [n for n in function.maker.fgraph.apply_nodes if isinstance(n.op, Scan)]
    return function, scan.op.fn


@pytest.mark.parametrize("sampler", [SGLD, SGHMC, SGNHT])
def test_no_python_runs_in_the_c_kernel(model, sampler):
    with model:
        function, loop = loop_of(sampler(step_size=0.001, batch_size=20))
    for vm, allowed in ((loop.vm, ()), (function.vm, (Scan,))):
        in_python = [
            node.op
            for node, thunk in zip(vm.nodes, vm.thunks, strict=True)
            if not hasattr(thunk, "cthunk") and not isinstance(node.op, allowed)
        ]
        assert not in_python


def test_rows_are_gathered_once_for_both_points_of_a_control_variate(model, monkeypatch):
    monkeypatch.setattr(target, "KEPT", 0)
    with model:
        _, loop = loop_of(SGLD(step_size=0.001, batch_size=20, gradient="control_variate"))
    gathers = [node for node in loop.maker.fgraph.apply_nodes if isinstance(node.op, TakeRows)]
    assert len(gathers) == 2  # X and y


def test_slopes_that_are_kept_save_the_products_at_the_centre(model):
    """What is left are X @ beta and its transpose times slopes."""
    with model:
        _, loop = loop_of(SGLD(step_size=0.001, batch_size=20, gradient="control_variate"))
    ops = [type(node.op).__name__.lower() for node in loop.maker.fgraph.apply_nodes]
    assert sum("gemv" in op or "dot" in op for op in ops) == 2


def test_no_step_checks_parameters_or_supports(model):
    """Their derivative is zero, or they are of no consequence: the value at the end tells."""
    with model:
        _, loop = loop_of(SGLD(step_size=0.001, batch_size=20))
    assert not any(isinstance(node.op, All) for node in loop.maker.fgraph.apply_nodes)


@pytest.mark.parametrize("summed", [SUMMED, 2], ids=["few coordinates", "many"])
@pytest.mark.parametrize("backend", ["c", "numba"])
def test_nothing_is_compiled_while_sampling(model, backend, summed, monkeypatch):
    for module in ("kernel", "lifecycle"):
        monkeypatch.setattr(f"pymc_sgmcmc.{module}.SUMMED", summed)
    with model:
        step = SGNHT(backend=backend, batch_size=20)

    def forbidden(*_):
        raise AssertionError("compiled while sampling")

    monkeypatch.setattr(Backend, "function", forbidden)
    with model:
        sample(step, draws=20, tune=100)
    assert step._kernel.leaps == (summed == 2)
    if backend == "numba":
        kernel, evaluation = step._kernel, step.target._evaluation
        for compiled in (kernel._function, kernel._unsummed, evaluation._function):
            if compiled is not None:
                assert len(compiled._function.vm.jit_fn.signatures) == 1


class Threads(SGLD):
    """Reports the threads of BLAS in place of the number of steps."""

    def astep(self, q0):
        from threadpoolctl import threadpool_info

        q, (stats,) = super().astep(q0)
        blas = [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]
        return q, [stats | {"n_steps": max(blas)}]


@pytest.mark.parametrize("mp_ctx", ["fork", "spawn"])
def test_chains_side_by_side_use_one_thread_of_blas(model, mp_ctx):
    with model:
        step = Threads(step_size=0.001, batch_size=20)
        idata = sample(step, cores=2, chains=2, draws=3, mp_ctx=mp_ctx)
    assert (idata.sample_stats.n_steps.values == 1).all()


@pytest.mark.parametrize(
    ("d", "summed"), [(SUMMED // 8, 8), (SUMMED, 1)], ids=["every fourth", "the first"]
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
        monkeypatch.setattr("pymc_sgmcmc.kernel.SUMMED", d * steps)
        monkeypatch.setattr("pymc_sgmcmc.lifecycle.SUMMED", d * steps)
        every, of_all = run(), seen[-1]
    np.testing.assert_array_equal(some, every)
    assert (of_some.summed, of_all.summed) == (summed, steps)
    assert of_some.kinetic_temperature == pytest.approx(of_all.kinetic_temperature, rel=0.1)
    momentum = MOMENTS.index("p2")
    means = [output.sums[momentum].mean() / output.summed for output in (of_some, of_all)]
    assert means[0] == pytest.approx(means[1], rel=0.1)


def test_the_memory_of_a_draw_is_that_of_one_block(monkeypatch):
    """Whatever the number of its steps: here 50 blocks of one step."""
    monkeypatch.setattr("pymc_sgmcmc.lifecycle.BLOCK", 1)
    d = 10_000
    peak = {}

    class Peak(SGNHT):
        def astep(self, q0):
            tracemalloc.start()
            try:
                return super().astep(q0)
            finally:
                peak[self.draw] = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()

    with pm.Model():
        pm.Normal("x", shape=d)
        sample(Peak(step_size=0.1, steps_per_draw=50, jitter=False), draws=3)
    assert max(peak.values()) < 8 * d * 100, peak  # 50 states and more would be 200 vectors


def test_importing_the_package_imports_nothing_slow_beside_pymc():
    """It may add 0.2 s; Numba, ArviZ and SciPy's statistics would add seconds."""
    slow = ("numba", "arviz", "matplotlib", "scipy.stats", "scipy.special")
    code = (
        "import sys, pymc; before = set(sys.modules); import pymc_sgmcmc; "
        f"print([name for name in {slow} if name in set(sys.modules) - before])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
