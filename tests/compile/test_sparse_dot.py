"""Products with some rows of a sparse matrix, against dense ones."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
import scipy.sparse as sp

from pymc_sgmcmc.compile.backend import Backend
from pymc_sgmcmc.compile.sparse_dot import sparse_dot, sparse_pull
from tests.helpers import INTERPRETED

N, K = 23, 7
COMPILED = [
    INTERPRETED,
    *(pytest.param(Backend(b), marks=pytest.mark.statistics) for b in ("numba",)),
]


def matrices():
    """Sparse matrices of every make: (name, CSR arrays, dense)."""
    rng = np.random.default_rng(0)
    plain = sp.random(N, K, 0.3, format="csr", random_state=0)
    empty = plain.copy()
    empty.data[:] = 0
    empty.eliminate_zeros()
    doubled = (  # an entry given twice, rows not in order, rows without any
        rng.normal(size=6),
        np.array([3, 0, 3, 6, 2, 1], np.int32),
        np.concatenate([[0, 3, 3, 5], np.full(N - 3, 6)]),
    )
    one_hot = sp.csr_matrix((np.ones(N), (np.arange(N), rng.integers(K, size=N))), (N, K))
    yield "plain", (plain.data, plain.indices, plain.indptr)
    yield "empty", (empty.data, empty.indices, empty.indptr)
    yield "doubled", doubled
    yield "one-hot bool", (one_hot.data.astype(bool), one_hot.indices, one_hot.indptr)
    yield "float32", (plain.data.astype(np.float32), plain.indices, plain.indptr)
    yield "int8", (np.ceil(9 * plain.data).astype(np.int8), plain.indices, plain.indptr)


MATRICES = dict(matrices())


def symbols(name):
    data, indices, indptr = MATRICES[name]
    arrays = data, indices.astype(np.int32), indptr.astype(np.int64)
    dense = np.zeros((N, K))
    for row in range(N):
        own = slice(indptr[row], indptr[row + 1])
        np.add.at(dense[row], indices[own], data[own])
    return [pytensor.shared(array, shape=(None,)) for array in arrays], dense


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("backend", COMPILED)
def test_rows_are_those_of_the_dense_product(name, columns, backend):
    design, X = symbols(name)
    rng = np.random.default_rng(1)
    rows, beta, g = pt.lvector(), pt.matrix(), pt.matrix()
    product = sparse_dot(*design, rows, beta)
    outputs = [product, pt.grad((product * g).sum(), beta), sparse_pull(*design, rows, g, K)]
    # The gradient of the transposed product is the product.
    outputs.append(pt.grad((sparse_pull(*design, rows, g, K) * beta).sum(), g))
    function = backend.function([rows, beta, g], outputs)
    for chosen in (np.arange(N), rng.integers(N, size=40), np.empty(0, int), np.array([N - 1])):
        b, slopes = rng.normal(size=(K, columns)), rng.normal(size=(len(chosen), columns))
        found = function(chosen, b, slopes)
        forward, back = X[chosen] @ b, X[chosen].T @ slopes
        for part, expected in zip(found, (forward, back, back, forward), strict=True):
            np.testing.assert_allclose(part, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("backend", COMPILED)
@pytest.mark.parametrize("row", [-1, N])
def test_rows_out_of_range_are_errors(backend, row):
    design, _ = symbols("plain")
    rows, beta = pt.lvector(), pt.matrix()
    function = backend.function([rows, beta], [sparse_dot(*design, rows, beta)])
    with pytest.raises(IndexError):
        function(np.array([0, row]), np.ones((K, 1)))


@pytest.mark.compiled
@pytest.mark.additions
def test_c_code_is_that_of_numpy():
    """One function of all matrices: to compile takes long."""
    rows, beta, g = pt.lvector(), pt.matrix(), pt.matrix()
    graphs, dense = [], []
    for name in MATRICES:
        design, X = symbols(name)
        beta_seen = beta[::-1]  # not contiguous
        graphs += [sparse_dot(*design, rows, beta_seen), sparse_pull(*design, rows, g, K)]
        dense.append(X)
    function = Backend("c", {}).function([rows, beta, g], graphs)
    rng = np.random.default_rng(2)
    for columns in (1, 3):
        chosen = rng.integers(N, size=40)
        b, slopes = rng.normal(size=(K, columns)), rng.normal(size=(40, columns))
        found = function(chosen, b, slopes)
        for k, X in enumerate(dense):
            np.testing.assert_allclose(found[2 * k], X[chosen] @ b[::-1], rtol=1e-6, atol=1e-6)
            np.testing.assert_allclose(found[2 * k + 1], X[chosen].T @ slopes, atol=1e-6)
    with pytest.raises(IndexError):
        function(np.array([0, N]), np.ones((K, 1)), np.ones((2, 1)))
    with pytest.raises(ValueError, match="dense row"):
        function(np.array([0, 1]), np.ones((K, 1)), np.ones((3, 1)))
