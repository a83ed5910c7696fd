"""Alarms that a chain raises about its own draws while it samples, without knowing the posterior.

A chain checks its sums at draws 250, 500, 1000, 2000, ... after tuning, and reports each kind of
alarm once. Each alarm is about one chain; `pymc_sgmcmc.check` checks all chains, and more.
"""

from dataclasses import replace

import numpy as np

from pymc_sgmcmc._utils.coordinates import Coordinates
from pymc_sgmcmc._utils.significance import critical, excess, largest_energy
from pymc_sgmcmc.chain.cause import cause, times_of
from pymc_sgmcmc.chain.divergences import UNBOUNDED, Bounds
from pymc_sgmcmc.chain.error_of_means import ChainError
from pymc_sgmcmc.chain.evidence import Watched
from pymc_sgmcmc.chain.findings import Alarm
from pymc_sgmcmc.chain.monitor_input import MonitorInput
from pymc_sgmcmc.chain.promises import MEAN_PROMISE, SD_PROMISE, TIMES, rounded_up
from pymc_sgmcmc.chain.width import KINDS, POOLED_TOLERANCE, TOLERANCE
from pymc_sgmcmc.dynamics.noise_rules import SLOWEST
from pymc_sgmcmc.tuning.choice import LARGEST

__all__ = ["MonitorInput", "is_due", "look", "start"]

FIRST = 250
"""Draws after tuning at the first look. The number doubles from look to look."""

ALPHA = 2e-4
"""Chance of a false alarm at one look at a correct chain; small, as looks and chains are many."""

WORST_CONDITION = 1e6

ENOUGH = 1000
"""Least number of draws for an alarm about too few draws: the default number of `pm.sample`."""
CHAINS = 4
"""Default number of chains; a chain does not know the real number."""


def is_due(draws: int) -> bool:
    """Return whether there is a look after `draws` draws since tuning."""
    looks, rest = divmod(draws, FIRST)
    return rest == 0 and looks > 0 and looks & (looks - 1) == 0


def look(watched: Watched, sight: MonitorInput) -> Watched:
    """Return `watched` updated by a look at `sight`, with new alarms queued."""
    if sight.constant and watched.bounds.energy == np.inf:
        watched = replace(watched, bounds=_limits(sight))
    seen = watched
    if sight.stationary:
        width, scale = sight.width, np.sqrt(sight.width.sums.steps)
        seen = replace(
            watched,
            spread=np.array([width.error(kind) for kind in KINDS]) * scale,
            pooled=np.array([width.pooled(kind) for kind in KINDS]) * [1.0, scale],
            freedom=width.freedom,
            noise=sight.noise,
            temperature=sight.temperature,
        )
    return seen.heard(
        [
            _width(sight, watched.main),
            _energy(sight),
            _thermostat(sight),
            _centre(sight),
            _heat(sight),
            _error(sight, watched.main),
        ]
    )


def start(watched: Watched, sight: MonitorInput) -> Watched:
    """Return `watched` at the end of tuning, given `sight` of its last draws."""
    bounds = _limits(sight) if sight.constant and sight.located else UNBOUNDED
    watched = replace(watched, main=_main(sight.tuned.coordinates), bounds=bounds)
    return watched.heard([_thermostat(sight), _bounds(sight), _metric(sight)])


def _limits(sight: MonitorInput) -> Bounds:
    """Return the bounds beyond which a later draw is a divergence."""
    return Bounds.of_chain(
        len(sight.noise),
        sight.dimension,
        float(sight.width.sums.mean("p2").sum()) / sight.dimension,
        sight.friction,
        sight.temperature,
        sight.mass,
        learned=sight.learned,
    )


def _main(coordinates: Coordinates) -> np.ndarray:
    """Return, per metric coordinate, the index of q that moves most with it in its sds, (d,)."""
    if coordinates.factor.ndim == 1:
        return np.arange(len(coordinates.factor))
    scale = np.linalg.norm(coordinates.factor, axis=1, keepdims=True)
    return np.argmax(np.abs(coordinates.factor) / scale, axis=0)


def _width(sight: MonitorInput, main: np.ndarray) -> Alarm | None:
    """Return an alarm if W of a coordinate, or the mean W, is too far from 1."""
    if not sight.stationary or sight.width.freedom < 1:
        return None
    width, d, found = sight.width, len(sight.noise), []
    for kind in KINDS:
        ratio, error = width.ratio(kind), width.error(kind)
        beyond = excess(ratio, error, TOLERANCE, critical(ALPHA, width.freedom, d))
        k = int(np.argmax(beyond))
        along = f"along {sight.target.coordinate(int(main[k]))}"
        found.append((beyond[k], along, ratio[k], error[k], float(sight.noise[k])))
    if max(found)[0] <= 0:
        found = []
        for kind in KINDS:
            ratio, error = width.pooled(kind)
            beyond = excess(ratio, error, POOLED_TOLERANCE, critical(ALPHA, width.freedom, 1))
            along = f"of all {d} coordinates on average"
            found.append((float(beyond), along, ratio, error, float(sight.noise.mean())))
    beyond, *facts = max(found)
    return _width_alarm(sight, *facts) if beyond > 0 else None


def _width_alarm(sight, along: str, ratio: float, error: float, noise: float) -> Alarm:
    return Alarm(
        "width",
        f"{sight.where}: the draws are too {'wide' if ratio > 1 else 'narrow'}. By the gradients, "
        f"the variance {along} is {times_of(ratio, error)}. "
        + cause(sight.temperature, ratio, noise),
    )


def _energy(sight: MonitorInput) -> Alarm | None:
    """Return an alarm if the momentum was larger than any of a stationary chain."""
    d, mean = sight.dimension, sight.width.sums.mean("p2").sum() / sight.dimension
    if not (np.isfinite(mean) and sight.energy > mean * largest_energy(d)):
        return None
    return Alarm(
        "excursion",
        f"{sight.where}: the chain was thrown off: its kinetic energy was once "
        f"{sight.energy / (mean * d):.3g} times the mean. The step is too long somewhere in the "
        "posterior, and a single such excursion makes an sd too large. Halve step_size (or "
        "bias_tolerance), and look where the draws go.",
    )


def _thermostat(sight: MonitorInput) -> Alarm | None:
    """Return an alarm if neither gradient noise nor chance explains the thermostat's friction."""
    if sight.friction is None or not (sight.friction > 0 and sight.time > 0):
        return None
    ratio = float(sight.width.sums.mean("xi").mean()) / sight.friction
    # By the linearised dynamics the variance of the mean friction over a time t is 2 A / (d t) for
    # every thermal mass. Before the friction has settled the variance is less.
    error = np.sqrt(2 / (sight.dimension * sight.time * sight.friction))
    if 0.5 < ratio < 2 or abs(ratio - 1) < critical(ALPHA, np.inf, 1) * error:
        return None
    return Alarm(
        "thermostat",
        f"{sight.where}: the thermostat's friction is {ratio:.3g} times what the injected and the "
        "gradient noise ask for (0.5 to 2 is normal). Something else heats or cools the chain: a "
        "step that is too long, or a chain that is still on its way to the posterior. Tune longer, "
        "start closer with initvals=, or halve step_size.",
    )


def _heat(sight: MonitorInput) -> Alarm | None:
    """Return an alarm if gradient noise is too large on a manifold, where W is not known."""
    if sight.dimension == len(sight.noise):
        return None
    added = float(sight.noise.sum()) / sight.dimension
    if not added > TOLERANCE:
        return None
    return Alarm(
        "noise",
        f"{sight.where}: the draws are too wide. The noise of the gradients adds {added:.0%} to "
        "what is injected. Pass it as noise_estimate, h V / 2, halve step_size, take a larger "
        "batch_size, or use gSGNHT, which absorbs noise.",
    )


def _error(sight: MonitorInput, main: np.ndarray) -> Alarm | None:
    """Return an alarm if `CHAINS` such chains have too few draws for the promised accuracy."""
    draws = sight.width.sums.draws
    if draws < ENOUGH or not sight.constant:
        return None
    error = ChainError.of(sight.width.sums)
    times = TIMES / np.sqrt(CHAINS)
    bounds = {"mean": times * error.mean / MEAN_PROMISE, "sd": times * error.sd / SD_PROMISE}
    worst = max(bounds, key=lambda name: np.nanmax(bounds[name], initial=0.0))
    largest = np.nanmax(bounds[worst], initial=0.0)
    if not largest > 1:
        return None
    k = int(np.nanargmax(bounds[worst]))
    promise = {"mean": f"{MEAN_PROMISE * largest:.2f} sd", "sd": f"{SD_PROMISE * largest:.0%}"}
    return Alarm(
        "error",
        f"{sight.where}: {draws:,} draws are too few: {CHAINS} chains like this one know the "
        f"{worst} along {sight.target.coordinate(int(main[k]))} within {promise[worst]} at best "
        f"(95 %), and {MEAN_PROMISE:g} sd and {SD_PROMISE:.0%} are promised. Take about "
        f"{rounded_up(draws * largest**2):,} draws a chain, and look at check(idata).",
    )


def _centre(sight: MonitorInput) -> Alarm | None:
    """Return an alarm if the control variate makes gradients noisier."""
    if sight.plain is None or not sight.plain < 1:
        return None
    return Alarm(
        "centre",
        f"{sight.where}: the control variate makes gradients noisier, not less noisy: their "
        f"variance is {1 / sight.plain:.3g} times that of plain ones. Its centre is far from where "
        "the chain is: tune longer, start closer with initvals=, or use gradient='auto'.",
    )


def _bounds(sight: MonitorInput) -> Alarm | None:
    """Return an alarm if tuning reached its limits and gradients are still too noisy."""
    slowest, batch = float(sight.tuned.pace.min()), max(sight.tuned.batch_sizes, default=0)
    if slowest > (0.5 if batch >= LARGEST else SLOWEST):
        return None
    if float(sight.noise.max()) <= sight.tolerance:
        return None  # Slow directions cost pace, which `report` shows; the draws are right.
    return Alarm(
        "bound",
        f"{sight.where}: gradients are so noisy that with batches of {batch} rows the noisiest "
        f"directions move at {slowest:.2g} of their pace. Expect few effective draws of them, and "
        "look at their R-hat and effective size; rare features, or rows with a large weight, do "
        "this. A batch_size of your own may be larger than those that tuning chooses.",
    )


def _metric(sight: MonitorInput) -> Alarm | None:
    """Return an alarm if the metric is too ill-conditioned for finite precision."""
    condition = sight.tuned.coordinates.condition
    if not condition > WORST_CONDITION:
        return None
    return Alarm(
        "metric",
        f"{sight.where}: some combination of the parameters is known {np.sqrt(condition):.1g} "
        "times better than the parameters themselves (columns of a design matrix that are nearly "
        "collinear do this). Centre or orthogonalise them, or give them tighter priors.",
    )
