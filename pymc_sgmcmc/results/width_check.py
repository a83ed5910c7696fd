"""Section on the width of the draws, from the running sums of all chains."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import xarray as xr

from pymc_sgmcmc._utils.alarm import Alarm
from pymc_sgmcmc._utils.significance import ALPHA, critical, excess
from pymc_sgmcmc._utils.text import listed
from pymc_sgmcmc.chain.stored_sums import running_sums, samplers_in
from pymc_sgmcmc.chain.width import KINDS, POOLED_TOLERANCE, TOLERANCE, width_ratio
from pymc_sgmcmc.chain.width_messages import describe_ratio, explain_width
from pymc_sgmcmc.results.section import Section

__all__ = ["NO_SUMS", "CombinedWidth", "check_width", "sums_with_errors"]

TITLE = "Width"

_FOREIGN = "Only the step methods of this package keep what it takes."
NO_SUMS = (
    "There is nothing to judge it by: chains have fewer than 250 draws after tuning (or since "
    "their last divergence), or their step size changes, or batches are not drawn independently "
    "(batches='epochs'), or variables are on manifolds."
)


def check_width(
    idata: Any,
    names: Sequence[str],
    places: Sequence[int],
    blur: Mapping[str, float] = MappingProxyType({}),
) -> Section:
    """Judge the variance ratios W that chains of this package store.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
    names : sequence of str
        Names of the d continuous coordinates of the model.
    places : sequence of int
        The index of each coordinate among all value variables of the model.
    blur : mapping
        The largest Monte Carlo errors, as in the numbers of `check_monte_carlo`. No detection
        limit is below them.
    """
    figures = {name: np.full(len(names), np.nan) for name in ("width", "width_error")}
    samplers = samplers_in(idata)
    index = {place: i for i, place in enumerate(places)}
    alarms, limits, notes = [], [], [] if samplers else [_FOREIGN]
    for sampler in range(samplers):
        sums = sums_with_errors(idata, sampler)
        if not sums.sizes["chain"]:
            notes.append(NO_SUMS)
            continue
        seen = [
            width for kind in KINDS if not np.isnan((width := CombinedWidth(sums, kind)).pooled)
        ]
        if not seen:
            notes.append(NO_SUMS)
            continue
        alarms += _alarms(sums, seen, [names[index[place]] for place in seen[0].places])
        limits += [width.limit for width in seen]
        at = [index[place] for place in seen[0].places]
        figures["width"][at], figures["width_error"][at] = seen[0].ratio, seen[0].error
        if len(blind := [names[i] for i, bad in zip(at, seen[0].impossible, strict=True) if bad]):
            notes.append(
                f"Not conclusive for {listed(blind)}: the variance ratio is negative or no number, "
                "which happens far from normal and in few draws."
            )
        missing = sums.sizes["coordinate"] - int(np.isfinite(sums.place).sum("coordinate").min())
        if missing:
            notes.append(f"{missing} of {sums.sizes['coordinate']} coordinates are not among "
                         "those that a chain of this length stores.")  # fmt: skip
    passed = ""
    if limits and not alarms and np.any(figures["width"] > 0):
        limit = max(*(50 * limit for limit in limits), 50 * TOLERANCE,
                    blur.get("sd_monte_carlo_percent", 0.0))  # fmt: skip
        passed = (
            "By the gradients that the chains saw, the variances are right. Sd errors below "
            f"{limit:.0f} % would not have been seen."
        )
    return Section(TITLE, tuple(alarms), passed, tuple(notes), figures)


def sums_with_errors(idata: Any, sampler: int) -> xr.Dataset:
    """Return the running sums of those chains of a step method that know the errors of W."""
    sums = running_sums(idata, sampler)
    return sums.isel(chain=(sums.freedom > 0).any("coordinate"))


class CombinedWidth:
    """W of one kind over all chains.

    Each chain may have a metric of its own. Averages are over the directions of all chains with the
    same main coordinate of q.

    Attributes
    ----------
    places : list of int
        Indices of the coordinates among all value variables.
    ratio, error, noise : array, one for each of them
        W, its standard error, and the part of W that gradient noise adds.
    impossible : array of bool
        Mask of coordinates whose W is negative or not finite, and proves nothing.
    critical : array
        Least number of standard errors at which a deviation is significant.
    excess : array
        Significant deviation beyond the tolerance; above 0 there is an alarm.
    pooled, pooled_error, pooled_excess : float
        The same for the mean over all coordinates.
    limit : float
        Detection limit: smaller errors of W are not detected in the worst coordinate.
    """

    def __init__(self, sums: xr.Dataset, kind: str):
        each = width_ratio(kind, sums, sums.direct_correction / sums.steps)
        errors = sums[f"{kind}_spread"] / np.sqrt(sums.steps)
        known = np.isfinite(sums.place.values)
        places, group = np.unique(sums.place.values[known], return_inverse=True)
        number = np.bincount(group)

        def total(values: xr.DataArray) -> np.ndarray:
            return np.bincount(group, values.values[known])

        self.places = [int(place) for place in places]
        self.ratio, self.error = total(each) / number, np.sqrt(total(errors**2)) / number
        self.noise = total(sums.noise) / number
        freedom = sums.freedom.max("coordinate").values
        self.critical = np.array([critical(ALPHA, n * freedom.mean(), len(places)) for n in number])
        self.impossible = ~(np.isfinite(self.ratio + self.error) & (self.ratio > 0))
        self.excess = excess(self.ratio, self.error, TOLERANCE, self.critical)
        self.limit = float(np.nanmax(self.critical * self.error, initial=0.0))
        # Every stored coordinate holds the pooled values; if d is large, some are not stored yet.
        pooled = sums[f"pooled_{kind}"].max("coordinate").values
        spread = sums[f"pooled_{kind}_spread"].max("coordinate").values
        steps = sums.steps.max("coordinate").values
        self.pooled = float(pooled.mean())
        self.pooled_error = float(np.sqrt(np.sum(spread**2 / steps)) / len(pooled))
        once = critical(ALPHA, freedom.sum(), 1)
        self.pooled_excess = float(excess(self.pooled, self.pooled_error, POOLED_TOLERANCE, once))


def _alarms(sums: xr.Dataset, seen: Sequence[CombinedWidth], names: Sequence[str]) -> list[Alarm]:
    worst = max(seen, key=lambda width: width.excess.max())
    off = [k for k in np.argsort(-worst.excess) if worst.excess[k] > 0]
    if off:
        phrases = [
            f"that along {names[k]} is {describe_ratio(worst.ratio[k], worst.error[k])}"
            for k in off
        ]
        text, ratio, noise = listed(phrases), worst.ratio[off[0]], worst.noise[off[0]]
    else:
        worst = max(seen, key=lambda width: width.pooled_excess)
        if worst.pooled_excess <= 0:
            return []
        ratio, noise = worst.pooled, float(worst.noise.mean())
        text = f"on average over all coordinates it is {describe_ratio(ratio, worst.pooled_error)}"
    temperature = float(sums.temperature.max())
    said = f"By the gradients that the chains saw, variances are wrong: {text}. "
    return [Alarm("width", said + explain_width(temperature, ratio, noise))]
