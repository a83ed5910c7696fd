"""A metric whose inverse is sparse: that of many effects, each tied to few other variables.

With a factor R of the inverse, R R' = G^-1 in some order of the coordinates, L = R'^-1 is the
solution of a triangular system. It takes as many operations as R has entries.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array, diags_array, eye_array
from scipy.sparse.linalg import SuperLU, splu

from pymc_sgmcmc._utils.metric import Metric
from pymc_sgmcmc._utils.types import Array, Matrix, Operand, Vector
from pymc_sgmcmc.compile.triangular_solve import lower_solve, transposed_solve

__all__ = ["SparseFactor", "factor_of_sparse", "unit_factor"]

PROBES = 64
"""Number of random vectors from which `scales` are estimated: to 9 %."""

FILLED = 1
"""Entries of a factor, by those of H, from which another order is tried: half were there before."""

SMALLEST, LARGEST = 1e-6, 1e6
"""Additions to the diagonal of a matrix that is not positive, relative to the diagonal."""


@final
@dataclass(frozen=True, eq=False)
class SparseFactor(Metric):
    """A metric of d coordinates with a sparse factor R of its inverse: R R' = G^-1 in an order.

    Attributes
    ----------
    entries, columns, starts : array
        R, lower triangular, as `data`, `indices` (int32) and `indptr` (int64) of SciPy's CSR, of
        which each row ends with its diagonal.
    order : int64 array, shape (d,)
        The coordinate in each row of R.
    rows : int64 array, shape (d,)
        The row of each coordinate.
    lengths : array, shape (d,)
        Factor on each z.
    """

    entries: Vector
    columns: NDArray[np.int32]
    starts: NDArray[np.int64]
    order: NDArray[np.int64]
    rows: NDArray[np.int64]
    lengths: Vector

    any_length: ClassVar[frozenset[str]] = frozenset({"entries", "columns"})

    def times(self, z: Operand) -> Operand:
        z = self.lengths * z
        if isinstance(z, np.ndarray):
            return self._solved(z.T, "T")[self.rows].T
        return transposed_solve(self.entries, self.columns, self.starts, z)[self.rows]

    def pull(self, gradient: Operand) -> Operand:
        if isinstance(gradient, np.ndarray):
            return self.lengths * self._solved(gradient.T[self.order], "N").T
        ordered = gradient[..., self.order]
        return self.lengths * lower_solve(self.entries, self.columns, self.starts, ordered)

    def solve(self, difference: Array) -> Array:
        ordered = difference[..., self.order]
        return (ordered @ self._factor) / self.lengths

    def scaled(self, by: Vector | Matrix) -> "SparseFactor":
        return replace(self, lengths=self.lengths * by)

    @cached_property
    def scales(self) -> Vector:
        total, rng = np.zeros(len(self.order)), np.random.default_rng(0)
        for _ in range(PROBES // 8):
            total += np.sum(self.times(rng.standard_normal((8, len(total)))) ** 2, axis=0)
        return np.sqrt(total / (PROBES // 8 * 8))

    @property
    def leading(self) -> NDArray[np.intp]:
        return self.order

    @cached_property
    def _factor(self) -> csr_array:
        shape = (len(self.order),) * 2
        return csr_array((self.entries, self.columns, self.starts), shape=shape)

    @cached_property
    def _parts(self) -> tuple[Vector, dict[str, csr_array], SuperLU | None]:
        """The first rows of R, which are a diagonal, and the others: below it, and beside that.

        Effects come first, and are divided by their diagonal. What is below it is there by rows, as
        "N", and by columns, as "T": SciPy has fast products with several vectors for rows alone.
        """
        R = csr_array(self._factor, dtype=np.float64)
        n = int(np.argmax(np.append(np.diff(self.starts) > 1, True)))
        rest = _without_pivoting(csc_array(R[n:, n:])) if n < R.shape[0] else None
        below = csr_array(R[n:, :n])
        return R.data[:n], {"N": below, "T": csr_array(below.T)}, rest

    def _solved(self, b: Array, transposed: str) -> Array:
        """Return the solution of R x = b, or with "T" of R' x = b, for one b or for columns."""
        diagonal, below, rest = self._parts
        x = np.asarray(b, np.float64, order="C")
        first, last = x[: len(diagonal)], x[len(diagonal) :]
        if transposed == "N":
            first = (first.T / diagonal).T
            last = last - below["N"] @ first
        if rest is not None:
            last = rest.solve(last, transposed)
        if transposed == "T":
            first = ((first - below["T"] @ last).T / diagonal).T
        return np.concatenate([first, last])

    def __getstate__(self) -> dict[str, Any]:
        names = (*self.arrays(), "scales")  # SciPy's solver cannot be pickled
        return {name: self.__dict__[name] for name in names if name in self.__dict__}


def unit_factor(size: int) -> SparseFactor:
    """Return the unit metric."""
    return _of(eye_array(size, format="csr"), np.arange(size))


def factor_of_sparse(
    H: csr_array, sizes: Sequence[int] = (), order: NDArray[np.int64] | None = None
) -> SparseFactor:
    """Return the metric whose inverse is `H` (d, d), symmetric.

    Where H is not positive definite, its diagonal is raised until it is. `sizes`: of the variables
    that the coordinates are entries of, in order. `order`: of the coordinates, where it is known.
    """
    if order is not None:
        return _factor(H, order)
    ties = np.diff(H.indptr)
    # Coordinates of large variables go first, and those that are tied to few others: of crossed
    # effects only the fewer are then tied to one another.
    large = np.repeat(sizes, sizes) if len(sizes) else np.zeros(len(ties), int)
    found = _factor(H, np.lexsort((ties, -large)))
    if len(found.entries) <= FILLED * H.nnz:
        return found
    # Where entries of a large variable are tied to one another, what is tied to few goes first.
    other = _factor(H, np.argsort(ties, kind="stable"))
    return min(found, other, key=lambda own: len(own.entries))


def _factor(H: csr_array, order: NDArray[np.int64]) -> SparseFactor:
    """Return the metric whose inverse is `H`, or nearly so, with a factor in that order."""
    diagonal = np.abs(H.diagonal())[order]
    diagonal = np.maximum(diagonal, 1e-12 * max(diagonal.max(), 1e-300))
    scale = diags_array(1 / np.sqrt(diagonal))
    scaled = csc_array(scale @ H[order][:, order] @ scale)
    unit, more = eye_array(len(order), format="csc"), 0.0
    while more <= LARGEST:
        R = _cholesky(scaled + more * unit if more else scaled)
        if R is not None:
            return _of(csr_array(diags_array(np.sqrt(diagonal)) @ R), order)
        more = max(SMALLEST, 10 * more)
    raise np.linalg.LinAlgError("The Hessian is not finite.")


def _cholesky(matrix: csc_array) -> csr_array | None:
    """Return R with R R' = `matrix`, which has a unit diagonal; None if it is not positive.

    SciPy has no sparse Cholesky factor. Without pivoting, the LU factors of a symmetric matrix are
    R times a diagonal matrix, and a diagonal matrix times R'.
    """
    try:
        lu = _without_pivoting(matrix)
    except RuntimeError:  # exactly singular
        return None
    pivots = lu.U.diagonal()
    if not np.all(pivots > 1e-10) or not np.array_equal(lu.perm_r, np.arange(len(pivots))):
        return None
    return csr_array(lu.L @ diags_array(np.sqrt(pivots)))


def _without_pivoting(matrix: csc_array) -> SuperLU:
    """Return the LU factors of a matrix, with rows and columns in their order."""
    options = {"SymmetricMode": True, "Equil": False}
    return splu(matrix, "NATURAL", diag_pivot_thresh=0.0, options=options)


def _of(R: csr_array, order: NDArray[np.int64]) -> SparseFactor:
    R.sort_indices()
    rows = np.argsort(order)
    arrays = R.data, R.indices.astype(np.int32), R.indptr.astype(np.int64)
    return SparseFactor(*arrays, order.astype(np.int64), rows, np.ones(len(order)))
