"""One model of everything: two pm.Minibatch, a hierarchy, a simplex, a Potential, a mixture."""

import warnings

import arviz as az
import numpy as np
import pymc as pm
import pytest

from pymc_sgmcmc import SGNHT, full_data
from tests.cases import draws, sample

N_MEASURED, N_VOTES, GROUPS = 400, 300, 5
_rng = np.random.default_rng(60)
GROUP = _rng.integers(GROUPS, size=N_MEASURED)
X = 0.5 * _rng.normal(size=N_MEASURED)
MEASURED = _rng.normal(0.5, 0.6, size=GROUPS)[GROUP] + 0.8 * X + _rng.normal(size=N_MEASURED)
VOTES = _rng.choice(3, p=[0.2, 0.3, 0.5], size=N_VOTES)
MIXED = np.array([-1.9, -1.4, -1.2, -0.8, -0.1, 0.1, 0.4, 1.0, 1.2, 1.5, 1.9, 2.2])

# PyMC's own step methods link no BLAS where PyTensor was installed by pip.
pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")

# Means and sds of the model with the labels summed out, by NUTS: 40,000 draws whose effective sizes
# are above 30,000.
REFERENCE = {
    "slope": (0.8366, 0.1012),
    "centre": (0.6429, 0.3250),
    "spread": (0.7449, 0.1987),
    "level": ([0.3778, 0.2590, 1.3630, -0.1022, 1.6883], [0.1073, 0.1110, 0.1075, 0.1283, 0.1057]),
    "shares": ([0.2441, 0.3336, 0.4224], [0.0248, 0.0270, 0.0282]),
    "means": ([-1.0190, 1.1232], [0.3801, 0.3288]),
    "effect": (2.3204, 0.2352),
}


def everything():
    with pm.Model() as model:
        slope, centre = pm.Normal("slope", 0, 1), pm.Normal("centre", 0, 1)
        spread = pm.LogNormal("spread", -0.5, 0.4)
        level = pm.Normal("level", centre, spread, shape=GROUPS)
        shares = pm.Dirichlet("shares", np.ones(3))
        means = pm.Normal("means", [-1.0, 1.0], 0.7)
        pm.Potential("near_one", -0.5 * ((slope - 1) / 0.3) ** 2)
        pm.Deterministic("effect", pm.math.exp(slope))

        x, group, measured = pm.Minibatch(X, GROUP.astype("int32"), MEASURED, batch_size=200)
        rate = level[group] + slope * x
        pm.Normal("measured", rate, 1.0, observed=measured, total_size=N_MEASURED)
        votes = pm.Minibatch(VOTES.astype("int32"), batch_size=150)
        pm.Categorical("votes", shares, observed=votes, total_size=N_VOTES)
        which = pm.Categorical("which", [0.4, 0.6], shape=len(MIXED))
        pm.Normal("mixed", means[which], 0.8, observed=MIXED)
    return model


@pytest.mark.statistics
def test_everything_in_one_run():
    with everything() as model:
        free = [v for v in model.free_RVs if v.name != "which"]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "This step method does not sample")
            ours = SGNHT(
                free, step_size=0.02, diffusion=30.0, thermostat="coordinate", steps_per_draw=50
            )
        gibbs = pm.CategoricalGibbsMetropolis([model["which"]], model=full_data(model))
        idata = sample([ours, gibbs], draws=4000, tune=400, chains=4)
    for name, (mean, sd) in REFERENCE.items():
        values = draws(idata, name)
        ess = np.min(np.asarray(az.ess(idata.posterior[name].to_dataset(name=name))[name]))
        bias = (values.mean(axis=(0, 1)) - mean) / sd
        width = values.std(axis=(0, 1)) / sd - 1
        print(f"{name}: ESS {ess:.0f}, mean {np.round(bias, 3)} sd, sd {np.round(width, 3)}")
        assert ess > 900, name
        assert np.abs(bias).max() < 0.1 and np.abs(width).max() < 0.1, name
