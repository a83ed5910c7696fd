"""Simulation-based calibration (Talts et al., 2018) of step methods that tune themselves."""

import numpy as np
import pymc as pm
import pytest
from scipy.stats import chisquare

from pymc_sgmcmc import SGHMC, SGNHT
from tests.cases import walk

N_ROWS, REPLICATES, BINS = 5000, 128, 8


def logistic(rng):
    """Ten coefficients; the model with its data to be set, and a simulator."""
    x = rng.normal(size=(N_ROWS, 10)) * np.geomspace(0.1, 3.0, 10)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 0.5, shape=10)
        y = pm.Data("y", rng.integers(2, size=N_ROWS))
        pm.Bernoulli("obs", logit_p=pm.Data("x", x) @ beta, observed=y)

    def simulate(rng):
        truth = 0.5 * rng.standard_normal(10)
        return truth, rng.random(N_ROWS) < 1 / (1 + np.exp(-x @ truth))

    return model, simulate


def hierarchical(rng):
    """Six groups, their mean and spread, a slope and the noise."""
    group, x = rng.integers(6, size=N_ROWS), rng.normal(size=N_ROWS)
    with pm.Model() as model:
        mean, spread = pm.Normal("mean", 0.0, 1.0), pm.LogNormal("spread", 0.0, 0.3)
        groups = pm.Normal("groups", mean, spread, shape=6)
        slope, noise = pm.Normal("slope", 0.0, 1.0), pm.LogNormal("noise", 0.0, 0.3)
        y = pm.Data("y", np.zeros(N_ROWS))
        rate = groups[pm.Data("group", group)] + slope * pm.Data("x", x)
        pm.Normal("obs", rate, noise, observed=y)

    def simulate(rng):
        mean, spread = rng.standard_normal(), np.exp(0.3 * rng.standard_normal())
        groups = mean + spread * rng.standard_normal(6)
        slope, noise = rng.standard_normal(), np.exp(0.3 * rng.standard_normal())
        y = groups[group] + slope * x + noise * rng.standard_normal(N_ROWS)
        return np.array([mean, np.log(spread), *groups, slope, np.log(noise)]), y

    return model, simulate


@pytest.mark.statistics
@pytest.mark.parametrize(("family", "sampler"), [(logistic, SGNHT), (hierarchical, SGHMC)])
def test_ranks_of_the_truth_are_uniform(family, sampler):
    rng = np.random.default_rng(12)
    model, simulate = family(rng)
    start, ranks = model.initial_point(), []
    with model:
        step = sampler()
        for seed in range(REPLICATES):
            truth, y = simulate(rng)
            pm.set_data({"y": y.astype(model["y"].dtype)})
            # What pm.sample does before and after would take as long as all of this.
            step.rng = np.random.default_rng(seed)
            step.start_chain(step.rng)
            point, _ = walk(step, start, 360)
            step.stop_tuning()
            _, path = walk(step, point, 4 * 127)
            ranks.append((path[::4] < truth).sum(axis=0))  # 0 to 127, of draws far apart
    counts = [np.bincount(of_one // 16, minlength=BINS) for of_one in np.array(ranks).T]
    assert len(counts) == 10
    p = [chisquare(count).pvalue for count in counts]
    print(np.round(p, 3))
    assert min(p) > 0.01 / 20
