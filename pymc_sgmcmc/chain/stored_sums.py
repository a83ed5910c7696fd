"""Storage of the running sums in the data that `pm.sample` returns.

PyMC stores one array of fixed shape per draw, so each draw stores the sums of `WIDTH` coordinates
in turn. Every coordinate is stored once in d / WIDTH draws, memory does not grow with d, and the
data are plain numbers that every file format can store.
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
from pymc_sgmcmc.chain.evidence import Evidence
from pymc_sgmcmc.chain.moments import MOMENTS
from pymc_sgmcmc.chain.running_sums import RunningSums

__all__ = ["ROWS", "SUMS_DTYPE", "StoredRows", "running_sums", "samplers_in"]

WIDTH = 4

TURNS = 1024
"""Largest number of turns whose rows are cached. The same coordinates repeat after d turns."""

HEADER = ("size", "coordinate", "steps", "origin")
OF_EVIDENCE = ("direct_spread", "implied_spread", "direct_correction", "noise")
POOLED = ("pooled_direct", "pooled_implied", "pooled_direct_spread", "pooled_implied_spread",
          "freedom", "temperature")  # fmt: skip
LASTING = ("place", *OF_EVIDENCE, *POOLED)
ROWS = (*HEADER, *MOMENTS, *LASTING)
STEPS, OF_SUMS = HEADER.index("steps"), slice(len(HEADER), -len(LASTING))

SUMS_DTYPE = np.dtype((np.float64, (len(ROWS), WIDTH)))


class StoredRows:
    """Rows of running sums to store at each draw, valid until `origin` or `evidence` change.

    Parameters
    ----------
    origin : array, shape (d,)
        Origin of the sums.
    evidence : Evidence
    places : array, shape (d,)
        The index of each coordinate of q among all value variables of the model.
    """

    def __init__(self, origin: np.ndarray, evidence: Evidence, places: np.ndarray):
        self.origin, self.evidence, self._size = origin, evidence, len(origin)
        pooled = [*evidence.pooled.T.ravel(), evidence.freedom, evidence.temperature]
        of_all = np.repeat(np.array([pooled]).T, self._size, axis=1)
        of_each = [*evidence.spread, evidence.correction, evidence.noise]
        self._lasting = np.vstack([places[evidence.main_coordinates], *of_each, of_all])
        self._turns: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def at(self, sums: RunningSums) -> np.ndarray:
        """Return the `ROWS` of the coordinates whose turn is at this draw."""
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
        """Return the coordinates of a turn and their rows, without the entries of single draws."""
        coordinates = (turn * WIDTH + np.arange(WIDTH)) * _stride(self._size) % self._size
        rows = np.empty(SUMS_DTYPE.shape)
        rows[HEADER.index("size")], rows[HEADER.index("coordinate")] = self._size, coordinates
        rows[HEADER.index("origin")] = self.origin[coordinates]
        rows[OF_SUMS.stop :] = self._lasting[:, coordinates]
        return coordinates, rows


@cache
def _stride(size: int) -> int:
    """Return the stride from one stored coordinate to the next.

    The stride is coprime to `size`, so that all coordinates are stored, and about 0.618 `size`, so
    that neighbours are not stored together.
    """
    return next(n for n in range(max(1, round(0.618 * size)), 2 * size) if gcd(n, size) == 1)


def samplers_in(idata: Any) -> int:
    """Return the number of step methods that have stored sums in `idata`."""
    number = 0
    while _stored(idata, number) is not None:
        number += 1
    return number


def _stored(idata: Any, sampler: int) -> np.ndarray | None:
    """Return the array (chain, draw, row, turn) of step method number `sampler`, or None."""
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

    The function `check` and the warnings while sampling judge the width of the draws by these sums.
    For draws of the posterior W, the mean of (q - mean) dU/dq, is 1 in every coordinate (times the
    temperature). In these data W is ``qg - q * g_at_q + direct_correction / steps``.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        Data with a ``running_sums`` sample stat.
    sampler : int
        Number of the step method of this package, counted from 0, if `pm.sample` used several.

    Returns
    -------
    xarray.Dataset
        With dimensions (chain, coordinate), in the coordinates of the metric. Values are NaN for a
        coordinate that is not stored yet (each is stored once in d / 4 draws), and for quantities
        that the sampler does not have.

        - ``steps``: the number of inner steps after tuning that the following means are over.
          ``g``, ``g2``: the gradient and its square. ``p2``, ``xi``: the squared momentum and the
          thermostat. ``q``, ``g_at_q``, ``qg``: the position minus ``origin``, the gradient there,
          and their product. ``virial``: the mean of ``qg`` that the sampler's balance implies.
          ``q2``: the square of that position.
        - Values of the last inspection of the chain. ``direct_spread``, ``implied_spread``:
          asymptotic standard deviations, for one inner step, of W from ``qg`` and from ``virial``.
          ``direct_correction``: what the former lacks, times the steps, because q is centred by the
          chain's own mean. ``noise``: the part of W that gradient noise adds. ``pooled_...``: W and
          its spreads over all coordinates. ``freedom``: degrees of freedom of the spreads.
          ``temperature``: T.
        - ``place``: the index of a coordinate, or of its main component, in the concatenated value
          variables of the model.

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
        # A divergence restarts the sums, so draws before it do not belong to the same sums.
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
