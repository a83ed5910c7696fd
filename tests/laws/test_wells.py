"""Real data: settings of the documentation against posteriors found by importance sampling."""

import logging

import numpy as np
import pymc as pm
import pytest

from pymc_sgmcmc import SGHMC, SGNHT, __main__
from pymc_sgmcmc.data import wells

SETTINGS = {
    SGHMC: {"step_size": 0.002, "friction": 200.0, "batch_size": 512},
    SGNHT: {"step_size": 0.002, "diffusion": 150.0, "batch_size": 1024},
}

# 400,000 draws of a multivariate t around the mode, effective sizes above 350,000.
MEAN = np.array([-0.21473, -0.89824, 0.46966, 0.17171])
SD = np.array([0.09314, 0.10461, 0.04163, 0.03831])


@pytest.mark.statistics
@pytest.mark.parametrize("cls", SETTINGS)
def test_the_settings_of_the_documentation(cls):
    features, switched, _ = wells()
    with pm.Model():
        X, y = pm.Data("X", features), pm.Data("y", switched)
        beta = pm.Flat("beta", shape=4)
        pm.Bernoulli("switched", logit_p=X @ beta, observed=y)
        step = cls(steps_per_draw=1000, backend="numba", **SETTINGS[cls])
        idata = pm.sample(
            draws=900, tune=50, chains=4, cores=2, step=step, random_seed=11, progressbar=False
        )
    beta = idata.posterior["beta"]
    mean, sd = beta.mean(("chain", "draw")).values, beta.std(("chain", "draw")).values
    assert (np.abs(mean - MEAN) < 0.1 * SD).all()
    assert (np.abs(sd / SD - 1) < 0.05).all()


@pytest.mark.statistics
def test_the_main_job(tmp_path, monkeypatch, capsys, caplog):
    monkeypatch.setattr("sys.argv", ["wells", "--draws", "10", "--tune", "50", "--chains", "2",
                                     "--seed", "3", "--output", str(tmp_path)])  # fmt: skip
    caplog.set_level(logging.ERROR, "pymc")
    __main__.main()
    printed = capsys.readouterr().out
    assert (
        "control variate" in printed
        and "beta[arsenic]" in printed
        and "ESS per s" in printed
        and "sd error (%)" in printed
    )
    assert (tmp_path / "wells_marginals.png").stat().st_size > 10_000
