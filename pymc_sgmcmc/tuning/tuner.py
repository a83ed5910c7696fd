"""Tuning of the centre, metric, gradient, its noise, batch size and step size.

The results are a pure function of a chain's history: `Tuner.start` computes them from its starting
point, and `Tuner.learn` updates them with each draw. All quantities are measured in coordinates z
in which the posterior is about N(0, I), so that no constant here has a scale.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytensor

from pymc_sgmcmc._utils.coordinates import Coordinates, pull
from pymc_sgmcmc.dynamics.algorithm import Algorithm
from pymc_sgmcmc.dynamics.noise_rules import Heating, NoiseRule, largest
from pymc_sgmcmc.posterior.batch_sources import BatchSource
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.tuning.curvature import Visit, largest_curvature, steepest
from pymc_sgmcmc.tuning.degenerate import not_finite, refuse_degenerate
from pymc_sgmcmc.tuning.gradient_noise import RowNoise, measure_noise
from pymc_sgmcmc.tuning.locate import PART, locate
from pymc_sgmcmc.tuning.reach import within_reach
from pymc_sgmcmc.tuning.tuned import Plan, Tuned
from pymc_sgmcmc.tuning.windows import Window, typical_points

__all__ = ["LARGEST", "Tuner", "largest_batch"]

LARGEST = 2048
"""Largest number of rows in a batch whose size is tuned."""

FAR = 1e4
"""|z|^2 / d above which a draw has left the posterior, unless other step methods move it."""

COSTS = {"plain": 1, "control_variate": 2, "svrg": 3}
"""Cost of an inner step, in gradients of a minibatch; SVRG's includes its gradients on all rows."""

STEP_SHARE = 0.6
"""Part of the tolerance that is for the step size; the rest is for noise."""

CLOSE = 6
"""Number of points whose curvature is measured closely."""

UNCERTAINTY = 0.08
"""Smallest relative error assumed for a measured noise: the part that may remain after subtraction.
Two standard errors replace it, if they are more."""


def largest_batch(n_rows: int) -> int:
    """Return the rows in the largest batch that may be chosen: all, where that may be cheaper."""
    return n_rows if n_rows <= LARGEST * max(COSTS.values()) else LARGEST


class Tuner:
    """Tuner of the quantities in `plan`.

    Parameters
    ----------
    target : Target
    source : BatchSource
    plan : Plan
    algorithm : Algorithm
        The algorithm that is tuned: its bias, its longest step, and the noise that its gradients
        may have.
    steps : int
        Number of inner steps a draw.
    """

    def __init__(
        self,
        target: Target,
        source: BatchSource,
        plan: Plan,
        algorithm: Algorithm,
        steps: int,
    ):
        self._target, self._source, self._plan, self._steps = target, source, plan, steps
        self._algorithm = algorithm

    def start(
        self, tuned: Tuned, q: np.ndarray, capacity: float, rng: np.random.Generator
    ) -> Tuned:
        """Locate the posterior from `q`, and measure noise and curvature there.

        `capacity`: the noise that the sampler injects, as a rate: gradients add h V / 2 to it.
        """
        before = self._target.rows_evaluated
        located = locate(self._target, q, rng, tuned.coordinates.factor.ndim)
        refuse_degenerate(self._target, q, located)
        coordinates = tuned.coordinates.around(located.coordinates.centre)
        points = rng.standard_normal((typical_points(len(q)), len(q)))
        if self._plan.metric:
            coordinates = within_reach(self._target, located.coordinates, points)
        tuned = replace(tuned, capacity=capacity, decrement=located.decrement, warming=True)
        tuned = self._centred(self._begun(tuned, tuned.window.index), coordinates)
        return self._paid(self._measure(tuned, points, rng), before)

    def learn(self, tuned: Tuned, q: np.ndarray | None, rng: np.random.Generator) -> Tuned:
        """Update the results with a draw `q`, which is None where the draw diverged."""
        z = None if q is None else tuned.coordinates.of(q)
        if z is None or (not self._target.shared and np.sum(z**2) > FAR * len(z)):
            shrink, h = tuned.shrink / 2, tuned.step_size / 2
            return self._begun(replace(tuned, shrink=shrink, step_size=h), tuned.window.index)
        window = tuned.window.add(z, self._target.others_now())
        tuned = self._charged(replace(tuned, window=window))
        if not tuned.window.is_over:
            return tuned
        before, old, window = self._target.rows_evaluated, tuned.coordinates, tuned.window
        coordinates = old.around(old.position(window.mean()))
        if self._plan.metric:
            S = window.shrunk_covariance(before=tuned.slow**-2)
            coordinates = coordinates.scaled(np.linalg.cholesky(S) if S.ndim == 2 else np.sqrt(S))
        points = coordinates.of(old.position(np.array(window.points)))
        # Other step methods may have moved the posterior since it was located: divergences in the
        # old metric say nothing of the new one.
        shrink = 1.0 if tuned.warming and self._target.shared else tuned.shrink
        tuned = self._centred(replace(tuned, warming=False, shrink=shrink), coordinates)
        tuned = self._paid(self._measure(tuned, points, rng, window.others), before)
        return self._begun(tuned, window.index + 1)

    def _begun(self, tuned: Tuned, index: int) -> Tuned:
        """Return `tuned` with an empty window number `index`."""
        others = sum(value.size for value in self._target.others_now())
        ndim = tuned.window.products.ndim
        return replace(tuned, window=Window.start(index, self._target.size, ndim, others))

    def position(self, tuned: Tuned, z: np.ndarray) -> np.ndarray:
        """Return q of a point z, in the coordinates tuned so far."""
        return tuned.coordinates.position(z).astype(pytensor.config.floatX)

    def follow(self, tuned: Tuned, q: np.ndarray, draw: int) -> Tuned:
        """Move SVRG's anchor to `q`, the draw number `draw`, once in each of its periods."""
        if not tuned.follows or draw % self._period(tuned):
            return tuned
        return self._anchored(tuned, q)

    def _charged(self, tuned: Tuned) -> Tuned:
        """Return `tuned` with the cost of one more draw."""
        rows = self._steps * (sum(tuned.batch_sizes) or 1) * (2 if tuned.control else 1)
        return replace(tuned, row_gradients=tuned.row_gradients + rows)

    def _centred(self, tuned: Tuned, coordinates: Coordinates) -> Tuned:
        tuned = replace(tuned, coordinates=coordinates)
        if self._plan.gradient == "plain" or not self._target.groups:
            return tuned
        return self._anchored(tuned, coordinates.centre)

    def _anchored(self, tuned: Tuned, q: np.ndarray) -> Tuned:
        return replace(tuned, anchor=q, anchor_gradient=self._target.batched_gradient(q))

    def _paid(self, tuned: Tuned, before: int) -> Tuned:
        paid = self._target.rows_evaluated - before
        return replace(tuned, row_gradients=tuned.row_gradients + paid)

    def _measure(
        self,
        tuned: Tuned,
        points: np.ndarray,
        rng: np.random.Generator,
        others: Sequence[tuple[np.ndarray, ...]] = (),
    ) -> Tuned:
        """Measure noise and curvature at typical `points` z (k, d); set step and batch sizes.

        `others`: values of other step methods' variables at each point; empty: the present values.
        """
        plan, coordinates = self._plan, tuned.coordinates
        rows, present = self._target.fixed_rows(rng, PART), self._target.others_now()

        def visit(i):
            if others:
                self._target.set_others(others[i])

        def gradient(z):
            _, g = self._target.value_and_gradient(coordinates.position(z), rows)
            return pull(coordinates.factor, g)

        curvature = largest_curvature(gradient, points[:CLOSE], rng, visit=visit)
        longest = self._longest(curvature)
        if not tuned.warming:
            # The step has to be stable wherever the chain went. While warming, points come from the
            # first guess, whose tails the chain may never visit.
            there = steepest(gradient, points, rng, CLOSE, visit)
            largest_there = largest_curvature(
                gradient, points[there], rng, visit=lambda i: visit(there[i])
            )
            stable = self._algorithm.longest_step(max(1.0, curvature, largest_there))
            longest = min(longest, stable / 2)
        tuned = replace(tuned, curvature=curvature)
        V, rule = np.zeros_like(coordinates.factor), Heating(np.inf)
        if self._target.groups:
            tuned, V, rule = self._gradient(tuned, points, longest, rng, visit)
        self._target.set_others(present)
        slow = np.ones(len(coordinates.centre))
        if plan.step_size and plan.metric:
            if V.ndim == 2 and rule.matters(V, longest):
                turn = _eigenvectors(V)
                coordinates, V = coordinates.scaled(turn), turn.T @ V @ turn
            slow = rule.slow(V, longest)
            coordinates, V = coordinates.scaled(slow), slow * (slow * V).T
        v = np.diag(V) if V.ndim == 2 else V
        h = rule.step_size(v, slow, longest) * tuned.shrink
        if not plan.step_size:
            h = np.nan
        return replace(tuned, coordinates=coordinates, noise=v, slow=slow, step_size=h)

    def _gradient(
        self, tuned: Tuned, points, h: float, rng, visit: Visit
    ) -> tuple[Tuned, np.ndarray, NoiseRule]:
        """Choose the gradient and the batch size; return the results, V, and the rule for V.

        The batch is large enough for the step size `h`, or nearly so.
        """
        plan, lengths = self._plan, self._target.check_lengths()
        q = tuned.coordinates.position(points)
        centres = {"plain": None, "control_variate": tuned.anchor, "svrg": self._behind(tuned, q)}
        if plan.gradient != "auto":
            centres = {plan.gradient: centres[plan.gradient]}
        precision = self._algorithm.noise_rule(np.inf, 1).precision
        noises = measure_noise(self._target, tuned.coordinates, q, centres, rng, precision, visit)
        self._refuse_not_finite(q, noises)
        sizes = tuple(self._target.batch_sizes)
        V = {name: self._of(noise, sizes) for name, noise in noises.items()}
        name = min(V, key=lambda name: COSTS[name] * largest(V[name]))
        noise, V = noises[name], V[name]
        left = 1.0
        if plan.noise or plan.absorbs:
            left = min(1.0, max(UNCERTAINTY, 2 * noise.error))
            left += (1 - left) * noise.correlated
        room = (1 - STEP_SHARE) * plan.tolerance / left * tuned.capacity
        rule = self._algorithm.noise_rule(room, noise.count)
        if plan.batch_size:
            factor = rule.batch_factor(V, h)
            sizes = tuple(int(np.clip(n * factor, rule.smallest, LARGEST)) for n in sizes)
            if self._source.independent and np.all(COSTS[name] * np.array(sizes) >= lengths):
                sizes = tuple(map(int, lengths))  # all rows: no noise at no more cost
                name = "plain" if plan.gradient == "auto" else name
            else:
                most = np.minimum(lengths, np.maximum(rule.smallest, lengths // 2))
                sizes = tuple(int(min(pair)) for pair in zip(sizes, most, strict=True))
            V = self._of(noise, sizes)
        control, follows = name != "plain", name == "svrg"
        tuned = replace(tuned, control=control, follows=follows, batch_sizes=sizes, left=left)
        return tuned, V, rule

    def _refuse_not_finite(self, q: np.ndarray, noises: Mapping[str, RowNoise]) -> None:
        """Raise SamplingError if gradients are not finite at most of the points `q` (k, d)."""
        left_out = max((noise.left_out for noise in noises.values()), key=len)
        if len(left_out) > len(q) / 2:
            often = f"So it is at {len(left_out)} of {len(q)} such points."
            raise not_finite(self._target, q[left_out[0]], often)

    def _behind(self, tuned: Tuned, q: np.ndarray) -> np.ndarray:
        """Return points of the chain that lag behind `q` (k, d) by the period of SVRG's anchor."""
        lag = self._period(tuned) / tuned.window.spacing
        return np.roll(q, int(np.clip(np.ceil(lag), 1, len(q) // 2)), axis=0)

    def _period(self, tuned: Tuned) -> int:
        """Return the draws between SVRG's anchors: as many inner steps as there are minibatches."""
        lengths = self._target.check_lengths()
        batches = max(n / size for n, size in zip(lengths, tuned.batch_sizes, strict=True))
        return max(1, round(batches / self._steps))

    def _of(self, noise: RowNoise, sizes: Sequence[int]) -> np.ndarray:
        """Return V of batches of `sizes` from this source."""
        lengths = self._target.check_lengths()
        shares = [self._source.share(n, size) for n, size in zip(lengths, sizes, strict=True)]
        return noise.of(sizes, shares)

    def _longest(self, curvature: float) -> float:
        """Return the longest step within the tolerance, by bisection."""
        low, high = 1e-12, 1.0
        for _ in range(50):
            middle = np.sqrt(low * high)
            if self._algorithm.step_bias(middle, curvature) <= STEP_SHARE * self._plan.tolerance:
                low = middle
            else:
                high = middle
        return low

    def stats(self, tuned: Tuned, h: float) -> dict[str, float]:
        """Return the sample stats of a draw with step size `h`."""
        noise = h * float(tuned.noise.max()) / 2 / tuned.capacity
        return {
            "batch_size": sum(tuned.batch_sizes),
            "control_variate": tuned.control,
            "svrg": tuned.follows,
            "noise_fraction": noise,
            "metric_condition": tuned.coordinates.condition,
            "decrement": tuned.decrement,
            "predicted_bias": self._algorithm.step_bias(h, tuned.curvature) + tuned.left * noise,
            "tuning_gradients": tuned.row_gradients,
        }


def _eigenvectors(V: np.ndarray) -> np.ndarray:
    """Return the eigenvectors of a covariance, with signs that do not depend on rounding."""
    _, vectors = np.linalg.eigh(V)
    return vectors * np.sign(vectors[np.argmax(np.abs(vectors), axis=0), np.arange(len(V))])
