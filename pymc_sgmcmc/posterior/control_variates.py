"""Control variates: the gradient of a batch less that of its rows at an anchor.

With the gradient G on all rows at the anchor, ``g(q) - g(anchor) + G`` is unbiased (Baker et al.,
2019). The ways to find ``g(anchor)`` differ in what they keep of each row.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc._utils.coordinates import Coordinates
from pymc_sgmcmc.posterior.batch_sources import BatchSource
from pymc_sgmcmc.posterior.target import Target

__all__ = ["Batch", "ControlVariate", "GradientFrame", "control_variate_of"]


class GradientFrame(Protocol):
    """The numbers that an estimate needs, for any method of finding them.

    Attributes
    ----------
    coordinates : Coordinates
        Centre and metric of z.
    uses_control_variate : bool
        Whether the control variate is on.
    anchor, anchor_gradient : array, shape (d,)
        The anchor of the control variate, and the gradient of the minibatched part of U there, on
        all rows.
    """

    @property
    def coordinates(self) -> Coordinates: ...
    @property
    def uses_control_variate(self) -> bool: ...
    @property
    def anchor(self) -> np.ndarray: ...
    @property
    def anchor_gradient(self) -> np.ndarray: ...


class Batch(NamedTuple):
    """The graphs of one inner step: q (d,), and what is known of its rows.

    `slices`: replacements for the row data of all groups; `weights`: N_k / n_k for each group;
    `rows`: one step's entry of the batch source's `draw`, for each group.
    """

    q: TensorVariable
    slices: Mapping[Variable, Variable]
    weights: Sequence[TensorVariable]
    rows: Sequence[TensorVariable]


class ControlVariate(Protocol):
    """A way to subtract the gradient of a batch's rows at the anchor.

    Attributes
    ----------
    by_row : frozenset of str
        Names of the numbers that have an entry for each row of data, along their first axis.
    """

    by_row: frozenset[str]

    def numbers(self, of: GradientFrame) -> dict[str, np.ndarray]:
        """Return what is known at the anchor, by name, in shapes that stay but for `by_row`."""

    def less_anchor(
        self, gradient: TensorVariable, batch: Batch, numbers: Mapping, on: TensorVariable
    ) -> TensorVariable:
        """Return g(q) - on * g(anchor), (d,), where `gradient` is g(q).

        `numbers`: variables for `numbers`; `on`: 1 or 0, whether the control variate is on.
        """


def control_variate_of(target: Target, source: BatchSource) -> ControlVariate:
    """Return the control variate for a target: with slopes, where the target keeps them."""
    kind = AtAnchor if target.energy.predictors is None else KeptSlopes
    return kind(target, source)


class AtAnchor:
    """Compute the gradient of the batch a second time, at the anchor."""

    by_row: frozenset[str] = frozenset()

    def __init__(self, target: Target, source: BatchSource):
        self._groups = target.groups
        self._batched = target.energy.estimator(exact_weight=0.0)

    def numbers(self, of):
        return {"anchor": of.anchor}

    def less_anchor(self, gradient, batch, numbers, on):
        kept = {}
        for group in self._groups:
            for data in group.data:
                rows = batch.slices[data.slice]
                n = pt.switch(pt.gt(on, 0), rows.shape[data.axis], 1)  # if off, to save work
                kept[data.slice] = rows[(slice(None),) * data.axis + (slice(0, n),)]
        return gradient - on * self._batched(numbers["anchor"], kept, batch.weights)[1]


class KeptSlopes:
    """Keep the slopes of each row in its predictors at the anchor: see `linear_predictors`."""

    def __init__(self, target: Target, source: BatchSource):
        self._target, self._source = target, source
        self._names = [f"slopes_{group.name}" for group in target.groups]
        self._slopes: list[np.ndarray] | None = None
        self._arranged: dict[str, np.ndarray] = {}
        self._less_anchor = target.energy.less_anchor()
        self.by_row = frozenset(self._names)

    def numbers(self, of):
        """Return the slopes of all rows at the anchor, as arranged by the source.

        Where the control variate is off, they are zeros or those of an earlier anchor.
        """
        slopes = self._slopes
        if of.uses_control_variate:
            slopes = self._target.row_slopes(of.anchor)
        elif slopes is None or [*map(len, slopes)] != [*self._target.check_lengths()]:
            widths = map(len, self._target.energy.predictors or ())
            shapes = zip(self._target.check_lengths(), widths, strict=True)
            slopes = [np.zeros(shape, pytensor.config.floatX) for shape in shapes]
        if slopes is not self._slopes:
            arranged = [self._source.arranged(array, k) for k, array in enumerate(slopes)]
            self._slopes, self._arranged = slopes, dict(zip(self._names, arranged, strict=True))
        return self._arranged

    def less_anchor(self, gradient, batch, numbers, on):
        slopes = [
            on * self._source.take(numbers[name], row)
            for name, row in zip(self._names, batch.rows, strict=True)
        ]
        return self._less_anchor(batch.q, batch.slices, batch.weights, slopes)
