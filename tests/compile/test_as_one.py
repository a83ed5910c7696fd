"""A part of a graph as one function in C against the graph as it is."""

import pickle
import sys
import tracemalloc

import numpy as np
import pytensor.tensor as pt
import pytest
from pytensor.link.c.basic import CLinker

from pymc_sgmcmc.compile.backend import Backend
from pymc_sgmcmc.compile.c_subgraph import Call
from pymc_sgmcmc.compile.compiled_graph import CompiledGraph
from pymc_sgmcmc.compile.in_python import interpreted
from pymc_sgmcmc.compile.take_rows import take_rows

pytestmark = pytest.mark.additions

C = Backend("c")


def calls(function):
    return [n for n in function.maker.fgraph.apply_nodes if isinstance(n.op, Call)]


def sums(d, dtype="float64"):
    """A graph of paths whose lengths are (steps, d), as one part, and as it is."""
    x, u = pt.tensor("x", dtype=dtype, shape=(None, d)), pt.vector("u", dtype=dtype)
    rows, before = pt.lvector("rows"), pt.tensor("before", dtype=dtype, shape=(d,))
    taken = take_rows(2 * x, rows)  # a part's inputs are made of others
    inner = [pt.sum(taken - before, axis=0) / d, pt.sum(u[:, None] * taken, axis=0), u[-1] * 1.0]
    parts = C.as_one([taken, before, u], inner)
    return [x, u, rows, before], [*parts, parts[0] + 1], [*inner, inner[0] + 1]


@pytest.mark.compiled
@pytest.mark.parametrize("d", [1, 2, 3, 7])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_values_are_those_of_the_graph(d, dtype):
    inputs, parts, plain = sums(d, dtype)
    function, expected = C.function(inputs, parts), interpreted(inputs, plain)
    assert len(calls(function)) == 1
    for n in (2, 5, 5):
        rng = np.random.default_rng(n)
        values = rng.normal(size=(9, d)), rng.normal(size=n), rng.integers(9, size=n)
        values = [np.asarray(v, v.dtype if v.dtype == int else dtype) for v in values]
        values.append(rng.normal(size=d).astype(dtype))
        copies = [value.copy() for value in values]
        for found, right in zip(function(*values), expected(*values), strict=True):
            np.testing.assert_allclose(found, right, rtol=1e3 * np.finfo(dtype).eps, atol=1e-5)
        for value, copy in zip(values, copies, strict=True):
            np.testing.assert_array_equal(value, copy)


@pytest.mark.compiled
def test_other_lengths_are_the_same_code():
    def key(d):
        inputs, parts, _ = sums(d)
        (call,) = calls(C.function(inputs, parts))
        return call.tag.inner.function.maker.linker.cmodule_key()

    assert key(3)[0] and key(3) == key(7) == key(100)


@pytest.mark.compiled
def test_a_length_of_one_broadcasts():
    x, y = pt.tensor("x", shape=(None, 1)), pt.tensor("y", shape=(None, 4))
    function = C.function([x, y], C.as_one([x, y], [x * y]))
    given = np.arange(3.0)[:, None], np.arange(12.0).reshape(3, 4)
    assert len(calls(function)) == 1
    np.testing.assert_array_equal(function(*given)[0], given[0] * given[1])


@pytest.mark.compiled
def test_a_part_without_c_code_stays_as_it_is():
    x = pt.dvector("x")
    inner = [pt.sort(x) + 1, x * 2]
    assert C.as_one([x], inner) is inner


@pytest.mark.parametrize("backend", [Backend("numba"), Backend("c", {"mode": "FAST_COMPILE"})])
def test_other_backends_have_no_parts(backend):
    x = pt.dvector("x")
    inner = [x + 1]
    assert backend.as_one([x], inner) is inner


@pytest.mark.compiled
def test_a_result_that_is_an_input_is_a_copy():
    x = pt.dvector("x")
    y = x * 2
    function = C.function([x], [*C.as_one([y], [y[::-1], y]), y])
    value = np.arange(3.0)
    for found, expected in zip(function(value), [[4, 2, 0], [0, 2, 4], [0, 2, 4]], strict=True):
        np.testing.assert_array_equal(found, expected)
    first, second, _ = function(value)
    first[0] = np.nan
    np.testing.assert_array_equal(second, [0, 2, 4])


@pytest.mark.compiled
def test_an_error_is_raised_and_the_next_call_is_right():
    x, rows = pt.dmatrix("x"), pt.lvector("rows")
    function = C.function([x, rows], C.as_one([x, rows], [take_rows(x, rows).sum(axis=0)]))
    assert len(calls(function)) == 1
    data = np.arange(6.0).reshape(2, 3)
    for _ in range(3):
        with pytest.raises(IndexError, match="row index out of range"):
            function(data, np.array([0, 2]))
        np.testing.assert_array_equal(function(data, np.array([0, 1]))[0], [3, 5, 7])


@pytest.mark.compiled
def test_calls_leave_no_memory_and_no_references():
    inputs, parts, _ = sums(500)
    function = C.function(inputs, parts)
    values = np.ones((9, 500)), np.ones(4), np.arange(4), np.ones(500)

    def held():
        for _ in range(100):
            function(*values)
        counts = [sys.getrefcount(value) for value in (*values, None)]
        return counts, tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        (before, memory), (after, later) = held(), held()
    finally:
        tracemalloc.stop()
    assert max(np.subtract(after, before)) < 20
    assert later - memory < 8000
    (call,) = calls(function)
    assert all(cell == [None] for cell in (*call.tag.inner.inputs, *call.tag.inner.outputs))


@pytest.mark.compiled
def test_it_pickles_with_its_graph_and_not_with_its_code():
    inputs, parts, _ = sums(3)
    graph = CompiledGraph(inputs, parts, C)
    rng = np.random.default_rng(1)
    values = rng.normal(size=(9, 3)), rng.normal(size=2), np.array([3, 4]), rng.normal(size=3)
    pickled = pickle.dumps(graph)
    assert b"_constructor_Function" not in pickled  # or it is linked when loaded, with no BLAS
    for found, expected in zip(pickle.loads(pickled)(*values), graph(*values), strict=True):
        np.testing.assert_array_equal(found, expected)
    (call,) = calls(graph._function)
    assert isinstance(call.tag.inner.function.maker.linker, CLinker)
    assert len(pickle.dumps(call.op)) < 500  # which PyTensor writes to disk


@pytest.mark.compiled
def test_numbers_that_are_a_length_are_inputs_whatever_they_mean():
    x = pt.tensor("x", shape=(None, 3))
    (part,) = C.as_one([x], [pt.sum(x**2, axis=0) / 3 + 3 * x[0] + x**3 * 5])
    function, value = C.function([x], part), np.arange(6.0).reshape(2, 3)
    expected = (value**2).sum(axis=0) / 3 + 3 * value[0] + value**3 * 5
    np.testing.assert_allclose(function(value), expected)
    (call,) = calls(function)
    assert len(call.inputs) > 1
