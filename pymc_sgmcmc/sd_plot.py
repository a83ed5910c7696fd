"""A figure of reported against implied sds."""

from typing import Any

import numpy as np
import xarray as xr

from pymc_sgmcmc.implied import VARIANCE_TOLERANCE
from pymc_sgmcmc.plots.forest import forest
from pymc_sgmcmc.significance import is_wrong

__all__ = ["plot_sd_ratios"]


def plot_sd_ratios(dataset: xr.Dataset, ax: Any = None) -> Any:
    """Draw the sd ratio of each coordinate with its interval, and the band of no alarm.

    Parameters
    ----------
    dataset : xarray.Dataset
        That of a `Check`.
    ax : matplotlib axes, optional
        Default: new ones, as high as the number of coordinates asks for.

    Returns
    -------
    matplotlib axes
    """
    ratio, error = dataset.sd_ratio.values, dataset.sd_ratio_error.values
    half = dataset.attrs.get("critical_value", np.nan) * 2 * ratio * error  # of the variance ratio
    with np.errstate(invalid="ignore"):
        low, high = np.sqrt(np.maximum(ratio**2 - half, 0)), np.sqrt(ratio**2 + half)
    wrong = is_wrong(ratio**2 - 1, half, VARIANCE_TOLERANCE, times=1)
    band = np.sqrt([1 - VARIANCE_TOLERANCE, 1 + VARIANCE_TOLERANCE])
    ax = forest(ax, dataset.coordinate.values, ratio, (low, high), wrong, band)
    ax.set_xlabel("sd of the draws / sd that exact gradients imply")
    return ax
