"""Compilation: what is compiled by what, and what is said where a compiler is missing."""

import doctest
import importlib

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pymc_sgmcmc.compile.backend import Backend
from pymc_sgmcmc.compile.compiled_graph import CompiledGraph
from pymc_sgmcmc.compile.compiling import compiling
from pymc_sgmcmc.compile.elementwise_loops import Contiguous
from pymc_sgmcmc.compile.scatter_add import AddAt
from pymc_sgmcmc.compile.take_rows import take_rows
from pymc_sgmcmc.samplers import SGLD
from tests.cases import draws, regression, sample
from tests.tiers import statistics_but


def test_without_a_c_compiler_numba_is_used_and_said(monkeypatch):
    monkeypatch.setattr(pytensor.config, "cxx", "")
    with pytest.warns(UserWarning, match="no C compiler.*apt install g.*Numba|numba"):
        backend = Backend("c")
    assert backend.compile_kwargs["mode"] == "NUMBA"


def symbols_asked_for():
    """The flag that the compiler heeds."""
    return [f for f in pytensor.config.gcc__cxxflags.split() if f.startswith("-g")][-1]


def test_c_code_has_no_symbols_for_a_debugger_unless_the_user_wants_them():
    with pytensor.config.change_flags(gcc__cxxflags=""), compiling():
        assert symbols_asked_for() == "-g0"
    with pytensor.config.change_flags(gcc__cxxflags="-ggdb"), compiling():
        assert symbols_asked_for() == "-ggdb"


@pytest.mark.compiled
def test_matrix_products_use_a_blas():
    x, v = pt.matrix("x", dtype="float64"), pt.vector("v", dtype="float64")
    function = Backend("c").function([x, v], [pt.dot(x, v)])
    operations = [type(node.op).__name__ for node in function.maker.fgraph.apply_nodes]
    assert "CGemv" in operations
    a, b = np.arange(6.0).reshape(2, 3), np.arange(3.0)
    np.testing.assert_allclose(function(a, b)[0], a @ b)


@pytest.mark.additions
@pytest.mark.parametrize(
    "length, dtype, by_blas",
    [(5, "float64", False), (2000, "float64", True), (2000, "int64", False)],
)
@pytest.mark.compiled
def test_long_sums_of_squares_use_a_blas(length, dtype, by_blas):
    x = pt.tensor("x", dtype=dtype, shape=(length,))
    function = Backend("c").function([x], [pt.sum(pt.sqr(x), axis=-1), pt.sum(x)])
    operations = [type(node.op).__name__ for node in function.maker.fgraph.apply_nodes]
    assert ("CGemv" in operations) == by_blas and "Dot" not in operations
    values = (10 * np.random.default_rng(5).normal(size=length)).astype(dtype)
    np.testing.assert_allclose(function(values), [values @ values, values.sum()])


@pytest.mark.compiled
@pytest.mark.additions
@pytest.mark.parametrize("dtype", statistics_but(["float64"], ["float32", "float64", "int64"]))
@pytest.mark.parametrize("shape", [(7,), (7, 3), (7, 3, 2)])
def test_elementwise_loops_are_right_for_every_layout(shape, dtype):
    """Contiguous or not, with single numbers, of two outputs, one of them in place."""
    x, y = (pt.tensor(name, dtype=dtype, shape=(None,) * len(shape)) for name in "xy")
    s = pt.scalar("s", dtype=dtype)
    z = pt.sqr(x) + 2 * y  # an array of the function's own, which may be overwritten
    function = Backend("c").function([x, y, s], [s * z - y, pt.sum(z, axis=0), x + s * y])
    nodes = function.maker.fgraph.apply_nodes
    assert any(isinstance(node.op, Contiguous) and len(node.outputs) > 1 for node in nodes)
    rng, scale = np.random.default_rng(4), np.array(3, dtype)
    a, b = ((10 * rng.normal(size=shape)).astype(dtype) for _ in range(2))
    wide = np.zeros((2 * shape[0], *shape[1:]), dtype)
    wide[::2] = a
    for one in (a, np.asfortranarray(a), wide[::2], a[::-1].copy()[::-1]):
        for other in (b, np.asfortranarray(b)):
            first, added, last = function(one, other, scale)
            np.testing.assert_allclose(first, scale * (a**2 + 2 * b) - b, rtol=1e-5)
            np.testing.assert_allclose(added, (a**2 + 2 * b).sum(axis=0), rtol=1e-5)
            np.testing.assert_allclose(last, a + scale * b, rtol=1e-5)
    for wrong in (b[:1], b[:-1]):
        with pytest.raises(ValueError, match=r"Input dimension mismatch|Runtime broadcasting"):
            function(a, wrong, scale)


@pytest.mark.compiled
@pytest.mark.additions
@pytest.mark.parametrize("dtype", statistics_but(["float64"], ["float32", "float64"]))
@pytest.mark.parametrize("axes, shape", [(1, (5, 3)), (1, (5, 3, 2)), (2, (5, 3)), (2, (5, 3, 2))])
@pytest.mark.parametrize("index", [(4,), (4, 1)], ids=["vectors", "columns"])
def test_additions_at_indices_are_those_of_numpy(axes, shape, index, dtype):
    x = pt.tensor("x", dtype=dtype, shape=(None,) * len(shape))
    where = [pt.tensor(f"i{k}", dtype=d, shape=(None, 1)[: len(index)])
             for k, d in zip(range(axes), ["int64", "int16"], strict=False)]  # fmt: skip
    rest = len(shape) - axes
    y = pt.tensor("y", dtype=dtype, shape=(None, 1)[: len(index)] + (None,) * rest)
    one = pt.tensor("one", dtype=dtype, shape=(1,) * (len(index) + rest))
    at = tuple(where)
    # In x, and in an array of the function's own.
    outputs = [x[at].inc(y), pt.sqr(x)[at].inc(one)]
    function = Backend("c").function([x, y, one, *where], outputs)
    added = [node.op for node in function.maker.fgraph.apply_nodes if isinstance(node.op, AddAt)]
    assert sorted(op.inplace for op in added) == [False, True]
    rng = np.random.default_rng(6)
    a, b = (rng.normal(size=size).astype(dtype) for size in (shape, (*index, *shape[axes:])))
    rows, columns = np.array([4, 0, -1, 0]), np.array([0, 2, 2, -3], "int16")
    chosen = [of.reshape(index) for of in (rows, columns)[:axes]]
    number = np.full(one.type.shape, 0.5, dtype)
    for given in (a, np.asfortranarray(a), a[::-1]):
        for more in (b, np.asfortranarray(b), b[::-1].copy()[::-1]):
            expected, squares = given.copy(), given**2
            np.add.at(expected, tuple(chosen), more)
            np.add.at(squares, tuple(chosen), number)
            before = given.copy()
            first, second = function(given, more, number, *chosen)
            np.testing.assert_allclose(first, expected, rtol=1e-6)
            np.testing.assert_allclose(second, squares, rtol=1e-6)
            np.testing.assert_array_equal(given, before)
    for wrong in (5, -6):
        with pytest.raises(IndexError):
            function(a, b, number, *(np.full(of.shape, wrong, of.dtype) for of in chosen))
    if axes == 2:
        with pytest.raises(ValueError, match="different shapes"):
            function(a, b, number, chosen[0], chosen[1][:-1])


REPEATED = [
    ((5, 4), (4,)),
    ((5, 4), (5, 1)),
    ((5, 1), (1, 4)),
    ((5, 1), (1, 1)),
    ((5, 4), (1, 1)),
    ((3, 5, 4), (5, 1)),
    ((3, 1, 4), (5, 1)),
    ((3, 5, 1), (3, 1, 1)),
    ((1, 4, 1), (3, 1, 2)),
]


@pytest.mark.compiled
@pytest.mark.additions
@pytest.mark.parametrize("shapes", statistics_but(REPEATED[::4], REPEATED), ids=str)
def test_elementwise_loops_are_right_where_axes_are_repeated(shapes):
    kinds = [tuple(1 if n == 1 else None for n in shape) for shape in shapes]
    x, y = (pt.tensor(n, dtype="float64", shape=k) for n, k in zip("xy", kinds, strict=True))
    z = pt.sqr(x + y)
    function = Backend("c").function([x, y], [x + pt.exp(y), x - 2 * y * x, z, z - x])
    assert any(isinstance(node.op, Contiguous) for node in function.maker.fgraph.apply_nodes)
    rng = np.random.default_rng(5)
    a, b = (rng.normal(size=shape) for shape in shapes)
    wide = np.zeros((*shapes[1][:-1], 2 * shapes[1][-1]))
    wide[..., ::2] = b
    for one in (a, np.asfortranarray(a), a[..., ::-1].copy()[..., ::-1]):
        for other in (b, np.asfortranarray(b), wide[..., ::2]):
            expected = [a + np.exp(b), a - 2 * b * a, (a + b) ** 2, (a + b) ** 2 - a]
            for value, right in zip(function(one, other), expected, strict=True):
                np.testing.assert_allclose(value, right)


@pytest.mark.compiled
@pytest.mark.parametrize("settings", [("c", {}), ("numba", {}), ("c", {"mode": "FAST_RUN"})])
@pytest.mark.parametrize("dtype", statistics_but(["int64"], ["int64", "int8", "bool", "float32"]))
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


@pytest.mark.compiled
def test_a_compiled_graph_pickles_as_its_rewritten_graph():
    import cloudpickle

    x = pt.vector("x", dtype="float64")
    square = CompiledGraph([x], [x**2], Backend("c"))
    twin = cloudpickle.loads(cloudpickle.dumps(square))
    np.testing.assert_array_equal(twin(np.arange(3.0))[0], [0, 1, 4])


@pytest.mark.compiled
@pytest.mark.additions
@pytest.mark.parametrize("backend", statistics_but(["c"], ["c", "numba"]))
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


@pytest.mark.statistics
def test_a_mode_of_the_users_own(capsys):
    with regression():
        step = SGLD(step_size=0.005, batch_size=5, compile_kwargs={"mode": "FAST_COMPILE"})
        assert np.isfinite(draws(sample(step))).all()


@pytest.mark.parametrize(
    "name",
    statistics_but(
        ["dynamics.schedules", "dynamics.annealing", "data"],
        [
            "dynamics.schedules",
            "dynamics.annealing",
            "data",
            "samplers.sgld",
            "samplers.sghmc",
            "samplers.sgnht",
        ],
    ),
)
def test_examples_of_the_docstrings(name):
    module = importlib.import_module(f"pymc_sgmcmc.{name}")
    result = doctest.testmod(module)
    assert result.attempted and not result.failed
