"""What one chain does, from its first draw to its last: PyMC's life cycle around the kernel."""

import logging
from dataclasses import replace
from functools import partial
from threading import get_ident
from typing import Any

import numpy as np
from pymc.blocking import RaveledVars
from pymc.exceptions import SamplingError
from pymc.stats.convergence import SamplerWarning

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
from pymc_sgmcmc.chain.kernel import arrays
from pymc_sgmcmc.chain.kernel_output import KernelOutput
from pymc_sgmcmc.chain.moments import MOMENTS
from pymc_sgmcmc.chain.monitor import BLOCK, Observed
from pymc_sgmcmc.chain.running_sums import RunningSums
from pymc_sgmcmc.compile.backend import one_thread_in_workers
from pymc_sgmcmc.dynamics.schedules import repeated
from pymc_sgmcmc.posterior.nonfinite import culprit
from pymc_sgmcmc.tuning.tuned import Tuned

__all__ = ["Lifecycle"]

_log = logging.getLogger("pymc.sgmcmc")

STARTS = 3
"""Jittered starts from which the posterior is looked for."""

LOOKS = 3
"""Divergences after which rows without a gradient are looked for."""


class Lifecycle(Observed):
    """A step method whose draws come from `self._kernel`, tuned by `self._tuner` if there is one.

    The state of a chain, `ChainState`, is all that changes from draw to draw.
    """

    def start_chain(self, rng: np.random.Generator) -> None:
        self._owner.claim()
        one_thread_in_workers()
        self._lengths = self.target.examine()
        self._source.refresh()
        self._told_of_data = False
        self.tune = True  # PyMC does not say so to worker processes; it does say stop_tuning
        self.started = False
        self.inner_steps = self.draw = self.divergences = self.failures = 0
        self.noise_key, self.carried = 0, ()
        self.batch_states = (self._source.start,) * len(self.target.groups)
        self.running_sums = RunningSums.start(np.zeros(self.target.size))
        self.watching, self.watched = False, Watched.nothing(self.target.size)
        self.tuned = Tuned.untuned(self.target.batch_sizes, self._untuned)
        self._refreshed = None

    def stop_tuning(self) -> None:
        super().stop_tuning()
        self.divergences = 0
        window = self.tuned.window.emptied()  # snapshots would carry its points
        self.tuned = replace(self.tuned, warming=False, window=window)

    def astep(self, q0: RaveledVars) -> tuple[RaveledVars, list[dict[str, Any]]]:
        owner, thread = self._owner, get_ident()
        if owner.thread != thread:
            owner.refuse(self.name)
        q, warning = np.asarray(q0.data, dtype=self._kernel.dtype), None
        if not self.started:
            q, warning = self._begin(q)
        changed = self.target.data_changed()
        if changed:
            self._take_in_data()
        self._moved = changed or bool(self.target.shared)
        if self._refreshed is not self.tuned:
            self._refresh()
        steps = self.steps_per_draw
        self._open(q)
        output, last, rows = self._advance(q)
        h, bounds = last["step_size"], self.watched.bounds
        finite = output.is_finite and not bounds.exceeded(output)
        warning = warning or self.notice()
        if finite:
            q = self._to_position(output.q)
            self.carried, self.failures = output.state, 0
            self._observe(q, output)
        else:
            diverged = self._diverge(q, h, rows, output)
            warning = warning or diverged
        warning = warning or self._finding()
        stats = self._carried() if self._reports_state else {}
        stats |= last
        stats |= {
            "grad_norm": output.grad_norm,
            "minibatch_logp": output.logp,
            "n_steps": steps,
            "diverging": not finite,
            "divergences": self.divergences,
            "warning": warning,
            "running_sums": self._stored_sums(),
            "kinetic_temperature": output.kinetic_temperature,
            "thermostat": output.thermostat,
        }
        self.inner_steps += steps
        self.draw += 1
        if self._tuner is not None:
            stats |= self._tuner.stats(self.tuned, h)
            q = self._learn(q, finite)
        if owner.thread != thread:  # another has started a chain meanwhile
            owner.refuse(self.name)
        return RaveledVars(q, q0.point_map_info), [
            dict(zip(self.stats_dtypes_shapes, self._reported(stats)))
        ]

    def _begin(self, q: np.ndarray) -> tuple[np.ndarray, SamplerWarning | None]:
        """Find where the chain starts, and what is to be said of it."""
        start, warning = self._start(q), None
        if self._tuner is not None:
            if not self.tune:
                raise SamplingError(
                    f"{self.name} has settings to tune (step_size={self.step_size!r}) and tune=0: "
                    "give pm.sample some hundred draws to tune, or give all settings."
                )
            self.tuned = self._located(q, start)
            start = self._tuner.position(self.tuned, 0.5 * self.rng.standard_normal(len(q)))
            if self._plan.metric:  # what is nearer, the tuner judges
                bounds = Bounds(reach=FARTHEST * self.target.size)
                self.watched = replace(self.watched, bounds=bounds)
            if not self.tuned.decrement < 2 * self.target.size:
                warning = not_located(self.name, self.tuned, self.target)
        q = start
        self.carried = tuple(self.initial_state(self.rng).values())
        if self._noise.many:
            self.noise_key = int(self.rng.integers(2**64, dtype=np.uint64))
        self.started = True
        return q, warning

    def _take_in_data(self) -> None:
        """Compute anew what is kept of data that were changed after the draw before."""
        if not self._told_of_data:
            _log.warning(
                f"{self.name}, draw {self.draw}: data changed while the chain runs (pm.set_data "
                "in a callback, or a step method that sets data). Gradients are those of the new "
                "data from here on, at the cost of a look at all rows for each change."
            )
            self._told_of_data = True
        self._lengths = self.target.examine()
        self._source.refresh()
        if self.tuned.control:
            anchor_gradient = self.target.batched_gradient(self.tuned.anchor)
            self.tuned = replace(self.tuned, anchor_gradient=anchor_gradient)
        self._refreshed = None

    def _start(self, q: np.ndarray) -> np.ndarray:
        return self._starts.find(
            q, self.rng, self._probe, partial(culprit, self.target), jitter=self.jitter
        )

    def _located(self, q: np.ndarray, start: np.ndarray) -> Tuned:
        """What is found from `start`; where nothing can be, from another start that `q` leads to.

        A jittered start may lead to a place where numbers overflow, and the next one not.
        """
        for attempt in range(STARTS):
            try:
                return self._tuner.start(self.tuned, start, self.capacity(), self.rng)
            except SamplingError as error:
                if attempt + 1 == STARTS or np.array_equal(start, q):
                    raise
                _log.info(f"{self.name}: the chain starts anew, from another point. {error}")
            start = self._start(q)
        raise AssertionError("the last attempt returns or raises")

    def _advance(self, q: np.ndarray) -> tuple[KernelOutput, dict[str, float], list[np.ndarray]]:
        """All inner steps of a draw from `q`, in blocks of bounded memory, while it is finite.

        Also the step size, and what else is planned for each step, at the last; and the rows of the
        last block.
        """
        z, state, done = self._to_coordinates(q), self.carried, None
        end, leaps = self.inner_steps + self.steps_per_draw, self._kernel.leaps
        blocks = self._blocks(end)
        numbers = self._kernel.n_noise, self.target.size
        for k, counts in enumerate(blocks):
            step_sizes, sequences = self._step_sizes(counts), self.sequences(counts)
            rows = self._draw_rows(len(counts))
            key, step = self.noise_key, counts[0]
            normals = self._noise.draw(self.rng, key, step, (len(counts), *numbers))
            if self._noise.many:
                coming = blocks[(k + 1) % len(blocks)]
                self._noise.begin(key, step + len(counts), (len(coming), *numbers))
            explores = self._explores(counts)
            if explores is not None:
                normals[explores] = 0.0
            output = self._kernel(
                z,
                state,
                step_sizes,
                rows,
                normals,
                self.running_sums.origin,
                sequences,
                self._fixed,
                0 if leaps and counts[-1] + 1 < end else self._every,
            )
            if self.trajectories and done is not None:
                output = output.unsummed()
            done = output.after(done)
            if not output.is_finite:
                break
            z, state = output.q, output.state
        last = {"step_size": step_sizes[-1]}
        for name, planned in sequences.items():
            last[name] = planned[-1]
        if explores is not None:
            last["sampling"] = not explores[-1]
        return done, last, rows

    def _blocks(self, end: int) -> list[np.ndarray]:
        """Absolute counts of the inner steps of a draw, of each block."""
        starts = range(self.inner_steps, end, self._length)
        return [np.arange(start, min(start + self._length, end)) for start in starts]

    def _draw_rows(self, steps: int) -> list[np.ndarray]:
        rows, self.batch_states = self._rows(self.rng, steps)
        return rows

    def _learn(self, q: np.ndarray, finite: bool) -> np.ndarray:
        """Take in a draw; return where the chain goes on."""
        self.tuned = self._tuner.follow(self.tuned, q, self.draw)
        if not self.tune:
            return q
        before = self.tuned
        self.tuned = self._tuner.learn(before, q if finite else None, self.rng)
        cut = self.tuned.shrink != before.shrink
        if cut or self.tuned.coordinates is not before.coordinates:
            self.carried = self._fresh()
            self.running_sums = RunningSums.start(self.running_sums.origin)
        return self._tuner.position(self.tuned, np.zeros(len(q))) if cut else q

    def _diverge(
        self, q: np.ndarray, step_size: float, rows: list[np.ndarray], output: KernelOutput
    ) -> SamplerWarning:
        """Roll back to the last finite q with fresh momentum, or give up.

        `rows`: of the inner steps that led to `output`. If they have no gradient at `q` already, no
        step size is to blame.
        """
        self.carried = self._fresh()
        self.running_sums = RunningSums.start(self._to_coordinates(q))
        self.divergences += 1
        self.failures += 1
        where, tuned = f"{self.name}, draw {self.draw}", self._schedule is None
        what = reason(output, self.watched.bounds, self.target.size)
        if self.divergences <= LOOKS and not self._has_gradient(q, rows):
            refuse_without_derivative(where, self.target, q)
        if self.failures >= MAX_FAILURES:
            raise gave_up(where, what, step_size, self.target, q, tuned=tuned)
        first, left = self.divergences == 1, ""
        if first and not self.tune and np.isneginf(output.logp) and np.isfinite(output.q).all():
            left = culprit(self.target, self._to_position(output.q))
        return divergence(
            where, what, step_size, self.draw, self.tune, first=first, tuned=tuned, left=left
        )

    def _has_gradient(self, q: np.ndarray, rows: list[np.ndarray]) -> bool:
        """Whether the gradient at `q` is finite on all of `rows`."""
        if not rows:
            return True
        sums = self._still(q, rows, len(rows[0]), self.tuned).sums
        return bool(np.isfinite(sums[MOMENTS.index("g")]).all())

    def _fresh(self) -> tuple[np.ndarray, ...]:
        """A fresh state, but for what is learned."""
        fresh, kept = self.initial_state(self.rng), self._carried()
        return tuple((fresh | {name: kept[name] for name in self.learned}).values())

    def _probe(self, q: np.ndarray, rng: np.random.Generator) -> bool:
        """Whether U and its gradient are finite at `q`, on random rows: a step of size zero."""
        sizes = self.target.batch_sizes
        rows = [self._source.any(rng, n, m) for n, m in zip(self._lengths, sizes, strict=True)]
        output = self._still(q, rows, 1, self.tuned)
        return bool(np.isfinite([output.logp, output.grad_norm]).all())

    def _refresh(self) -> None:
        """Compute anew what follows from what is tuned, or is restored with a state."""
        self._refreshed = self.tuned
        self._coefficients = arrays(self.coefficients())
        self._fixed = self._fixed_with(self.tuned)
        numbers = max(self._kernel.n_noise * self.target.size, *self.tuned.batch_sizes, 1)
        self._length = max(1, BLOCK // numbers)

    def _step_sizes(self, counts: np.ndarray) -> np.ndarray:
        if self._schedule is not None:
            return self._schedule(counts)
        return repeated(self.tuned.step_size, counts.shape)

    def _coming_step_size(self) -> float:
        return float(self._step_sizes(np.array([self.inner_steps]))[0])

    def _carried(self) -> dict[str, np.ndarray]:
        """The carried variables by name."""
        return dict(zip(self._kernel.carried, self.carried, strict=True))

    def _explores(self, counts: np.ndarray) -> np.ndarray | None:
        return None if self._schedule is None else self._schedule.explores(counts)

    def _to_coordinates(self, q: np.ndarray) -> np.ndarray:
        return self.tuned.coordinates.of(q) if self._estimator.moves else q

    def _to_position(self, z: np.ndarray) -> np.ndarray:
        return self.tuned.coordinates.position(z).astype(z.dtype) if self._estimator.moves else z
