"""Control variates: the gradient of a batch less what its rows say of it near an anchor.

Of first order they say their gradient at the anchor. With the gradient G on all rows there,
``g(q) - g(anchor) + G`` is unbiased (Baker et al., 2019). Of second order they say
``g(anchor) + H (q - anchor)`` with their own second derivatives, and the second derivatives on all
rows stand beside G: where posteriors are nearly normal, hardly any noise is left.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.tensor.variable import TensorVariable
from scipy.sparse import csr_array

from pymc_sgmcmc._utils.coordinates import Coordinates
from pymc_sgmcmc.compile.sparse_dot import sparse_dot
from pymc_sgmcmc.posterior.batch_sources import BatchSource
from pymc_sgmcmc.posterior.row_hessian import LARGEST_DENSE
from pymc_sgmcmc.posterior.target import Target

__all__ = ["Batch", "ControlVariate", "GradientFrame", "control_variate_of"]


class GradientFrame(Protocol):
    """The numbers that an estimate needs, for any method of finding them.

    Attributes
    ----------
    coordinates : Coordinates
        Centre and metric of z.
    order : int
        Of the control variate: 0 without, 1, or 2.
    anchor : array, shape (d,)
        The anchor of the control variate.
    anchor_gradient : array, shape (D,)
        The gradient of the minibatched part of U there, on all rows: see `Target.anchor_gradient`.
    """

    @property
    def coordinates(self) -> Coordinates: ...
    @property
    def order(self) -> int: ...
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
    any_length : frozenset of str
        Names of the numbers that may have another length, along their first axis, at another time.
    """

    any_length: frozenset[str]

    def numbers(self, of: GradientFrame) -> dict[str, np.ndarray]:
        """Return what is known at the anchor, by name, in shapes that stay but for `any_length`."""

    def corrected(
        self, gradient: TensorVariable, batch: Batch, numbers: Mapping, on: TensorVariable
    ) -> TensorVariable:
        """Return g(q) - on * (g(anchor) - G), (d,), where `gradient` is g(q).

        Of second order, g(anchor) stands for ``g(anchor) + (H_rows - H) (q - anchor)``, where H is
        the sum of the H_rows of all rows.

        `numbers`: variables for `numbers`; `on`: 1 or 0, whether the control variate is on.
        """


def control_variate_of(target: Target, source: BatchSource) -> ControlVariate:
    """Return the control variate for a target: by predictors, if its rows have some."""
    kind = AtAnchor if target.near_anchor is None else Expanded
    return kind(target, source)


class AtAnchor:
    """Compute the gradient of the batch a second time, at the anchor."""

    any_length: frozenset[str] = frozenset()

    def __init__(self, target: Target, source: BatchSource):
        self._groups = target.groups
        self._batched = target.energy.estimator(exact_weight=0.0)

    def numbers(self, of):
        return {"anchor": of.anchor, "anchor_gradient": of.anchor_gradient}

    def corrected(self, gradient, batch, numbers, on):
        kept = {}
        for group in self._groups:
            for data in group.data:
                rows = batch.slices[data.slice]
                n = pt.switch(pt.gt(on, 0), rows.shape[data.axis], 1)  # if off, to save work
                kept[data.slice] = rows[(slice(None),) * data.axis + (slice(0, n),)]
        _, at_anchor = self._batched(numbers["anchor"], kept, batch.weights)
        return gradient - on * at_anchor + on * numbers["anchor_gradient"]


class Expanded:
    """Expand the energies of rows at the anchor in their predictors: see `near_anchor`.

    The expansions of all rows are kept; of too many, those of a batch are made at each step.
    """

    def __init__(self, target: Target, source: BatchSource):
        assert target.near_anchor is not None
        self._near, self._source = target.near_anchor, source
        self._size = self._near.size
        self._groups, self._energy = target.groups, target.energy
        self._less = target.energy.less_expansions()
        self._is_kept, self._is_curved = self._near.is_kept, self._near.is_curved
        self._is_dense = self._size <= LARGEST_DENSE
        self._names = [f"expansions_{group.name}" for group in target.groups]
        self._expansions: list[np.ndarray] | None = None
        self._arranged: dict[str, np.ndarray] = {}
        kept = self._names if self._is_kept else []
        sparse = () if self._is_dense else ("hessian_entries", "hessian_columns")
        self.any_length = frozenset([*kept, *sparse])

    def numbers(self, of):
        anchor = self._near.with_coefficients(of.anchor)
        gradient = of.anchor_gradient if of.order else np.zeros(self._size)
        numbers = {"anchor": anchor, "anchor_gradient": gradient}
        numbers["second"] = np.asarray(of.order > 1, float)
        if self._is_kept:
            numbers |= self._kept(of)
        if self._is_curved:
            numbers |= self._hessian(of)
        return numbers

    def _kept(self, of: GradientFrame) -> dict[str, np.ndarray]:
        """Return the expansions of all rows, as arranged by the source.

        Where the control variate is off, they are zeros or those of an earlier anchor.
        """
        lengths, found = self._near.lengths(), self._expansions
        if of.order:
            found = self._near.of_all(of.anchor, of.order)
        elif found is None or [*map(len, found)] != [*lengths]:
            shapes = zip(lengths, self._near.widths, strict=True)
            found = [np.zeros(shape, pytensor.config.floatX) for shape in shapes]
        if found is not self._expansions:
            arranged = [self._source.arranged(array, k) for k, array in enumerate(found)]
            self._expansions = found
            self._arranged = dict(zip(self._names, arranged, strict=True))
        return self._arranged

    def _hessian(self, of: GradientFrame) -> dict[str, np.ndarray]:
        d = self._size
        H = self._near.hessian(of.anchor) if of.order > 1 else None
        if self._is_dense:
            return {"hessian": np.zeros((d, d)) if H is None else H}
        H = csr_array((d, d) if H is None else H)
        names = ("hessian_entries", "hessian_columns", "hessian_starts")
        types = (pytensor.config.floatX, "int32", "int64")
        arrays = zip((H.data, H.indices, H.indptr), types, strict=True)
        return dict(zip(names, (array.astype(dtype) for array, dtype in arrays), strict=True))

    def corrected(self, gradient, batch, numbers, on):
        if self._is_kept:
            rows = zip(self._names, batch.rows, strict=True)
            expansions = [self._source.take(numbers[name], row) for name, row in rows]
        else:
            anchor = numbers["anchor"][: self._energy.size]
            expansions = self._energy.expansions(anchor, batch.slices, numbers["second"])
        expansions = [on * expansion for expansion in expansions]
        of_all = on * numbers["anchor_gradient"]
        if self._is_curved:
            moved = self._energy.with_coefficients(batch.q) - numbers["anchor"]
            of_all = of_all + on * self._product(numbers, moved)
        return self._less(batch.q, batch.slices, batch.weights, expansions, of_all)

    def _product(self, numbers: Mapping, moved: TensorVariable) -> TensorVariable:
        """Return H times `moved`, (d,)."""
        if self._is_dense:
            return numbers["hessian"] @ moved
        names = ("hessian_entries", "hessian_columns", "hessian_starts")
        matrix = [numbers[name] for name in names]
        return sparse_dot(*matrix, pt.arange(self._size), moved[:, None])[:, 0]
