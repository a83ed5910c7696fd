"""Plots of samplers and of their draws, with matplotlib.

The functions return axes, draw on given axes, and never show a figure.
"""

from pymc_sgmcmc.plots.check import plot_check
from pymc_sgmcmc.plots.compare import plot_compare
from pymc_sgmcmc.plots.phase import plot_phase
from pymc_sgmcmc.plots.step_sizes import plot_step_sizes
from pymc_sgmcmc.plots.temperature import plot_temperature
from pymc_sgmcmc.plots.thermostat import plot_thermostat
from pymc_sgmcmc.plots.width import plot_width

__all__ = [
    "plot_check",
    "plot_compare",
    "plot_phase",
    "plot_step_sizes",
    "plot_temperature",
    "plot_thermostat",
    "plot_width",
]
