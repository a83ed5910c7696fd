"""How a chain starts: its state before all draws, and where the first draw begins."""

import logging
from dataclasses import replace

import numpy as np
from pymc.exceptions import SamplingError

from pymc_sgmcmc._utils.alarm import Alarm
from pymc_sgmcmc._utils.coordinates import Coordinates
from pymc_sgmcmc.chain.at_rest import is_finite_at
from pymc_sgmcmc.chain.divergences import FARTHEST, Bounds, start_alarm
from pymc_sgmcmc.chain.evidence import Evidence
from pymc_sgmcmc.chain.frame import Frame, context_before_draw
from pymc_sgmcmc.chain.parts import Parts
from pymc_sgmcmc.chain.running_sums import RunningSums
from pymc_sgmcmc.chain.state import ChainState
from pymc_sgmcmc.posterior.batch_sources import BatchSource
from pymc_sgmcmc.posterior.nonfinite import culprit
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.tuning.tuned import Tuned

__all__ = ["begin", "initial_chain_state"]

_log = logging.getLogger("pymc.sgmcmc")

STARTS = 3
"""Jittered starts from which the posterior is looked for."""

MAX_STARTS = 100
"""Number of jittered points that are tried for a finite potential."""

_ENORMOUS = (
    "All of its terms are, but they are too large to be added or squared: bring variables and data "
    "to the order of one."
)


def initial_chain_state(target: Target, source: BatchSource, untuned: Coordinates) -> ChainState:
    """Return the state of a chain that has not begun; `untuned`: its coordinates before tuning."""
    return ChainState(
        batch_states=(source.start,) * len(target.groups),
        running_sums=RunningSums.start(np.zeros(target.size)),
        evidence=Evidence.empty(target.size),
        tuned=Tuned.untuned(target.batch_sizes, untuned),
    )


def begin(
    parts: Parts, state: ChainState, frame: Frame, values: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, Alarm | None]:
    """Return where the first draw begins, and what is to be said of it; `values`: PyMC's start.

    Locates the posterior where anything is tuned, and fills in what `state` carries.
    """
    target, alarm = parts.target, None
    start = _find_start(parts, state, frame, values, rng)
    if parts.tuner is not None:
        if not state.tune:
            raise SamplingError(
                f"tune=0, and {parts.name} has settings to tune (step_size={parts.schedule!r}): "
                "give pm.sample tune=500 or more, or give all settings."
            )
        state.tuned = _locate(parts, state, frame, values, start, rng)
        start = parts.tuner.position(state.tuned, 0.5 * rng.standard_normal(len(start)))
        if parts.plan.metric:  # the tuner deals with shorter distances
            bounds = Bounds(reach=FARTHEST * target.size)
            state.evidence = replace(state.evidence, bounds=bounds)
        if not state.tuned.decrement < 2 * target.size:
            alarm = start_alarm(parts.name, state.tuned, target)
    context = context_before_draw(parts, state, frame.lengths)
    state.carried = tuple(parts.algorithm.initial_state(rng, context).values())
    if parts.normals.many:
        state.noise_key = int(rng.integers(2**64, dtype=np.uint64))
    state.started = True
    return start, alarm


def _find_start(
    parts: Parts, state: ChainState, frame: Frame, values: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return a position at `values`, or with jitter around them, where U is finite.

    Raise SamplingError if none is found; the message has what is not finite at the last one.
    """
    for _ in range(MAX_STARTS):
        moved = parts.starts.jitter(values, rng)
        start = parts.target.centring.start(moved)
        if is_finite_at(parts, state, frame, start, rng):
            return start
        if moved is values:
            break
    raise SamplingError(
        "The potential or its gradient is not finite at the start of the chain. "
        f"{culprit(parts.target, start) or _ENORMOUS} Choose initvals= inside the support, or "
        "jitter=False. (Data at the edge of the support, such as 0 under a Beta or a Gamma, are "
        "not finite from any start: recode or drop them.)"
    )


def _locate(
    parts: Parts,
    state: ChainState,
    frame: Frame,
    values: np.ndarray,
    start: np.ndarray,
    rng: np.random.Generator,
) -> Tuned:
    """Return what is found from `start`, or from another start that `values` lead to.

    A jittered start may lead to a place where numbers overflow, and the next one not.
    """
    tuner = parts.tuner
    assert tuner is not None  # something is tuned
    for _ in range(STARTS - 1):
        try:
            return tuner.start(state.tuned, start, rng)
        except SamplingError as error:
            if np.array_equal(start, parts.target.centring.start(values)):
                raise
            _log.info(f"{parts.name}: the chain starts anew, from another point. {error}")
        start = _find_start(parts, state, frame, values, rng)
    return tuner.start(state.tuned, start, rng)
