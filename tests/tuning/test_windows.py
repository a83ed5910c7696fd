"""Tuning windows: their lengths, moments and shrunk covariances, against NumPy."""

import copy
import dataclasses

import numpy as np
import pytest

from pymc_sgmcmc.tuning.windows import POINTS, Window, typical_points, window_length

LENGTHS = [100, 250, 450, 900, 1800]
D = 3
BEFORE = np.array([1.0, 4.0, 9.0])


def draws(n, seed=1, d=D):
    """An autoregression with unequal autocorrelations, means and scales."""
    rng = np.random.default_rng(seed)
    rho, z = np.linspace(-0.3, 0.9, d), np.empty((n, d))
    z[0] = rng.normal(size=d)
    for t in range(1, n):
        z[t] = rho * z[t - 1] + np.sqrt(1 - rho**2) * rng.normal(size=d)
    return np.array([0.5, 1.0, 2.0])[:d] * z + np.array([1.0, 0.0, -3.0])[:d]


def filled(index, z, ndim):
    window = Window.start(index, z.shape[1], dense=ndim == 2)
    for draw in z:
        window = window.add(draw)
    return window


def test_lengths():
    assert [window_length(index) for index in range(len(LENGTHS))] == LENGTHS


@pytest.mark.parametrize("index", range(len(LENGTHS)))
def test_a_window_is_over_after_its_length(index):
    z = draws(LENGTHS[index])
    window = filled(index, z[:-1], 1)
    assert not window.is_over
    assert window.add(z[-1]).is_over


@pytest.mark.parametrize("ndim", [1, 2])
@pytest.mark.parametrize("index", range(len(LENGTHS)))
def test_moments(index, ndim):
    length = LENGTHS[index]
    z, first = draws(length), length // 5
    window, kept = filled(index, z, ndim), z[first:]
    np.testing.assert_allclose(window.mean(), kept.mean(axis=0), rtol=1e-12)
    products = np.einsum("ti,tj->ij", kept, kept) if ndim == 2 else np.sum(kept**2, axis=0)
    np.testing.assert_allclose(window.products, products, rtol=1e-12)
    lagged = np.sum(z[first:] * z[first - 1 : -1], axis=0)
    np.testing.assert_allclose(window.lagged, lagged, rtol=1e-12)
    assert window.draws == length


@pytest.mark.parametrize("index", range(len(LENGTHS)))
def test_points_are_spread_evenly_over_the_kept_draws(index):
    length = LENGTHS[index]
    z = draws(length)
    every = int(np.ceil(length * 4 / 5 / POINTS))
    points = filled(index, z, 1).points
    np.testing.assert_array_equal(points, z[length // 5 :][every - 1 :: every])
    assert POINTS / 2 < len(points) <= POINTS or len(points) == length * 4 // 5
    assert len(filled(index, draws(3 * length), 1).points) <= POINTS


def test_fewer_points_of_many_coordinates():
    assert [typical_points(d) for d in (1, 1000, 5000, 10**5)] == [POINTS, POINTS, 52, 20]


def test_the_first_fifth_does_not_matter():
    z = draws(100)
    other = z.copy()
    other[:19] = 1e6  # the 20th is the first one's predecessor
    for name, value in vars(filled(0, z, 2)).items():
        np.testing.assert_array_equal(getattr(filled(0, other, 2), name), value)


def by_hand(z, first, dense):
    """Effective draws from the first autocorrelation, and the weighted sum."""
    kept, before = z[first:], z[first - 1 : -1]
    n, d = kept.shape
    centred = kept - kept.mean(axis=0)
    S = centred.T @ centred / n
    rho = (np.mean(kept * before, axis=0) - kept.mean(axis=0) ** 2) / np.diag(S)
    effective = np.median(n * (1 - rho) / (1 + rho))
    variances = (effective * np.diag(S) + 5 * BEFORE) / (effective + 5)
    if not dense:
        return variances
    return (effective * S + (5 + d) * np.diag(variances)) / (effective + 5 + d)


@pytest.mark.parametrize("ndim", [1, 2])
@pytest.mark.parametrize("index", [0, 3])
def test_shrunk_covariance(index, ndim):
    z = draws(LENGTHS[index])
    got = filled(index, z, ndim).shrunk_covariance(BEFORE)
    np.testing.assert_allclose(got, by_hand(z, LENGTHS[index] // 5, ndim == 2), rtol=1e-11)


BOUNDED = [(np.arange(100) - 59.5, 0.999), (np.where(np.arange(100) % 2, 1.0, -1.0), -0.9)]


@pytest.mark.parametrize("z, rho", BOUNDED, ids=["ramp", "alternating"])
def test_autocorrelations_are_bounded(z, rho):
    effective = 80 * (1 - rho) / (1 + rho)
    expected = (effective * np.var(z[20:]) * np.array([1.0, 4.0]) + 5) / (effective + 5)
    got = filled(0, z[:, None] * [1.0, 2.0], 1).shrunk_covariance(np.ones(2))
    np.testing.assert_allclose(got, expected, rtol=1e-10)


@pytest.mark.parametrize("kept", [1, 2, 80])
def test_there_is_always_a_metric(kept):
    stuck = filled(0, np.repeat(draws(1), 20 + kept, axis=0), 2)
    moving = filled(0, 100 * draws(20 + kept), 2)
    for window in (stuck, moving):
        assert np.linalg.eigvalsh(window.shrunk_covariance(np.ones(D))).min() > 1e-3


@pytest.mark.parametrize("ndim", [1, 2])
@pytest.mark.parametrize("before", [0, 10, 20, 21, 60, 99])
def test_adding_leaves_the_window_as_it_was(before, ndim):
    z = draws(100)
    window = filled(0, z[:before], ndim)
    kept = copy.deepcopy(vars(window))
    one, other = window.add(z[before]), window.add(-z[before])
    for name, value in kept.items():
        np.testing.assert_array_equal(getattr(window, name), value)
    assert one.draws == other.draws == before + 1
    np.testing.assert_array_equal(one.last, -other.last)
    with pytest.raises(dataclasses.FrozenInstanceError):
        window.draws = 0
