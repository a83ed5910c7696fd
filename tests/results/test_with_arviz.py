"""ArviZ, of either generation, on what `pm.sample` returns, unchanged."""

import warnings

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
import pytest

from pymc_sgmcmc import SGNHT, log_likelihood
from tests.cases import regression, sample


@pytest.fixture(scope="module")
def run():
    with regression() as model:
        step = SGNHT(step_size=0.05, batch_size=5, diffusion=4.0)
        return model, sample(step, draws=200, tune=50, chains=4)


@pytest.mark.compiled
def test_summary_and_effective_sizes(run):
    _, idata = run
    table = az.summary(idata)
    beta = idata.posterior["beta"].values
    assert list(table.index) == ["beta[a]", "beta[b]"]
    np.testing.assert_allclose(table["mean"].astype(float), beta.mean((0, 1)), atol=0.006)
    assert (az.ess(idata)["beta"].values > 10).all()


@pytest.mark.compiled
@pytest.mark.parametrize("plot", ["plot_trace", "plot_pair"])
def test_plots(run, plot):
    before = len(plt.get_fignums())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of ArviZ's own: it is there or not, by its version
        getattr(az, plot)(run[1], var_names=["beta"])
    assert len(plt.get_fignums()) > before
    plt.close("all")


@pytest.mark.compiled
def test_loo(run):
    model, idata = run
    found = log_likelihood(idata, model)
    loo = az.loo(found)
    with model:
        theirs = az.loo(pm.compute_log_likelihood(idata, progressbar=False))
    elpd = [getattr(each, "elpd", None) or each.elpd_loo for each in (loo, theirs)]
    np.testing.assert_allclose(*elpd)
