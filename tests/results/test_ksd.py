"""The kernel Stein discrepancy: exact values by quadrature, its level and its power."""

import doctest
import sys
import tracemalloc

import numpy as np
import pymc as pm
import pytest

from pymc_sgmcmc import SteinDiscrepancy, ksd
from pymc_sgmcmc.model.unconstrain import FlatDraws
from pymc_sgmcmc.results import stein
from pymc_sgmcmc.results.ksd import independent, stein_test
from pymc_sgmcmc.results.stein import signs, standardized, stein_sums
from tests.drawn import posterior_of

PHI = 0.8


def autoregression(rng, phi, shape):
    """Stationary chains of N(0, 1), (chain, draw, d)."""
    x = rng.normal(size=shape)
    for t in range(1, shape[1]):
        x[:, t] = phi * x[:, t - 1] + np.sqrt(1 - phi**2) * x[:, t]
    return x


def pair(x, y, sx, sy):
    """u of two points, with the derivatives of the kernel by central differences."""
    h, d = 1e-4, len(x)
    steps = h * np.eye(d)

    def k(x, y):
        return (1 + np.sum((x - y) ** 2)) ** -0.5

    by_x = [(k(x + e, y) - k(x - e, y)) / (2 * h) for e in steps]
    by_y = [(k(x, y + e) - k(x, y - e)) / (2 * h) for e in steps]
    both = [
        (k(x + e, y + e) - k(x + e, y - e) - k(x - e, y + e) + k(x - e, y - e)) / (4 * h**2)
        for e in steps
    ]
    return sx @ sy * k(x, y) + sx @ by_y + sy @ by_x + np.sum(both)


@pytest.mark.parametrize("block", [1, 7, 10**6])
def test_sums_of_the_stein_kernel(block, monkeypatch):
    monkeypatch.setattr(stein, "BLOCK", 6 * block)
    rng = np.random.default_rng(0)
    x, s, w = rng.normal(size=(3, 6, 3))
    expected = np.zeros(3)
    for i in range(6):
        for j in range(6):
            if i != j:
                expected += w[i] * w[j] * pair(x[i], x[j], s[i], s[j])
    np.testing.assert_allclose(stein_sums(x, s, w), expected, rtol=1e-6)


def squared_discrepancy(sd):
    """KSD^2 of N(0, sd^2) from N(0, 1) by quadrature, in coordinates that are not standardized."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    x, w = sd * nodes, weights / weights.sum()
    # Pairs of equal nodes count here: two weights of a half at the same point stand for them.
    points = np.repeat(x, 2)[:, None]
    halves = np.repeat(w / 2, 2)
    off = stein_sums(points, -points, halves[:, None])[0]
    return off + halves**2 @ (1 + points[:, 0] ** 2)  # u(x, x) = d + s(x).s(x)


def test_its_mean_is_exact():
    assert abs(squared_discrepancy(1.0)) < 1e-7
    rng, values = np.random.default_rng(1), []
    for _ in range(400):
        x = 1.2 * rng.normal(size=(60, 1))
        values.append(stein_sums(x, -x, np.ones((60, 1)))[0] / (60 * 59))
    error = np.std(values) / 20
    assert abs(np.mean(values) - squared_discrepancy(1.2)) < 4 * error
    assert squared_discrepancy(1.2) > 8 * error


def runs(number, sd=1.0, phi=0.0, length=500, d=5, consecutive=None):
    """p-values for so many sets of four chains from N(0, sd^2 I), where N(0, I) is right."""
    found = []
    for seed in range(number):
        rng = np.random.default_rng([seed, d])
        x = sd * autoregression(rng, phi, (4, length, d))
        parts = independent(FlatDraws((), (), ("x",) * d, (), x, np.zeros(d, dtype=bool), {}), 2000)
        points = np.concatenate([chain[part] for chain, part in zip(x, parts, strict=True)])
        lengths = [len(part) for part in parts]
        found.append(stein_test(points, -points, lengths, 200, rng)[1])
    return np.array(found)


@pytest.mark.statistics
def test_power():
    """2000 independent draws in five dimensions, their sds wrong by 10 %."""
    for sd in (0.9, 1.1):
        assert np.mean(runs(50, sd) <= 0.05) > 0.9


@pytest.mark.statistics
def test_level():
    """Of 1000 draws, as it is the same for any number, and the time grows as its square."""
    p = runs(200, length=250)
    # The level is 0.063 +- 0.008 in 1000 runs; the bounds are four standard errors away.
    assert np.mean(p <= 0.05) < 0.13 and abs(p.mean() - 0.5) < 0.09
    assert np.mean(runs(100, phi=PHI, length=2000) <= 0.05) < 0.16


@pytest.mark.statistics
def test_draws_that_depend_on_each_other():
    """They are thinned, and their signs are shared; else most of them would be rejected."""
    p = runs(20, phi=PHI, length=1000)
    assert np.sum(p <= 0.05) <= 6
    rng = np.random.default_rng(0)
    naive = []
    for _ in range(10):
        x = autoregression(rng, PHI, (1, 1000, 5))[0]
        naive.append(stein_test(x, -x, [1] * 1000, 200, rng)[1])
    assert np.mean(np.array(naive) <= 0.05) > 0.8


def test_signs_are_shared_within_chains():
    drawn = signs([12, 7], 300, np.random.default_rng(0))
    assert drawn.shape == (19, 300) and set(np.unique(drawn)) == {-1.0, 1.0}
    together = np.abs(drawn @ drawn.T / 300) > 0.5
    ends = [0, 5, 10, 12, 17, 19]
    blocks = np.repeat(np.arange(5), np.diff(ends))
    np.testing.assert_array_equal(together, blocks[:, None] == blocks)


@pytest.mark.parametrize(("n", "by_covariance"), [(400, True), (39, False)])
def test_units_do_not_matter(n, by_covariance):
    rng, d = np.random.default_rng(2), 4
    x = 1.2 * rng.normal(size=(n, d))
    linear = rng.normal(size=(d, d)) if by_covariance else np.diag([1e-30, 1, -1e8, 5.0])
    moved = (x + 3) @ linear.T, -x @ np.linalg.inv(linear)
    found = [stein_test(*points, [n], 100, np.random.default_rng(0)) for points in ((x, -x), moved)]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)
    assert found[0][2] is by_covariance
    z, scores, _ = standardized(*moved)
    covariance = np.cov(z.T, bias=True)
    np.testing.assert_allclose(np.diag(covariance), 1, rtol=1e-10)
    if by_covariance:
        np.testing.assert_allclose(covariance, np.eye(d), atol=1e-10)
    # The wrong width is in the scores: their slope is 1.44, not 1.
    np.testing.assert_allclose(np.diag(np.cov(z.T, -scores.T)[:d, d:]), 1.44, rtol=0.5)
    collinear = np.column_stack([x, x[:, 0]])
    assert standardized(collinear, collinear)[2] is False


def test_memory_is_bounded():
    n = 5000
    x = np.random.default_rng(0).normal(size=(n, 2))
    tracemalloc.start()
    stein_sums(x, -x, np.ones((n, 2)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * n * n / 2


def regression():
    """y ~ N(X beta, 1) with its exact posterior, and a positive parameter beside."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 3)) * [1, 10, 0.1]
    y = X @ [1.0, -0.2, 3.0] + rng.normal(size=200)
    with pm.Model() as model:
        batch = pm.Minibatch(X, y, batch_size=10)
        beta = pm.Normal("beta", 0, 10, shape=3)
        pm.LogNormal("scale", 1.0, 0.5)
        pm.Normal("y", batch[0] @ beta, 1, observed=batch[1], total_size=200)
    precision = X.T @ X + np.eye(3) / 100
    covariance = np.linalg.inv(precision)
    return model, covariance @ X.T @ y, covariance, precision


@pytest.mark.compiled
def test_draws_of_a_model():
    """On the unconstrained scale, on all rows, as with gradients by hand; and wrong draws."""
    model, mean, covariance, precision = regression()
    rng = np.random.default_rng(4)
    noise = rng.normal(size=(4, 400, 4))
    beta = mean + noise[..., :3] @ np.linalg.cholesky(covariance).T
    log_scale = 1 + 0.5 * noise[..., 3]
    found = ksd(posterior_of(beta=beta, scale=np.exp(log_scale)), model, progressbar=False)
    assert isinstance(found, SteinDiscrepancy) and found.p_value > 0.01 and found.of == 1600
    q = np.concatenate([beta, log_scale[..., None]], axis=2)
    parts = independent(FlatDraws((), (), ("q",) * 4, (), q, np.zeros(4, dtype=bool), {}), 2000)
    lengths = [len(part) for part in parts]
    q = np.concatenate([chain[part] for chain, part in zip(q, parts, strict=True)])
    scores = np.column_stack([(mean - q[:, :3]) @ precision, (1 - q[:, 3]) / 0.25])
    by_hand = stein_test(q, scores, lengths, 1000, np.random.default_rng(0))
    np.testing.assert_allclose((found.statistic, found.p_value), by_hand[:2], rtol=1e-6)
    assert found.draws == len(q) > 1000
    text = str(found)
    assert "may be" in text and f"{len(q)} of 1600 draws" in text and "covariance" in text
    wide = ksd(posterior_of(beta=beta, scale=np.exp(1.3 * log_scale - 0.3)), model,
               draws=800, repetitions=200)  # fmt: skip
    assert wide.p_value < 0.01 and wide.draws == 800 and "are not" in str(wide)


def test_refusals():
    model, mean, *_ = regression()
    rng = np.random.default_rng(5)
    beta, scale = mean + rng.normal(size=(2, 300, 3)), np.ones((2, 300))
    with pytest.raises(ValueError, match=r"draws=20 must be at least 100"):
        ksd(posterior_of(beta=beta, scale=scale), model, draws=20)
    with pytest.raises(ValueError, match=r"scale_log__ is constant.*look at check"):
        ksd(posterior_of(beta=beta, scale=scale), model)
    with pytest.raises(ValueError, match=r"scale_log__ is not finite"):
        ksd(posterior_of(beta=beta, scale=0 * scale), model)
    scale = rng.gamma(3, size=(2, 300))
    with pytest.raises(ValueError, match=r"worth \d+ independent ones, and the test needs 100"):
        ksd(posterior_of(beta=np.cumsum(beta - mean, axis=1), scale=scale), model)
    with pytest.raises(ValueError, match=r"worth 0 independent ones"):
        ksd(posterior_of(beta=beta[:, :3], scale=scale[:, :3]), model)
    with pytest.raises(ValueError, match=r"lacks the free variables \['scale'\]"):
        ksd(posterior_of(beta=beta), model)


@pytest.mark.compiled
def test_a_gradient_that_is_not_finite():
    with pm.Model() as model:
        x = pm.Normal("x")
        pm.Potential("edge", pm.math.sqrt(x))
    draws = np.random.default_rng(6).normal(size=(2, 200))
    with pytest.raises(ValueError, match=r"not finite at \d+ of \d+ draws"):
        ksd(posterior_of(x=draws), model)


@pytest.mark.compiled
def test_examples():
    assert doctest.testmod(sys.modules["pymc_sgmcmc.results.ksd"]).failed == 0
