"""Sparse triangular systems, against SciPy's dense solutions."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from scipy.linalg import solve_triangular
from scipy.sparse import csr_array

from pymc_sgmcmc.compile.backend import Backend
from pymc_sgmcmc.compile.triangular_solve import TriangularSolve, lower_solve, transposed_solve
from tests.helpers import INTERPRETED

D = 9
OF = {"lower": lower_solve, "transposed": transposed_solve}
COMPILED = [
    INTERPRETED,
    pytest.param(Backend("c"), marks=pytest.mark.compiled),
    pytest.param(Backend("numba"), marks=pytest.mark.statistics),
]


def matrix(dtype="float64"):
    """A lower triangular matrix with empty places, as a dense array and as arrays of CSR."""
    rng = np.random.default_rng(0)
    dense = np.tril(rng.normal(size=(D, D)) * (rng.random((D, D)) < 0.4), -1)
    dense += np.diag(rng.uniform(1, 2, size=D) * np.array([1, -1] * 5)[:D])
    sparse = csr_array(dense)
    arrays = (
        sparse.data.astype(dtype),
        sparse.indices.astype("int32"),
        sparse.indptr.astype("int64"),
    )
    return dense, [pytensor.shared(array, shape=(None,)) for array in arrays]


@pytest.mark.parametrize("kind", OF)
@pytest.mark.parametrize("backend", COMPILED)
def test_solutions_and_derivatives(kind, backend):
    dense, arrays = matrix()
    b, g = pt.vector("b", shape=(D,)), pt.vector("g", shape=(D,))
    solution = OF[kind](*arrays, b)
    pulled = pt.grad(None, b, known_grads={solution: g})
    rng = np.random.default_rng(1)
    given, slope = rng.normal(size=D), rng.normal(size=D)
    found, derivative = backend.function([b, g], [solution, pulled])(given, slope)
    trans = "T" if kind == "transposed" else "N"
    expected = solve_triangular(dense, given, trans=trans, lower=True)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    other = solve_triangular(dense, slope, trans="N" if trans == "T" else "T", lower=True)
    np.testing.assert_allclose(derivative, other, rtol=1e-12)


@pytest.mark.compiled
def test_numbers_that_are_not_contiguous_or_of_other_precision():
    dense, arrays = matrix("float32")
    b = pt.matrix("b")
    found = Backend().function([b], [lower_solve(*arrays, b[:, 1])])(
        np.arange(2.0 * D).reshape(D, 2)
    )
    expected = solve_triangular(dense, np.arange(1.0, 2 * D, 2), lower=True)
    np.testing.assert_allclose(found[0], expected, rtol=1e-5)


@pytest.mark.compiled
def test_a_matrix_of_another_size_is_refused():
    _, arrays = matrix()
    b = pt.vector("b")
    with pytest.raises(ValueError, match="not one number for each row"):
        Backend().function([b], [transposed_solve(*arrays, b)])(np.ones(D + 1))


def test_types_are_checked():
    _, (entries, columns, starts) = matrix()
    with pytest.raises(TypeError, match="columns of int32"):
        lower_solve(entries, columns.astype("int64"), starts, pt.vector())
    with pytest.raises(TypeError, match="expected vectors"):
        lower_solve(entries, columns, starts, pt.matrix())
    assert TriangularSolve(transposed=True) == transposed_solve != lower_solve
