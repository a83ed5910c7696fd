"""Metrics with a sparse inverse, against dense matrices."""

import pickle
from dataclasses import replace

import numpy as np
import pytensor.tensor as pt
import pytest
from scipy.sparse import csr_array

from pymc_sgmcmc.tuning.sparse_metric import factor_of_sparse, unit_factor
from tests.helpers import INTERPRETED


def arrow(groups=30, shared=3, seed=0):
    """The Hessian of a regression with `shared` slopes and an effect of each group, permuted."""
    rng = np.random.default_rng(seed)
    n = 6 * groups
    A = np.zeros((n, shared + groups))
    A[:, :shared] = rng.normal(size=(n, shared))
    A[np.arange(n), shared + rng.integers(groups, size=n)] = rng.uniform(0.5, 3, size=n)
    order = rng.permutation(shared + groups)
    return (A.T @ A + np.diag(rng.uniform(0.1, 10, size=shared + groups)))[order][:, order]


@pytest.fixture(scope="module")
def known():
    H = arrow()
    return H, factor_of_sparse(csr_array(H))


def test_the_inverse_is_the_matrix(known):
    H, metric = known
    L = metric.times(np.eye(len(H))).T
    np.testing.assert_allclose(L @ L.T, np.linalg.inv(H), rtol=1e-9, atol=1e-12)
    g = np.random.default_rng(1).normal(size=(4, len(H)))
    np.testing.assert_allclose(metric.pull(g), g @ L, atol=1e-12)
    np.testing.assert_allclose(metric.pull(g[0]), L.T @ g[0], atol=1e-12)
    np.testing.assert_allclose(metric.times(metric.solve(g)), g, atol=1e-12)


def test_no_entries_are_added(known):
    H, metric = known
    assert len(metric.entries) == np.count_nonzero(np.tril(H))


def crossed(users=300, items=40, ratings=4000, seed=3):
    """The Hessian of ratings, of which both users and items have many or few."""
    rng = np.random.default_rng(seed)
    sizes = (items, users, 1)
    A = np.zeros((ratings, sum(sizes)))
    for start, size in ((0, items), (items, users)):
        p = rng.gamma(1.0, size=size)
        A[np.arange(ratings), start + rng.choice(size, size=ratings, p=p / p.sum())] = 1.0
    A[:, -1] = 1.0
    return csr_array(A.T @ A + np.eye(sum(sizes))), sizes


def test_of_crossed_effects_the_fewer_are_tied():
    H, (items, users, _) = crossed()
    d = H.shape[0]
    metric = factor_of_sparse(H, (items, users, 1))
    assert set(metric.order[:users]) == set(range(items, items + users))
    # The ratings, and all items with one another and with the mean.
    most = (H.nnz + d) // 2 + items * (items + 1) // 2
    assert len(metric.entries) <= most < len(factor_of_sparse(H).entries)
    L = metric.times(np.eye(d)).T
    np.testing.assert_allclose(L @ L.T, np.linalg.inv(H.toarray()), rtol=1e-8, atol=1e-11)
    again = factor_of_sparse(2 * H, order=metric.order)
    np.testing.assert_allclose(again.entries, np.sqrt(2) * metric.entries)


def test_a_large_variable_whose_entries_are_tied_goes_last():
    """One with a dense prior, beside effects of fewer groups that few entries are tied to."""
    rng, n, groups = np.random.default_rng(4), 100, 90
    A = np.zeros((400, n + groups))
    A[np.arange(400), rng.integers(n, size=400)] = 1.0
    A[np.arange(400), n + rng.integers(groups, size=400)] = 1.0
    H = A.T @ A + np.eye(n + groups)
    H[:n, :n] += 0.1 * np.cov(rng.normal(size=(n, 3 * n)))
    found = factor_of_sparse(csr_array(H), (n, groups))
    assert set(found.order[:groups]) == set(range(n, n + groups))


def test_compiled_code_does_the_same(known):
    _, metric = known
    d = len(metric.order)
    arrays = metric.arrays()
    symbols = {name: pt.TensorType(x.dtype, shape=(None,))(name) for name, x in arrays.items()}
    graph, z = replace(metric, **symbols), pt.vector("z", shape=(d,))
    made = INTERPRETED.function([*symbols.values(), z], [graph.times(z), graph.pull(z)])
    given = np.random.default_rng(2).normal(size=d)
    times, pull = made(*arrays.values(), given)
    np.testing.assert_allclose(times, metric.times(given), rtol=1e-10)
    np.testing.assert_allclose(pull, metric.pull(given), rtol=1e-10)


def test_lengths_scale_z(known):
    _, metric = known
    rng = np.random.default_rng(3)
    by, z = rng.uniform(0.5, 2, size=(2, len(metric.order)))
    np.testing.assert_allclose(metric.scaled(by).times(z), metric.times(by * z))
    np.testing.assert_allclose(metric.scaled(by).solve(metric.times(z)), z / by)


def test_scales_and_leading_coordinates(known):
    H, metric = known
    sds = np.sqrt(np.diag(np.linalg.inv(H)))
    # Of 64 draws: 4 standard errors of an sd are 35 %.
    assert np.abs(np.log(metric.scales / sds)).max() < 0.4
    assert abs(np.mean(np.log(metric.scales / sds))) < 0.1
    # The column of L that belongs to an effect moves nothing else.
    effects = metric.leading[np.diff(metric.starts) == 1]
    columns = metric.times(np.eye(len(H)))[np.diff(metric.starts) == 1]
    np.testing.assert_array_equal(np.abs(columns).argmax(axis=1), effects)


def test_matrices_that_are_not_positive():
    H = arrow()
    H -= 1.5 * np.linalg.eigvalsh(H)[0] * np.eye(len(H))
    assert np.linalg.eigvalsh(H)[0] < 0
    metric = factor_of_sparse(csr_array(H))
    L = metric.times(np.eye(len(H))).T
    raised = np.linalg.inv(L @ L.T) - H
    np.testing.assert_allclose(raised, np.diag(np.diag(raised)), atol=1e-7)
    assert (np.diag(raised) > 0).all()
    H[0, 0] = np.nan
    with pytest.raises(np.linalg.LinAlgError):
        factor_of_sparse(csr_array(H))


def test_copies_are_the_same(known):
    _, metric = known
    copy = pickle.loads(pickle.dumps(metric))
    z = np.arange(len(metric.order), dtype=float)
    np.testing.assert_array_equal(copy.times(z), metric.times(z))
    unit = unit_factor(4)
    np.testing.assert_array_equal(unit.times(z[:4]), z[:4])
    np.testing.assert_array_equal(unit.scaled(z[1:5]).pull(z[:4]), z[1:5] * z[:4])
