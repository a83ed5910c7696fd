"""Hand-over to NUTS: said where exact gradients would be faster, from what both cost here."""

import logging
from time import perf_counter
from weakref import WeakSet

import numpy as np

from pymc_sgmcmc._utils.types import Vector
from pymc_sgmcmc.chain.error_of_means import errors_of_means
from pymc_sgmcmc.chain.monitor_input import MonitorInput
from pymc_sgmcmc.posterior.target import Target

__all__ = ["leapfrogs", "suggest_nuts"]

_log = logging.getLogger("pymc.sgmcmc")

FASTER = 3.0
"""Least ratio that is said: the estimate may be off by two."""

DRAWS = 500
"""Least number of draws from which their effective number is estimated."""

TIMES, LONG = 5, 0.1
"""Gradients that are timed: one if it takes longer than so many seconds."""

OVERHEAD = 2e-4
"""Seconds that PyMC takes for a draw of NUTS beside its gradients."""

MANY = 2**18
"""Largest number of rows for which exact gradients are timed."""

_told: WeakSet[Target] = WeakSet()
"""Targets of chains that have said it."""


def suggest_nuts(inputs: MonitorInput, q: Vector, seconds: float) -> None:
    """Log by how much NUTS would be faster, if it would, once for all chains of a process.

    Parameters
    ----------
    inputs : MonitorInput
        Of the draws since tuning.
    q : array, shape (d,)
        A draw.
    seconds : float
        Time that these draws took.
    """
    target, draws = inputs.target, inputs.width.sums.draws
    metric = inputs.tuned.coordinates.metric
    knows = inputs.stationary and inputs.learned_metric and metric.dense and not target.shared
    # Where a funnel is sampled in other coordinates here, NUTS has none.
    knows = knows and not target.centring.moves_centred_effects
    if not knows or draws < DRAWS or target in _told or sum(target.check_lengths()) > MANY:
        return
    error, _ = errors_of_means(inputs.width.sums)
    worst = float(np.nanmax(error, initial=0.0))
    if not worst > 0:
        return
    effective = min(draws, worst**-2)
    steps = leapfrogs(metric.condition, len(q))
    gradient = _seconds_a_gradient(target, q)
    ratio = seconds / effective / (steps * gradient + OVERHEAD)
    if not ratio >= FASTER:
        return
    _told.add(target)
    _log.info(
        f"NUTS would be about {_rounded(ratio):g} times faster here: pm.sample() without step=. An "
        f"exact gradient takes {1e3 * gradient:.2g} ms, and NUTS about {_rounded(steps):g} of them "
        f"for an effective draw; these draws take {1e3 * seconds / draws:.2g} ms, and "
        f"{_rounded(draws / effective):g} of them are one effective draw of the worst coordinate."
    )


def leapfrogs(condition: float, d: int) -> float:
    """Return about how many leapfrog steps NUTS takes for an independent draw of d coordinates.

    NUTS learns a diagonal metric, so that the `condition` is that of the correlations. A trajectory
    of a quarter of the longest period, pi / 2 sds along the widest direction, has steps of about
    one sd along the narrowest, which shrink as d^(1/4) (Beskos et al., 2013). Doublings take half
    as many again.
    """
    return 1.5 * max(2.0, np.pi / 2 * np.sqrt(condition) * d**0.25)


def _seconds_a_gradient(target: Target, q: Vector) -> float:
    """Return the shortest of a few times."""
    times: list[float] = []
    for _ in range(TIMES):
        start = perf_counter()
        target.value_and_gradient(q)
        times.append(perf_counter() - start)
        if times[0] > LONG:
            break
    return min(times)


def _rounded(number: float) -> float:
    """Return a number with one digit, or two from 10 on."""
    return float(f"{number:.1g}" if number < 10 else f"{number:.2g}")
