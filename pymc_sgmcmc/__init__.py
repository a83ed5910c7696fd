"""Stochastic-gradient MCMC step methods for PyMC."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from pymc_sgmcmc._utils.metric import Metric
from pymc_sgmcmc.chain.stored_sums import running_sums
from pymc_sgmcmc.dynamics.algorithm import Algorithm
from pymc_sgmcmc.dynamics.annealing import Annealing, GeometricAnnealing, PowerAnnealing
from pymc_sgmcmc.dynamics.schedules import Constant, CyclicalCosine, Polynomial, Schedule
from pymc_sgmcmc.model.full_data import full_data
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
from pymc_sgmcmc.step.gibbs import Gibbs
from pymc_sgmcmc.step.step_method import SGMCMC

if TYPE_CHECKING:  # the same names as in _IMPORTED_WHEN_USED (PEP 562)
    __version__: str
    from pymc_sgmcmc.conformance.check_sampler import check_sampler
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
    from pymc_sgmcmc.saving.resumable import Resumable
    from pymc_sgmcmc.saving.saved_runs import load, resume, save

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

# Sampling needs none of these, and importing them takes as long as all the rest.
_IMPORTED_WHEN_USED = {
    "conformance.check_sampler": ["check_sampler"],
    "plots": [
        "plot_check",
        "plot_compare",
        "plot_phase",
        "plot_step_sizes",
        "plot_temperature",
        "plot_thermostat",
        "plot_width",
    ],
    "results.autocorrelation": ["autocorrelation_time"],
    "results.check": ["Check", "check"],
    "results.comparison": ["compare"],
    "results.ksd": ["SteinDiscrepancy", "ksd"],
    "results.log_likelihood": ["log_likelihood"],
    "results.predict": ["predict"],
    "results.relabel": ["relabel"],
    "results.temperature": ["kinetic_temperature"],
    "results.tuning_report": ["report"],
    "results.weighted": ["weighted_mean", "weighted_quantile"],
    "saving.resumable": ["Resumable"],
    "saving.saved_runs": ["load", "resume", "save"],
}


def __getattr__(name: str) -> Any:
    """Import a name of `_IMPORTED_WHEN_USED`, or read the version from the installed files."""
    if name == "__version__":
        return version("pymc_sgmcmc")
    for module, names in _IMPORTED_WHEN_USED.items():
        if name in names:
            value = getattr(import_module(f"{__name__}.{module}"), name)
            globals()[name] = value  # the next time, this function is not called
            return value
    near = [known for known in __dir__() if known.lower() == name.lower()]
    hint = f": did you mean {near[0]}?" if near else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
