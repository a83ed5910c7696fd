"""Choice of the gradient, the batch size and the step size, from noise and curvature.

Both are measured at typical points of the posterior, in coordinates z in which it is about N(0, I).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from pymc_sgmcmc._utils.coordinates import Coordinates
from pymc_sgmcmc._utils.types import Array, Vector
from pymc_sgmcmc.dynamics.algorithm import Algorithm
from pymc_sgmcmc.dynamics.noise_rules import Heating, NoiseRule, largest
from pymc_sgmcmc.posterior.batch_sources import BatchSource
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.tuning.adam import PART
from pymc_sgmcmc.tuning.batch_limits import COSTS, largest_batch, largest_minibatch
from pymc_sgmcmc.tuning.curvature import Visit, hessian, largest_curvature, steepest
from pymc_sgmcmc.tuning.degenerate import not_finite
from pymc_sgmcmc.tuning.gradient_noise import (
    SMALL,
    WHERE_GRADIENTS_JUMP,
    Gradient,
    RowNoise,
    measure_noise,
)
from pymc_sgmcmc.tuning.jumps import SHARE, rows_that_pass
from pymc_sgmcmc.tuning.tuned import Plan, Tuned

__all__ = ["Choice"]

STEP_SHARE = 0.6
"""Part of the tolerance that is for the step size; the rest is for noise."""

CLOSE = 6
"""Number of points whose curvature is measured closely."""

EASED = 20
"""Number of points over which the Hessian is averaged where draws spread farther than U allows."""

UNCERTAINTY = 0.08
"""Smallest relative error assumed for a measured noise: the part that may remain after subtraction.
Two standard errors replace it, if they are more."""


class Choice:
    """Choice of what `plan` leaves to tuning, but for the centre and the metric.

    Parameters
    ----------
    target : Target
    source : BatchSource
    plan : Plan
    algorithm : Algorithm
        Its bias, its longest step, and the noise that its gradients may have.
    steps : int
        Number of inner steps a draw.
    """

    def __init__(
        self, target: Target, source: BatchSource, plan: Plan, algorithm: Algorithm, steps: int
    ):
        self.target, self.plan, self.algorithm, self.steps = target, plan, algorithm, steps
        self._source = source

    def measure(
        self,
        tuned: Tuned,
        points: Array,
        rng: np.random.Generator,
        others: Sequence[tuple[Array, ...]] = (),
    ) -> Tuned:
        """Measure noise and curvature at typical `points` z (k, d); set step and batch sizes.

        `others`: values of other step methods' variables at each point; empty: the present values.
        """
        plan, coordinates = self.plan, tuned.coordinates
        rows = self.target.fixed_rows(rng, PART)
        width = SHARE if tuned.jumps or self.target.has_kinked_prior else None
        if tuned.jumps:
            rows = rows_that_pass(self.target, rng)
        present = self.target.others_now()

        def visit(i: int) -> None:
            if others:
                self.target.set_others(others[i])

        gradient = self._slope(coordinates, rows)
        curvature = largest_curvature(gradient, points[:CLOSE], rng, visit=visit, width=width)
        longest, steepness = self._longest(curvature), curvature
        if not tuned.in_first_window:
            # The step has to be stable wherever the chain went. In the first window, points are of
            # the first guess, whose tails the chain may never visit.
            there = steepest(gradient, points, rng, CLOSE, visit, width)
            largest_there = largest_curvature(
                gradient, points[there], rng, visit=lambda i: visit(there[i]), width=width
            )
            steepness = max(curvature, largest_there)
            longest = min(longest, self.algorithm.longest_step(max(1.0, steepness)) / 2)
        tuned = replace(tuned, curvature=curvature, steepness=steepness)
        V = np.zeros_like(tuned.window.products)
        rule: NoiseRule = Heating(np.inf)
        if self.target.groups:
            tuned, V, rule = self._gradient(tuned, points, longest, rng, visit)
        self.target.set_others(present)
        pace = np.ones(len(coordinates.centre))
        if plan.step_size and plan.metric:
            if V.ndim == 2 and rule.matters(V, longest):
                turn = _eigenvectors(V)
                coordinates, V = coordinates.scaled(turn), turn.T @ V @ turn
            pace = rule.pace(V, longest)
            coordinates, V = coordinates.scaled(pace), pace * (pace * V).T
        v = np.diag(V) if V.ndim == 2 else V
        h = rule.step_size(v, pace, longest) * tuned.step_factor
        if not plan.step_size:
            h = np.nan
        return replace(tuned, coordinates=coordinates, noise=v, pace=pace, step_size=h)

    def eased(self, coordinates: Coordinates, points: Array) -> Coordinates:
        """Return dense `coordinates`, with a shorter L where U is steep at draws `points` z (k, d).

        Draws that drift, or follow a curved ridge, spread farther than U allows at any point. L L'
        becomes the geometric mean of the draws' covariance and the inverse of the mean Hessian,
        which has the least Fisher divergence (Seyboldt, Carlson and Carpenter, 2024).
        """
        size = max(PART, 64 * self.target.size)
        rows = self.target.fixed_rows(np.random.default_rng(0), size)
        gradient, scale = self._slope(coordinates, rows), np.ones(self.target.size)
        some = points[:: -(-len(points) // EASED)]
        H = np.mean([hessian(gradient, z, scale) for z in some], axis=0)
        values, vectors = np.linalg.eigh(H)
        return coordinates.scaled((vectors * np.maximum(values, 1.0) ** -0.25) @ vectors.T)

    def _slope(self, coordinates: Coordinates, rows: Sequence[Array]) -> Callable[[Vector], Vector]:
        """Return the gradient of U in z, on some rows."""

        def gradient(z: Vector) -> Vector:
            _, g = self.target.value_and_gradient(coordinates.position(z), rows)
            return coordinates.metric.pull(g)

        return gradient

    def _gradient(
        self, tuned: Tuned, points: Array, h: float, rng: np.random.Generator, visit: Visit
    ) -> tuple[Tuned, Array, NoiseRule]:
        """Choose the gradient and the batch size; return the results, V, and the rule for V.

        The batch is large enough for the step size `h`, or nearly so.
        """
        plan, lengths = self.plan, self.target.check_lengths()
        q = tuned.coordinates.position(points)
        gradients = self._gradients(tuned, q)
        precision = self.algorithm.noise_rule(np.inf, 1).precision
        rows = WHERE_GRADIENTS_JUMP if tuned.jumps else SMALL
        noises = measure_noise(
            self.target, tuned.coordinates, q, gradients, rng, precision, visit, rows
        )
        self._refuse_not_finite(q, noises)
        sizes = tuple(self.target.batch_sizes)
        found = {name: self._of(noise, sizes) for name, noise in noises.items()}
        name = self._cheapest(tuned, noises, found, h)
        noise, V = noises[name], found[name]
        residual, rule = self._rule(tuned, noise)
        if plan.batch_size:
            factor = rule.batch_factor(V, h)
            d = self.target.size
            wanted = np.maximum(np.array(sizes) * factor, rule.smallest)
            sizes = tuple(map(int, np.minimum(wanted, largest_minibatch(d))))
            may_be_all = all(largest_batch(n, d) == n for n in lengths)
            if may_be_all and self._source.independent and np.all(COSTS[name] * wanted >= lengths):
                sizes = tuple(map(int, lengths))  # all rows: no noise at no more cost
                name = "plain" if plan.gradient == "auto" else name
            else:
                half = np.minimum(lengths, np.maximum(rule.smallest, lengths // 2))
                sizes = tuple(int(min(pair)) for pair in zip(sizes, half, strict=True))
            V = self._of(noise, sizes)
        tuned = replace(
            tuned,
            order={"plain": 0, "second_order": 2}.get(name, 1),
            is_svrg=name == "svrg",
            batch_sizes=sizes,
            residual_noise=residual,
        )
        return tuned, V, rule

    def _gradients(self, tuned: Tuned, q: Array) -> dict[str, Gradient]:
        """Return the gradients that the plan allows, for points `q` (k, d) of the chain."""
        plan, near = self.plan, self.target.near_anchor
        gradients = {
            "plain": Gradient(),
            "control_variate": Gradient(1, tuned.anchor),
            "svrg": Gradient(1, self._behind(tuned, q)),
        }
        if plan.gradient != "auto":
            gradients = {plan.gradient: gradients[plan.gradient]}
        if "control_variate" in gradients and near is not None and near.is_curved:
            gradients["second_order"] = Gradient(2, tuned.anchor)
        return gradients

    def _cheapest(
        self,
        tuned: Tuned,
        noises: Mapping[str, RowNoise],
        found: Mapping[str, Array],
        h: float,
    ) -> str:
        """Return the gradient that costs least for its noise V, as `found` for present batches.

        One of second order is taken if it costs less, with its product with the Hessian, than the
        best of the others in batches that are large enough.
        """
        others = [name for name in found if name != "second_order"]
        best = min(others, key=lambda name: COSTS[name] * largest(found[name]))
        second, near = noises.get("second_order"), self.target.near_anchor
        if second is None or near is None or len(second.left_out) > len(noises[best].left_out):
            return best

        def cost(name: str) -> float:
            if not self.plan.batch_size:
                return COSTS[name] * largest(found[name])
            _, rule = self._rule(tuned, noises[name])
            needed = sum(self.target.batch_sizes) * rule.batch_factor(found[name], h)
            product = near.size if name == "second_order" else 0
            return COSTS[name] * max(needed, rule.smallest) + product

        costs_less = cost("second_order") < cost(best)
        return "second_order" if costs_less and near.is_finite(tuned.anchor) else best

    def _rule(self, tuned: Tuned, noise: RowNoise) -> tuple[float, NoiseRule]:
        """Return the part of `noise` that may remain, and the rule for what is tolerable."""
        residual = 1.0
        if self.plan.noise or self.algorithm.absorbs_noise:
            residual = min(1.0, max(UNCERTAINTY, 2 * noise.error))
            residual += (1 - residual) * noise.correlated
        room = (1 - STEP_SHARE) * self.plan.tolerance / residual * tuned.injected_noise
        return residual, self.algorithm.noise_rule(room, noise.count)

    def _refuse_not_finite(self, q: Vector, noises: Mapping[str, RowNoise]) -> None:
        """Raise SamplingError if gradients are not finite at most of the points `q` (k, d)."""
        firsts = [noise for name, noise in noises.items() if name != "second_order"]
        left_out = max((noise.left_out for noise in firsts), key=len)
        if len(left_out) > len(q) / 2:
            often = f"So it is at {len(left_out)} of {len(q)} such points."
            raise not_finite(self.target, q[left_out[0]], often)

    def _behind(self, tuned: Tuned, q: Vector) -> Array:
        """Return points of the chain that lag behind `q` (k, d) by the period of SVRG's anchor."""
        lag = self.period(tuned) / tuned.window.spacing
        return np.roll(q, int(np.clip(np.ceil(lag), 1, len(q) // 2)), axis=0)

    def period(self, tuned: Tuned) -> int:
        """Return the draws between SVRG's anchors: as many inner steps as there are minibatches."""
        lengths = self.target.check_lengths()
        batches = max(n / size for n, size in zip(lengths, tuned.batch_sizes, strict=True))
        return max(1, round(batches / self.steps))

    def _of(self, noise: RowNoise, sizes: Sequence[int]) -> Array:
        """Return V of batches of `sizes` from this source."""
        lengths = self.target.check_lengths()
        shares = [self._source.share(n, size) for n, size in zip(lengths, sizes, strict=True)]
        return noise.of(sizes, shares)

    def _longest(self, curvature: float) -> float:
        """Return the longest step within the tolerance, by bisection."""
        low, high = 1e-12, 1.0
        for _ in range(50):
            middle = np.sqrt(low * high)
            if self.algorithm.step_bias(middle, curvature) <= STEP_SHARE * self.plan.tolerance:
                low = middle
            else:
                high = middle
        return low


def _eigenvectors(V: Array) -> Array:
    """Return the eigenvectors of a covariance, with signs that do not depend on rounding."""
    _, vectors = np.linalg.eigh(V)
    return vectors * np.sign(vectors[np.argmax(np.abs(vectors), axis=0), np.arange(len(V))])
