"""Hessians, metrics and curvatures from gradients, against algebra."""

import numpy as np
import pytest

from pymc_sgmcmc.tuning.curvature import (
    equilibrated,
    factor_of,
    hessian,
    largest_curvature,
    steepest,
)


def rotated(eigenvalues, seed=1):
    """A symmetric matrix with a known spectrum."""
    d = len(eigenvalues)
    Q, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(d, d)))
    return (Q * eigenvalues) @ Q.T


def linear(H, centre=0.0):
    return lambda q: H @ (q - centre)


def positive(d, seed=2):
    """A well-conditioned matrix with a unit diagonal."""
    H = rotated(np.linspace(1.0, 5.0, d), seed)
    scale = 1 / np.sqrt(np.diag(H))
    return scale[:, None] * H * scale


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("q", [np.zeros(5), np.array([0.0, 2e-4, -0.03, 0.0, 1.0])])
def test_hessian_of_an_ill_conditioned_quadratic(q, known):
    sds = np.array([1e-4, 1e-3, 1e-2, 1e-1, 1.0])
    H = positive(5) / np.outer(sds, sds)
    assert np.linalg.cond(H) > 1e8
    got = hessian(linear(H, 0.5 * sds), q, sds if known else None)
    np.testing.assert_array_equal(got, got.T)
    np.testing.assert_allclose(sds[:, None] * got * sds, positive(5), rtol=0, atol=1e-8)


X = np.random.default_rng(3).normal(size=(50, 3)) * [1.0, 10.0, 0.1]


@pytest.mark.parametrize("q", [np.zeros(3), np.array([0.4, 0.0, -2.0])])
def test_hessian_of_log_rates(q):
    def gradient(q):
        return X.T @ np.exp(X @ q)

    H = X.T @ (np.exp(X @ q)[:, None] * X)
    sds = 1 / np.sqrt(np.diag(H))
    spread = np.abs(X).max(axis=0)
    for scale, widths in ((None, 1e-5 * (np.abs(q) + 0.01)), (sds, np.maximum(1e-3 * sds, 1e-7))):
        # Forward differences: w / 2 times the third derivative, which is below max |x| H.
        bound = 0.6 * max(widths * spread) * np.sqrt(np.outer(np.diag(H), np.diag(H)))
        assert (np.abs(hessian(gradient, q, scale) - H) < bound + 1e-7 * np.abs(H).max()).all()


def test_hessian_where_a_gradient_is_undefined():
    H = positive(3)

    def gradient(q):
        return np.where(q[1] > 0, np.nan, 1.0) * (H @ q)

    got = hessian(gradient, np.zeros(3))
    expected = H.copy()
    expected[:, 1] = 0
    np.testing.assert_allclose(got, (expected + expected.T) / 2, rtol=0, atol=1e-8)


SCALES = [np.ones(4), np.array([1.0, 1e-3, 20.0, 1e3]), np.array([1.0, 1e6, 1e3, 30.0])]


@pytest.mark.parametrize("scales", SCALES, ids=["equal", "unequal", "huge"])
def test_factor_of_a_positive_definite_matrix(scales):
    H = positive(4) / np.outer(scales, scales)
    L = factor_of(H)
    np.testing.assert_array_equal(np.triu(L, 1), 0)
    covariance = (L / scales[:, None]) @ (L / scales[:, None]).T
    np.testing.assert_allclose(covariance, np.linalg.inv(positive(4)), rtol=1e-10)
    np.testing.assert_allclose(L.T @ H @ L, np.eye(4), rtol=0, atol=1e-10)


@pytest.mark.parametrize("scales", SCALES, ids=["equal", "unequal", "huge"])
def test_factor_of_an_indefinite_matrix(scales):
    # [[1, 3], [3, 1]] has the eigenvalues 4 and -2, and [[3, 1], [1, 3]] the eigenvalues 4 and 2.
    M, absolute = np.array([[1.0, 3.0], [3.0, 1.0]]), np.array([[3.0, 1.0], [1.0, 3.0]])
    zeros, minus = np.zeros((2, 2)), -positive(2)
    H = np.block([[M, zeros], [zeros, minus]]) / np.outer(scales, scales)
    L = factor_of(H) / scales[:, None]
    expected = np.block([[np.linalg.inv(absolute), zeros], [zeros, np.linalg.inv(-minus)]])
    np.testing.assert_allclose(L @ L.T, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("ratio", [1e6, 1e12, 1e18])
def test_factor_of_variances_of_a_huge_ratio(ratio):
    np.testing.assert_allclose(np.diag(factor_of(np.diag([1.0, ratio]))) ** 2, [1.0, 1 / ratio])


def test_factor_of_a_rank_deficient_matrix():
    scales = np.array([1.0, 1e-2, 1e3])
    v = np.array([1.0, -1.0, 1.0])
    along = np.outer(v, v) / 3
    L = factor_of(np.outer(v, v) / np.outer(scales, scales)) / scales[:, None]
    # Eigenvalues 3, 0, 0; the zeros become 3e-6.
    np.testing.assert_allclose(L @ L.T, along / 3 + (np.eye(3) - along) / 3e-6, rtol=1e-8)


def test_factor_of_a_coordinate_without_curvature():
    L = factor_of(np.diag([4.0, 0.0]))
    assert np.isfinite(L).all() and L[0, 0] == 0.5
    assert L[1, 1] ** 2 == pytest.approx(1e12 / 4 * 1e6)


@pytest.mark.parametrize("q", [np.zeros(4), np.array([0.0, 3.0, -9.0, 0.5])], ids=["zero", "q"])
def test_equilibrated(q):
    H = np.array([[3.0, 1.0, 0.0, -2.0], [1.0, -5.0, 0.5, 0.0], [0.0, 0.5, 0.01, 0.2],
                  [-2.0, 0.0, 0.2, 100.0]])  # fmt: skip
    s = 1 + np.abs(q)
    squares = (H * s / s[:, None]) ** 2
    mean, quartic = squares.sum(axis=1), np.sum(squares**2, axis=1)
    error = np.sqrt((2 * mean**2 - 2 * quartic) / 30)  # of (sum_j a_j e_j)^2, e_j = +-1
    got = equilibrated(linear(H, 0.3), q, np.random.default_rng(4)) ** 2
    assert (np.abs(got - mean) < 4 * error + 1e-7 * mean).all(), (got - mean) / error
    assert (error / mean < 0.25).all()
    assert (error / mean).max() > 0.05


def test_equilibrated_is_exact_on_a_diagonal_whatever_the_signs():
    h = np.array([1e-2, -1.0, 5e3, -30.0])
    got = equilibrated(
        linear(np.diag(h)), np.array([1.0, 0.0, 5.0, -2.0]), np.random.default_rng(5)
    )
    np.testing.assert_allclose(got, np.abs(h), rtol=1e-6)


def test_equilibrated_is_never_zero():
    """At least 1e-6 of the largest."""
    got = equilibrated(linear(np.diag([9.0, 0.0])), np.zeros(2), np.random.default_rng(6))
    np.testing.assert_allclose(got, [9.0, 9e-6])


@pytest.mark.parametrize("spectrum", [
    [12.0, 5.0, 3.0, 1.0, 0.1],
    [-12.0, 5.0, 3.0, 1.0, 0.1],
    [12.0, -12.0, 1.0, 1.0, 1.0],
    [1e-4, 1e-5, 0.0, 0.0, 0.0],
], ids=str)  # fmt: skip
def test_largest_curvature_of_a_known_spectrum(spectrum):
    H, rng = rotated(np.array(spectrum)), np.random.default_rng(7)
    got = largest_curvature(linear(H, 0.7), rng.normal(size=(3, 5)), rng) / np.abs(spectrum).max()
    # Power iterations approach it from below, and 8 of them leave (5 / 12)^16 of the rest.
    assert 1 - 1e-4 < got < 1 + 1e-9


def test_largest_curvature_of_a_dense_spectrum():
    H, rng = rotated(np.linspace(0, 1, 200)), np.random.default_rng(8)
    assert 0.93 < largest_curvature(linear(H), rng.normal(size=(6, 200)), rng) < 1


def test_largest_curvature_is_that_of_the_worst_point():
    points = np.array([[1.0, 0.5], [-0.3, 4.0], [2.0, 2.0]])
    got = largest_curvature(lambda q: q**3 / 3, points, np.random.default_rng(9))
    assert got == pytest.approx(16.0, rel=1e-5)


def test_largest_curvature_where_there_is_none():
    points = np.ones((2, 3))
    for value in (0.0, np.nan):
        assert largest_curvature(lambda q: value * q, points, np.random.default_rng(10)) == 0.0


def test_steepest_finds_the_rare_points_of_large_curvature():
    points = np.random.default_rng(11).normal(size=(200, 3))
    rare = [3, 17, 60, 111, 160, 199]
    points[rare, 1] *= 30.0 / np.abs(points[rare, 1])
    got = points[steepest(lambda q: q**3 / 3, points, np.random.default_rng(12), 6)]
    assert np.sum(np.abs(got[:, 1]) > 29) >= 5  # one may be missed by chance


def test_steepest_in_one_dimension():
    points = np.random.default_rng(14).normal(size=(50, 1))
    got = points[steepest(lambda q: q**3 / 3, points, np.random.default_rng(15), 3)]
    assert set(np.abs(got[:, 0])) == set(np.sort(np.abs(points[:, 0]))[-3:])


def test_steepest_where_gradients_are_not_finite():
    points = np.array([[1.0, 1.0], [3.0, 1.0], [np.inf, 1.0], [2.0, 1.0]])
    got = steepest(lambda q: q**3 / 3, points, np.random.default_rng(13), 2)
    np.testing.assert_array_equal(got, [1, 3])
