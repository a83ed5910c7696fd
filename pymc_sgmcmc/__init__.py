"""Stochastic-gradient MCMC step methods for PyMC."""

from importlib.metadata import version

from pymc_sgmcmc.running_sums import running_sums
from pymc_sgmcmc.samplers import SGHMC, SGLD, SGNHT
from pymc_sgmcmc.schedules import Constant, CyclicalCosine, Polynomial, Schedule

__version__ = version("pymc_sgmcmc")

__all__ = [
    "SGHMC",
    "SGLD",
    "SGNHT",
    "Constant",
    "CyclicalCosine",
    "Polynomial",
    "Schedule",
    "running_sums",
]
