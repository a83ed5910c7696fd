"""Forest plot: a ratio of each coordinate with its interval, and a band without alarms."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pymc_sgmcmc.plots.labels import shortened
from pymc_sgmcmc.plots.panels import single_panel
from pymc_sgmcmc.plots.style import BACKGROUND, RIGHT, WRONG

__all__ = ["forest"]

LABELS = 100
"""Largest number of coordinates with a name at the axis. If there are more, every second, third,
... one is named."""

LIMITS = (0.2, 5.0)


def forest(
    ax: Any,
    names: Sequence[str],
    ratio: np.ndarray,
    interval: tuple[np.ndarray, np.ndarray],
    wrong: np.ndarray,
    band: Sequence[float] | np.ndarray,
) -> Any:
    """Draw ratios on a logarithmic scale, the first coordinate on top; return the axes.

    Parameters
    ----------
    ax : matplotlib axes or None
        Axes to draw on. None means new axes with a height for the number of coordinates.
    names : sequence of str
        Names of the d coordinates.
    ratio, wrong : array, shape (d,)
        Ratios, and a mask of those that are an alarm.
    interval : tuple of array, shape (d,)
        Lower and upper ends of the intervals of the ratios.
    band : tuple of float
        Lower and upper end of the band without alarms.
    """
    from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

    size, (low, high) = len(names), interval
    ax, _ = single_panel(ax, (7, float(np.clip(0.22 * size + 1.4, 2.2, 12))))
    place = np.arange(size)
    ax.axvspan(*band, color=BACKGROUND, label="no alarm", zorder=0)
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
    # Intervals may extend beyond the figure, but points must be inside.
    left = max(left, min(LIMITS[0], np.nanmin([*ratio, 1]) * 0.9))
    right = min(right, max(LIMITS[1], np.nanmax([*ratio, 1]) * 1.1))
    ax.set_xlim(left, right)
    ticks = np.array([0.01, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 5, 10, 100])
    if right / left > 2:
        ticks = np.array([0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1, 1.5, 2, 3, 5, 7, 10, 15])
    if right / left > 20:
        ticks = np.array([0.01, 0.1, 0.2, 0.5, 1, 2, 5, 10, 100])
    ax.xaxis.set_major_locator(FixedLocator(ticks.tolist()))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    step = -(-size // LABELS)
    shown = place[::step]
    ax.set_yticks(
        shown, [shortened(str(names[i])) for i in shown], fontsize=8 if size <= LABELS / 2 else 6
    )
    ax.set_ylim(size - 0.4, -0.6)  # the first coordinate on top
    ax.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, frameon=False)
    return ax
