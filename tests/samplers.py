"""The table of samplers that drives the conformance tests: add a row for a new one."""

import warnings
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pymc as pm

from pymc_sgmcmc import PSGHMC, PSGLD, SGFS, SGHMC, SGLD, SGNHT, PowerAnnealing, Santa

N_ROWS = 40


@dataclass(frozen=True)
class Case:
    cls: type
    settings: dict[str, Any] = field(default_factory=dict, hash=False)

    def __str__(self):
        words = [v for v in self.settings.values() if isinstance(v, str)]
        words += [name for name in ("annealing", "gamma") if name in self.settings]
        return "-".join([self.cls.__name__, *words])

    def step(self, **kwargs):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Santa with annealing is an optimiser")
            return self.cls(**{"batch_size": 5, **self.settings, **kwargs})


@cache
def built(case):
    """The regression and a step of the case on it: for tests that leave both as they are."""
    with (model := regression()):
        return model, case.step()


CASES = [
    Case(SGLD, {"step_size": 0.005}),
    Case(SGHMC, {"step_size": 0.05, "friction": 3.0}),
    Case(SGHMC, {"step_size": 0.05, "friction": 3.0, "integrator": "euler"}),
    Case(SGHMC, {"step_size": 0.05, "friction": 3.0, "integrator": "symmetric"}),
    Case(SGNHT, {"step_size": 0.05, "diffusion": 3.0}),
    Case(SGNHT, {"step_size": 0.05, "diffusion": 3.0, "thermostat": "coordinate"}),
    Case(SGNHT, {"step_size": 0.02, "diffusion": 3.0, "integrator": "euler"}),
    Case(SGNHT, {"step_size": 0.05, "diffusion": 3.0, "integrator": "symmetric"}),
    Case(Santa, {"step_size": 0.02, "diffusion": 3.0}),
    Case(Santa, {"step_size": 0.01, "diffusion": "metric", "integrator": "euler"}),
    Case(PSGLD, {"step_size": 0.005}),
    Case(PSGLD, {"step_size": 0.005, "gamma": True}),
    Case(PSGHMC, {"step_size": 0.05, "friction": 3.0}),
    Case(SGFS, {"step_size": 0.3, "metric": [0.025, 0.02], "noise_estimate": 0.0}),
    Case(SGHMC, {"step_size": 0.05, "friction": 3.0, "integrator": "UBU"}),
    Case(SGNHT, {"step_size": 0.05, "diffusion": 3.0, "thermostat": "matrix"}),
    Case(Santa, {"step_size": 0.02, "annealing": PowerAnnealing(0.3), "exploration": 120}),
]

DEFAULTS = [CASES[0], CASES[1], CASES[4], CASES[8]]
"""One case of each sampler, for the tests that compile much."""

OTHERS = [case for case in CASES if case.cls in (PSGLD, PSGHMC, SGFS)]
OTHERS += [case for case in CASES if {"UBU", "matrix"} & set(map(str, case.settings.values()))]
"""Those that have parts of their own, which no case in `DEFAULTS` has."""

TYPICAL = DEFAULTS[2]
"""SGNHT, which has all that a state may have: for what does not depend on the sampler."""


def regression():
    """A log-concave regression: two coefficients with a normal prior, known noise."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(N_ROWS, 2))
    y = x @ [1.0, -0.5] + rng.normal(size=N_ROWS)
    with pm.Model(coords={"row": range(N_ROWS), "feature": ["a", "b"]}) as model:
        features = pm.Data("x", x, dims=("row", "feature"))
        outcome = pm.Data("y", y, dims="row")
        beta = pm.Normal("beta", 0, 1, dims="feature")
        pm.Normal("obs", features @ beta, 1.0, observed=outcome, dims="row")
    return model


def sample(step, **kwargs):
    """`pm.sample` without the noise of a terminal."""
    settings = {"draws": 20, "tune": 5, "chains": 2, "cores": 1, "random_seed": 3}
    settings |= {"progressbar": False, "compute_convergence_checks": False} | kwargs
    return pm.sample(step=step, **settings)


def draws(idata, name="beta"):
    return idata.posterior[name].values
