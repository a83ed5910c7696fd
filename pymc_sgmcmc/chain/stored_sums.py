"""The way of the running sums into the data that `pm.sample` returns.

PyMC stores one array of fixed shape a draw, so each draw carries the sums of `WIDTH` coordinates
in turn: every coordinate comes by once in d / WIDTH draws, memory does not grow with d, and the
data stay plain numbers that every file format holds.
"""

from functools import cache
from math import gcd
from typing import Any

import numpy as np
import xarray as xr
from pymc.step_methods.compound import flat_statname

from pymc_sgmcmc._utils.argument_rows import STATS_OF
from pymc_sgmcmc._utils.arguments import takes
from pymc_sgmcmc._utils.constraints import Whole
from pymc_sgmcmc.chain.evidence import POOLED, SEEN, Watched
from pymc_sgmcmc.chain.moments import MOMENTS
from pymc_sgmcmc.chain.running_sums import RunningSums

__all__ = ["SUMS_DTYPE", "Stored", "running_sums", "samplers_in"]

WIDTH = 4

TURNS = 1024
"""Turns whose rows are kept: after d of them the same coordinates come by again."""

HEADER = ("size", "coordinate", "steps", "origin")
LASTING = ("place", *SEEN, *POOLED)
ROWS = (*HEADER, *MOMENTS, *LASTING)
STEPS, OF_SUMS = HEADER.index("steps"), slice(len(HEADER), -len(LASTING))

SUMS_DTYPE = np.dtype((np.float64, (len(ROWS), WIDTH)))


class Stored:
    """What is stored of running sums, draw by draw, until their origin or what was seen changes.

    Parameters
    ----------
    origin : array, shape (d,)
        That of the sums.
    watched : Watched
    places : array, shape (d,)
        The number of each coordinate of q among all value variables of the model.
    """

    def __init__(self, origin: np.ndarray, watched: Watched, places: np.ndarray):
        self.origin, self.watched, self._size = origin, watched, len(origin)
        pooled = [*watched.pooled.T.ravel(), watched.freedom, watched.temperature]
        of_all = np.repeat(np.array([pooled]).T, self._size, axis=1)
        seen = watched.spread, watched.noise, of_all
        self._lasting = np.vstack([places[watched.main], *seen])
        self._turns: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def rows(self, sums: RunningSums) -> np.ndarray:
        """`ROWS` of the coordinates whose turn it is at this draw."""
        turn = max(sums.draws - 1, 0) % self._size
        if turn not in self._turns:
            if len(self._turns) == TURNS:
                self._turns.clear()
            self._turns[turn] = self._turn(turn)
        coordinates, rows = self._turns[turn]
        rows = rows.copy()
        rows[STEPS] = sums.steps
        sums.sums.take(coordinates, 1, rows[OF_SUMS], "clip")
        return rows

    def _turn(self, turn: int) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates, and their rows, but for what changes with every draw."""
        coordinates = (turn * WIDTH + np.arange(WIDTH)) * _stride(self._size) % self._size
        rows = np.empty(SUMS_DTYPE.shape)
        rows[HEADER.index("size")], rows[HEADER.index("coordinate")] = self._size, coordinates
        rows[HEADER.index("origin")] = self.origin[coordinates]
        rows[OF_SUMS.stop :] = self._lasting[:, coordinates]
        return coordinates, rows


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


@takes(idata=STATS_OF, sampler=Whole(0))
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
          there, and their product; ``virial``: of what the sampler says ``qg`` is on average;
          ``q2``: of the square of that position.
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
    if 0 in stored.shape:
        raise ValueError(f"The running sums have no draws: their shape is {stored.shape}.")
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
