"""Stochastic-gradient MCMC step methods for PyMC."""

from importlib.metadata import version

from pymc_sgmcmc._utils.metric import Metric
from pymc_sgmcmc.chain.stored_sums import running_sums
from pymc_sgmcmc.conformance.check_sampler import check_sampler
from pymc_sgmcmc.dynamics.algorithm import Algorithm
from pymc_sgmcmc.dynamics.annealing import Annealing, GeometricAnnealing, PowerAnnealing
from pymc_sgmcmc.dynamics.schedules import Constant, CyclicalCosine, Polynomial, Schedule
from pymc_sgmcmc.model.full_data import full_data
from pymc_sgmcmc.plots import (
    plot_check,
    plot_compare,
    plot_phase,
    plot_step_sizes,
    plot_temperature,
    plot_thermostat,
    plot_width,
)
from pymc_sgmcmc.results.autocorrelation import autocorrelation_time
from pymc_sgmcmc.results.check import Check, check
from pymc_sgmcmc.results.comparison import compare
from pymc_sgmcmc.results.ksd import SteinDiscrepancy, ksd
from pymc_sgmcmc.results.log_likelihood import log_likelihood
from pymc_sgmcmc.results.predict import predict
from pymc_sgmcmc.results.relabel import relabel
from pymc_sgmcmc.results.temperature import kinetic_temperature
from pymc_sgmcmc.results.tuning_report import report
from pymc_sgmcmc.results.weighted import weighted_mean, weighted_quantile
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
from pymc_sgmcmc.samplers.registration import register
from pymc_sgmcmc.saving.resumable import Resumable
from pymc_sgmcmc.saving.saved_runs import load, resume, save
from pymc_sgmcmc.step.gibbs import Gibbs
from pymc_sgmcmc.step.step_method import SGMCMC

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
    "SGMCMC",
    "SGNHT",
    "SGRHMC",
    "SGRLD",
    "Algorithm",
    "Annealing",
    "Check",
    "Constant",
    "CyclicalCosine",
    "GeometricAnnealing",
    "Gibbs",
    "Metric",
    "Polynomial",
    "PowerAnnealing",
    "Recipe",
    "Resumable",
    "Santa",
    "Schedule",
    "SteinDiscrepancy",
    "autocorrelation_time",
    "check",
    "check_sampler",
    "compare",
    "full_data",
    "gSGNHT",
    "kinetic_temperature",
    "ksd",
    "load",
    "log_likelihood",
    "plot_check",
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
