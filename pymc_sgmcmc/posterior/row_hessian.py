"""Second derivatives of the minibatched part of U, on all rows, where rows have predictors.

With A_j the derivative of predictor j in q, row by row, and W_jk the curvatures of the rows, they
are the sum of A_j' diag(W_jk) A_k over all pairs of predictors. Between the many effects of a
hierarchy most of them are zero, and only the others are stored.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations_with_replacement
from typing import TypeAlias

import numpy as np
from pytensor.tensor.variable import TensorVariable
from scipy.sparse import block_array, csr_array, diags_array

from pymc_sgmcmc.posterior.affine_maps import Block, jacobians
from pymc_sgmcmc.posterior.energy_graph import EnergyGraph

__all__ = ["LARGEST_DENSE", "Hessian", "HessianSums", "RowHessian"]

Hessian: TypeAlias = np.ndarray | csr_array
"""A symmetric matrix (d, d)."""

LARGEST_DENSE = 200
"""Largest d of a Hessian that is an array: a product with it takes less than many sparse ones."""

Pair: TypeAlias = tuple[TensorVariable, TensorVariable]


class HessianSums:
    """Sums of A_j' diag(W_jk) A_k over pairs of predictors, by the variables of the A.

    Parameters
    ----------
    vars : list of TensorVariable
        The variables that make up q.
    sizes : list of int
        Their numbers of entries.
    """

    def __init__(self, vars: Sequence[TensorVariable], sizes: Sequence[int]):
        self._vars, self._sizes = vars, sizes
        self._blocks: dict[Pair, Block] = {}

    def add(
        self,
        jacobians: Sequence[Mapping[TensorVariable, Block]],
        pairs: Iterable[tuple[int, int]],
        curvatures: Iterable[np.ndarray],
    ) -> None:
        """Add the products of some rows: of the derivatives of their predictors in each variable.

        `curvatures`: W_jk of the rows, for each of the `pairs` (j, k).
        """
        blocks = self._blocks
        for (i, j), curvature in zip(pairs, curvatures, strict=True):
            for pair, block in _products(jacobians[i], jacobians[j], curvature, same=i == j):
                blocks[pair] = blocks[pair] + block if pair in blocks else block

    def whole(self) -> Hessian:
        """Return the sum as a matrix (d, d): an array up to `LARGEST_DENSE`, then sparse."""
        vars, sizes = self._vars, self._sizes
        if sum(sizes) <= LARGEST_DENSE:
            whole, ends = np.zeros((sum(sizes),) * 2), np.cumsum(sizes)
            at = {var: slice(end - n, end) for var, end, n in zip(vars, ends, sizes, strict=True)}
            for (u, v), block in self._blocks.items():
                whole[at[u], at[v]] = block if isinstance(block, np.ndarray) else block.toarray()
            return whole
        nothing = {(v, v): csr_array((n, n)) for v, n in zip(vars, sizes, strict=True)}
        blocks = nothing | {pair: csr_array(block) for pair, block in self._blocks.items()}
        found = block_array([[blocks.get((u, v)) for v in vars] for u in vars], format="csr")
        found.sum_duplicates()
        return found


class RowHessian:
    """Sums of second derivatives over rows, for the predictors of an energy.

    Parameters
    ----------
    energy : EnergyGraph
    """

    def __init__(self, energy: EnergyGraph):
        assert energy.predictors is not None
        self._energy, self._inputs = energy, [group.inputs() for group in energy.groups]
        self._vars = [*energy.vars, *energy.coefficients.values()]
        self._values = [
            energy.at_parts({**group.slices(inputs), **energy.coefficients}, own.values)
            for group, inputs, own in zip(
                energy.groups, self._inputs, energy.predictors, strict=True
            )
        ]

    def of(self, q: np.ndarray, parts: Iterable[tuple[int, np.ndarray, np.ndarray]]) -> Hessian:
        """Return the sum over `parts`: the number of a group, rows, and their curvatures.

        Raises
        ------
        NotImplementedError
            If the derivative of a predictor has an operation that is not known.
        """
        assert self._energy.predictors is not None
        coefficients = self._energy.coefficients_at(q)
        sums = HessianSums(self._vars, [*self._energy.sizes, *map(np.size, coefficients)])
        for k, rows, curvatures in parts:
            pairs = self._energy.predictors[k].pairs
            sums.add(self.jacobians(q, k, rows), pairs, curvatures.T)
        return sums.whole()

    def jacobians(
        self, q: np.ndarray, k: int, rows: np.ndarray
    ) -> list[dict[TensorVariable, Block]]:
        """Return the derivative of each predictor of rows of group k in each variable."""
        group = self._energy.groups[k]
        symbols = self._energy.coefficients.values()
        given = (
            self._energy.values_at(q)
            | dict(zip(self._inputs[k], group.batch(rows), strict=True))
            | dict(zip(symbols, self._energy.coefficients_at(q), strict=True))
        )
        return jacobians(self._values[k], self._vars, given)


def _products(
    left: Mapping[TensorVariable, Block],
    right: Mapping[TensorVariable, Block],
    weights: np.ndarray,
    *,
    same: bool,
) -> Iterable[tuple[Pair, Block]]:
    """Yield A' diag(`weights`) B and its transpose, by the variables that A and B belong to.

    `same`: whether both predictors are one.
    """
    pairs: Sequence[Pair] = [(u, v) for u in left for v in right]
    if same:
        pairs = [*combinations_with_replacement(left, 2)]
    for u, v in pairs:
        b = right[v]
        scaled = weights[:, None] * b if isinstance(b, np.ndarray) else diags_array(weights) @ b
        block = left[u].T @ scaled
        yield (u, v), block
        if u is not v or not same:
            yield (v, u), block.T
