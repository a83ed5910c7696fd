"""Alarms that a chain raises about its own draws while it samples, without knowing the posterior.

A chain checks its sums at draws 250, 500, 1000, 2000, ... after tuning, and reports each kind of
alarm once. Each alarm is about one chain; `pymc_sgmcmc.check` checks all chains, and more.
"""

from dataclasses import replace

import numpy as np

from pymc_sgmcmc._utils.alarm import Alarm
from pymc_sgmcmc._utils.significance import critical, excess, largest_energy
from pymc_sgmcmc.chain.divergences import UNBOUNDED, Bounds
from pymc_sgmcmc.chain.error_of_means import errors_of_means
from pymc_sgmcmc.chain.evidence import Evidence
from pymc_sgmcmc.chain.monitor_input import MonitorInput
from pymc_sgmcmc.chain.promises import MEAN_PROMISE, SD_PROMISE, TIMES, rounded_up
from pymc_sgmcmc.chain.width import KINDS, POOLED_TOLERANCE, TOLERANCE
from pymc_sgmcmc.chain.width_messages import describe_ratio, explain_width
from pymc_sgmcmc.dynamics.noise_rules import SLOWEST
from pymc_sgmcmc.tuning.batch_limits import largest_minibatch

__all__ = ["inspect_chain", "inspect_end_of_tuning", "is_inspection_due"]

FIRST = 250
"""Draws after tuning at the first inspection. The number doubles from one to the next."""

ALPHA = 2e-4
"""Chance of a false alarm in one inspection of a correct chain; small, as there are many."""

WORST_CONDITION = 1e6

ENOUGH = 1000
"""Least number of draws for an alarm about too few draws: the default number of `pm.sample`."""
CHAINS = 4
"""Default number of chains; a chain does not know the real number."""


def is_inspection_due(draws: int) -> bool:
    """Return whether a chain is inspected after `draws` draws since tuning."""
    times, rest = divmod(draws, FIRST)
    return rest == 0 and times > 0 and times & (times - 1) == 0


def inspect_chain(evidence: Evidence, inputs: MonitorInput) -> Evidence:
    """Return `evidence` updated by an inspection of `inputs`, with new alarms queued."""
    if inputs.stationary and evidence.bounds.energy == np.inf:
        evidence = replace(evidence, bounds=Bounds.of_chain(inputs))
    if inputs.has_width:
        width, scale = inputs.width, np.sqrt(inputs.width.sums.steps)
        evidence = replace(
            evidence,
            spread=np.array([width.error(kind) for kind in KINDS]) * scale,
            correction=width.correction * width.sums.steps,
            pooled=np.array([width.pooled(kind) for kind in KINDS]) * [1.0, scale],
            freedom=width.freedom,
            noise=inputs.noise,
            temperature=inputs.temperature,
        )
    return evidence.with_alarms(
        [
            _width(inputs, evidence.main_coordinates),
            _excursion(inputs, evidence.largest_energy),
            _thermostat(inputs),
            _centre(inputs),
            _noise(inputs),
            _error(inputs, evidence.main_coordinates),
        ]
    )


def inspect_end_of_tuning(evidence: Evidence, inputs: MonitorInput) -> Evidence:
    """Return `evidence` at the end of tuning, given `inputs` of its last draws."""
    bounds = Bounds.of_chain(inputs) if inputs.stationary and inputs.located else UNBOUNDED
    evidence = replace(
        evidence, main_coordinates=inputs.tuned.coordinates.metric.leading, bounds=bounds
    )
    return evidence.with_alarms([_thermostat(inputs), _bound(inputs), _metric(inputs)])


def _width(inputs: MonitorInput, main: np.ndarray) -> Alarm | None:
    """Return an alarm if W of a coordinate, or the mean W, is too far from 1."""
    if not inputs.has_width or inputs.width.freedom < 1:
        return None
    width, d, found = inputs.width, len(inputs.noise), []
    for kind in KINDS:
        ratio, error = width.ratio(kind), width.error(kind)
        beyond = excess(ratio, error, TOLERANCE, critical(ALPHA, width.freedom, d))
        k = int(np.argmax(beyond))
        along = f"along {inputs.target.coordinate(int(main[k]))}"
        found.append((beyond[k], along, ratio[k], error[k], float(inputs.noise[k])))
    if max(found)[0] <= 0:
        found = []
        for kind in KINDS:
            pooled, spread = width.pooled(kind)
            beyond = excess(pooled, spread, POOLED_TOLERANCE, critical(ALPHA, width.freedom, 1))
            along = f"of all {d} coordinates on average"
            found.append((float(beyond), along, pooled, spread, float(inputs.noise.mean())))
    beyond, *facts = max(found)
    return _width_alarm(inputs, *facts) if beyond > 0 else None


def _width_alarm(
    inputs: MonitorInput, along: str, ratio: float, error: float, noise: float
) -> Alarm:
    return Alarm(
        "width",
        f"{inputs.where}: the draws are too {'wide' if ratio > 1 else 'narrow'}. By the gradients, "
        f"the variance {along} is {describe_ratio(ratio, error)}. "
        + explain_width(inputs.temperature, ratio, noise),
    )


def _excursion(inputs: MonitorInput, largest: float) -> Alarm | None:
    """Return an alarm if the momentum was larger than any of a stationary chain.

    `largest`: the largest p.p before an inner step.
    """
    heat, d = inputs.heat, inputs.dimension
    if not (np.isfinite(heat) and largest > heat * largest_energy(d)):
        return None
    return Alarm(
        "excursion",
        f"{inputs.where}: the chain was thrown off: its kinetic energy was once "
        f"{largest / (heat * d):.3g} times the mean. The step is too long somewhere "
        "in the posterior, and a single such excursion makes an sd too large. Halve step_size (or "
        "bias_tolerance), and look where the draws go.",
    )


def _thermostat(inputs: MonitorInput) -> Alarm | None:
    """Return an alarm if neither gradient noise nor chance explains the thermostat's friction."""
    if inputs.expected_friction is None or not (
        inputs.expected_friction > 0 and inputs.duration > 0
    ):
        return None
    ratio = float(inputs.width.sums.mean("xi").mean()) / inputs.expected_friction
    # By the linearised dynamics the variance of the mean friction over a time t is 2 A / (d t) for
    # every thermal mass. Before the friction has settled the variance is less.
    error = np.sqrt(2 / (inputs.dimension * inputs.duration * inputs.expected_friction))
    if 0.5 < ratio < 2 or abs(ratio - 1) < critical(ALPHA, np.inf, 1) * error:
        return None
    return Alarm(
        "thermostat",
        f"{inputs.where}: the thermostat's friction is {ratio:.3g} times what the injected and the "
        "gradient noise ask for (0.5 to 2 is normal). Something else heats or cools the chain: a "
        "step that is too long, or a chain that is still on its way to the posterior. Tune longer, "
        "start closer with initvals=, or halve step_size.",
    )


def _noise(inputs: MonitorInput) -> Alarm | None:
    """Return an alarm if gradient noise is too large on a manifold, where W is not known."""
    if inputs.dimension == len(inputs.noise):
        return None
    added = float(inputs.noise.sum()) / inputs.dimension
    if not added > TOLERANCE:
        return None
    return Alarm(
        "noise",
        f"{inputs.where}: the draws are too wide. The noise of the gradients adds {added:.0%} to "
        "what is injected. Pass it as noise_estimate, h V / 2, halve step_size, take a larger "
        "batch_size, or use gSGNHT, which absorbs noise.",
    )


def _error(inputs: MonitorInput, main: np.ndarray) -> Alarm | None:
    """Return an alarm if `CHAINS` such chains have too few draws for the promised accuracy."""
    draws = inputs.width.sums.draws
    if draws < ENOUGH or not inputs.stationary:
        return None
    mean, sd = errors_of_means(inputs.width.sums)
    times = TIMES / np.sqrt(CHAINS)
    bounds = {"mean": times * mean / MEAN_PROMISE, "sd": times * sd / SD_PROMISE}
    worst = max(bounds, key=lambda name: np.nanmax(bounds[name], initial=0.0))
    largest = np.nanmax(bounds[worst], initial=0.0)
    if not largest > 1:
        return None
    k = int(np.nanargmax(bounds[worst]))
    promise = {"mean": f"{MEAN_PROMISE * largest:.3g} sd", "sd": f"{SD_PROMISE * largest:.1%}"}
    return Alarm(
        "error",
        f"{inputs.where}: {draws:,} draws are too few: {CHAINS} chains like this one know the "
        f"{worst} along {inputs.target.coordinate(int(main[k]))} within {promise[worst]} at best "
        f"(95 %), and {MEAN_PROMISE:g} sd and {SD_PROMISE:.0%} are promised. Take about "
        f"{rounded_up(draws * largest**2):,} draws a chain, and look at check(idata).",
    )


def _centre(inputs: MonitorInput) -> Alarm | None:
    """Return an alarm if the control variate makes gradients noisier."""
    if inputs.plain_noise is None or not inputs.plain_noise < 1:
        return None
    return Alarm(
        "centre",
        f"{inputs.where}: the control variate makes gradients noisier, not less noisy: their "
        f"variance is {1 / inputs.plain_noise:.3g} times that of plain ones. Its centre is far "
        "from where the chain is: tune longer, start closer with initvals=, or use "
        "gradient='auto'.",
    )


def _bound(inputs: MonitorInput) -> Alarm | None:
    """Return an alarm if tuning reached its limits and gradients are still too noisy."""
    slowest, batch = float(inputs.tuned.pace.min()), max(inputs.tuned.batch_sizes, default=0)
    is_largest = batch >= largest_minibatch(len(inputs.tuned.pace))
    if slowest > (0.5 if is_largest else SLOWEST):
        return None
    if float(inputs.noise.max()) <= inputs.tolerance:
        return None  # Slow directions cost pace, which `report` shows; the draws are right.
    return Alarm(
        "bound",
        f"{inputs.where}: gradients are so noisy that with batches of {batch} rows the noisiest "
        f"directions move at {slowest:.2g} of their pace. Expect few effective draws of them, and "
        "look at their R-hat and effective size; rare features, or rows with a large weight, do "
        "this. A batch_size of your own may be larger than those that tuning chooses.",
    )


def _metric(inputs: MonitorInput) -> Alarm | None:
    """Return an alarm if the metric is too ill-conditioned for finite precision."""
    condition = inputs.tuned.coordinates.metric.condition
    if not condition > WORST_CONDITION:
        return None
    return Alarm(
        "metric",
        f"{inputs.where}: some combination of the parameters is known {np.sqrt(condition):.1g} "
        "times better than the parameters themselves (columns of a design matrix that are nearly "
        "collinear do this). Centre or orthogonalise them, or give them tighter priors.",
    )
