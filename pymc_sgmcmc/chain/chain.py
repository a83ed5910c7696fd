"""One chain, from its first draw to its last: it starts, draws, learns and diverges."""

import logging
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from pymc.exceptions import SamplingError
from pymc.stats.convergence import SamplerWarning, WarningType

from pymc_sgmcmc._utils.coordinates import Coordinates, pull
from pymc_sgmcmc.chain.at_rest import has_gradient, is_finite_at
from pymc_sgmcmc.chain.divergences import (
    FARTHEST,
    MAX_FAILURES,
    Bounds,
    divergence,
    gave_up,
    not_located,
    reason,
    refuse_without_derivative,
)
from pymc_sgmcmc.chain.evidence import Watched
from pymc_sgmcmc.chain.frame import Frame, context_of, frame_of
from pymc_sgmcmc.chain.monitor import Monitor
from pymc_sgmcmc.chain.parts import Parts
from pymc_sgmcmc.chain.running_sums import RunningSums
from pymc_sgmcmc.chain.state import ChainState
from pymc_sgmcmc.chain.trajectory import Trajectory, advance
from pymc_sgmcmc.dynamics.algorithm import Context
from pymc_sgmcmc.posterior.batch_sources import BatchSource
from pymc_sgmcmc.posterior.nonfinite import culprit
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.tuning.tuned import Tuned

__all__ = ["Chain", "initial_chain_state"]

_log = logging.getLogger("pymc.sgmcmc")

STARTS = 3
"""Jittered starts from which the posterior is looked for."""

LOOKS = 3
"""Divergences after which rows without a gradient are looked for."""

_LEVELS = {"info": WarningType.CONVERGENCE, "warn": WarningType.BAD_PARAMS}


class Chain:
    """One chain: parts that stay, and a state that changes from draw to draw.

    Parameters
    ----------
    parts : Parts

    Attributes
    ----------
    state : ChainState
        All that it carries from draw to draw, beside its position and its generator.
    """

    state: ChainState

    def __init__(self, parts: Parts):
        self.parts = parts
        self._monitor = Monitor(parts)
        self._reports_state = not set(parts.algorithm.stats).isdisjoint(parts.kernel.carried)
        self.restart()

    def __copy__(self) -> Self:
        """Return a chain of the same parts, that goes on from here by itself."""
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))
        twin.state, twin._monitor = copy(self.state), Monitor(self.parts)
        return twin

    def restart(self) -> None:
        """Forget all draws, and look at the data anew."""
        parts, target = self.parts, self.parts.target
        self._lengths = target.examine()
        parts.source.refresh()
        self._told_of_data = False
        self.state = initial_chain_state(target, parts.source, parts.untuned)
        self._frame: Frame | None = None

    def stop_tuning(self) -> None:
        """Keep from now on what has been tuned."""
        state = self.state
        state.tune, state.divergences = False, 0
        window = state.tuned.window.emptied()  # snapshots would carry its points
        state.tuned = replace(state.tuned, in_first_window=False, window=window)

    @property
    def frame(self) -> Frame:
        """Numbers that follow from what is tuned; made anew where that, or the data, changed."""
        if self._frame is None or self._frame.tuned is not self.state.tuned:
            self._frame = frame_of(self.parts, self.state, self._lengths)
        return self._frame

    def draw(self, q: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, dict[str, Any]]:
        """Return the position after a draw from `q` (d,), and its sample stats by name."""
        parts, state, warning = self.parts, self.state, None
        q = np.asarray(q, dtype=parts.kernel.dtype)
        if not state.started:
            q, warning = self._begin(q, rng)
        changed = parts.target.data_changed()
        if changed:
            self._take_in_data()
        frame = self.frame
        self._monitor.open(state, frame, q)
        self._take_energy_anew(q, moved=changed or bool(parts.target.shared))
        end = advance(parts, state, frame, q, rng)
        end = self._judged(q, end, rng)
        output, bounds = end.output, state.watched.bounds
        finite = output.is_finite and not bounds.exceeded(output)
        warning = warning or self._message()
        if finite:
            q = parts.to_position(output.q, state.tuned)
            state.carried, state.failures = output.state, 0
            self._monitor.observe(state, frame, q, output)
        else:
            diverged = self._diverge(q, end, frame, rng)
            warning = warning or diverged
        warning = warning or self._monitor.warning(state)
        stats = parts.carried(state) if self._reports_state else {}
        stats |= end.planned
        stats |= {
            "grad_norm": output.grad_norm,
            "minibatch_logp": output.logp,
            "n_steps": parts.steps,
            "diverging": not finite,
            "divergences": state.divergences,
            "warning": warning,
            "running_sums": self._monitor.stored_sums(state),
            "kinetic_temperature": output.kinetic_temperature,
            "thermostat": output.thermostat,
        }
        state.inner_steps += parts.steps
        state.draw += 1
        if parts.tuner is not None:
            stats |= parts.tuner.stats(state.tuned, end.planned["step_size"])
            q = self._learn(q, rng, finite=finite)
        return q, stats

    def context(self) -> Context:
        """Return the chain as its algorithm sees it before the coming draw."""
        parts, state = self.parts, self.state
        h = parts.coming_step_size(state)
        return context_of(parts.source, state, self._lengths, h, parts.carried(state))

    def _begin(
        self, q: np.ndarray, rng: np.random.Generator
    ) -> tuple[np.ndarray, SamplerWarning | None]:
        """Find where the chain starts, and what is to be said of it."""
        parts, state, target = self.parts, self.state, self.parts.target
        start, warning = self._start(q, rng), None
        if parts.tuner is not None:
            if not state.tune:
                raise SamplingError(
                    f"{parts.name} has settings to tune (step_size={parts.step_size!r}) and "
                    "tune=0: give pm.sample some hundred draws to tune, or give all settings."
                )
            state.tuned = self._located(q, start, rng)
            start = parts.tuner.position(state.tuned, 0.5 * rng.standard_normal(len(q)))
            if parts.plan.metric:  # what is nearer, the tuner judges
                bounds = Bounds(reach=FARTHEST * target.size)
                state.watched = replace(state.watched, bounds=bounds)
            if not state.tuned.decrement < 2 * target.size:
                warning = not_located(parts.name, state.tuned, target)
        state.carried = tuple(parts.algorithm.initial_state(rng, self.context()).values())
        if parts.normals.many:
            state.noise_key = int(rng.integers(2**64, dtype=np.uint64))
        state.started = True
        return start, warning

    def _start(self, q: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        parts = self.parts
        is_finite = partial(is_finite_at, parts, self.state, self.frame)
        return parts.starts.find(
            q, rng, is_finite, partial(culprit, parts.target), jitter=parts.jitter
        )

    def _located(self, q: np.ndarray, start: np.ndarray, rng: np.random.Generator) -> Tuned:
        """Return what is found from `start`, or from another start that `q` leads to.

        A jittered start may lead to a place where numbers overflow, and the next one not.
        """
        parts = self.parts
        for attempt in range(STARTS):
            try:
                return parts.tuner.start(self.state.tuned, start, parts.algorithm.capacity(), rng)
            except SamplingError as error:
                if attempt + 1 == STARTS or np.array_equal(start, q):
                    raise
                _log.info(f"{parts.name}: the chain starts anew, from another point. {error}")
            start = self._start(q, rng)
        raise AssertionError("the last attempt returns or raises")

    def _take_in_data(self) -> None:
        """Compute anew what is kept of data that were changed after the draw before."""
        parts, state = self.parts, self.state
        if not self._told_of_data:
            _log.warning(
                f"{parts.name}, draw {state.draw}: data changed while the chain runs (pm.set_data "
                "in a callback, or a step method that sets data). Gradients are those of the new "
                "data from here on, at the cost of a look at all rows for each change."
            )
            self._told_of_data = True
        self._lengths = parts.target.examine()
        parts.source.refresh()
        if state.tuned.uses_control_variate:
            anchor_gradient = parts.target.batched_gradient(state.tuned.anchor)
            state.tuned = replace(state.tuned, anchor_gradient=anchor_gradient)
        self._frame = None

    def _take_energy_anew(self, q: np.ndarray, *, moved: bool) -> None:
        """Update the U, and its gradient, that the algorithm carries where it is not that of `q`.

        `moved`: other step methods, or new data, may have changed U since the last draw.
        """
        parts, state = self.parts, self.state
        kept = parts.algorithm.kept_energy
        if not kept:
            return
        carried = parts.carried(state)
        if moved or np.isnan(carried["u"]):
            u, g = parts.target.value_and_gradient(q)
            now = {"u": u}
            if "g" in kept:
                now["g"] = pull(state.tuned.coordinates.factor, g)
            state.carried = tuple((carried | now).values())

    def _judged(self, q: np.ndarray, end: Trajectory, rng: np.random.Generator) -> Trajectory:
        """Return the end of a draw from `q`, or its start again, if the algorithm rejects it."""
        parts, state, output = self.parts, self.state, end.output
        if not (parts.algorithm.judges_draws and output.is_finite):
            return end
        start = parts.carried(state)
        there = dict(zip(start, output.state, strict=True))
        position = parts.to_position(output.q, state.tuned)
        there["u"] = parts.target.value_and_gradient(position)[0]
        accepted, carried = parts.algorithm.judge(
            start, there, rng.standard_normal(), state.draw, tuning=state.tune
        )
        if not accepted:
            output = output._replace(q=parts.to_coordinates(q, state.tuned))
        output = output._replace(state=tuple(map(np.asarray, carried.values())))
        return end._replace(output=output)

    def _message(self) -> SamplerWarning | None:
        """Return what the algorithm has to say at this draw."""
        parts, state = self.parts, self.state
        message = parts.algorithm.message(
            state.draw, state.inner_steps, parts.steps, tuning=state.tune
        )
        if message is None:
            return None
        kind = _LEVELS[message.level]
        return SamplerWarning(kind, message.text, message.level, step=state.draw)

    def _learn(self, q: np.ndarray, rng: np.random.Generator, *, finite: bool) -> np.ndarray:
        """Take in a draw; return where the chain goes on."""
        tuner, state = self.parts.tuner, self.state
        state.tuned = tuner.follow(state.tuned, q, state.draw)
        if not state.tune:
            return q
        before = state.tuned
        state.tuned = tuner.learn(before, q if finite else None, rng)
        cut = state.tuned.step_factor != before.step_factor
        if cut or state.tuned.coordinates is not before.coordinates:
            state.carried = self._fresh(rng)
            state.running_sums = RunningSums.start(state.running_sums.origin)
        return tuner.position(state.tuned, np.zeros(len(q))) if cut else q

    def _diverge(
        self, q: np.ndarray, end: Trajectory, frame: Frame, rng: np.random.Generator
    ) -> SamplerWarning:
        """Roll back to the last finite q with fresh momentum, or give up.

        If the rows that led to `end` have no gradient at `q` already, no step size is to blame.
        """
        parts, state, target = self.parts, self.state, self.parts.target
        output, step_size = end.output, end.planned["step_size"]
        state.carried = self._fresh(rng)
        state.running_sums = RunningSums.start(parts.to_coordinates(q, state.tuned))
        state.divergences += 1
        state.failures += 1
        where, tuned = f"{parts.name}, draw {state.draw}", parts.schedule is None
        what = reason(output, state.watched.bounds, target.size)
        if state.divergences <= LOOKS and not has_gradient(parts, state, frame, q, end.rows):
            refuse_without_derivative(where, target, q)
        if state.failures >= MAX_FAILURES:
            raise gave_up(where, what, step_size, target, q, tuned=tuned)
        first, left = state.divergences == 1, ""
        if first and not state.tune and np.isneginf(output.logp) and np.isfinite(output.q).all():
            left = culprit(target, parts.to_position(output.q, state.tuned))
        return divergence(
            where, what, step_size, state.draw, state.tune, first=first, tuned=tuned, left=left
        )

    def _fresh(self, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        """Return a fresh carried state, but for what is learned."""
        algorithm, kept = self.parts.algorithm, self.parts.carried(self.state)
        fresh = algorithm.initial_state(rng, self.context())
        return tuple((fresh | {name: kept[name] for name in algorithm.learned}).values())


def initial_chain_state(target: Target, source: BatchSource, untuned: Coordinates) -> ChainState:
    """Return the state of a chain that has not begun; `untuned`: its coordinates before tuning."""
    return ChainState(
        batch_states=(source.start,) * len(target.groups),
        running_sums=RunningSums.start(np.zeros(target.size)),
        watched=Watched.nothing(target.size),
        tuned=Tuned.untuned(target.batch_sizes, untuned),
    )
