"""Expansions of rows, and of U as their sum, near an anchor, where rows have predictors.

The slope of a row's energy in its predictors x is about b + W x near the anchor: see
`Predictors.expansion`. Sums over all rows are the gradient and the second derivatives there.
"""

from collections.abc import Callable
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from pymc_sgmcmc.posterior.energy_graph import EnergyGraph
from pymc_sgmcmc.posterior.evaluation import Evaluation
from pymc_sgmcmc.posterior.row_hessian import Hessian, RowHessian

__all__ = ["NearAnchor"]

KEPT = 5 * 2**20
"""Largest number of numbers of rows that are kept, for any number of rows: 40 MB, and as much again
where rows are drawn in blocks. A normal regression has five a row."""


class NearAnchor:
    """Expansions of all rows at an anchor, and the sums over them, for the last anchor asked for.

    Parameters
    ----------
    energy : EnergyGraph
        Its rows have predictors.
    evaluation : function
        Returns the compiled functions of `energy`.
    lengths : function
        Returns the number of rows of each group.

    Attributes
    ----------
    is_kept : bool
        Whether the expansions of all rows are kept; else they are made for each batch.
    """

    def __init__(
        self,
        energy: EnergyGraph,
        evaluation: Callable[[], Evaluation],
        lengths: Callable[[], np.ndarray],
    ):
        assert energy.predictors is not None
        self._energy, self._evaluation, self.lengths = energy, evaluation, lengths
        self._predictors = energy.predictors
        widths = [own.width for own in energy.predictors]
        self.is_kept = int(np.dot(lengths(), widths)) <= KEPT
        self.forget()

    def forget(self) -> None:
        """Forget what was computed of data that have changed."""
        self._derivatives: tuple[np.ndarray, list[np.ndarray]] | None = None
        self._expansions: tuple[np.ndarray, int, list[np.ndarray]] | None = None
        self._hessian: tuple[np.ndarray, Hessian] | None = None

    @property
    def widths(self) -> list[int]:
        """Numbers in the expansion of a row of each group."""
        return [own.width for own in self._predictors]

    def gradient(self, q: np.ndarray) -> np.ndarray:
        """Return the gradient at `q` (d,) of the minibatched part of U, on all rows."""
        gradient = np.zeros(self._energy.size)
        kept: list[list[np.ndarray]] = [[] for _ in self._predictors]
        for k, _, more, derivatives in self._evaluation().by_rows(q, self.lengths()):
            gradient += more
            if self.is_kept:
                kept[k].append(derivatives)
        if self.is_kept:
            self._derivatives = np.array(q), [np.concatenate(parts) for parts in kept]
        return gradient

    def of_rows(self, q: np.ndarray, k: int, rows: np.ndarray, order: int) -> np.ndarray:
        """Return the expansions at `q` of rows of group k, (n, width); of order 1, W is zero."""
        return self._expansion(k, self._evaluation().row_derivatives(q, k, rows), order)

    def of_all(self, q: np.ndarray, order: int) -> list[np.ndarray]:
        """Return the expansions at `q` of all rows, (N, width) for each group, if kept.

        The same list, until `q`, the order or the data are others.
        """
        known = self._expansions
        if known is None or known[1] != order or not np.array_equal(known[0], q):
            if self._derivatives is None or not np.array_equal(self._derivatives[0], q):
                self.gradient(q)
            assert self._derivatives is not None  # the line before has made them
            parts = enumerate(self._derivatives[1])
            known = np.array(q), order, [self._expansion(k, found, order) for k, found in parts]
            self._expansions, self._derivatives = known, None  # one of the two is enough
        return known[2]

    def _expansion(self, k: int, derivatives: np.ndarray, order: int) -> np.ndarray:
        own, columns = self._predictors[k], [*derivatives.T]
        n = len(own)
        values, slopes, curvatures = columns[:n], columns[n : 2 * n], columns[2 * n :]
        if order < 2:
            curvatures = [np.zeros_like(column) for column in curvatures]
        return np.stack(own.expansion(values, slopes, curvatures), axis=1)

    @cached_property
    def is_curved(self) -> bool:
        """Whether `hessian` is known: rows have curvatures, and derivatives in q are found."""
        if not all(own.curvatures for own in self._predictors):
            return False
        try:
            for k in range(len(self._predictors)):
                self._by_rows.jacobians(np.zeros(self._energy.size), k, np.zeros(1, np.int64))
        except NotImplementedError:
            return False
        return True

    def hessian(self, q: np.ndarray) -> Hessian:
        """Return the second derivatives at `q` of the minibatched part of U, on all rows.

        The same object, until `q` or the data are others.
        """
        if self._hessian is None or not np.array_equal(self._hessian[0], q):
            parts = self._evaluation().by_rows(q, self.lengths())
            curvatures = (
                (k, rows, found[:, 2 * len(self._predictors[k]) :]) for k, rows, _, found in parts
            )
            self._hessian = np.array(q), self._by_rows.of(q, curvatures)
        return self._hessian[1]

    def is_finite(self, q: np.ndarray) -> bool:
        """Return whether all of `hessian` is finite at `q`."""
        return bool(np.isfinite(csr_array(self.hessian(q)).data).all())

    @cached_property
    def _by_rows(self) -> RowHessian:
        return RowHessian(self._energy)
