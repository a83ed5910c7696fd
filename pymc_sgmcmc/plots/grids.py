"""Grids of points at which a density is computed."""

from typing import Any

import numpy as np

__all__ = ["grids_for", "refined", "support"]

MARGIN = 0.25
"""Margin of the axes beyond the draws on either side, as a fraction of their range."""

FINER = 5
"""Number of points of a refined grid for each point of the coarse grid."""


def grids_for(flat: np.ndarray, ranges: Any, number: int) -> list[np.ndarray]:
    """Return points along each axis, around the draws `flat` (n, d) or between `ranges`."""
    size = flat.shape[1]
    if ranges is None:
        low, high = np.quantile(flat, [0.001, 0.999], axis=0)
        margin = MARGIN * np.where(high > low, high - low, 1.0)
        ranges = np.stack([low - margin, high + margin], axis=1)
    ends = np.asarray(ranges, dtype=float)
    if ends.shape != (size, 2) or not (np.isfinite(ends).all() and (ends[:, 0] < ends[:, 1]).all()):
        raise ValueError(f"ranges={ranges!r} must be {size} pairs (low, high) with low < high.")
    return [np.linspace(low, high, number) for low, high in ends]


def _within(log_density: np.ndarray) -> list[slice]:
    """Return the smallest box that contains all points of the support."""
    finite, box = np.isfinite(log_density), []
    for axis in range(finite.ndim):
        others = tuple(other for other in range(finite.ndim) if other != axis)
        places = np.flatnonzero(finite.any(axis=others))
        box.append(slice(places[0], places[-1] + 1))
    return box


def support(grids: list[np.ndarray], log_density: np.ndarray) -> list[tuple[float, float]]:
    """Return the ends of each axis, cut to the support."""
    return [
        (grid[max(box.start - 1, 0)], grid[min(box.stop, len(grid) - 1)])
        for grid, box in zip(grids, _within(log_density), strict=True)
    ]


def refined(
    grids: list[np.ndarray], log_density: np.ndarray
) -> tuple[list[np.ndarray], np.ndarray]:
    """Return a finer grid in two dimensions, and the log-density there by cubic splines.

    A ridge of the density may be narrower than the grid, but its log-density is smooth. If the
    support is not a rectangle, return the grid unchanged.
    """
    from scipy.interpolate import RectBivariateSpline  # importing it takes long

    box = _within(log_density)
    inner = log_density[tuple(box)]
    if not np.isfinite(inner).all() or min(inner.shape) < 4:
        return grids, log_density
    coarse = [grid[part] for grid, part in zip(grids, box, strict=True)]
    fine = [np.linspace(grid[0], grid[-1], FINER * len(grid)) for grid in coarse]
    return fine, RectBivariateSpline(*coarse, inner)(*fine)
