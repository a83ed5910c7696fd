"""The loop in C against PyTensor's own scan."""

import pickle
import signal
import sys
import tracemalloc

import numpy as np
import pytensor.tensor as pt
import pytest
from pytensor.scan.op import Scan

from pymc_sgmcmc.compile.backend import Backend
from pymc_sgmcmc.compile.c_loop import Loop
from pymc_sgmcmc.compile.compiled_graph import CompiledGraph
from pymc_sgmcmc.compile.in_python import interpreted
from pymc_sgmcmc.compile.pytensor_versions import scan
from pymc_sgmcmc.compile.take_rows import take_rows
from tests.tiers import statistics_but

pytestmark = pytest.mark.additions

C = Backend("c")


def both(inputs, build):
    """The graph that `build` makes in a mode with the loop, and in PyTensor's own."""
    functions = C.function(inputs, build(C.one_function)), interpreted(inputs, build(None))
    assert loops(functions[0]) == [Loop] and loops(functions[1]) == [Scan]
    return functions


def loops(function):
    return [type(n.op) for n in function.maker.fgraph.toposort() if isinstance(n.op, Scan | Loop)]


def walk(q, p, u, z, mode):
    """Two paths, of vectors and of numbers, over a sequence of each kind."""

    def step(u, z, q, p):
        new = 0.9 * p + u * z.sum(), q - 0.1 * q + p * z
        return new[1].astype(q.dtype), new[0].astype(p.dtype)

    return scan(step, sequences=[u, z], outputs_info=[q, p], mode=mode)


@pytest.mark.compiled
@pytest.mark.parametrize("dtype", statistics_but(["float64"], ["float64", "float32"]))
def test_paths_are_those_of_a_scan(dtype):
    d = 3
    q, z = pt.tensor("q", dtype=dtype, shape=(d,)), pt.matrix("z", dtype=dtype)
    p, u = pt.scalar("p", dtype=dtype), pt.vector("u", dtype=dtype)
    some = pt.constant([0, 2, 4])
    for what in (
        lambda path: [path],
        lambda path: [path[-1]],
        lambda path: [path[-3:]],
        lambda path: [path[-1], take_rows(path, some), path[0]],
    ):

        def build(mode):
            return [part for path in walk(q, p, u, z, mode) for part in what(path)]

        loop, own = both([q, p, u, z], build)
        for n_steps in (4, 5, 6, 11, 11):  # what a call leaves is not to be seen in the next
            rng = np.random.default_rng(n_steps)
            values = (
                rng.normal(size=d),
                0.3,
                rng.uniform(size=n_steps),
                rng.normal(size=(n_steps, d)),
            )
            values = [np.asarray(value, dtype) for value in values]
            copies = [value.copy() for value in values]
            for found, expected in zip(loop(*values), own(*values), strict=True):
                np.testing.assert_allclose(found, expected, rtol=1e3 * np.finfo(dtype).eps)
            for value, copy in zip(values, copies, strict=True):
                np.testing.assert_array_equal(value, copy)


@pytest.mark.compiled
def test_a_start_that_is_used_again_is_not_overwritten():
    x, h = pt.dvector("x"), pt.dvector("h")

    def build(mode):
        path = scan(lambda h, x: x + h, sequences=[h], outputs_info=[x], mode=mode)[0]
        return [path[-1], x, path[0] * 2]

    start = np.arange(4.0)
    loop, own = both([x, h], build)
    for found, expected in zip(loop(start, np.ones(5)), own(start, np.ones(5)), strict=True):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(start, np.arange(4.0))


@pytest.mark.compiled
def test_results_that_are_views_or_given_or_changed_in_place():
    z, q, p, s = pt.dmatrix("z"), pt.dvector("q"), pt.dvector("p"), pt.dvector("s")

    def step(z, q, p, s):
        return q[::-1], z, pt.set_subtensor(pt.cumsum(p + s)[0], 0.5)

    def build(mode):
        paths = scan(step, sequences=[z], outputs_info=[q, p, s], mode=mode)
        return [*paths, *(path[-1] for path in paths)]

    rng = np.random.default_rng(1)
    values = rng.normal(size=3), rng.normal(size=3), rng.normal(size=3), rng.normal(size=(5, 3))
    loop, own = both([q, p, s, z], build)
    for found, expected in zip(loop(*values), own(*values), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.compiled
def test_two_loops_from_one_start():
    x, h = pt.dvector("x"), pt.dvector("h")
    # Of the same mode they would become one.
    paths = [
        scan(step, sequences=[h], outputs_info=[x], mode=C.one_function)[0]
        for step in (lambda h, x: x + h, lambda h, x: x * h)
    ]
    function = C.function([x, h], paths)
    assert loops(function) == [Loop, Loop]
    added, multiplied = function(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    np.testing.assert_array_equal(added, [[1, 2], [4, 5], [8, 9]])
    np.testing.assert_array_equal(multiplied, [[1, 2], [3, 6], [12, 24]])


@pytest.mark.compiled
def test_arrays_of_every_layout():
    rng = np.random.default_rng(1)
    Z, start = pt.dtensor3("Z"), pt.dmatrix("start")

    def build(mode):
        return scan(lambda z, x: 0.5 * x + z.T, sequences=[Z], outputs_info=[start], mode=mode)

    loop, own = both([Z, start], build)
    big, x = rng.normal(size=(12, 8, 6)), rng.normal(size=(3, 4))
    for layout in (big[::2, ::2, ::2], big[::-2, 1::2, ::2], np.asfortranarray(big[:5, :4, :3])):
        for at in (x, x.T.copy().T):
            np.testing.assert_array_equal(loop(layout, at)[0], own(layout, at)[0])


@pytest.mark.compiled
def test_an_error_of_a_step_is_raised_and_the_next_call_is_right():
    q, rows, x = pt.dscalar("q"), pt.lmatrix("rows"), pt.dvector("x")
    path = scan(
        lambda row, q: q + take_rows(x, row).sum(),
        sequences=[rows],
        outputs_info=[q],
        mode=C.one_function,
    )
    function = C.function([q, rows, x], path)
    assert loops(function) == [Loop]
    good, data = np.array([[0, 1], [1, 2]]), np.arange(3.0)
    for _ in range(3):
        with pytest.raises(IndexError, match="row index out of range"):
            function(np.array(0.0), np.array([[0, 1], [1, 3]]), data)
        np.testing.assert_array_equal(function(np.array(0.0), good, data)[0], [0.0, 1.0, 4.0])


@pytest.mark.compiled
def test_a_sequence_that_is_too_short_is_an_error():
    h, n, x = pt.dvector("h"), pt.lscalar("n"), pt.dscalar("x")
    path = scan(lambda h, x: x + h, sequences=[h], outputs_info=[x], n_steps=n, mode=C.one_function)
    function = C.function([x, h, n], path)
    assert loops(function) == [Loop]
    np.testing.assert_array_equal(function(np.array(1.0), np.ones(4), np.array(3))[0], [1, 2, 3, 4])
    for wrong in (5, -1):
        with pytest.raises(ValueError):
            function(np.array(1.0), np.ones(4), np.array(wrong))


@pytest.mark.compiled
def test_another_shape_of_the_same_size_is_an_error():
    x, n = pt.dmatrix("x"), pt.lscalar("n")
    path = scan(lambda x: x.T * 2, outputs_info=[x], n_steps=n, mode=C.one_function)
    function = C.function([x, n], path)
    assert loops(function) == [Loop]
    with pytest.raises(ValueError, match="broadcast"):
        function(np.arange(6.0).reshape(2, 3), np.array(3))


@pytest.mark.compiled
def test_calls_leave_no_memory_and_no_references():
    z, q = pt.dmatrix("z"), pt.dvector("q")
    last = scan(lambda z, q: q + z, sequences=[z], outputs_info=[q], mode=C.one_function)[0]
    function = C.function([q, z], [last, last[-1]])
    values = np.ones(1000), np.ones((6, 1000))

    def held():
        for _ in range(100):
            function(*values)
        return [
            sys.getrefcount(value) for value in (*values, None)
        ], tracemalloc.get_traced_memory()

    tracemalloc.start()
    try:
        (before, (memory, _)), (after, (later, _)) = held(), held()
    finally:
        tracemalloc.stop()
    assert max(np.subtract(after, before)) < 20
    assert later - memory < 8000
    (loop,) = [n for n in function.maker.fgraph.apply_nodes if isinstance(n.op, Loop)]
    assert all(cell == [None] for cell in (*loop.tag.inner.inputs, *loop.tag.inner.outputs))


@pytest.mark.compiled
def test_a_long_loop_can_be_interrupted():
    n, x = pt.lscalar("n"), pt.dscalar("x")
    path = scan(lambda x: x * 0.5, outputs_info=[x], n_steps=n, mode=C.one_function)[0]
    function = C.function([x, n], path[-1])
    assert loops(function) == [Loop]
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            function(np.array(1.0), np.array(10**12))
    finally:
        signal.signal(signal.SIGALRM, before)
    assert function(np.array(1.0), np.array(3)) == 0.125


@pytest.mark.compiled
def test_it_pickles_with_its_graph_and_not_with_its_code():
    z, q = pt.dmatrix("z"), pt.dvector("q")
    path = scan(lambda z, q: 0.5 * q + z, sequences=[z], outputs_info=[q], mode=C.one_function)[0]
    graph = CompiledGraph([q, z], [path], C)
    values = np.ones(2), np.arange(6.0).reshape(3, 2)
    pickled = pickle.dumps(graph)
    assert b"_constructor_Function" not in pickled  # or it is linked when loaded, with no BLAS
    np.testing.assert_array_equal(pickle.loads(pickled)(*values)[0], graph(*values)[0])
    (loop,) = [n for n in graph._function.maker.fgraph.apply_nodes if isinstance(n.op, Loop)]
    assert len(pickle.dumps(loop.op)) < 500  # which PyTensor writes to disk


@pytest.mark.parametrize(
    "build",
    [
        lambda x, mode: scan(
            lambda a, b: a + b,
            outputs_info=[{"initial": x, "taps": [-2, -1]}],
            n_steps=3,
            mode=mode,
        ),
        lambda x, mode: scan(lambda a: a + 1, sequences=[x], outputs_info=[None], mode=mode),
    ],
    ids=["two steps back", "collected"],
)
@pytest.mark.compiled
def test_other_scans_are_left_to_pytensor(build):
    x = pt.dvector("x")
    function = C.function([x], build(x, C.one_function))
    assert loops(function) in ([Scan], [])
