"""Expansions of rows, and of U as their sum, near an anchor, where rows have predictors.

The slope of a row's energy in its predictors x is about b + W x near the anchor: see
`Predictors.expansion`. Sums over all rows are the gradient and the second derivatives there.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import permutations
from typing import TypeAlias

import numpy as np
from scipy.sparse import csr_array

from pymc_sgmcmc.posterior.coefficients import CoefficientDerivatives
from pymc_sgmcmc.posterior.effects import Effects, uninformed
from pymc_sgmcmc.posterior.energy_graph import EnergyGraph
from pymc_sgmcmc.posterior.evaluation import Evaluation
from pymc_sgmcmc.posterior.row_hessian import Hessian, RowHessian

__all__ = ["NearAnchor"]

Parts: TypeAlias = Iterator[tuple[int, np.ndarray, np.ndarray]]
"""The number of a group, some of its rows, and numbers of each of these, (n, ...)."""

KEPT = 5 * 2**20
"""Largest number of numbers of rows that are kept, for any number of rows: 40 MB, and as much again
where rows are drawn in blocks. A normal regression has five a row."""


COMPARED, CLOSE = 100, 1e-4
"""Number of rows whose slopes are compared, and relative difference of those that are equal."""


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
    effects : list of Effects
        The effects that have coordinates of their own.

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
        effects: Sequence[Effects] = (),
    ):
        assert energy.predictors is not None
        self._energy, self._evaluation, self.lengths = energy, evaluation, lengths
        self._predictors, self._effects = energy.predictors, effects
        widths = [own.width for own in energy.predictors]
        self.is_kept = int(np.dot(lengths(), widths)) <= KEPT
        self.forget()

    def forget(self) -> None:
        """Forget what was computed of data that have changed."""
        self._gradient: tuple[np.ndarray, np.ndarray] | None = None
        self._derivatives: tuple[np.ndarray, list[np.ndarray]] | None = None
        self._expansions: tuple[np.ndarray, int, list[np.ndarray]] | None = None
        self._hessian: tuple[np.ndarray, Hessian] | None = None
        self._whole: tuple[np.ndarray, np.ndarray] | None = None

    @cached_property
    def size(self) -> int:
        """D: the number of coordinates of q and of coefficients."""
        found = self._energy.coefficients_at(np.zeros(self._energy.size))
        return self._energy.size + sum(map(np.size, found))

    def with_coefficients(self, q: np.ndarray) -> np.ndarray:
        """Return `q` and its coefficients, (D,); the same array, until `q` is another."""
        if self._whole is None or not np.array_equal(self._whole[0], q):
            found = map(np.ravel, self._energy.coefficients_at(q))
            self._whole = np.array(q), np.concatenate([q, *found])
        return self._whole[1]

    @property
    def widths(self) -> list[int]:
        """Numbers in the expansion of a row of each group."""
        return [own.width for own in self._predictors]

    def gradient(self, q: np.ndarray) -> np.ndarray:
        """Return the gradient at `q` (d,) of the minibatched part of U, on all rows, (D,).

        In q and in coefficients.
        """
        if self._gradient is None or not np.array_equal(self._gradient[0], q):
            self._pass(q, curved=False)
        assert self._gradient is not None  # the line before has made it
        return self._gradient[1]

    def _pass(self, q: np.ndarray, *, curved: bool) -> None:
        """Go through all rows once, for the gradient at `q` and, if `curved`, the Hessian."""
        gradient = np.zeros(self.size)
        kept: list[list[np.ndarray]] = [[] for _ in self._predictors]

        def parts() -> Parts:
            for k, rows, found in self._walk(q, gradient):
                if self.is_kept:
                    kept[k].append(found)
                yield k, rows, found[:, 2 * len(self._predictors[k]) :]

        if curved:
            self._hessian = np.array(q), self._by_rows.of(q, parts())
        else:
            deque(parts(), maxlen=0)
        self._gradient = np.array(q), gradient
        if self.is_kept:
            self._derivatives = np.array(q), [np.concatenate(found) for found in kept]

    def of_rows(self, q: np.ndarray, k: int, rows: np.ndarray, order: int) -> np.ndarray:
        """Return the expansions at `q` of rows of group k, (n, width); of order 1, W is zero."""
        return self._expansion(k, self.derivatives(q, k, rows), order)

    def derivatives(self, q: np.ndarray, k: int, rows: np.ndarray) -> np.ndarray:
        """Return values, slopes and curvatures of the predictors of rows of group k, as columns."""
        return self._evaluation().row_derivatives(q, k, rows)

    def of_all(self, q: np.ndarray, order: int) -> list[np.ndarray]:
        """Return the expansions at `q` of all rows, (N, width) for each group, if kept.

        The same list, until `q`, the order or the data are others.
        """
        known = self._expansions
        if known is None or known[1] != order or not np.array_equal(known[0], q):
            if self._derivatives is None or not np.array_equal(self._derivatives[0], q):
                self._pass(q, curved=False)
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
        """Return the second derivatives at `q` of the minibatched part of U, where it `is_curved`.

        On all rows. The same object, until `q` or the data are others.
        """
        if self._hessian is None or not np.array_equal(self._hessian[0], q):
            self._pass(q, curved=True)
        assert self._hessian is not None  # the line before has made it
        return self._hessian[1]

    def expand(self, q: np.ndarray) -> tuple[np.ndarray, Hessian]:
        """Return gradient and Gauss-Newton Hessian at `q` of the minibatched part of U, in q.

        Where predictors are multiplied, the Hessian leaves out what comes from the product and not
        from the likelihood: it is about zero on average, and makes a sum of few rows negative.
        """
        gradient = np.zeros(self.size)

        curvatures = (
            (k, rows, self._predictors[k].gauss_newton(found, self.products[k]))
            for k, rows, found in self._walk(q, gradient)
        )
        H = self._by_rows.of(q, curvatures)
        if not self._energy.coefficients:
            return gradient, H
        J = self.coefficients.at(q)
        return J.T @ gradient, J.T @ csr_array(H) @ J

    @cached_property
    def coefficients(self) -> CoefficientDerivatives:
        """The derivatives of q and its coefficients in q."""
        return CoefficientDerivatives(self._energy)

    def _walk(self, q: np.ndarray, gradient: np.ndarray) -> Parts:
        """Go through all rows: yield group, rows and their derivatives, and add to `gradient`."""
        for k, rows, more, found in self._evaluation().by_rows(q, self.lengths()):
            np.add(gradient, more, out=gradient)
            yield k, rows, found

    @cached_property
    def products(self) -> list[list[tuple[int, int]]]:
        """Pairs (i, j) of predictors of each group: a logarithm of a scale, and what it multiplies.

        Rows see them as exp(x_i) x_j alone where nothing is known of effects. They are found by
        slopes at random: that in x_i is x_j times that in x_j.
        """
        with uninformed(self._effects):
            return self._find_products()

    def _find_products(self) -> list[list[tuple[int, int]]]:
        rng, found = np.random.default_rng(0), []
        for k, (own, n) in enumerate(zip(self._predictors, self.lengths(), strict=True)):
            derivatives = self.derivatives(
                rng.normal(size=self._energy.size), k, rng.integers(n, size=COMPARED)
            )
            values, slopes, _ = np.split(derivatives, [len(own), 2 * len(own)], axis=1)
            found.append([
                (i, j)
                for i, j in permutations(range(len(own)), 2)
                if slopes[:, i].any()
                and np.allclose(slopes[:, i], values[:, j] * slopes[:, j], rtol=CLOSE, atol=0)
            ])  # fmt: skip
        return found

    def is_finite(self, q: np.ndarray) -> bool:
        """Return whether all of `hessian` is finite at `q`."""
        return bool(np.isfinite(csr_array(self.hessian(q)).data).all())

    @cached_property
    def _by_rows(self) -> RowHessian:
        return RowHessian(self._energy)
