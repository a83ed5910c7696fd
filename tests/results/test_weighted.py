"""Expectations weighted by step sizes: against arithmetic, and the exact law of a recursion."""

from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest
import xarray as xr

from pymc_sgmcmc import SGLD, Polynomial, weighted_mean, weighted_quantile
from tests.cases import sample
from tests.helpers import score


def toy(step_size):
    rng = np.random.default_rng(0)
    x = xr.DataArray(rng.normal(size=(2, 5, 3)), dims=("chain", "draw", "k"))
    stats = xr.Dataset({"step_size": (("chain", "draw", "m")[: step_size.ndim], step_size)})
    return SimpleNamespace(posterior=xr.Dataset({"x": x, "y": x[..., 0] > 0}), sample_stats=stats)


def test_arithmetic():
    h = np.random.default_rng(1).random((2, 5))
    idata = toy(h)
    x = idata.posterior.x.values
    np.testing.assert_allclose(weighted_mean(idata).x, np.einsum("cd,cdk->k", h, x) / h.sum())
    squares = weighted_mean(idata, lambda draws: draws**2, var_names=["x"])
    np.testing.assert_allclose(squares.x, np.einsum("cd,cdk->k", h, x**2) / h.sum())
    assert set(squares.data_vars) == {"x"}
    two = toy(np.stack([np.ones((2, 5)), h], axis=-1))
    np.testing.assert_allclose(weighted_mean(two, sampler=1).x, weighted_mean(idata).x)
    marked, sampling = toy(h), h > 0.4
    marked.sample_stats["sampling"] = (("chain", "draw"), sampling)
    expected = np.einsum("cd,cdk->k", h * sampling, x) / (h * sampling).sum()
    np.testing.assert_allclose(weighted_mean(marked).x, expected)
    equal = toy(np.full((2, 5), 0.3))
    np.testing.assert_allclose(weighted_mean(equal).x, x.mean(axis=(0, 1)))
    np.testing.assert_allclose(
        weighted_quantile(equal, [0.1, 0.5], var_names=["x"]).x,
        np.quantile(x, [0.1, 0.5], axis=(0, 1)),
    )


def test_refusals():
    with pytest.raises(ValueError, match="sampler=1: the sample stat step_size is that of 1 step"):
        weighted_mean(toy(np.ones((2, 5))), sampler=1)
    with pytest.raises(ValueError, match="negative or not finite"):
        weighted_mean(toy(-np.ones((2, 5))))
    with pytest.raises(ValueError, match=r"q=1.2 must be from 0 to 1"):
        weighted_quantile(toy(np.ones((2, 5))), 1.2)
    with pytest.raises(
        ValueError, match="sampler=None: the sample stat step_size is that of 2 step"
    ):
        weighted_mean(toy(np.ones((2, 5, 2))))
    without = SimpleNamespace(posterior=toy(np.ones((2, 5))).posterior, sample_stats=xr.Dataset())
    with pytest.raises(ValueError, match="that of 0 step methods"):
        weighted_mean(without)


def exact_second_moment(h):
    """Of SGLD on N(0, 1) from its stationary law, after each step: a recursion."""
    variance, of_all = 1.0, []
    for size in h:
        variance = (1 - size) ** 2 * variance + 2 * size
        of_all.append(variance)
    return np.array(of_all)


@pytest.mark.compiled
def test_decreasing_steps_on_a_gaussian():
    """E q^2 = 1; by plain and weighted means, with the bias that the recursion says."""
    d, schedule = 4000, Polynomial(a=1.0, b=1.0, gamma=0.5)
    with pm.Model():
        pm.Normal("q", shape=d)
        step = SGLD(step_size=schedule, steps_per_draw=1)
        idata = sample(step, draws=1000, tune=0, chains=1,
                       initvals={"q": np.random.default_rng(4).standard_normal(d)})  # fmt: skip
    h = schedule(np.arange(1000))
    exact = exact_second_moment(h)
    biases = []
    for estimate, expected in [
        (weighted_mean(idata, np.square).q.values, h @ exact / h.sum()),
        ((idata.posterior.q**2).mean(("chain", "draw")).values, exact.mean()),
    ]:
        error = estimate.std(ddof=1) / np.sqrt(d)
        score(estimate.mean(), expected, error, 0.005, "q^2")
        biases.append(expected - 1)
    assert biases[0] > 0.02  # which the weights do not hide: early steps were long
