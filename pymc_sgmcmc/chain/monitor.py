"""The monitor of a chain: its running sums, and their inspections."""

from dataclasses import replace
from time import perf_counter

import numpy as np

from pymc_sgmcmc._utils.alarm import Alarm
from pymc_sgmcmc.chain.alarms import inspect_chain, inspect_end_of_tuning, is_inspection_due
from pymc_sgmcmc.chain.at_rest import gradient_variance, noise_without_control
from pymc_sgmcmc.chain.frame import Frame, context_before_draw
from pymc_sgmcmc.chain.hand_over import suggest_nuts
from pymc_sgmcmc.chain.kernel_output import KernelOutput
from pymc_sgmcmc.chain.monitor_input import MonitorInput
from pymc_sgmcmc.chain.parts import Parts
from pymc_sgmcmc.chain.running_sums import RunningSums
from pymc_sgmcmc.chain.state import ChainState
from pymc_sgmcmc.chain.stored_sums import StoredRows
from pymc_sgmcmc.chain.width import Width

__all__ = ["Monitor"]


class Monitor:
    """Keeps the running sums of a chain, and finds out what is wrong with it.

    Parameters
    ----------
    parts : Parts
    """

    def __init__(self, parts: Parts):
        self._parts, self._began = parts, np.inf
        self._rows: StoredRows | None = None

    def start_sums(self, state: ChainState, frame: Frame, q: np.ndarray) -> None:
        """Start sums where they are to start, before a draw from `q`."""
        draws = state.running_sums.draws
        if draws and state.is_monitored:
            return
        to_coordinates = self._parts.to_coordinates
        if not state.tune and not state.is_monitored:
            state.evidence = inspect_end_of_tuning(state.evidence, self.inputs(state, frame, q))
            state.is_monitored = True
            centre = state.running_sums.origin + state.running_sums.mean("q")
            origin = centre if draws else to_coordinates(q, state.tuned)
            self._start(state, origin)
        # While tuning, what is looked at in the end is the last half, at most.
        elif draws == 0 or (state.tune and state.draw & (state.draw - 1) == 0):
            self._start(state, to_coordinates(q, state.tuned))

    def _start(self, state: ChainState, origin: np.ndarray) -> None:
        """Start sums, and the clock of their draws: a divergence starts both anew."""
        state.running_sums, self._began = RunningSums.start(origin), perf_counter()

    def add_draw(
        self, state: ChainState, frame: Frame, q: np.ndarray, output: KernelOutput
    ) -> None:
        """Take in a draw that ended in `q`."""
        assert output.sums is not None  # the last inner steps of a draw are summed
        state.running_sums = state.running_sums.add(output.sums, output.summed)
        if not state.is_monitored:
            return
        if output.largest_energy > state.evidence.largest_energy:
            state.evidence = replace(state.evidence, largest_energy=output.largest_energy)
        if is_inspection_due(state.running_sums.draws):
            inputs = self.inputs(state, frame, q)
            state.evidence = inspect_chain(state.evidence, inputs)
            suggest_nuts(inputs, q, perf_counter() - self._began)

    def next_alarm(self, state: ChainState) -> Alarm | None:
        """Take the first alarm out of the queue."""
        if not state.evidence.queue:
            return None
        alarm = state.evidence.queue[0]
        state.evidence = state.evidence.without_first()
        return alarm

    def rows_to_store(self, state: ChainState) -> np.ndarray:
        """Return what is stored of the running sums with a draw."""
        sums, rows = state.running_sums, self._rows
        if rows is None or rows.origin is not sums.origin or rows.evidence is not state.evidence:
            rows = StoredRows(sums.origin, state.evidence, self._parts.places)
            self._rows = rows
        return rows.at(sums)

    def inputs(self, state: ChainState, frame: Frame, q: np.ndarray) -> MonitorInput:
        """Return what alarms are computed from, of the chain that is at `q`."""
        parts, algorithm, tuned = self._parts, self._parts.algorithm, state.tuned
        h = parts.coming_step_size(state)
        variance = gradient_variance(parts, state, frame, q)
        rate = h * variance / 2
        stationary = parts.kernel.constant and algorithm.is_stationary
        coefficients = frame.coefficients
        context = context_before_draw(parts, state, frame.lengths, coefficients)
        return MonitorInput(
            where=f"{parts.name}, draw {state.draw}",
            target=parts.target,
            tuned=tuned,
            width=Width(state.running_sums),
            noise=algorithm.variance_inflation(rate - algorithm.estimated_noise(context), context),
            tolerance=parts.plan.tolerance,
            temperature=algorithm.temperature,
            expected_friction=algorithm.expected_friction(rate, context),
            duration=h * state.running_sums.steps,
            plain_noise=noise_without_control(parts, state, frame, q, variance),
            dimension=algorithm.space.dimension,
            has_width=stationary and parts.source.independent and not algorithm.space.curved,
            stationary=stationary,
            located=parts.tuner is not None,
            learned_metric=parts.plan.metric,
            thermal_mass=float(coefficients.get("mass", np.nan)),
        )
