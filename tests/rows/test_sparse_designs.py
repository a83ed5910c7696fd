"""Models with sparse matrices of data: their rows are sliced, with the numbers of NumPy."""

import logging
import pickle

import numpy as np
import pymc as pm
import pytensor
import pytensor.sparse as ps
import pytensor.tensor as pt
import pytest
import scipy.sparse as sp

from pymc_sgmcmc.compile.backend import Backend
from pymc_sgmcmc.compile.evaluate import evaluate
from pymc_sgmcmc.model.errors import RowsDoNotSeparate
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.rows.sparse_designs import has_sparse, without_sparse
from tests.helpers import INTERPRETED

N, K = 40, 6
RNG = np.random.default_rng(0)
DENSE = np.where(RNG.random((N, K)) < 0.3, RNG.normal(size=(N, K)), 0.0)
DENSE[3] = 0  # a row without entries
Y = RNG.normal(size=N)
SCALES = RNG.uniform(0.5, 2, size=N)

DESIGNS = {
    "csr": lambda: ps.as_sparse_variable(sp.csr_matrix(DENSE)),
    "csc": lambda: ps.as_sparse_variable(sp.csc_matrix(DENSE)),
    "shared csr": lambda: pytensor.shared(sp.csr_matrix(DENSE), name="X"),
    "shared csc": lambda: pytensor.shared(sp.csc_matrix(DENSE), name="X"),
    "made of dense": lambda: ps.csr_from_dense(pt.constant(DENSE)),
    "stacked": lambda: ps.hstack([sp.csr_matrix(DENSE[:, :2]), sp.csr_matrix(DENSE[:, 2:])]),
}
PRODUCTS = {
    "structured_dot": lambda X, b: ps.structured_dot(X, b[:, None]).ravel(),
    "dot": lambda X, b: ps.dot(X, b[:, None])[:, 0],
    "dot of a vector": lambda X, b: ps.dot(X, b),
    "true_dot": lambda X, b: ps.dense_from_sparse(ps.true_dot(X, b[:, None]))[:, 0],
    "from the left": lambda X, b: ps.dot(b[None], ps.transpose(X)).ravel(),
    "sum of columns": lambda X, b: ps.sp_sum(ps.multiply(X, b), axis=1),
    "scaled columns": lambda X, b: ps.sp_sum(ps.col_scale(X, b), axis=1),
    "twice": lambda X, b: ps.dot(X, b * 0.25) + 3 * ps.structured_dot(X, b[:, None] / 4).ravel(),
    "dense": lambda X, b: pt.dot(ps.dense_from_sparse(X), b),
}


def model_of(X, product="structured_dot"):
    with pm.Model() as model:
        beta, s = pm.Normal("beta", 0, 1, shape=K), pm.HalfNormal("s", 2)
        pm.Normal("y", PRODUCTS[product](X, beta), s, observed=Y)
    return model


def target_of(model, **kwargs):
    kwargs = {"batch_size": 7, "backend": INTERPRETED} | kwargs
    return Target(model, model.continuous_value_vars, **kwargs)


def expected(q, X=DENSE, rows=None):
    """U and its gradient of `model_of` in NumPy, at q = (beta, log s)."""
    rows = np.arange(N) if rows is None else rows
    beta, s = q[:K], np.exp(q[K])
    weight, error = N / len(rows), Y[rows] - X[rows] @ beta
    prior = beta @ beta / 2 + K / 2 * np.log(2 * np.pi) + s**2 / 8
    value = prior + np.log(2) - np.log(2 / np.pi) / 2 - np.log(s)
    value += weight * np.sum(error**2 / s**2 / 2 + np.log(s) + np.log(2 * np.pi) / 2)
    slope = beta - weight * X[rows].T @ error / s**2
    return value, np.append(slope, s**2 / 4 - 1 + weight * np.sum(1 - error**2 / s**2))


def assert_right(target, X=DENSE):
    q = np.random.default_rng(5).normal(size=K + 1) / 2
    for rows in (None, np.array([3, 7, 7, 0, N - 1])):
        value, gradient = target.value_and_gradient(q, rows if rows is None else [rows])
        wanted, slope = expected(q, X, rows)
        assert value == pytest.approx(wanted, rel=1e-10)
        np.testing.assert_allclose(gradient, slope, rtol=1e-10, atol=1e-10)


def assert_dense_product(X, product, dense=DENSE):
    """The product without sparse types, and its gradient, are those of the dense matrix."""
    b, slopes = pt.vector("b"), RNG.normal(size=N)
    terms, matrices = without_sparse({"y": PRODUCTS[product](X, b)})
    assert matrices
    assert not has_sparse([terms["y"]])
    values = RNG.normal(size=K)
    graphs = [terms["y"], pt.grad(pt.dot(terms["y"], slopes), b)]
    found, gradient = evaluate(graphs, {b: values})
    np.testing.assert_allclose(found, dense @ values, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(gradient, dense.T @ slopes, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("design", DESIGNS)
def test_matrices_of_every_make(design):
    assert_dense_product(DESIGNS[design](), "structured_dot")


@pytest.mark.parametrize("product", PRODUCTS)
def test_products_of_every_kind(product):
    assert_dense_product(DESIGNS["csr"](), product)
    assert_dense_product(DESIGNS["shared csc"](), product)


def test_rows_are_sliced():
    target = target_of(model_of(DESIGNS["csc"]()))
    assert not has_sparse([*target.groups[0].terms])
    assert_right(target)


def test_rows_scaled_by_data_and_parameters():
    X = ps.as_sparse_variable(sp.csr_matrix(DENSE))
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=K)
        scaled = ps.row_scale(ps.col_scale(X, pt.exp(beta)), pt.constant(SCALES))
        pm.Normal("y", ps.sp_sum(scaled, axis=1), 1, observed=Y)
    q = RNG.normal(size=K)
    rows = np.array([5, 9, 1])
    errors = (Y - SCALES * (DENSE @ np.exp(q)))[rows]
    slope = -np.exp(q) * ((SCALES[:, None] * DENSE)[rows].T @ errors)
    gradient = target_of(model).value_and_gradient(q, [rows])[1]
    np.testing.assert_allclose(gradient, q + N / 3 * slope, rtol=1e-10)


def test_batches_are_unbiased_exactly():
    """The mean over a partition into batches of one size is the exact gradient."""
    target = target_of(model_of(DESIGNS["csr"]()))
    q = RNG.normal(size=K + 1)
    batches = [target.value_and_gradient(q, [rows])[1] for rows in np.split(np.arange(N), 8)]
    np.testing.assert_allclose(np.mean(batches, axis=0), target.value_and_gradient(q)[1])


@pytest.mark.compiled
def test_softmax_with_two_matrices_and_dense_terms():
    other = sp.csr_matrix((np.ones(N), (np.arange(N), RNG.integers(3, size=N))), (N, 3))
    z, labels = RNG.normal(size=N), RNG.integers(4, size=N)
    with pm.Model() as model:
        B, A = pm.Normal("B", shape=(K, 4)), pm.Normal("A", shape=(3, 4))
        c = pm.Normal("c", shape=4)
        X, W = (ps.as_sparse_variable(x) for x in (sp.csr_matrix(DENSE, dtype=np.float32), other))
        logits = ps.structured_dot(X, B) + ps.structured_dot(W, A) + pt.outer(pt.constant(z), c)
        pm.Categorical("y", logit_p=logits, observed=labels)
    target = target_of(model)
    q, rows = RNG.normal(size=4 * (K + 3 + 1)), np.array([2, 30, 11])
    design = np.hstack([DENSE.astype(np.float32), other.toarray(), z[:, None]])
    with np.errstate(all="ignore"):
        logits = design[rows] @ q.reshape(-1, 4)
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    slope = design[rows].T @ (p - np.eye(4)[labels[rows]])
    gradient = target.value_and_gradient(q, [rows])[1]
    np.testing.assert_allclose(gradient, q + N / 3 * slope.ravel(), rtol=1e-6, atol=1e-6)


def test_one_hot_entries_are_not_taken_for_rows():
    """A one-hot matrix has as many entries as rows."""
    one_hot = sp.csr_matrix((np.ones(N, np.int8), (np.arange(N), RNG.integers(K, size=N))), (N, K))
    X = ps.as_sparse_variable(one_hot)
    target = target_of(model_of(X))
    assert sorted(data.source.type.dtype for data in target.groups[0].data) == ["float64", "int64"]
    assert_right(target, one_hot.toarray().astype(float))


def test_slopes_of_rows_are_kept():
    target = target_of(model_of(DESIGNS["csr"]()), with_predictors=True)
    assert len(target.energy.predictors[0]) == 2
    q = RNG.normal(size=K + 1)
    errors = (Y - DENSE @ q[:K]) / np.exp(2 * q[K])
    # One of them is X beta, or minus that.
    slopes = np.abs(target.near_anchor.of_all(q, 1)[0][:, :2].T)
    assert any(np.allclose(slope, np.abs(errors)) for slope in slopes)


@pytest.mark.parametrize("as_matrix", [sp.csr_matrix, sp.csc_matrix])
def test_new_values_of_a_shared_matrix_are_seen(as_matrix):
    X = pytensor.shared(as_matrix(DENSE), name="X")
    target = target_of(model_of(X))
    target.value_and_gradient(np.zeros(K + 1))
    X.set_value(as_matrix(2 * DENSE[::-1]))
    target.examine()
    assert_right(target, 2 * DENSE[::-1])
    copied = pickle.loads(pickle.dumps(target.model_terms.matrices))
    assert len(copied[0].rows.get_value()) == N


def test_a_matrix_that_is_not_sliced_is_exact():
    X = pytensor.shared(sp.csr_matrix(DENSE), name="X")
    with pytest.raises(RowsDoNotSeparate, match="'y' do not separate"):
        target_of(model_of(X), rows={"X": None})
    q = RNG.normal(size=K + 1)
    gradient = target_of(model_of(X), batch_size=None).value_and_gradient(q)[1]
    np.testing.assert_allclose(gradient, expected(q)[1])


def test_what_cannot_be_written_without_sparse_types_stays():
    pattern = sp.csr_matrix(DENSE)
    values = pt.vector("values")
    X = ps.CSR(values, pattern.indices, pattern.indptr, np.array([N, K]))
    term = ps.dot(X, pt.ones(K))
    terms, derived = without_sparse({"y": term})
    assert terms == {"y": term}
    assert not derived


def test_a_sparse_matrix_of_parameters_is_exact_and_compiled_in_c(caplog):
    pattern = sp.csr_matrix(DENSE)
    with pm.Model() as model:
        values = pm.Normal("values", shape=pattern.nnz)
        X = ps.CSR(values, pattern.indices, pattern.indptr, np.array([N, K]))
        pm.Normal("y", ps.structured_dot(X, pt.ones((K, 1))).ravel(), 1, observed=Y)
    numba = Backend("numba")
    with caplog.at_level(logging.WARNING, logger="pymc.sgmcmc"):
        assert not Target(model, model.continuous_value_vars, backend=numba).backend.is_numba
    assert "backend='c' is used" in caplog.text
    q = RNG.normal(size=pattern.nnz)
    owner = np.repeat(np.arange(N), np.diff(pattern.indptr))
    errors = Y - np.bincount(owner, q, N)
    gradient = target_of(model, batch_size=None).value_and_gradient(q)[1]
    np.testing.assert_allclose(gradient, q - errors[owner], rtol=1e-10)


def test_indices_out_of_range_are_named():
    broken = sp.csr_matrix(DENSE)
    broken.indices[0] = K
    with pytest.raises(ValueError, match="indices outside"):
        without_sparse({"y": ps.dot(pytensor.shared(broken), pt.vector())})
