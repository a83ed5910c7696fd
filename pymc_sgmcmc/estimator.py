"""U and its gradient as the kernel sees them: from one batch, in the sampler's coordinates."""

from collections.abc import Callable, Mapping

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.batches import BatchSource
from pymc_sgmcmc.coordinates import apply, pull
from pymc_sgmcmc.target import Target
from pymc_sgmcmc.tuned import Tuned

__all__ = ["Estimator"]


class Estimator:
    """Estimates of U and of its gradient in coordinates z, where q = centre + L z.

    With a control variate (Baker et al., 2019), the gradient is ``g(q) - g(anchor) + G``: g the
    estimate from the batch, G the gradient on all rows at the anchor. Its noise grows with the
    distance to the anchor, where that of ``g(q)`` grows with the number of rows; both are
    unbiased.

    Parameters
    ----------
    target : Target
    source : BatchSource
    moves : bool
        Whether there is an L; else z = q.
    control : bool
        Whether there is a control variate, which an input then turns on and off.
    """

    def __init__(self, target: Target, source: BatchSource, moves: bool, control: bool):
        self.size, self.groups = target.size, target.groups
        self._source, self.moves = source, moves
        self._control = control and bool(target.groups)
        self._whole = target.estimator()
        self._batched = target.estimator(exact_weight=0.0) if self._control else None

    def numbers(self, tuned: Tuned) -> dict[str, np.ndarray]:
        """The inputs of `bind`, by name."""
        numbers = {}
        if self.moves:
            numbers |= {"centre": tuned.coordinates.centre, "factor": tuned.coordinates.factor}
        if self._control:
            numbers |= {
                "anchor": tuned.anchor,
                "anchor_gradient": tuned.anchor_gradient,
                "control": np.float64(tuned.control),
            }
        return numbers

    def bind(self, numbers: Mapping[str, TensorVariable]) -> Callable:
        """Return ``estimate(z, rows, weights)``: graphs of U and its gradient in z, (d,).

        `rows`: one step's entry of what the batch source draws, for each group; `weights`:
        N_k / n_k for each group.
        """

        def estimate(z, rows, weights):
            q = z
            if self.moves:
                q = numbers["centre"] + apply(numbers["factor"], z)
            slices = {}
            for group, row in zip(self.groups, rows, strict=True):
                slices |= self._source.slices(group, row)
            value, gradient = self._whole(q, slices, weights)
            if self._control:
                on = numbers["control"]
                at_anchor = self._at_anchor(numbers, slices, weights, on)
                gradient = gradient + on * (numbers["anchor_gradient"] - at_anchor)
            if self.moves:
                gradient = pull(numbers["factor"], gradient)
            return value, gradient

        return estimate

    def _at_anchor(self, numbers, slices, weights, on):
        """The batch's gradient at the anchor; where that is off, one row's, to save the work."""
        kept = {}
        for group in self.groups:
            for data in group.data:
                rows = slices[data.slice]
                n = pt.switch(pt.gt(on, 0), rows.shape[data.axis], 1)
                kept[data.slice] = rows[(slice(None),) * data.axis + (slice(0, n),)]
        return self._batched(numbers["anchor"], kept, weights)[1]
