"""Draws on the density of the posterior, on given axes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pymc_sgmcmc.plots.style import BLACK, BLUE, SKY, VERMILION

__all__ = ["draw_contours", "draw_curve"]

HELD = (0.99, 0.95, 0.8, 0.5)
"""Probabilities within the contours."""

SHOWN = 4000
"""Largest number of draws that are shown as points, spread evenly."""

_FIRST = "first draws"


def draw_curve(
    ax: Any, flat: np.ndarray, grids: Sequence[np.ndarray], density: np.ndarray, path: np.ndarray
) -> None:
    """Draw a histogram of draws `flat` (n, 1), the density on the grid, and a rising path."""
    (grid,) = grids
    density = density / np.sum((density[1:] + density[:-1]) / 2 * np.diff(grid))
    inside = flat[(flat >= grid[0]) & (flat <= grid[-1])]
    ax.hist(inside, 50, density=True, color=SKY, alpha=0.6, label="draws")
    ax.plot(grid, density, color=BLACK, linewidth=1.4, label="exact density")
    ax.set_ylim(bottom=0)
    if len(path):
        right = ax.twinx()
        _line(right, path[:, 0], np.arange(len(path)), None)
        right.set_ylabel("number of the draw")
        ax.plot([], [], "-o", color=VERMILION, linewidth=0.9, markersize=2.5, label=_FIRST)


def draw_contours(
    ax: Any, flat: np.ndarray, grids: Sequence[np.ndarray], density: np.ndarray, path: np.ndarray
) -> None:
    """Draw points `flat` (n, 2) on contours of the density, and a line `path` (m, 2)."""
    from matplotlib.lines import Line2D

    shown = flat[:: -(-len(flat) // SHOWN)]
    ax.plot(*shown.T, ".", color=BLUE, markersize=2, alpha=0.4, label="draws", zorder=1)
    # Contours of the logarithm are more accurate, as it is closer to linear between grid points.
    heights, levels = np.log(np.maximum(density, 1e-300)), np.log(_levels(density))
    ax.contour(*grids, heights.T, levels=levels, colors=BLACK, linewidths=0.9,
               linestyles="solid", zorder=2)  # fmt: skip
    held = ", ".join(f"{100 * part:g}" for part in HELD[::-1])
    ax.add_line(Line2D([], [], color=BLACK, linewidth=0.9, label=f"exact: {held} %"))
    if len(path):
        _line(ax, path[:, 0], path[:, 1], _FIRST)


def _levels(density: np.ndarray) -> list[float]:
    """Return the densities above which there are `HELD` of the probability, in rising order."""
    sorted_density = np.sort(density, axis=None)[::-1]
    held = np.cumsum(sorted_density) / density.sum()
    levels = np.unique(sorted_density[np.searchsorted(held, HELD)])
    return [level for level in levels if level > 0]


def _line(ax: Any, x: np.ndarray, y: np.ndarray, label: str | None) -> None:
    ax.plot(x, y, "-o", color=VERMILION, linewidth=0.9, markersize=2.5, label=label, zorder=3)
    ax.plot(x[:1], y[:1], "s", color=VERMILION, markersize=6, zorder=3)
