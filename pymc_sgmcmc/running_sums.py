"""Running sums over the inner steps, per coordinate, and their way into the returned data.

PyMC stores one array of fixed shape a draw, so each draw carries the sums of `WIDTH` coordinates
in turn: every coordinate comes by once in d / WIDTH draws, memory does not grow with d, and the
data stay plain numbers that every file format holds.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor.tensor as pt
import xarray as xr
from pymc.step_methods.compound import flat_statname

__all__ = ["MOMENTS", "SUMS_DTYPE", "RunningSums", "moment_sums", "running_sums"]

MOMENTS = ("g2", "g", "qg", "q", "p2", "pg", "xiqp", "xi")
"""g: the minibatch gradient; q, p, xi: position, momentum and thermostat before the step."""

WIDTH = 4

SUMS_DTYPE = np.dtype((np.float64, (3 + len(MOMENTS), WIDTH)))
"""Rows: d, the coordinate, the inner steps summed over, then `MOMENTS`."""


def moment_sums(q, g, p=None, xi=None):
    """Graph of the sums over the steps of `MOMENTS`, (8, d) float64; NaN where p or xi is missing.

    `q`, `p`, `g`: (steps, d); `xi`: (steps,) or (steps, d).
    """
    q, g, p, xi = (None if x is None else x.astype("float64") for x in (q, g, p, xi))
    if xi is not None and xi.type.ndim == 1:
        xi = xi[:, None] * pt.ones_like(q)
    products = [(g, g), (g,), (q, g), (q,), (p, p), (p, g), (xi, q, p), (xi,)]
    missing = pt.full((q.shape[1],), np.nan)
    return pt.stack(
        [
            missing
            if any(factor is None for factor in factors)
            else pt.sum(np.prod(factors, dtype=object), axis=0)
            for factors in products
        ]
    )


@dataclass(frozen=True)
class RunningSums:
    """Sums of `MOMENTS` since the end of tuning or the last divergence."""

    draws: int
    steps: int
    sums: np.ndarray
    """Shape (8, d), float64."""

    @classmethod
    def zeros(cls, size: int) -> "RunningSums":
        return cls(0, 0, np.zeros((len(MOMENTS), size)))

    def add(self, sums: np.ndarray, steps: int) -> "RunningSums":
        """The sums with those of one more draw."""
        return RunningSums(self.draws + 1, self.steps + steps, self.sums + sums)

    def window(self) -> np.ndarray:
        """The sums of the coordinates whose turn it is, as stored with this draw."""
        size = self.sums.shape[1]
        turn = (max(self.draws - 1, 0) * WIDTH + np.arange(WIDTH)) % size
        return np.vstack(
            [np.full(WIDTH, size), turn, np.full(WIDTH, self.steps), self.sums[:, turn]]
        )


def running_sums(idata: Any, sampler: int = 0) -> xr.Dataset:
    """Read the running sums out of what `pm.sample` returned.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        Data with a ``running_sums`` sample stat.
    sampler : int
        Which step method of this package, where `pm.sample` used several.

    Returns
    -------
    xarray.Dataset
        Means over the inner steps of `MOMENTS` and the number ``steps`` of them, each with
        dimensions (chain, coordinate); NaN for a coordinate that has not come by yet.
    """
    stats, in_zarr = idata.sample_stats, flat_statname(sampler, "running_sums")
    stored = stats[in_zarr if in_zarr in stats else "running_sums"].values
    if stored.ndim == 5:
        stored = stored[..., sampler]
    latest = np.full((1 + len(MOMENTS), len(stored), int(stored[0, 0, 0, 0])), np.nan)
    for chain, path in enumerate(stored):
        # A divergence starts the sums anew: what came before it is not of one piece with the rest.
        restarts = np.flatnonzero(np.diff(path[:, 2, 0]) < 0)
        start = restarts[-1] + 1 if len(restarts) else 0
        for window in path[start:]:
            if window[2, 0] > 0:
                latest[:, chain, window[1].astype(int)] = window[2:]
    steps, dims = latest[0], ("chain", "coordinate")
    means = {name: (dims, total / steps) for name, total in zip(MOMENTS, latest[1:], strict=True)}
    return xr.Dataset({"steps": (dims, steps), **means})
