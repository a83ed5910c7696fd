"""The table of samplers that drives the conformance tests: add a row for a new one."""

import warnings
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from pymc_sgmcmc import (
    AMAGOLD,
    GMC,
    MALA,
    PSGHMC,
    PSGLD,
    SGD,
    SGFS,
    SGGMC,
    SGHMC,
    SGLD,
    SGNHT,
    SGRHMC,
    SGRLD,
    PowerAnnealing,
    Recipe,
    Santa,
    check_sampler,
    gSGNHT,
)
from pymc_sgmcmc.conformance.subject import begin, walk
from pymc_sgmcmc.distributions import UniformSphere, VonMisesFisher

__all__ = ["CASES", "DEFAULTS", "N_ROWS", "OTHERS", "TYPICAL", "Case", "begin", "built", "draws",
           "optimisers", "regression", "sample", "walk"]  # fmt: skip

N_ROWS = 40


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


def rates():
    """Counts with two positive rates."""
    counts = np.random.default_rng(8).poisson([3.0, 5.0], size=(N_ROWS, 2))
    with pm.Model(coords={"row": range(N_ROWS), "feature": ["a", "b"]}) as model:
        beta = pm.Gamma("beta", 2.0, 0.5, dims="feature")
        data = pm.Data("y", counts, dims=("row", "feature"))
        pm.Poisson("obs", beta, observed=data, dims=("row", "feature"))
    return model


def directions():
    """Directions in the plane around an unknown one."""
    angles = np.random.default_rng(9).vonmises(np.arctan2(0.8, 0.6), 2.0, size=N_ROWS)
    y = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    with pm.Model(coords={"row": range(N_ROWS), "feature": ["a", "b"]}) as model:
        beta = UniformSphere("beta", dims="feature")
        data = pm.Data("y", y, dims=("row", "feature"))
        VonMisesFisher("obs", beta, 2.0, observed=data, dims=("row", "feature"))
    return model


@dataclass(frozen=True)
class Case:
    cls: type
    settings: dict[str, Any] = field(default_factory=dict, hash=False)
    model: Callable = regression
    fixed: tuple[str, ...] = ()
    """Arguments that this sampler does not take."""

    def __str__(self):
        words = [v for v in self.settings.values() if isinstance(v, str)]
        words += [name for name in ("annealing", "gamma") if name in self.settings]
        return "-".join([self.cls.__name__, *words])

    def arguments(self, **kwargs):
        settings = {"batch_size": 5, **self.settings, **kwargs}
        return {k: v for k, v in settings.items() if k not in self.fixed}

    def step(self, **kwargs):
        with optimisers():
            return self.cls(**self.arguments(**kwargs))

    def check(self, **kwargs):
        """The report of `check_sampler` on the model of the case."""
        with optimisers():
            return check_sampler(self.cls, model=self.model, **self.arguments(**kwargs))


@contextmanager
def optimisers():
    """Nothing is said of samplers that look for a mode."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Santa with annealing is an optimiser")
        yield


@cache
def built(case, **arguments):
    """The model of the case and a step on it: for tests that leave both as they are."""
    with (model := case.model()):
        return model, case.step(**arguments)


BATCHES = ("batch_size", "batches")


def diffusion(q):
    """A diffusion that depends on the position, so that its recipe owes a term."""
    return {"q": 1 + 0.5 * pt.tanh(q)}


def pace(q):
    """Such a root of a metric."""
    return 1 + 0.5 * pt.tanh(q)


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
    Case(SGD, {"step_size": 0.3, "metric": [0.025, 0.02]}, fixed=BATCHES[1:]),
    Case(SGRLD, {"step_size": 0.003}, rates),
    Case(SGRHMC, {"step_size": 0.05, "root": pace}),
    Case(Recipe, {"step_size": 0.005, "D": diffusion}),
    Case(MALA, {"step_size": 0.02}, fixed=BATCHES),
    Case(GMC, {"step_size": 0.1}, directions, fixed=BATCHES),
    Case(AMAGOLD, {"step_size": 0.05}, fixed=BATCHES[1:]),
    Case(SGGMC, {"step_size": 0.05, "friction": 3.0}, directions),
    Case(gSGNHT, {"step_size": 0.05, "diffusion": 3.0}, directions),
]

DEFAULTS = [CASES[0], CASES[1], CASES[4], CASES[8]]
"""One case of each sampler, for the tests that compile much."""

OTHERS = [case for case in CASES if case.cls not in (SGLD, SGHMC, SGNHT, Santa)]
OTHERS += [case for case in CASES if {"UBU", "matrix"} & set(map(str, case.settings.values()))]
"""Those that have parts of their own, which no case in `DEFAULTS` has."""

TYPICAL = DEFAULTS[2]
"""SGNHT, which has all that a state may have: for what does not depend on the sampler."""


def sample(step, **kwargs):
    """`pm.sample` without the noise of a terminal."""
    settings = {"draws": 20, "tune": 5, "chains": 2, "cores": 1, "random_seed": 3}
    settings |= {"progressbar": False, "compute_convergence_checks": False} | kwargs
    return pm.sample(step=step, **settings)


def draws(idata, name="beta"):
    return idata.posterior[name].values
