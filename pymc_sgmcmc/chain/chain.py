"""One chain, from its first draw to its last: it draws, learns and diverges."""

import logging
from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np

from pymc_sgmcmc._utils.alarm import Alarm
from pymc_sgmcmc._utils.types import Number
from pymc_sgmcmc.chain.acceptance import accept_or_reject, refresh_energy
from pymc_sgmcmc.chain.at_rest import has_gradient
from pymc_sgmcmc.chain.divergences import (
    MAX_FAILURES,
    divergence_alarm,
    explain_divergence,
    last_divergence,
    refuse_without_derivative,
)
from pymc_sgmcmc.chain.frame import Frame, context_before_draw, frame_of
from pymc_sgmcmc.chain.monitor import Monitor
from pymc_sgmcmc.chain.parts import Parts
from pymc_sgmcmc.chain.running_sums import RunningSums
from pymc_sgmcmc.chain.sampler_warning import as_sampler_warning
from pymc_sgmcmc.chain.start import begin, initial_chain_state
from pymc_sgmcmc.chain.state import ChainState
from pymc_sgmcmc.chain.trajectory import Trajectory, advance
from pymc_sgmcmc.compile.blas_threads import one_thread
from pymc_sgmcmc.dynamics.setting import Context
from pymc_sgmcmc.posterior.nonfinite import culprit

__all__ = ["Chain"]

_log = logging.getLogger("pymc.sgmcmc")

EXAMINED = 3
"""Divergences, at most, after which rows without a gradient are looked for."""


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
        self._reported_data = False
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
        """Return the values after a draw from the values `q` (d,), and its sample stats by name."""
        if not self.parts.kernel.leaps:
            q, stats = self._draw(q, rng)
        else:
            with one_thread():  # with many coordinates, BLAS would share out products of vectors
                q, stats = self._draw(q, rng)
        return self.parts.target.centring.values(q), stats

    def _draw(self, q: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, dict[str, Any]]:
        parts, state, alarm = self.parts, self.state, None
        q = np.asarray(q, dtype=parts.kernel.dtype)
        if state.started:
            q = parts.target.centring.coordinates(q)
        else:
            q, alarm = begin(parts, state, self.frame, q, rng)
        changed = parts.target.data_changed()
        if changed:
            self._examine_data()
        frame = self.frame
        self._monitor.start_sums(state, frame, q)
        if parts.algorithm.kept_energy:
            refresh_energy(parts, state, q, moved=changed or bool(parts.target.shared))
        end = advance(parts, state, frame, q, rng)
        if parts.algorithm.accepts_draws and end.output.is_finite:
            end = accept_or_reject(parts, state, q, end, rng)
        output, bounds = end.output, state.evidence.bounds
        finite = output.is_finite and not bounds.exceeded(output)
        alarm = alarm or parts.algorithm.alarm(
            state.draw, state.inner_steps, parts.steps, tuning=state.tune
        )
        if finite:
            q = parts.to_position(output.q, state.tuned)
            state.carried, state.failures = output.state, 0
            self._monitor.add_draw(state, frame, q, output)
        else:
            diverged = self._diverge(q, end, frame, rng)
            alarm = alarm or diverged
        alarm = alarm or self._monitor.next_alarm(state)
        stats: dict[str, Any] = parts.carried(state) if self._reports_state else {}
        stats |= end.planned
        stats |= {
            "grad_norm": output.grad_norm,
            "minibatch_logp": output.logp,
            "n_steps": parts.steps,
            "diverging": not finite,
            "divergences": state.divergences,
            "warning": None if alarm is None else as_sampler_warning(alarm, state.draw),
            "running_sums": self._monitor.rows_to_store(state),
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
        return context_before_draw(self.parts, self.state, self._lengths)

    def _examine_data(self) -> None:
        """Compute anew what is kept of data that were changed after the draw before."""
        parts, state = self.parts, self.state
        if not self._reported_data:
            _log.warning(
                f"{parts.name}, draw {state.draw}: data changed while the chain runs (pm.set_data "
                "in a callback, or a step method that sets data). Gradients are those of the new "
                "data from here on, at the cost of a look at all rows for each change."
            )
            self._reported_data = True
        self._lengths = parts.target.examine()
        parts.source.refresh()
        if state.tuned.order:
            anchor_gradient = parts.target.anchor_gradient(state.tuned.anchor)
            state.tuned = replace(state.tuned, anchor_gradient=anchor_gradient)
        self._frame = None

    def _learn(self, q: np.ndarray, rng: np.random.Generator, *, finite: bool) -> np.ndarray:
        """Take in a draw; return where the chain goes on."""
        tuner, state = self.parts.tuner, self.state
        assert tuner is not None  # something is tuned
        state.tuned = tuner.follow(state.tuned, q, state.draw)
        if not state.tune:
            return q
        before = state.tuned
        state.tuned = tuner.learn(before, q if finite else None, rng)
        cut = state.tuned.step_factor != before.step_factor
        is_found_anew = state.tuned.searches != before.searches
        if cut or state.tuned.coordinates is not before.coordinates:
            state.carried = self._fresh_state(rng, forgets=is_found_anew)
            state.running_sums = RunningSums.start(state.running_sums.origin)
        return tuner.position(state.tuned, np.zeros(len(q))) if cut or is_found_anew else q

    def _diverge(
        self, q: np.ndarray, end: Trajectory, frame: Frame, rng: np.random.Generator
    ) -> Alarm:
        """Roll back to the last finite q with fresh momentum, or give up.

        If the rows that led to `end` have no gradient at `q` already, no step size is to blame.
        """
        parts, state, target = self.parts, self.state, self.parts.target
        output, step_size = end.output, end.planned["step_size"]
        state.carried = self._fresh_state(rng)
        state.running_sums = RunningSums.start(parts.to_coordinates(q, state.tuned))
        state.divergences += 1
        state.failures += 1
        where, tuned = f"{parts.name}, draw {state.draw}", parts.schedule is None
        what = explain_divergence(output, state.evidence.bounds, target.size)
        if state.divergences <= EXAMINED and not has_gradient(parts, state, frame, q, end.rows):
            refuse_without_derivative(where, target, q)
        if state.failures >= MAX_FAILURES:
            raise last_divergence(where, what, step_size, target, q, tuned=tuned)
        first, left = state.divergences == 1, ""
        if first and not state.tune and np.isneginf(output.logp) and np.isfinite(output.q).all():
            left = culprit(target, parts.to_position(output.q, state.tuned))
        return divergence_alarm(
            where, what, step_size, tune=state.tune, first=first, tuned=tuned, left=left
        )

    def _fresh_state(
        self, rng: np.random.Generator, *, forgets: bool = False
    ) -> tuple[Number, ...]:
        """Return a fresh carried state, but for what is learned, unless that is forgotten too."""
        algorithm, kept = self.parts.algorithm, self.parts.carried(self.state)
        fresh = algorithm.initial_state(rng, self.context())
        learned = () if forgets else algorithm.learned_state
        return tuple({**fresh, **{name: kept[name] for name in learned}}.values())
