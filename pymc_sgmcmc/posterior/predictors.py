"""Predictors: affine functions of coefficients that determine the likelihood of a row.

The predictors of a linear regression are X @ beta and the logarithm of the scale. Coefficients are
entries of q, or functions of q without rows, such as the products of scales and standardized
coefficients of a sparse regression or of a Gaussian process by basis functions. A control variate
then needs only the slopes of each row's likelihood in the predictors at its anchor. These slopes
can be kept, and one product with X maps a difference of slopes to a gradient in q.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any, TypeAlias

import numpy as np
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.model.log_density import pulled_back

__all__ = ["Predictors", "Reach"]

Columns: TypeAlias = Sequence[Any]
"""Arrays or graphs, each with one number for each row."""


@dataclass(frozen=True, eq=False)
class Reach:
    """How far slopes are compared in a quantity of each row, to each side of its value.

    Attributes
    ----------
    distance : SharedVariable
    value : TensorVariable
        The quantity itself.
    slope : TensorVariable
        The slope in that quantity, (n,).
    curvature : TensorVariable
        The change of the slope from one side to the other, by the distance between them, (n,).
    """

    distance: SharedVariable
    value: TensorVariable
    slope: TensorVariable
    curvature: TensorVariable


@dataclass(frozen=True, eq=False)
class Predictors:
    """The P predictors of a group of rows, and the derivatives of the rows' energies u in them.

    u is minus the log-likelihood of a row as a function of its predictors. All graphs are functions
    of q and of the slices, with n numbers.

    Attributes
    ----------
    values : list of TensorVariable
        The predictors, affine in q and in `coefficients`.
    coefficients : list of TensorVariable
        Functions of q without rows that occur in `values`.
    slopes : list of TensorVariable
        The derivatives of u.
    curvatures : list of TensorVariable
        The second derivatives of u, in the order of `pairs`; none where PyTensor has none, or where
        they are not wanted.
    reaches : list of Reach
        What takes the place of second derivatives over kinks; empty where nothing does.
    """

    values: Sequence[TensorVariable]
    slopes: Sequence[TensorVariable]
    curvatures: Sequence[TensorVariable]
    coefficients: Sequence[TensorVariable] = ()
    reaches: Sequence[Reach] = ()

    def __len__(self) -> int:
        return len(self.values)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Pairs (j, k) of predictors with j <= k."""
        return [*combinations_with_replacement(range(len(self)), 2)]

    @property
    def width(self) -> int:
        """Numbers in the expansion of one row: see `expansion`."""
        return len(self) + len(self.curvatures)

    def expansion(self, values: Columns, slopes: Columns, curvatures: Columns) -> list[Any]:
        """Return b and W, `width` columns, where b + W x is the slope near the `values` of x.

        With the derivatives there. Columns are arrays or graphs of one number for each row.
        """
        moved = self.turn(curvatures, values)
        return [s - m for s, m in zip(slopes, moved, strict=True)] + [*curvatures]

    def slopes_near(self, expansion: Columns, values: Columns) -> list[Any]:
        """Return b + W x, P columns, for an `expansion` at `values` of x."""
        moved = self.turn(expansion[len(self) :], values)
        return [b + m for b, m in zip(expansion, moved, strict=False)]

    def turn(self, curvatures: Columns, x: Columns) -> list[Any]:
        """Return W x, P columns; zeros where there are no curvatures."""
        products: list[Any] = [0.0] * len(self)
        for curvature, (j, k) in zip(curvatures, self.pairs, strict=False):
            products[j] = products[j] + curvature * x[k]
            if j != k:
                products[k] = products[k] + curvature * x[j]
        return products

    def gauss_newton(
        self, derivatives: np.ndarray, products: Sequence[tuple[int, int]]
    ) -> np.ndarray:
        """Return the curvatures of rows, (n, len(pairs)), about as a positive matrix has them.

        `derivatives`: values, slopes and curvatures, as columns. `products`: pairs (i, j) such that
        u depends on both through one number t alone, affine in x_j. Of its curvatures,
        u'' (dt/dx_i)^2 and u'' dt/dx_i dt/dx_j stay, and u' d^2t/dx_i^2 and u' d^2t/dx_i dx_j go.
        Of all others, W_jk is at most the root of W_jj W_kk, and these are at least zero.
        """
        _, slopes, curvatures = np.split(derivatives, [len(self), 2 * len(self)], axis=1)
        W = dict(zip(self.pairs, curvatures.T.copy(), strict=True))
        for i, j in products:
            known = slopes[:, j] != 0  # elsewhere u' is zero, and nothing has to go
            ratio = np.divide(slopes[:, i], slopes[:, j], out=np.zeros(len(known)), where=known)
            W[i, i] = np.where(known, ratio**2 * W[j, j], W[i, i])
            pair = min(i, j), max(i, j)
            W[pair] = np.where(known, ratio * W[j, j], W[pair])
        roots = [np.sqrt(np.maximum(W[j, j], 0)) for j in range(len(self))]
        for j, k in self.pairs:
            most = roots[j] * roots[k]
            W[j, k] = most if j == k else np.clip(W[j, k], -most, most)
        return np.stack([*W.values()], axis=1)

    def pull(
        self,
        slopes: Sequence[TensorVariable],
        coefficients: Mapping[Variable, TensorVariable],
        vars: Sequence[TensorVariable],
    ) -> TensorVariable:
        """Return the gradient, (D,), of a function with `slopes` in the predictors, (n,).

        In `vars`, and in the `coefficients` as if these were variables of their own: they map to
        symbols that stand for them.
        """
        values = clone_replace(list(self.values), coefficients, rebuild_strict=False)
        pairs = zip(values, slopes, strict=True)
        slopes_of = {value: slope.astype(value.dtype) for value, slope in pairs}
        free = pulled_back(slopes_of, [*vars, *coefficients.values()])
        (found,) = clone_replace([free], {own: x for x, own in coefficients.items()})
        return found
