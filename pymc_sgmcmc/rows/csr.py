"""Sparse matrices of data as arrays: compressed sparse rows (CSR), and the indices of all rows."""

import numpy as np
import pytensor
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import graph_inputs

from pymc_sgmcmc.compile.in_python import interpreted

__all__ = ["CSR"]


class CSR:
    """A sparse matrix (N, K) that is a function of data alone.

    Parameters
    ----------
    matrix : Variable
        A variable of a sparse type: a graph of constants and shared variables.

    Attributes
    ----------
    design : list of SharedVariable
        Entries (nnz,), columns (nnz,), starts (N + 1,), in the order of `sparse_dot`. Arrays of a
        CSR matrix that have the right dtype are not copied.
    rows : SharedVariable
        0, ..., N - 1: data of N rows, which are sliced by row.
    width : SharedVariable
        Number of columns, K.

    Raises
    ------
    ValueError
        If indices are out of range, as compiled code does not check them, or if K >= 2**31.
    """

    def __init__(self, matrix: Variable):
        self._matrix, leaves = matrix, graph_inputs([matrix])
        self._sources = [leaf for leaf in leaves if isinstance(leaf, SharedVariable)]
        self._seen = self._values()
        named = [x.name for x in (matrix, *leaves) if x.name]
        name = named[0] if named else "a sparse matrix"
        names = [f"{name}.data", f"{name}.indices", f"{name}.indptr", name, f"{name}.shape[1]"]
        self._arrays = [
            pytensor.shared(array, name=of_it, borrow=True, shape=[None] * array.ndim)
            for of_it, array in zip(names, self._compressed(), strict=True)
        ]
        *self.design, self.rows, self.width = self._arrays

    def refresh(self) -> None:
        """Compute the arrays again if a shared variable of the matrix has another value."""
        now = self._values()
        if any(new is not old for new, old in zip(now, self._seen, strict=True)):
            for shared, array in zip(self._arrays, self._compressed(), strict=True):
                shared.set_value(array.astype(shared.type.dtype, copy=False), borrow=True)
            self._seen = now

    def _values(self) -> list:
        return [leaf.get_value(borrow=True) for leaf in self._sources]

    def _compressed(self) -> list[np.ndarray]:
        value = _evaluate(self._matrix).tocsr()
        n_rows, width = value.shape
        starts = value.indptr.astype(np.int64, copy=False)
        if width >= 2**31:
            raise ValueError(f"A sparse matrix has {width} columns, more than 2**31 - 1.")
        columns = value.indices.astype(np.int32, copy=False)
        rises = starts[0] == 0 and (np.diff(starts) >= 0).all() and starts[-1] <= len(columns)
        if not rises or (columns.size and (columns.min() < 0 or columns.max() >= width)):
            raise ValueError(
                f"A sparse matrix of shape {value.shape} has indices outside its columns or an "
                "indptr that does not rise: look at it with X.check_format(full_check=True)."
            )
        return [value.data, columns, starts, np.arange(n_rows), np.array(width, np.int64)]


def _evaluate(source: Variable):
    if isinstance(source, Constant):
        return source.data
    if isinstance(source, SharedVariable):
        return source.get_value(borrow=True)
    return interpreted([], [source])()[0]
