"""A step method that watches its own chain: when it looks, and what at."""

from dataclasses import replace

import numpy as np
from pymc.stats.convergence import SamplerWarning

from pymc_sgmcmc._utils.compat import ChainStep
from pymc_sgmcmc.chain.alarms import is_due, look, start
from pymc_sgmcmc.chain.kernel_output import KernelOutput
from pymc_sgmcmc.chain.moments import MOMENTS
from pymc_sgmcmc.chain.running_sums import RunningSums
from pymc_sgmcmc.chain.sight import Sight
from pymc_sgmcmc.chain.stored_sums import Stored
from pymc_sgmcmc.chain.width import Width
from pymc_sgmcmc.dynamics.schedules import Constant
from pymc_sgmcmc.tuning.tuned import Tuned

__all__ = ["BLOCK", "PROBES", "SUMMED", "Observed"]

BLOCK = 2**21
"""Normals, or row indices, that are drawn at once, at most: 16 MB of them, or 8 in float32; and as
many normals again where they are made ahead."""

SUMMED = 2**13
"""Coordinates times inner steps that are summed in a draw, at least: all steps where they are no
more, else every so many."""

PROBES = 64
"""Batches from which the noise of the gradient at one point is estimated."""


class Observed(ChainStep):
    """Keeps the running sums of a chain, and finds out what is wrong with it."""

    _stored: Stored | None = None

    @property
    def _step_is_constant(self) -> bool:
        return self._schedule is None or isinstance(self._schedule, Constant)

    def _open(self, q: np.ndarray) -> None:
        """Before a draw from `q`: start sums where they are to start."""
        draws = self.running_sums.draws
        if not self.tune and not self.watching:
            self.watched = start(self.watched, self._sight(q))
            self.watching = True
            centre = self.running_sums.origin + self.running_sums.mean("q")
            self.running_sums = RunningSums.start(centre if draws else self._to_coordinates(q))
        # While tuning, what is looked at in the end is the last half, at most.
        elif draws == 0 or (self.tune and self.draw & (self.draw - 1) == 0):
            self.running_sums = RunningSums.start(self._to_coordinates(q))

    def _observe(self, q: np.ndarray, output: KernelOutput) -> None:
        """Take in a draw that ended in `q`."""
        self.running_sums = self.running_sums.add(output.sums, output.summed)
        if not self.watching:
            return
        if output.largest_energy > self.watched.energy:
            self.watched = replace(self.watched, energy=output.largest_energy)
        if is_due(self.running_sums.draws):
            self.watched = look(self.watched, self._sight(q))

    def _finding(self) -> SamplerWarning | None:
        """What is to be told at this draw."""
        if not self.watched.pending:
            return None
        warning = self.watched.warning(self.draw)
        self.watched = self.watched.told()
        return warning

    def _stored_sums(self) -> np.ndarray:
        """What is stored of the running sums with a draw."""
        sums, stored = self.running_sums, self._stored
        if stored is None or stored.origin is not sums.origin or stored.watched is not self.watched:
            self._stored = stored = Stored(sums.origin, self.watched, self._places)
        return stored.rows(sums)

    def _sight(self, q: np.ndarray) -> Sight:
        """What there is to be seen of the chain, which is at `q`."""
        h = self._coming_step_size()
        variance, plain = self._variance(q, self.tuned), None
        if self.tuned.control and variance.mean() > 0:
            without = self._variance(q, replace(self.tuned, control=False))
            plain = float(without.mean() / variance.mean())
        rate = h * variance / 2
        constant = self._step_is_constant and self.keeps_its_law
        return Sight(
            where=f"{self.name}, draw {self.draw}",
            target=self.target,
            tuned=self.tuned,
            width=Width(self.running_sums),
            noise=self.widening(rate - self.subtracted()),
            tolerance=self.bias_tolerance,
            temperature=self.temperature,
            friction=self.settled(rate),
            time=h * self.running_sums.steps,
            plain=plain,
            energy=self.watched.energy,
            dimension=self.space.dimension,
            stationary=constant and self._source.independent and not self.space.curved,
            constant=constant,
            located=self._tuner is not None,
            learned=self._plan.metric,
            mass=float(self._coefficients.get("mass", np.nan)),
        )

    def _variance(self, q: np.ndarray, tuned: Tuned) -> np.ndarray:
        """V, the variance of the gradient at `q`, (d,): from steps of size zero."""
        if not self._is_noisy():
            return np.zeros(self.target.size)
        steps = self._probes(PROBES)
        rng = np.random.default_rng(self.draw)  # the chain's own stays as it is
        sums = self._still(q, self._rows(rng, steps)[0], steps, tuned).sums
        mean, square = sums[MOMENTS.index("g")] / steps, sums[MOMENTS.index("g2")] / steps
        return np.maximum(square - mean**2, 0.0) * steps / (steps - 1)

    def _probes(self, wanted: int) -> int:
        """How many batches to look at, in bounded memory: at least two, or one of all rows."""
        if not self._is_noisy():
            return 1
        widest = max(self._kernel.n_noise * self.target.size, *self.tuned.batch_sizes)
        return max(2, min(wanted, BLOCK // widest))

    def _rows(self, rng: np.random.Generator, steps: int) -> tuple[list[np.ndarray], tuple]:
        """Rows of `steps` batches of each group, and the states of the sources then."""
        drawn, states = [], []
        groups = zip(self.batch_states, self._lengths, self.tuned.batch_sizes, strict=True)
        for state, n_rows, size in groups:
            rows, state = self._source.draw(state, rng, int(n_rows), steps, size)
            drawn.append(rows)
            states.append(state)
        return drawn, tuple(states)

    def _still(
        self, q: np.ndarray, rows: list[np.ndarray], steps: int, tuned: Tuned, every: int = 1
    ) -> KernelOutput:
        """What `steps` of size zero at `q` see, each on its `rows`."""
        return self._kernel(
            self._to_coordinates(q),
            tuple(self.initial_state(np.random.default_rng(0)).values()),
            np.zeros(steps),
            rows,
            np.zeros((steps, self._kernel.n_noise, self.target.size)),
            np.zeros(self.target.size),
            self.sequences(np.zeros(steps, dtype=int)),
            self._fixed_with(tuned),
            every,
        )

    def _fixed_with(self, tuned: Tuned) -> list[np.ndarray]:
        """What the kernel is given at every draw."""
        weights = self._lengths / np.array(tuned.batch_sizes, dtype=float)
        return self._kernel.fixed(weights, self._coefficients, self._estimator.numbers(tuned))
