"""Estimates of U and its gradient for the kernel: from one batch, in the sampler's coordinates."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc._utils.metric import Metric
from pymc_sgmcmc._utils.types import Number
from pymc_sgmcmc.posterior.batch_sources import BatchSource
from pymc_sgmcmc.posterior.control_variates import Batch, GradientFrame, control_variate_of
from pymc_sgmcmc.posterior.target import Target

__all__ = ["Estimate", "Estimator", "symbols_of"]

INDICES = ("int32", "int64")

Estimate: TypeAlias = Callable[
    [TensorVariable, Sequence[TensorVariable], Sequence[TensorVariable]],
    tuple[TensorVariable, TensorVariable],
]
"""A function of z, rows and weights that returns graphs of U and its gradient in z."""


class Estimator:
    """Estimates of U and of its gradient in coordinates z, where q = centre + L z.

    With a control variate, the gradient is ``g(q) - g(anchor) + G``, where g is the estimate from
    the batch and G the gradient on all rows at the anchor. Its noise grows with the distance to the
    anchor; the noise of ``g(q)`` grows with the number of rows. Both are unbiased.

    Parameters
    ----------
    target : Target
    source : BatchSource
    metric : Metric or None
        One like those of `bind`'s numbers; None: there are no centre and no L, and z = q.
    control : bool
        Whether there is a control variate. An input then turns it on and off.
    """

    def __init__(
        self, target: Target, source: BatchSource, metric: Metric | None, *, control: bool
    ):
        self.size, self.groups, self.metric = target.size, target.groups, metric
        self._source, self._whole = source, target.energy.estimator()
        self._variate = control_variate_of(target, source) if control and target.groups else None

    def numbers(self, of: GradientFrame) -> dict[str, np.ndarray]:
        """Return the inputs of `bind`, by name, in the types of compiled code."""
        numbers: dict[str, np.ndarray] = {}
        if self.metric is not None:
            numbers |= {"centre": of.coordinates.centre}
            numbers |= _in_numbers(of.coordinates.metric)
        if self._variate is not None:
            numbers |= {"control": np.asarray(of.order > 0, float)} | self._variate.numbers(of)
        return {name: _working(value) for name, value in numbers.items()}

    def symbols(self, of: GradientFrame) -> dict[str, TensorVariable]:
        """Return variables for the numbers, of fixed shapes except some lengths."""
        any_length = set() if self._variate is None else set(self._variate.any_length)
        if self.metric is not None:
            any_length |= {_input_of(name) for name in self.metric.any_length}
        return {
            name: pt.TensorType(  # pt.tensor takes some names for dtypes
                value.dtype,
                shape=(None, *value.shape[1:]) if name in any_length else value.shape,
            )(name)
            for name, value in self.numbers(of).items()
        }

    def bind(self, numbers: Mapping[str, TensorVariable]) -> Estimate:
        """Return ``estimate(z, rows, weights)``: graphs of U and its gradient in z, (d,).

        `rows`: one step of what the batch source gives, for all groups one after the other;
        `weights`: N_k / n_k for each group.
        """
        metric = self.metric
        if metric is not None:
            named = zip(metric.arrays(), _in_numbers(metric), strict=True)
            metric = replace(metric, **{field: numbers[name] for field, name in named})

        def estimate(z, rows, weights):
            q = z if metric is None else numbers["centre"] + metric.times(z)
            batches = self._by_group(rows)
            slices: dict[Variable, Variable] = {}
            for group, batch in zip(self.groups, batches, strict=True):
                slices |= self._source.slices(group, batch)
            value, gradient = self._whole(q, slices, weights)
            if self._variate is not None:
                on, entries = numbers["control"], [one[0] for one in batches]
                batch = Batch(q, slices, weights, entries)
                gradient = self._variate.corrected(gradient, batch, numbers, on)
            if metric is not None:
                gradient = metric.pull(gradient)
            return value, gradient

        return estimate

    def _by_group(self, rows: Sequence[TensorVariable]) -> list[Sequence[TensorVariable]]:
        """Return the batch of each group, of all that follow one another in `rows`."""
        ends = np.cumsum([len(group.inputs()) for group in self.groups]).tolist()
        return [rows[start:end] for start, end in pairwise([0, *ends])]


def symbols_of(values: Mapping[str, Number]) -> dict[str, TensorVariable]:
    """Return variables of the names and shapes of `values`, in the working precision."""
    return {
        name: pt.TensorType(pytensor.config.floatX, shape=np.shape(value))(name)
        for name, value in values.items()
    }


def _working(value: Number) -> np.ndarray:
    """Return indices as they are, and other numbers in the working precision."""
    value = np.asarray(value)
    return value if value.dtype in INDICES else value.astype(pytensor.config.floatX, copy=False)


def _in_numbers(metric: Metric) -> dict[str, np.ndarray]:
    """Return the arrays of a metric under the names of inputs of compiled code."""
    return {_input_of(name): array for name, array in metric.arrays().items()}


def _input_of(name: str) -> str:
    """Return the name of the input for an array of the metric."""
    return f"metric_{name}"
