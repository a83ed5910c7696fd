"""Tuning of the centre, metric, gradient, its noise, batch size and step size.

The results are a pure function of a chain's history: `Tuner.start` computes them from its starting
point, and `Tuner.learn` updates them with each draw. All quantities are measured in coordinates z
in which the posterior is about N(0, I), so that no constant here has a scale.
"""

from dataclasses import replace

import numpy as np
import pytensor

from pymc_sgmcmc._utils.coordinates import Coordinates
from pymc_sgmcmc._utils.metric import square_root
from pymc_sgmcmc._utils.types import Array, Vector
from pymc_sgmcmc.tuning.choice import Choice
from pymc_sgmcmc.tuning.degenerate import refuse_degenerate
from pymc_sgmcmc.tuning.locate import Locator, locate
from pymc_sgmcmc.tuning.lost import falls_far
from pymc_sgmcmc.tuning.reach import within_reach
from pymc_sgmcmc.tuning.tuned import Tuned
from pymc_sgmcmc.tuning.windows import Window, typical_points

__all__ = ["Tuner"]

SEARCHES = 3
"""Largest number of searches for the posterior by one chain."""

STEEP = 50.0
"""Largest curvature, in coordinates in which the draws have unit variances, that is left alone."""

FAR = 1e4
"""|z|^2 / d above which a draw has left the posterior, unless other step methods move it."""


class Tuner:
    """Tuner of the quantities in the plan of `choice`.

    Parameters
    ----------
    choice : Choice
        What chooses the gradient, the batch size and the step size.
    locator : Locator
        Search for the region of high posterior density.
    """

    def __init__(self, choice: Choice, locator: Locator = locate):
        self._choice, self._locator = choice, locator
        self._target, self._plan, self._algorithm = choice.target, choice.plan, choice.algorithm

    def start(self, tuned: Tuned, q: Vector, rng: np.random.Generator) -> Tuned:
        """Locate the posterior from `q`, and measure noise and curvature there."""
        before = self._target.rows_evaluated
        located = self._locator(self._target, q, rng, tuned.coordinates.metric)
        refuse_degenerate(self._target, q, located)
        coordinates = tuned.coordinates.around(located.coordinates.centre)
        points = rng.standard_normal((typical_points(len(q)), len(q)))
        if self._plan.metric:
            coordinates = within_reach(self._target, located.coordinates, points)
        tuned = replace(
            tuned,
            injected_noise=self._algorithm.injected_noise(),
            decrement=located.decrement,
            jumps=located.jumps,
            searches=tuned.searches + 1,
            located=located.coordinates.centre,
            in_first_window=True,
        )
        tuned = self._centred(self._begun(tuned, tuned.window.index), coordinates)
        return self._paid(self._choice.measure(tuned, points, rng), before)

    def learn(self, tuned: Tuned, q: Vector | None, rng: np.random.Generator) -> Tuned:
        """Update the results with a draw `q`, which is None where the draw diverged."""
        z = None if q is None else tuned.coordinates.of(q)
        if z is None or (not self._target.shared and np.sum(z**2) > FAR * len(z)):
            factor, h = tuned.step_factor / 2, tuned.step_size / 2
            return self._begun(replace(tuned, step_factor=factor, step_size=h), tuned.window.index)
        window = tuned.window.add(z, self._target.others_now())
        tuned = self._charged(replace(tuned, window=window))
        if not tuned.window.is_over:
            return tuned
        before, old, window = self._target.rows_evaluated, tuned.coordinates, tuned.window
        coordinates = old.around(old.position(window.mean()))
        if self._is_lost(tuned, coordinates.centre):
            # The search had not found the posterior: nothing that was measured there holds here.
            begun = self._begun(self._paid(tuned, before), window.index + 1)
            return self.start(begun, coordinates.centre, rng)
        if self._plan.metric:
            S = window.shrunk_covariance(before=tuned.pace**-2)
            coordinates = coordinates.scaled(square_root(S))
        points = coordinates.of(old.position(np.array(window.points)))
        # Other step methods may have moved the posterior since it was located: divergences in the
        # old metric say nothing of the new one.
        factor = 1.0 if tuned.in_first_window and self._target.shared else tuned.step_factor
        tuned = self._centred(
            replace(tuned, in_first_window=False, step_factor=factor), coordinates
        )
        tuned = self._choice.measure(tuned, points, rng, window.others)
        if self._may_ease(tuned):
            there = old.position(np.array(window.points))
            eased = self._choice.eased(coordinates, points)
            tuned = replace(tuned, coordinates=eased)
            tuned = self._choice.measure(tuned, eased.of(there), rng, window.others)
        return self._begun(self._paid(tuned, before), window.index + 1)

    def _may_ease(self, tuned: Tuned) -> bool:
        """Return whether U is too steep for the metric of the draws, and its Hessian is known."""
        is_known = tuned.coordinates.metric.dense and not tuned.jumps and not self._target.shared
        return self._plan.metric and is_known and tuned.steepness > STEEP

    def _is_lost(self, tuned: Tuned, q: Vector) -> bool:
        """Return whether the last search is to be repeated, from the mean `q` of a window."""
        may_search = 0 < tuned.searches < SEARCHES and not self._target.shared
        return may_search and falls_far(self._target, tuned.located, q)

    def _begun(self, tuned: Tuned, index: int) -> Tuned:
        """Return `tuned` with an empty window number `index`."""
        others = sum(value.size for value in self._target.others_now())
        dense = tuned.coordinates.metric.dense
        return replace(tuned, window=Window.start(index, self._target.size, others, dense=dense))

    def position(self, tuned: Tuned, z: Vector) -> Array:
        """Return q of a point z, in the coordinates tuned so far."""
        return tuned.coordinates.position(z).astype(pytensor.config.floatX)

    def follow(self, tuned: Tuned, q: Vector, draw: int) -> Tuned:
        """Move SVRG's anchor to `q`, the draw number `draw`, once in each of its periods."""
        if not tuned.is_svrg or draw % self._choice.period(tuned):
            return tuned
        return self._anchored(tuned, q)

    def _charged(self, tuned: Tuned) -> Tuned:
        """Return `tuned` with the cost of one more draw."""
        gradients = self._choice.steps * (2 if tuned.order else 1)
        rows = gradients * (sum(tuned.batch_sizes) or 1)
        return replace(tuned, row_gradients=tuned.row_gradients + rows)

    def _centred(self, tuned: Tuned, coordinates: Coordinates) -> Tuned:
        tuned = replace(tuned, coordinates=coordinates)
        if self._plan.gradient == "plain" or not self._target.groups:
            return tuned
        return self._anchored(tuned, coordinates.centre)

    def _anchored(self, tuned: Tuned, q: Vector) -> Tuned:
        return replace(tuned, anchor=q, anchor_gradient=self._target.anchor_gradient(q))

    def _paid(self, tuned: Tuned, before: int) -> Tuned:
        paid = self._target.rows_evaluated - before
        return replace(tuned, row_gradients=tuned.row_gradients + paid)

    def stats(self, tuned: Tuned, h: float) -> dict[str, float]:
        """Return the sample stats of a draw with step size `h`."""
        noise = h * float(tuned.noise.max()) / 2 / tuned.injected_noise
        bias = self._algorithm.step_bias(h, tuned.curvature) + tuned.residual_noise * noise
        return {
            "batch_size": sum(tuned.batch_sizes),
            "control_variate": tuned.order > 0,
            "second_order": tuned.order > 1,
            "svrg": tuned.is_svrg,
            "noise_fraction": noise,
            "metric_condition": tuned.coordinates.metric.condition,
            "decrement": tuned.decrement,
            "predicted_bias": bias,
            "tuning_gradients": tuned.row_gradients,
        }
