"""Stochastic-gradient MCMC step methods for PyMC."""

from importlib.metadata import version

from pymc_sgmcmc.check import Check, check
from pymc_sgmcmc.checkpoints import load, resume, save
from pymc_sgmcmc.minibatch import full_data
from pymc_sgmcmc.registration import register
from pymc_sgmcmc.report import report
from pymc_sgmcmc.resumable import Resumable
from pymc_sgmcmc.samplers import SGHMC, SGLD, SGNHT, Santa
from pymc_sgmcmc.schedules import (
    Annealing,
    Constant,
    CyclicalCosine,
    GeometricAnnealing,
    Polynomial,
    PowerAnnealing,
    Schedule,
)
from pymc_sgmcmc.stored_sums import running_sums

__version__ = version("pymc_sgmcmc")

__all__ = [
    "SGHMC",
    "SGLD",
    "SGNHT",
    "Annealing",
    "Check",
    "Constant",
    "CyclicalCosine",
    "GeometricAnnealing",
    "Polynomial",
    "PowerAnnealing",
    "Resumable",
    "Santa",
    "Schedule",
    "check",
    "full_data",
    "load",
    "register",
    "report",
    "resume",
    "running_sums",
    "save",
]
