"""Estimates of U and its gradient for the kernel: from one batch, in the sampler's coordinates."""

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc._utils.coordinates import Coordinates, apply, pull
from pymc_sgmcmc.posterior.batch_sources import BatchSource
from pymc_sgmcmc.posterior.target import Target

__all__ = ["Estimator", "GradientFrame"]


class GradientFrame(Protocol):
    """The numbers that an estimate needs, for any method of finding them.

    Attributes
    ----------
    coordinates : Coordinates
        Centre and factor L of z.
    control : bool
        Whether the control variate is on.
    anchor, anchor_gradient : array, shape (d,)
        The anchor of the control variate, and the gradient of the minibatched part of U there, on
        all rows.
    """

    coordinates: Coordinates
    control: bool
    anchor: np.ndarray
    anchor_gradient: np.ndarray


class Estimator:
    """Estimates of U and of its gradient in coordinates z, where q = centre + L z.

    With a control variate (Baker et al., 2019), the gradient is ``g(q) - g(anchor) + G``, where g
    is the estimate from the batch and G the gradient on all rows at the anchor. Its noise grows
    with the distance to the anchor; the noise of ``g(q)`` grows with the number of rows. Both are
    unbiased. Where rows have predictors, ``g(anchor)`` comes from their stored slopes at the
    anchor; otherwise it is computed from the batch.

    Parameters
    ----------
    target : Target
    source : BatchSource
    moves : bool
        Whether there are a centre and an L; else z = q.
    control : bool
        Whether there is a control variate. An input then turns it on and off.
    """

    def __init__(self, target: Target, source: BatchSource, moves: bool, control: bool):
        self.size, self.groups = target.size, target.groups
        self._target, self._source, self.moves = target, source, moves
        self._control = control and bool(target.groups)
        self._keeps = self._control and target.energy.predictors is not None
        self._whole = target.energy.estimator()
        if self._keeps:
            self._less_anchor = target.energy.less_anchor()
        elif self._control:
            self._batched = target.energy.estimator(exact_weight=0.0)
        self._arranged: tuple[list[np.ndarray] | None, dict[str, np.ndarray]] = None, {}

    def numbers(self, of: GradientFrame) -> dict[str, np.ndarray]:
        """Return the inputs of `bind`, by name."""
        numbers = {}
        if self.moves:
            numbers |= {"centre": of.coordinates.centre, "factor": of.coordinates.factor}
        if self._control:
            numbers |= {
                "anchor_gradient": of.anchor_gradient,
                "control": np.float64(of.control),
            }
            numbers |= self._slopes(of) if self._keeps else {"anchor": of.anchor}
        return numbers

    def symbols(self, of: GradientFrame) -> dict[str, TensorVariable]:
        """Return variables for the numbers, of fixed shapes except the number of rows."""
        return {
            name: pt.TensorType(  # pt.tensor takes some names for dtypes
                pytensor.config.floatX,
                shape=(None, *value.shape[1:]) if name in self._arranged[1] else np.shape(value),
            )(name)
            for name, value in self.numbers(of).items()
        }

    def _slopes(self, of: GradientFrame) -> dict[str, np.ndarray]:
        """Return the slopes of all rows at the anchor, as arranged by the source.

        Where the control variate is off, the slopes are zeros or those of an earlier anchor.
        """
        slopes = self._arranged[0]
        if of.control:
            slopes = self._target.row_slopes(of.anchor)
        elif slopes is None or [*map(len, slopes)] != [*self._target.check_lengths()]:
            widths = map(len, self._target.energy.predictors)
            shapes = zip(self._target.check_lengths(), widths, strict=True)
            slopes = [np.zeros(shape, pytensor.config.floatX) for shape in shapes]
        if slopes is not self._arranged[0]:
            names = [f"slopes_{group.name}" for group in self.groups]
            arranged = [self._source.arranged(array, k) for k, array in enumerate(slopes)]
            self._arranged = slopes, dict(zip(names, arranged, strict=True))
        return self._arranged[1]

    def bind(self, numbers: Mapping[str, TensorVariable]) -> Callable:
        """Return ``estimate(z, rows, weights)``: graphs of U and its gradient in z, (d,).

        `rows`: one step's entry from the batch source, for each group; `weights`: N_k / n_k for
        each group.
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
                if self._keeps:
                    slopes = [
                        on * self._source.take(numbers[f"slopes_{group.name}"], row)
                        for group, row in zip(self.groups, rows, strict=True)
                    ]
                    gradient = self._less_anchor(q, slices, weights, slopes)
                else:
                    gradient = gradient - on * self._at_anchor(numbers, slices, weights, on)
                gradient = gradient + on * numbers["anchor_gradient"]
            if self.moves:
                gradient = pull(numbers["factor"], gradient)
            return value, gradient

        return estimate

    def _at_anchor(self, numbers, slices, weights, on):
        """Return the batch's gradient at the anchor; if control is off, one row's, to save work."""
        kept = {}
        for group in self.groups:
            for data in group.data:
                rows = slices[data.slice]
                n = pt.switch(pt.gt(on, 0), rows.shape[data.axis], 1)
                kept[data.slice] = rows[(slice(None),) * data.axis + (slice(0, n),)]
        return self._batched(numbers["anchor"], kept, weights)[1]
