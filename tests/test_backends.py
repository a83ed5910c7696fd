"""Compilation: what is compiled by what, and what is said where a compiler is missing."""

import doctest
import importlib

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pymc_sgmcmc.backends import Backend, CompiledGraph
from pymc_sgmcmc.gather import take_rows
from pymc_sgmcmc.samplers import SGLD
from tests.samplers import draws, regression, sample


def test_without_a_c_compiler_numba_is_used_and_said(monkeypatch):
    monkeypatch.setattr(pytensor.config, "cxx", "")
    with pytest.warns(UserWarning, match="no C compiler.*apt install g.*Numba|numba"):
        backend = Backend("c")
    assert backend.compile_kwargs["mode"] == "NUMBA"


def test_matrix_products_use_a_blas():
    x, v = pt.matrix("x", dtype="float64"), pt.vector("v", dtype="float64")
    function = Backend("c").function([x, v], [pt.dot(x, v)])
    operations = [type(node.op).__name__ for node in function.maker.fgraph.apply_nodes]
    assert "CGemv" in operations
    a, b = np.arange(6.0).reshape(2, 3), np.arange(3.0)
    np.testing.assert_allclose(function(a, b)[0], a @ b)


@pytest.mark.parametrize(
    "length, dtype, by_blas",
    [(5, "float64", False), (2000, "float64", True), (2000, "int64", False)],
)
def test_long_sums_of_squares_use_a_blas(length, dtype, by_blas):
    x = pt.tensor("x", dtype=dtype, shape=(length,))
    function = Backend("c").function([x], [pt.sum(pt.sqr(x), axis=-1), pt.sum(x)])
    operations = [type(node.op).__name__ for node in function.maker.fgraph.apply_nodes]
    assert ("CGemv" in operations) == by_blas and "Dot" not in operations
    values = (10 * np.random.default_rng(5).normal(size=length)).astype(dtype)
    np.testing.assert_allclose(function(values), [values @ values, values.sum()])


@pytest.mark.parametrize("settings", [("c", {}), ("numba", {}), ("c", {"mode": "FAST_RUN"})])
@pytest.mark.parametrize("dtype", ["int64", "int8", "bool", "float32"])
def test_no_term_beside_a_matrix_product_is_lost(settings, dtype):
    """PyTensor's C mode computes y - (X @ b + z) and forgets an integer z."""
    x, b = pt.matrix("x", dtype="float64"), pt.vector("b", dtype="float64")
    y, z = pt.vector("y", dtype="float64"), pt.vector("z", dtype=dtype)
    s = pt.scalar("s", dtype="float64")
    outputs = [y - (x @ b + z), y - x @ b - s * z, y + z + 2.0 * (x @ b)]
    rng = np.random.default_rng(3)
    X, B, Y = rng.normal(size=(4, 2)), rng.normal(size=2), rng.normal(size=4)
    Z, S = np.array([1, 0, 1, 1], dtype), np.array(0.7)
    expected = [Y - (X @ B + Z), Y - X @ B - S * Z, Y + Z + 2 * X @ B]
    for output, value in zip(outputs, expected, strict=True):
        function = CompiledGraph([x, b, y, z, s], [output, s], Backend(*settings))
        np.testing.assert_allclose(function(X, B, Y, Z, S)[0], value)


def test_a_compiled_graph_pickles_as_its_rewritten_graph():
    import cloudpickle

    x = pt.vector("x", dtype="float64")
    square = CompiledGraph([x], [x**2], Backend("c"))
    twin = cloudpickle.loads(cloudpickle.dumps(square))
    np.testing.assert_array_equal(twin(np.arange(3.0))[0], [0, 1, 4])


@pytest.mark.parametrize("backend", ["c", "numba"])
@pytest.mark.parametrize("shape", [(7,), (7, 3), (7, 3, 2)])
@pytest.mark.parametrize("dtype", ["float64", "int32", "bool"])
def test_rows_are_taken_as_numpy_does(backend, shape, dtype):
    x, rows = pt.tensor("x", dtype=dtype, shape=(None,) * len(shape)), pt.lvector("rows")
    take = Backend(backend).function([x, rows], [take_rows(x, rows)])
    data = (np.arange(np.prod(shape)) % 5).reshape(shape).astype(dtype)
    many = np.random.default_rng(0).integers(7, size=50)  # the processor is told of those ahead
    for chosen in ([3, 0, 6, 3], [5], [1, 2, 3, 4], [0, 1, 2, 5], many):
        chosen = np.array(chosen)
        np.testing.assert_array_equal(take(data, chosen)[0], data[chosen])
        for view in (data[::-1], np.asfortranarray(data)):
            np.testing.assert_array_equal(take(view, chosen)[0], view[chosen])
    for wrong in ([0, 7], [0, -1], [5, 6, 7], [-1, 0]):
        with pytest.raises(IndexError):
            take(data, np.array(wrong))


def test_a_mode_of_the_users_own(capsys):
    with regression():
        step = SGLD(step_size=0.005, batch_size=5, compile_kwargs={"mode": "FAST_COMPILE"})
        assert np.isfinite(draws(sample(step))).all()


@pytest.mark.parametrize("name", ["schedules", "annealing", "data", "samplers.sgld",
                                  "samplers.sghmc", "samplers.sgnht"])  # fmt: skip
def test_examples_of_the_docstrings(name):
    module = importlib.import_module(f"pymc_sgmcmc.{name}")
    result = doctest.testmod(module)
    assert result.attempted and not result.failed
