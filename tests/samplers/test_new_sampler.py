"""A sampler that the package does not have, written by a user in a few lines."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_sgmcmc import SGMCMC, Algorithm
from tests.cases import draws, sample


class AveragedLangevin(Algorithm):
    """Langevin dynamics with averaged noise (Leimkuhler and Matthews, 2013).

    q <- q - h g(q) + sqrt(h T / 2) (z_before + z), exact on Gaussian targets.
    """

    name = "averaged_langevin"

    def initial_state(self, rng, context):
        return {"z": rng.standard_normal(self.size)}

    def coefficients(self, context):
        return {"temperature": self.temperature}

    def update(self, q, z_before, *, grad, h, noise, temperature):
        z = noise()
        return q - h * grad(q) + pt.sqrt(h * temperature / 2) * (z_before + z), z


@pytest.mark.statistics
@pytest.mark.compiled
def test_it_samples_a_gaussian_exactly_where_euler_does_not():
    sd = np.repeat([0.5, 1.0, 2.0], 100)
    with pm.Model():
        pm.Normal("x", 0.0, sd)
        step = SGMCMC(algorithm=AveragedLangevin(), step_size=0.2)
        idata = sample(step, draws=1500, tune=100)
    assert step.stats_dtypes_shapes.keys() == idata.sample_stats.keys() | {"warning"}
    variances = (draws(idata, "x") ** 2).mean(axis=(0, 1)).reshape(3, 100) / [[0.25], [1], [4]]
    error = variances.std(axis=1) / 10
    assert (np.abs(variances.mean(axis=1) - 1) < 4 * error).all() and (error < 0.01).all()
    # Euler's variance is 1 / (1 - h a / 2): 1.67 at the narrowest.
