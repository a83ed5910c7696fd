"""`kinetic_temperature` against laws of chains, and `autocorrelation_time` of an AR(1)."""

import doctest
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest
import xarray as xr

from pymc_sgmcmc import (
    SGHMC,
    SGLD,
    SGNHT,
    autocorrelation_time,
    kinetic_temperature,
)
from pymc_sgmcmc._utils.groups import from_groups
from pymc_sgmcmc.results import autocorrelation, temperature
from tests.cases import sample
from tests.helpers import gaussian_law, numbers, score, sghmc_euler
from tests.tiers import statistics_but

PHI = 0.8
TIME = (1 + PHI) / (1 - PHI)


def autoregression(chains, draws, seed=0):
    """A stationary AR(1) of variance 1, (chains, draws): its autocorrelation time is `TIME`."""
    noise = np.random.default_rng(seed).normal(size=(chains, draws))
    x = noise.copy()
    for t in range(1, draws):
        x[:, t] = PHI * x[:, t - 1] + np.sqrt(1 - PHI**2) * noise[:, t]
    return x


def with_stat(values):
    dims = ("chain", "draw", "k")[: values.ndim]
    return from_groups({"sample_stats": xr.Dataset({"kinetic_temperature": (dims, values)})})


@pytest.mark.compiled
@pytest.mark.parametrize("integrator", statistics_but(["BAOAB"], ["BAOAB", "euler"]))
def test_temperature_of_a_gaussian(integrator):
    """Exact laws: T for BAOAB, and what the linear map of the update says for Euler."""
    d, h, friction, T = 500, 0.5, 1.0, 2.0
    with pm.Model():
        pm.Normal("q", shape=d)
        step = SGHMC(step_size=h, friction=friction, temperature=T, integrator=integrator,
                     jitter=False)  # fmt: skip
        found = kinetic_temperature(sample(step, draws=300, tune=100, chains=2))
    law = gaussian_law(sghmc_euler, 1.0, 0.0, h, numbers(C=friction, T=T)).kinetic
    expected = {"BAOAB": T, "euler": law}[integrator]
    assert found["mean"].dims == ("chain",) and expected - T > (integrator == "euler") * 0.5 - 1e-9
    for mean, error in zip(found["mean"].values, found["mcse"].values, strict=True):
        score(mean, expected, error, 0.005, integrator)


def test_error_is_that_of_each_chain():
    """Not of all together: chains of different temperatures have the same error."""
    x = autoregression(20, 4000)
    found = kinetic_temperature(with_stat(x + 10 * np.arange(20)[:, None]))
    np.testing.assert_allclose(found["mean"], x.mean(axis=1) + 10 * np.arange(20), rtol=1e-12)
    expected = np.sqrt(TIME / 4000)
    np.testing.assert_allclose(found["mcse"].mean(), expected, rtol=0.1)
    assert found["mcse"].max() < 1.5 * expected


def test_several_step_methods_and_divergences():
    x = np.stack([autoregression(2, 50, 1), autoregression(2, 50, 2)], axis=-1)
    x[1, 20:25, 0] = np.nan
    found = kinetic_temperature(with_stat(x))
    assert found["mean"].dims == ("chain", "sampler")
    np.testing.assert_allclose(found["mean"], np.nanmean(x, axis=1))
    assert np.isfinite(found["mcse"]).all()
    # As ZarrTrace stores it, where NUTS is the first step method.
    stats = {f"sampler_{m}__kinetic_temperature": (("chain", "draw"), x[..., k])
             for k, m in enumerate([1, 10])}  # fmt: skip
    flat = kinetic_temperature(from_groups({"sample_stats": xr.Dataset(stats)}))
    xr.testing.assert_equal(flat, found)
    few = kinetic_temperature(with_stat(x[:, :3, 1]))
    assert np.isfinite(few["mean"]).all() and np.isnan(few["mcse"]).all()


@pytest.mark.statistics
def test_two_step_methods_of_one_model():
    with pm.Model():
        settings = {"step_size": 0.1, "compile_kwargs": {"mode": "FAST_COMPILE"}}
        variables = {cls: pm.Normal(cls.__name__) for cls in (SGLD, SGNHT, SGHMC)}
        step = [cls([variable], **settings) for cls, variable in variables.items()]
        found = kinetic_temperature(sample(step, draws=10, tune=10, chains=2))
    assert found["mean"].shape == (2, 2)


def test_no_momentum():
    with pytest.raises(ValueError, match=r"no sample stat kinetic_temperature.*SGHMC, SGNHT"):
        stats = xr.Dataset({"step_size": (("chain", "draw"), np.ones((2, 3)))})
        kinetic_temperature(from_groups({"sample_stats": stats}))
    with pytest.raises(ValueError, match="without a sample_stats"):
        kinetic_temperature(SimpleNamespace())


def test_autocorrelation_time():
    """Of an AR(1), and of its square, which is faster: phi^2 in place of phi."""
    x = autoregression(8, 20_000)
    data = {
        "x": (("chain", "draw"), x),
        "both": (("chain", "draw", "power"), np.stack([x, x**2], axis=-1)),
    }
    idata = from_groups({"posterior": xr.Dataset(data, {"power": [1, 2]})})
    found = autocorrelation_time(idata)
    of_square = (1 + PHI**2) / (1 - PHI**2)
    np.testing.assert_allclose(found.x, TIME, rtol=0.06)
    np.testing.assert_allclose(found.both, [TIME, of_square], rtol=0.06)
    assert list(found.power.values) == [1, 2] and "chain" not in found.sizes
    assert set(autocorrelation_time(idata, "x").data_vars) == {"x"}
    # The error of an sd is that of (x - mean)^2, but for ArviZ's conservative rule: the slower of
    # that and of x, before 0.20.
    assert found.x >= autocorrelation_time(idata, ["x"], method="sd").x > 0.9 * of_square


def test_unknown_variable():
    idata = from_groups({"posterior": xr.Dataset({"x": (("chain", "draw"), np.zeros((2, 9)))})})
    with pytest.raises(ValueError, match=r"var_names=\['y'\]: the posterior has no \['y'\]"):
        autocorrelation_time(idata, ["y"])
    with pytest.raises(ValueError, match="dict without a posterior"):
        autocorrelation_time({})


@pytest.mark.parametrize("module", [autocorrelation, temperature], ids=lambda m: m.__name__)
def test_examples(module):
    assert doctest.testmod(module).failed == 0
