"""Graphs of U: its value, its gradient, and the slopes of rows for a control variate."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.replace import clone_replace
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.compile.evaluate import evaluate
from pymc_sgmcmc.model.log_density import flat_gradient, inside, pulled_back, stabilized
from pymc_sgmcmc.posterior.predictors import Predictors
from pymc_sgmcmc.rows.groups import RowGroup

__all__ = ["EnergyGraph"]


FEW = 16
"""Largest number of entries of a variable in which derivatives may be differences."""


class EnergyGraph:
    """U as a graph of the flat q and of the rows of a batch.

    Parameters
    ----------
    vars : list of value variables
        The variables whose values make up q.
    shapes : list of tuple of int
    exact : list of TensorVariable
        The elementwise log-densities that are not minibatched.
    groups : list of RowGroup
        The minibatched likelihoods.
    predictors : list of Predictors, optional
        Predictors of each group, where all have some and they are wanted.

    Attributes
    ----------
    large : list of TensorVariable
        The variables of many entries, such as effects.
    coefficients : dict
        Functions of q that predictors are affine in, beside q, each with a symbol to stand for it.
    """

    def __init__(
        self,
        vars: Sequence[TensorVariable],
        shapes: Sequence[tuple[int, ...]],
        exact: Sequence[TensorVariable],
        groups: Sequence[RowGroup],
        predictors: Sequence[Predictors] | None = None,
    ):
        self.vars, self.shapes, self.groups, self.predictors = vars, shapes, groups, predictors
        self.exact = exact
        self.sizes = [int(np.prod(shape)) for shape in shapes]
        self.size = sum(self.sizes)
        self.large = [var for var, n in zip(vars, self.sizes, strict=True) if n > FEW]
        found = dict.fromkeys(x for own in predictors or () for x in own.coefficients)
        self.coefficients = {x: x.type() for x in found}
        zero = pt.zeros((), dtype=pytensor.config.floatX)
        self._exact = pt.add(zero, *map(pt.sum, exact))

    def without_exact(self) -> "EnergyGraph":
        """Return the part of U that is minibatched."""
        return EnergyGraph(self.vars, self.shapes, (), self.groups, self.predictors)

    def estimator(self, exact_weight: Any = 1.0) -> Callable:
        """Return ``estimate(q, slices, weights)``: graphs of U and its gradient at `q` (d,).

        `slices`: replacements for the row data of all groups; `weights`: N_k / n_k for each group;
        `exact_weight`: weight of the prior and of the likelihoods that are not minibatched.
        """
        weights, log_density = self._weights(), exact_weight * self._exact
        for group, weight in zip(self.groups, weights, strict=True):
            log_density += weight * pt.add(*map(pt.sum, group.terms), 0.0)
        graphs = [_energy(log_density), self._gradient(log_density)]

        def estimate(q, slices, with_weights):
            return self._at(q, slices | dict(zip(weights, with_weights, strict=True)), graphs)

        return estimate

    def less_expansions(self, exact_weight: Any = 1.0) -> Callable:
        """Return ``estimate(q, slices, weights, expansions)``, where rows have predictors.

        The estimate is the gradient of U at `q`, (d,), less what the `expansions` of the rows of
        the slices say of it: `Predictors.expansion`, (n, width) for each group. Expansions that are
        zero leave the gradient; without curvatures they are gradients at an anchor. A fifth
        argument is a gradient in q and coefficients, (D,), that is added.
        """
        exact = self._gradient(exact_weight * self._exact)
        of_rows, weights, known = self._of_rows_in_coefficients()
        more = pt.vector(dtype=pytensor.config.floatX)

        def estimate(q, slices, with_weights, expansions, plus=None):
            whole = of_rows if plus is None else of_rows + more
            given = dict(zip([*weights, *known], [*with_weights, *expansions], strict=True))
            if plus is not None:
                given[more] = plus
            return self._at(q, slices | given, [exact + self._narrow(whole)])[0]

        return estimate

    def gradient_in_coefficients(self) -> Callable:
        """Return ``estimate(q, slices, weights)``: the gradient of the rows' part of U, (D,).

        In q and in coefficients, as if these were variables of their own.
        """
        of_rows, weights, known = self._of_rows_in_coefficients()

        def estimate(q, slices, with_weights):
            nothing = [pt.zeros((1, own.width)) for own in self.predictors or ()]
            given = zip([*weights, *known], [*with_weights, *nothing], strict=True)
            return self._at(q, slices | dict(given), [of_rows])[0]

        return estimate

    def _of_rows_in_coefficients(self) -> tuple[TensorVariable, list, list]:
        """Return the gradient of rows less their expansions, (D,), and its symbols for both."""
        assert self.predictors is not None
        weights, graphs = self._weights(), []
        known = [pt.matrix(dtype=pytensor.config.floatX) for _ in self.groups]
        for own, weight, expansion in zip(self.predictors, weights, known, strict=True):
            columns = [expansion[:, j] for j in range(own.width)]
            near = zip(own.slopes, own.slopes_near(columns, own.values), strict=True)
            slopes = [weight * (slope - other) for slope, other in near]
            graphs.append(own.pull(slopes, self.coefficients, self.vars))
        return pt.add(pt.zeros(()), *graphs), weights, known

    def _narrow(self, gradient: TensorVariable) -> TensorVariable:
        """Return the gradient in q, (d,), of a function with this `gradient` in coefficients too.

        `gradient`: (D,), in q and in coefficients.
        """
        if not self.coefficients:
            return gradient
        known, start = {}, self.size
        for x in self.coefficients:
            known[x] = gradient[start : start + x.size].reshape(x.shape).astype(x.dtype)
            start = start + x.size
        return gradient[: self.size] + pulled_back(known, self.vars)

    def with_coefficients(self, q: TensorVariable) -> TensorVariable:
        """Return q and its coefficients, (D,)."""
        found = self._at(q, {}, list(self.coefficients)) if self.coefficients else []
        return pt.concatenate([q, *(x.ravel().astype(q.dtype) for x in found)])

    def row_derivatives(self, q: TensorVariable, slices: Mapping) -> list[TensorVariable]:
        """Return values, slopes and curvatures of the predictors of sliced rows, by group.

        As columns, (n, P + width).
        """
        return self._of_rows(q, slices, lambda own: [*own.values, *own.slopes, *own.curvatures])

    def expansions(self, q: TensorVariable, slices: Mapping, second: Any) -> list[TensorVariable]:
        """Return the expansions of sliced rows at `q`, (n, width) for each group.

        `second`: 1, or 0 for expansions of first order, whose curvatures are zero.
        """

        def made(own: Predictors) -> list[TensorVariable]:
            # Not a product: a curvature that is not finite times 0 is not 0.
            curvatures = [pt.switch(pt.gt(second, 0), x, pt.zeros_like(x)) for x in own.curvatures]
            return own.expansion(own.values, own.slopes, curvatures)

        return self._of_rows(q, slices, made)

    def over_kinks(self, q: TensorVariable, slices: Mapping, k: int) -> list[TensorVariable]:
        """Return slope and curvature of sliced rows of group `k` for each `Predictors.reaches`."""
        assert self.predictors is not None
        reaches = self.predictors[k].reaches
        return self._at(q, slices, [x for own in reaches for x in (own.slope, own.curvature)])

    def _of_rows(self, q, slices, columns: Callable) -> list[TensorVariable]:
        assert self.predictors is not None
        graphs = [pt.stack(columns(own), axis=1) for own in self.predictors]
        return self._at(q, slices, [graph.astype(pytensor.config.floatX) for graph in graphs])

    def at_parts(self, slices: Mapping, graphs: Sequence[TensorVariable]) -> list[TensorVariable]:
        """Return graphs of `vars`, as they are, and of the slices."""
        return clone_replace(list(graphs), slices, rebuild_strict=False)

    def coordinates(self) -> dict[TensorVariable, np.ndarray]:
        """Return the indices in q of the entries of each of `vars`."""
        parts = np.split(np.arange(self.size), np.cumsum(self.sizes)[:-1])
        return dict(zip(self.vars, parts, strict=True))

    def coefficients_at(self, q: np.ndarray) -> list[np.ndarray]:
        """Return the values of the coefficients at `q` (d,)."""
        return evaluate([*self.coefficients], self.values_at(q)) if self.coefficients else []

    def at(self, q: TensorVariable, graphs: Sequence[TensorVariable]) -> list[TensorVariable]:
        """Return graphs of `vars` at `q` (d,)."""
        return self._at(q, {}, list(graphs))

    def values_at(self, q: np.ndarray) -> dict[TensorVariable, np.ndarray]:
        """Return the values of `vars` at `q` (d,)."""
        parts = np.split(q, np.cumsum(self.sizes)[:-1])
        shaped = zip(self.vars, parts, self.shapes, strict=True)
        return {var: part.reshape(shape).astype(var.dtype) for var, part, shape in shaped}

    def _weights(self) -> list[TensorVariable]:
        dtype = pytensor.config.floatX
        return [pt.scalar(f"weight_{group.name}", dtype=dtype) for group in self.groups]

    def _gradient(self, log_density: TensorVariable) -> TensorVariable:
        return flat_gradient(_energy(inside(log_density)), self.vars)

    def _at(self, q, given: Mapping, graphs: list[TensorVariable]) -> list[TensorVariable]:
        """Return the graphs at `q` (d,), with the replacements in `given`."""
        values = {**dict(zip(self.vars, self._split(q), strict=True)), **given}
        return clone_replace(graphs, values, rebuild_strict=False)

    def _split(self, q: TensorVariable) -> list[TensorVariable]:
        parts, start = [], 0
        for var, shape, size in zip(self.vars, self.shapes, self.sizes, strict=True):
            stop = start + size
            parts.append(var.type.filter_variable(q[start:stop].reshape(shape).astype(var.dtype)))
            start = stop
        return parts


def _energy(log_density: TensorVariable) -> TensorVariable:
    # Stabilise before differentiating: log(1 - sigmoid(x)) has a gradient of NaN where the sigmoid
    # is 1; its rewritten form -softplus(x) has a finite one.
    return stabilized(-log_density.astype(pytensor.config.floatX))
