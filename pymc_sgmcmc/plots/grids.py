"""The points at which a density is computed."""

from typing import Any

import numpy as np

__all__ = ["grids_for", "support"]

MARGIN = 0.25
"""How much farther than the draws the axes go to either side, of their range."""


def grids_for(flat: np.ndarray, ranges: Any, number: int) -> list[np.ndarray]:
    """Points along each axis: about the draws `flat` (n, d), or between `ranges`."""
    size = flat.shape[1]
    if ranges is None:
        low, high = np.quantile(flat, [0.001, 0.999], axis=0)
        margin = MARGIN * np.where(high > low, high - low, 1.0)
        ranges = np.stack([low - margin, high + margin], axis=1)
    ends = np.asarray(ranges, dtype=float)
    if ends.shape != (size, 2) or not (np.isfinite(ends).all() and (ends[:, 0] < ends[:, 1]).all()):
        raise ValueError(f"ranges={ranges!r} must be {size} pairs (low, high) with low < high.")
    return [np.linspace(low, high, number) for low, high in ends]


def support(grids: list[np.ndarray], density: np.ndarray) -> list[tuple[float, float]]:
    """The ends of each axis, without what lies beyond the support."""
    ends = []
    for axis, grid in enumerate(grids):
        others = tuple(other for other in range(len(grids)) if other != axis)
        positive = np.flatnonzero((density > 0).any(axis=others))
        ends.append((grid[max(positive[0] - 1, 0)], grid[min(positive[-1] + 1, len(grid) - 1)]))
    return ends
