"""The way of the running sums into the data that `pm.sample` returns.

PyMC stores one array of fixed shape a draw, so each draw carries the sums of `WIDTH` coordinates
in turn: every coordinate comes by once in d / WIDTH draws, memory does not grow with d, and the
data stay plain numbers that every file format holds.
"""

from functools import cache, lru_cache
from math import gcd
from typing import Any

import numpy as np
import xarray as xr
from pymc.step_methods.compound import flat_statname

from pymc_sgmcmc.moments import MOMENTS
from pymc_sgmcmc.running_sums import RunningSums
from pymc_sgmcmc.watched import POOLED, SEEN, Watched

__all__ = ["SUMS_DTYPE", "lasting", "running_sums", "samplers_in", "window"]

WIDTH = 4

HEADER = ("size", "coordinate", "steps", "origin")
LASTING = ("place", *SEEN, *POOLED)
ROWS = (*HEADER, *MOMENTS, *LASTING)

SUMS_DTYPE = np.dtype((np.float64, (len(ROWS), WIDTH)))


def lasting(watched: Watched, places: np.ndarray) -> np.ndarray:
    """`LASTING` of all coordinates, (10, d): what changes when the chain is looked at.

    `places`: the number of each coordinate of q among all value variables of the model, (d,).
    """
    size = len(watched.main)
    pooled = [*watched.pooled.T.ravel(), watched.freedom, watched.temperature]
    of_all = np.repeat(np.array([pooled]).T, size, axis=1)
    return np.vstack([places[watched.main], watched.spread, watched.noise, of_all])


def window(sums: RunningSums, last: np.ndarray) -> np.ndarray:
    """`ROWS` of the coordinates whose turn it is, as stored with this draw.

    `last`: what `lasting` returned.
    """
    size, rows, end = len(sums.origin), np.empty(SUMS_DTYPE.shape), len(HEADER)
    head = _head(size, max(sums.draws - 1, 0) % size)
    rows[:2], rows[2], turn = head, sums.steps, head[1]
    sums.origin.take(turn, 0, rows[3], "clip")
    sums.sums.take(turn, 1, rows[end : -len(LASTING)], "clip")
    last.take(turn, 1, rows[-len(LASTING) :], "clip")
    return rows


@lru_cache(maxsize=1024)
def _head(size: int, draw: int) -> np.ndarray:
    """`size`, and the coordinates whose turn it is: after `size` draws the same ones come again."""
    turn = (draw * WIDTH + np.arange(WIDTH)) * _stride(size) % size
    return np.stack([np.full(WIDTH, size), turn])


@cache
def _stride(size: int) -> int:
    """From one coordinate to the next: all come by, and not neighbours first."""
    return next(n for n in range(max(1, round(0.618 * size)), 2 * size) if gcd(n, size) == 1)


def samplers_in(idata: Any) -> int:
    """How many step methods have stored sums in `idata`."""
    number = 0
    while _stored(idata, number) is not None:
        number += 1
    return number


def _stored(idata: Any, sampler: int) -> np.ndarray | None:
    """What the step method of that number has stored, (chain, draw, row, turn), if there is one."""
    stats = getattr(idata, "sample_stats", {})
    if (in_zarr := flat_statname(sampler, "running_sums")) in stats:
        return stats[in_zarr].values
    if "running_sums" not in stats:
        return None
    stored = stats["running_sums"].values
    if stored.ndim == 4:
        return stored if sampler == 0 else None
    return stored[..., sampler] if sampler < stored.shape[-1] else None


def running_sums(idata: Any, sampler: int = 0) -> xr.Dataset:
    """Read the running sums out of what `pm.sample` returned.

    They are what `check` and the warnings while sampling judge the width of the draws by: for draws
    of the posterior W, the mean of (q - mean) dU/dq, is 1 in every coordinate (times the
    temperature), here ``qg - q * g_at_q``.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        Data with a ``running_sums`` sample stat.
    sampler : int
        Which step method of this package, counted from 0, where `pm.sample` used several.

    Returns
    -------
    xarray.Dataset
        With dimensions (chain, coordinate), in the coordinates of the metric; NaN for a coordinate
        that has not come by yet (each comes by once in d / 4 draws), and for what the sampler does
        not have.

        - ``steps``: the number of inner steps after tuning that the means are over, which are
          ``g``, ``g2``: of the gradient and its square; ``p2``, ``xi``: of the squared momentum and
          the thermostat; ``q``, ``g_at_q``, ``qg``: of the position less ``origin``, the gradient
          there, and their product; ``virial``: of what the sampler says ``qg`` is on average.
        - Since the last look at the chain: ``direct_spread``, ``implied_spread``: asymptotic
          standard deviations, for one inner step, of W from ``qg`` and from ``virial``; ``noise``:
          what gradient noise adds to W; ``pooled_...``: W and its spreads over all coordinates;
          ``freedom``: degrees of freedom of the spreads; ``temperature``: T.
        - ``place``: which number of all value variables of the model, end to end, a coordinate is,
          or mostly is.

    Raises
    ------
    ValueError
        If there are no sums of that step method.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from pymc_sgmcmc import SGHMC, running_sums
    >>> with pm.Model():
    ...     y = pm.Normal("y", pm.Normal("mu"), observed=np.arange(10.0))
    ...     idata = pm.sample(step=SGHMC(), progressbar=False, random_seed=1)
    >>> sums = running_sums(idata)
    >>> float(sums["p2"].mean().round(1))  # the kinetic temperature
    1.0
    """
    stored = _stored(idata, sampler)
    if stored is None:
        raise ValueError(
            f"sampler={sampler!r}: idata holds the running sums of {samplers_in(idata)} step "
            "methods of this package, which are counted from 0."
        )
    steps_row = ROWS.index("steps")
    latest = np.full((len(ROWS), len(stored), int(stored[0, 0, 0, 0])), np.nan)
    for chain, path in enumerate(stored):
        # A divergence starts the sums anew: what came before it is not of one piece with the rest.
        restarts = np.flatnonzero(np.diff(path[:, steps_row, 0]) < 0)
        start = restarts[-1] + 1 if len(restarts) else 0
        for rows in path[start:]:
            if rows[steps_row, 0] > 0:
                latest[:, chain, rows[1].astype(int)] = rows
    dims, columns = ("chain", "coordinate"), dict(zip(ROWS, latest, strict=True))
    for name in MOMENTS:
        columns[name] = columns[name] / columns["steps"]
    return xr.Dataset(
        {name: (dims, values) for name, values in columns.items()
         if name not in ("size", "coordinate")}
    )  # fmt: skip
