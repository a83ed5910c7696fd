"""The monitor of a chain: its running sums, and the looks that it takes at them."""

from dataclasses import replace

import numpy as np
from pymc.stats.convergence import SamplerWarning

from pymc_sgmcmc.chain.alarms import is_due, look, start
from pymc_sgmcmc.chain.at_rest import gradient_variance, noise_without_control
from pymc_sgmcmc.chain.frame import Frame, context_of
from pymc_sgmcmc.chain.kernel_output import KernelOutput
from pymc_sgmcmc.chain.monitor_input import MonitorInput
from pymc_sgmcmc.chain.parts import Parts
from pymc_sgmcmc.chain.running_sums import RunningSums
from pymc_sgmcmc.chain.state import ChainState
from pymc_sgmcmc.chain.stored_sums import Stored
from pymc_sgmcmc.chain.width import Width

__all__ = ["Monitor"]


class Monitor:
    """Keeps the running sums of a chain, and finds out what is wrong with it.

    Parameters
    ----------
    parts : Parts
    """

    def __init__(self, parts: Parts):
        self._parts = parts
        self._stored: Stored | None = None

    def open(self, state: ChainState, frame: Frame, q: np.ndarray) -> None:
        """Start sums where they are to start, before a draw from `q`."""
        draws, to_coordinates = state.running_sums.draws, self._parts.to_coordinates
        if not state.tune and not state.watching:
            state.watched = start(state.watched, self.inspected(state, frame, q))
            state.watching = True
            centre = state.running_sums.origin + state.running_sums.mean("q")
            origin = centre if draws else to_coordinates(q, state.tuned)
            state.running_sums = RunningSums.start(origin)
        # While tuning, what is looked at in the end is the last half, at most.
        elif draws == 0 or (state.tune and state.draw & (state.draw - 1) == 0):
            state.running_sums = RunningSums.start(to_coordinates(q, state.tuned))

    def observe(self, state: ChainState, frame: Frame, q: np.ndarray, output: KernelOutput) -> None:
        """Take in a draw that ended in `q`."""
        state.running_sums = state.running_sums.add(output.sums, output.summed)
        if not state.watching:
            return
        if output.largest_energy > state.watched.energy:
            state.watched = replace(state.watched, energy=output.largest_energy)
        if is_due(state.running_sums.draws):
            state.watched = look(state.watched, self.inspected(state, frame, q))

    def warning(self, state: ChainState) -> SamplerWarning | None:
        """Return what is to be told at this draw, once."""
        if not state.watched.pending:
            return None
        warning = state.watched.warning(state.draw)
        state.watched = state.watched.told()
        return warning

    def stored_sums(self, state: ChainState) -> np.ndarray:
        """Return what is stored of the running sums with a draw."""
        sums, stored = state.running_sums, self._stored
        is_old = stored is None or stored.origin is not sums.origin
        if is_old or stored.watched is not state.watched:
            stored = Stored(sums.origin, state.watched, self._parts.places)
            self._stored = stored
        return stored.rows(sums)

    def inspected(self, state: ChainState, frame: Frame, q: np.ndarray) -> MonitorInput:
        """Return what there is to be seen of the chain, which is at `q`."""
        parts, algorithm, tuned = self._parts, self._parts.algorithm, state.tuned
        h = parts.coming_step_size(state)
        variance = gradient_variance(parts, state, frame, q)
        plain = noise_without_control(parts, state, frame, q, variance)
        rate = h * variance / 2
        constant = parts.has_constant_step and algorithm.keeps_its_law
        carried, coefficients = parts.carried(state), frame.coefficients
        context = context_of(parts.source, state, frame.lengths, h, carried, coefficients)
        return MonitorInput(
            where=f"{parts.name}, draw {state.draw}",
            target=parts.target,
            tuned=tuned,
            width=Width(state.running_sums),
            noise=algorithm.widening(rate - algorithm.subtracted(context), context),
            tolerance=parts.tolerance,
            temperature=algorithm.temperature,
            friction=algorithm.settled(rate, context),
            time=h * state.running_sums.steps,
            plain=plain,
            energy=state.watched.energy,
            dimension=algorithm.space.dimension,
            stationary=constant and parts.source.independent and not algorithm.space.curved,
            constant=constant,
            located=parts.tuner is not None,
            learned=parts.plan.metric,
            mass=float(coefficients.get("mass", np.nan)),
        )
