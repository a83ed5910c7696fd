"""A figure of reported against implied sds."""

from typing import Any

import numpy as np
import xarray as xr

from pymc_sgmcmc.implied import VARIANCE_TOLERANCE
from pymc_sgmcmc.significance import is_wrong

__all__ = ["plot_sd_ratios"]

LABELS = 100
"""Coordinates with a name at the axis; of more of them, every other one, and so on."""

RIGHT, WRONG = "#0072B2", "#D55E00"  # Distinct to colour-blind readers, and by their markers.
LIMITS = (0.2, 5.0)


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
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

    names, size = dataset.coordinate.values, dataset.sizes["coordinate"]
    if ax is None:
        height = np.clip(0.22 * size + 1.4, 2.2, 12)
        _, ax = plt.subplots(figsize=(7, height), layout="constrained")
    ratio, error = dataset.sd_ratio.values, dataset.sd_ratio_error.values
    half = dataset.attrs.get("critical_value", np.nan) * 2 * ratio * error  # of the variance ratio
    with np.errstate(invalid="ignore"):
        low, high = np.sqrt(np.maximum(ratio**2 - half, 0)), np.sqrt(ratio**2 + half)
    wrong = is_wrong(ratio**2 - 1, half, VARIANCE_TOLERANCE, times=1)
    place = np.arange(size)
    band = np.sqrt([1 - VARIANCE_TOLERANCE, 1 + VARIANCE_TOLERANCE])
    ax.axvspan(*band, color="0.9", label="no alarm", zorder=0)
    ax.axvline(1, color="0.4", linewidth=1, zorder=1)
    for chosen, colour, marker, text in (
        (~wrong, RIGHT, "o", "within it, or not significant"),
        (wrong, WRONG, "s", "alarm"),
    ):
        if chosen.any():
            ax.hlines(place[chosen], np.maximum(low[chosen], 1e-3), high[chosen], colour)
            ax.plot(ratio[chosen], place[chosen], marker, color=colour, markersize=4, label=text)
    ax.set_xscale("log")
    left = min(band[0] * 0.95, np.nanmin([*low, *ratio, 1]) * 0.95)
    right = max(band[1] * 1.05, np.nanmax([*high, *ratio, 1]) * 1.05)
    # An interval may leave the figure; a point may not.
    left = max(left, min(LIMITS[0], np.nanmin([*ratio, 1]) * 0.9))
    right = min(right, max(LIMITS[1], np.nanmax([*ratio, 1]) * 1.1))
    ax.set_xlim(left, right)
    ticks = np.array([0.01, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 5, 10, 100])
    if right / left > 2.5:
        ticks = np.array([0.01, 0.1, 0.2, 0.5, 1, 2, 5, 10, 100])
    ax.xaxis.set_major_locator(FixedLocator(ticks))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    step = -(-size // LABELS)
    shown = place[::step]
    ax.set_yticks(shown, [str(names[i]) for i in shown], fontsize=8 if size <= LABELS / 2 else 6)
    ax.set_ylim(size - 0.4, -0.6)  # the first on top
    ax.set_xlabel("sd of the draws / sd that exact gradients imply")
    ax.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, frameon=False)
    return ax
