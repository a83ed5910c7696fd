"""Stochastic-gradient MCMC step methods for PyMC."""

from importlib.metadata import version

from pymc_sgmcmc.annealing import Annealing, GeometricAnnealing, PowerAnnealing
from pymc_sgmcmc.autocorrelation import autocorrelation_time
from pymc_sgmcmc.check import Check, check
from pymc_sgmcmc.checkpoints import load, resume, save
from pymc_sgmcmc.comparison import compare
from pymc_sgmcmc.gibbs import Gibbs
from pymc_sgmcmc.ksd import SteinDiscrepancy, ksd
from pymc_sgmcmc.minibatch import full_data
from pymc_sgmcmc.plots import (
    plot_compare,
    plot_phase,
    plot_step_sizes,
    plot_temperature,
    plot_thermostat,
    plot_width,
)
from pymc_sgmcmc.pointwise import log_likelihood
from pymc_sgmcmc.predictive import predict
from pymc_sgmcmc.registration import register
from pymc_sgmcmc.relabel import relabel
from pymc_sgmcmc.report import report
from pymc_sgmcmc.resumable import Resumable
from pymc_sgmcmc.samplers import (
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
    Recipe,
    Santa,
    gSGNHT,
)
from pymc_sgmcmc.schedules import Constant, CyclicalCosine, Polynomial, Schedule
from pymc_sgmcmc.stored_sums import running_sums
from pymc_sgmcmc.temperature import kinetic_temperature
from pymc_sgmcmc.weighted import weighted_mean, weighted_quantile

__version__ = version("pymc_sgmcmc")

__all__ = [
    "AMAGOLD",
    "GMC",
    "MALA",
    "PSGHMC",
    "PSGLD",
    "SGD",
    "SGFS",
    "SGGMC",
    "SGHMC",
    "SGLD",
    "SGNHT",
    "SGRHMC",
    "SGRLD",
    "Annealing",
    "Check",
    "Constant",
    "CyclicalCosine",
    "GeometricAnnealing",
    "Gibbs",
    "Polynomial",
    "PowerAnnealing",
    "Recipe",
    "Resumable",
    "Santa",
    "Schedule",
    "SteinDiscrepancy",
    "autocorrelation_time",
    "check",
    "compare",
    "full_data",
    "gSGNHT",
    "kinetic_temperature",
    "ksd",
    "load",
    "log_likelihood",
    "plot_compare",
    "plot_phase",
    "plot_step_sizes",
    "plot_temperature",
    "plot_thermostat",
    "plot_width",
    "predict",
    "register",
    "relabel",
    "report",
    "resume",
    "running_sums",
    "save",
    "weighted_mean",
    "weighted_quantile",
]
