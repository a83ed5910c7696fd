"""What happens when a graph does not compile, and while several threads compile."""

import multiprocessing
import pickle
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.vm import VMLinker
from pytensor.scalar import sub

from pymc_sgmcmc import SGLD
from pymc_sgmcmc.compile.additions import SAID, our_rewriter
from pymc_sgmcmc.compile.backend import FASTER_C, Backend
from pymc_sgmcmc.compile.compiled_graph import CompiledGraph
from pymc_sgmcmc.compile.compiling import compiling, one_at_a_time
from pymc_sgmcmc.compile.elementwise_loops import Contiguous
from pymc_sgmcmc.compile.evaluate import evaluate
from pymc_sgmcmc.compile.in_python import interpreted
from pymc_sgmcmc.compile.pytensor_versions import scan
from pymc_sgmcmc.compile.scatter_add import AddAt
from pymc_sgmcmc.compile.take_rows import take_rows
from tests.cases import regression
from tests.helpers import PYTHON

C = Backend("c")


def flags():
    return pytensor.config.gcc__cxxflags, pytensor.config.blas__ldflags


def said():
    """What the fallback has said."""
    reasons = list(SAID)
    SAID.clear()
    return reasons


# What failed: axes of length one, sums of many terms, indices of other types


@pytest.mark.compiled
@pytest.mark.additions
def test_an_operation_may_turn_out_to_have_one_number_alone():
    """PyTensor learns lengths after it has made the node."""
    x, y = (pt.tensor(name, dtype="float64", shape=(1,)) for name in "xy")
    function = C.function([x, y], [Contiguous(sub)(x, y), Contiguous(sub)(x[None], y[None])])
    for found, expected in zip(function(np.full(1, 3.0), np.ones(1)), ([2], [[2]]), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("join, expected", [(pt.add, 400.0), (pt.mul, 3.0**40)])
def test_python_adds_more_terms_than_numpy_has_operands(join, expected):
    xs = [pt.tensor(dtype=d, shape=(None,)) for d in ("int8", "float64") * 40]
    values = [np.full(2, 7 if join is pt.add else 1, x.type.dtype) for x in xs]
    for value in values[1::2]:
        value[:] = 3.0
    function = interpreted(xs, [join(*xs), join(*xs[:2])])
    total, two = function(*values)
    np.testing.assert_allclose(total, expected)  # the int8 of 280 would be 24
    assert total.dtype == two.dtype == "float64"


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64"])
def test_rows_may_be_integers_of_every_type(dtype):
    rows = pt.vector("rows", dtype=dtype)
    node = take_rows(pt.dvector("x"), rows).owner
    assert node.inputs[1].type.dtype == "int64"  # all that the C code reads
    function = interpreted([node.inputs[0], rows], node.outputs)
    np.testing.assert_array_equal(function(np.arange(5.0), np.array([4, 0], dtype))[0], [4.0, 0.0])


@pytest.mark.parametrize(
    "rows", [pt.dvector("r"), pt.lmatrix("r"), pt.lscalar("r"), pt.bvector("r") > 0]
)
def test_rows_are_a_vector_of_integers(rows):
    with pytest.raises(TypeError, match="rows must be a vector of integers"):
        take_rows(pt.dmatrix("x"), rows)


@pytest.mark.compiled
@pytest.mark.additions
def test_an_index_may_be_that_of_two_axes():
    """A diagonal, as a covariance gets its jitter."""
    x, i = pt.dmatrix("x"), pt.lvector("i")
    y = pt.dvector("y")
    function = C.function([x, y, i], [x[i, i].inc(y)])
    assert any(isinstance(node.op, AddAt) for node in function.maker.fgraph.apply_nodes)
    [found] = function(np.zeros((2, 2)), np.full(3, 2.0), np.array([0, 1, 1]))
    np.testing.assert_array_equal(found, [[2.0, 0.0], [0.0, 4.0]])


# The fallback


@pytest.fixture
def broken(monkeypatch):
    """Code for elementwise operations that no C compiler takes."""
    right = Contiguous._c_all
    wrong = staticmethod(lambda *args: (*right(*args)[:-1], "this is no C;"))
    monkeypatch.setattr(Contiguous, "_c_all", lambda *args: wrong(*args))


@pytest.mark.compiled
@pytest.mark.additions
def test_what_does_not_compile_is_compiled_by_pytensor_alone(broken, caplog, capfd):
    """A loop, a part of its own, and rows: whatever of ours a graph has."""
    x, z, rows = pt.dvector("x"), pt.dmatrix("z"), pt.lmatrix("rows")

    def step(z, row, x):
        return x * 0.5 + take_rows(z, row).sum() + pt.exp(z)

    [path] = scan(step, sequences=[z, rows], outputs_info=[x], mode=C.one_function)
    outputs = C.as_one([path], [pt.exp(-path).sum(axis=0)])
    before = flags()
    graph = CompiledGraph([x, z, rows], [path[-1], *outputs], C)
    assert flags() == before and len(said()) == len(caplog.records) == 1
    assert "plain mode" in caplog.text and "expected" in caplog.text
    assert capfd.readouterr() == ("", "")
    values = np.ones(3), np.arange(6.0).reshape(2, 3), np.array([[0, 1], [2, 2]])
    q, total = values[0], np.exp(-values[0])
    for row, chosen in zip(*values[1:], strict=True):
        q = 0.5 * q + row[chosen].sum() + np.exp(row)
        total = total + np.exp(-q)
    for function in (graph, pickle.loads(pickle.dumps(graph))):
        for found, expected in zip(function(*values), (q, total), strict=True):
            np.testing.assert_allclose(found, expected)


class Impossible(Op):
    """An operation that nothing compiles."""

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def make_thunk(self, *args, **kwargs):
        raise LookupError("nobody compiles this")

    def perform(self, node, inputs, outputs):
        raise NotImplementedError


def test_errors_that_pytensor_raises_alone_are_raised():
    x, before = pt.dvector("x"), flags()
    with pytest.raises(LookupError, match="nobody compiles this"):
        C.function([x], [Impossible()(x)])
    assert flags() == before and not said()


def test_a_rewriter_that_fails_leaves_the_node():
    @our_rewriter([Impossible])
    def fails(fgraph, node):
        raise KeyError("x23")

    x = pt.dvector("x")
    node = Impossible()(x).owner
    assert not fails.transform(None, node) and said() == ["KeyError: 'x23'"]


@pytest.mark.statistics
def test_numba_code_that_does_not_compile_when_called(monkeypatch):
    from numba.core.errors import TypingError

    x, backend = pt.dvector("x"), Backend("numba")
    graph = CompiledGraph([x], [x[::-1] + 1], backend)
    twin = pickle.loads(pickle.dumps(graph))

    def fails(*args):
        raise TypingError("no such type")

    for one in (graph, twin):
        one._function = fails
        for _ in range(2):
            np.testing.assert_array_equal(one(np.arange(3.0))[0], [3.0, 2.0, 1.0])
    assert said() == ["TypingError: no such type"]


def test_errors_of_numbers_are_not_errors_of_the_compiler():
    x = pt.dvector("x")
    graph = CompiledGraph([x], [x[3]], Backend(compile_kwargs={"mode": PYTHON}))
    with pytest.raises(IndexError):
        graph(np.zeros(2))


# The switch


def test_a_switch_leaves_out_all_that_is_ours(monkeypatch):
    x, rows = pt.dvector("x"), pt.lvector("rows")
    python = Backend(compile_kwargs={"mode": PYTHON})
    for value, plain in (("1", True), ("0", False), ("", False)):
        monkeypatch.setenv("PYMC_SGMCMC_PLAIN", value)
        assert (C.one_function is None) == (type(C.mode.linker) is VMLinker) == plain
        function = python.function([x, rows], [take_rows(x, rows)])
        [node] = function.maker.fgraph.apply_nodes
        assert type(node.op).__module__.startswith("pytensor") == plain
        np.testing.assert_array_equal(function(np.arange(3.0), np.array([2, 0])), [[2.0, 0.0]])


# Threads


def test_one_thread_compiles_at_a_time_and_leaves_the_configuration():
    before, inside = flags(), threading.Event()

    def compile_slowly():
        with compiling():
            own = flags()
            inside.set()
            assert not entered.wait(0.3)
            with compiling():  # again, in the same thread
                assert flags() == own != before
            return flags() == own

    def compile_too():
        inside.wait(10)
        with compiling():
            entered.set()
            return flags() != before

    entered = threading.Event()
    with ThreadPoolExecutor(2) as pool:
        assert all(
            future.result(10) for future in [pool.submit(f) for f in (compile_slowly, compile_too)]
        )
    assert flags() == before


def compile_in_child(queue):
    with one_at_a_time():
        queue.put(flags())


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
def test_a_process_forked_while_another_thread_compiles_can_compile():
    context, before = multiprocessing.get_context("fork"), flags()
    inside, queue = threading.Event(), context.Queue()

    def compile_slowly():
        with compiling():
            inside.set()
            threading.Event().wait(0.3)

    thread = threading.Thread(target=compile_slowly)
    thread.start()
    inside.wait(10)
    child = context.Process(target=compile_in_child, args=(queue,))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads and forks
        child.start()
    assert queue.get(timeout=20) == before
    child.join(10)
    thread.join(10)


@pytest.mark.compiled
def test_a_step_method_is_sampled_by_one_thread():
    with regression() as model:
        step = SGLD(step_size=0.005, batch_size=5, compile_kwargs={"mode": PYTHON})
    point, rng = model.initial_point(), np.random.default_rng(0)

    def start():
        (step.setup_chain(rng, False, 5) if hasattr(step, "setup_chain") else step.set_rng(rng))
        return step.step(point)

    def draw():
        return step.step(point)

    start()
    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(RuntimeError, match="sampled by two threads at once"):
            pool.submit(draw).result()
        with pytest.raises(RuntimeError, match="Build a step method for each thread"):
            draw()  # neither goes on
        pool.submit(start).result()  # one after the other is right
        pool.submit(draw).result()
        start()
        draw()


@pytest.mark.compiled
def test_a_chain_that_starts_in_the_middle_of_a_draw_of_another_thread(monkeypatch):
    with regression() as model:
        step = SGLD(step_size=0.005, batch_size=5, compile_kwargs={"mode": PYTHON})
    point, draw = model.initial_point(), step.chain.draw

    def start():
        step.start_chain(np.random.default_rng(1))

    with ThreadPoolExecutor(1) as pool:

        def interrupted(q, rng):
            pool.submit(start).result()
            return draw(q, rng)

        start()
        step.step(point)
        monkeypatch.setattr(step.chain, "draw", interrupted)
        with pytest.raises(RuntimeError, match="two threads"):
            step.step(point)
        monkeypatch.undo()
        with pytest.raises(RuntimeError, match="two threads"):
            pool.submit(step.step, point).result()


def test_pymc_compiles_as_without_this_package():
    x, i = pt.tensor("x", dtype="float64", shape=(2000, 2)), pt.lvector("i")
    outputs = [pt.sum(pt.sqr(x[:, 0])), pt.exp(x) * 2 + x, x[i].inc(1.0)]
    mode = Mode(linker="py", optimizer="fast_run")

    def ours(mode):
        nodes = pytensor.function([x, i], outputs, mode=mode).maker.fgraph.apply_nodes
        return [n.op for n in nodes if type(n.op).__module__.startswith("pymc_sgmcmc")]

    assert not ours(mode) and ours(mode.including(*FASTER_C))


def test_sums_of_more_terms_than_numpy_takes_are_evaluated():
    """Rewrites merge a sum of many terms into one operation, for which NumPy has no function."""
    x = [pt.vector(f"x{k}", dtype="float64") for k in range(40)]
    values = [np.full(3, float(k)) for k in range(40)]
    (found,) = evaluate([pt.add(*x) * 2.0], dict(zip(x, values, strict=True)))
    np.testing.assert_array_equal(found, np.full(3, 2.0 * sum(range(40))))


@pytest.mark.compiled
def test_a_scan_that_was_evaluated_has_its_gradient():
    """PyTensor rewrites the inner graph of a scan that it performs, in place, fusing operations."""
    mu, x = pt.scalar("mu", dtype="float64"), pt.vector("x", dtype="float64")
    (states,) = scan(
        lambda x, before, mu: pt.tanh(mu * before + x),
        sequences=x,
        outputs_info=[pt.zeros((), dtype="float64")],
        non_sequences=[mu],
    )
    given = {mu: np.array(0.7), x: np.array([0.3, -0.2])}
    (last,) = evaluate([states[-1]], given)
    np.testing.assert_allclose(last, np.tanh(0.7 * np.tanh(0.3) - 0.2))
    slope = interpreted([mu, x], [pt.grad(states[-1], mu)])(*given.values())[0]
    np.testing.assert_allclose(slope, (1 - last**2) * np.tanh(0.3))
