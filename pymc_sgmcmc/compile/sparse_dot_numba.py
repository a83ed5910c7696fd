"""Products with rows of a sparse matrix by Numba, apart because Numba takes seconds to import."""

import numpy as np

from pymc_sgmcmc.compile.numba_key import numba_key
from pymc_sgmcmc.compile.pytensor_internals import numba_njit, register_funcify_and_cache_key
from pymc_sgmcmc.compile.sparse_dot import SparseDot, SparsePull


@register_funcify_and_cache_key(SparseDot)
def _numba_sparse_dot(op, node, **kwargs):
    dtype = np.dtype(node.outputs[0].type.dtype)

    @numba_njit
    def dot(entries, columns, starts, rows, dense):
        wide = dense.shape[1]
        out = np.zeros((len(rows), wide), dtype)
        for i in range(len(rows)):
            row = rows[i]
            if row < 0 or row >= len(starts) - 1:
                raise IndexError("row index out of range")
            for k in range(starts[row], starts[row + 1]):
                for j in range(wide):
                    out[i, j] += entries[k] * dense[columns[k], j]
        return out

    return dot, numba_key(__name__, "dot")


@register_funcify_and_cache_key(SparsePull)
def _numba_sparse_pull(op, node, **kwargs):
    dtype = np.dtype(node.outputs[0].type.dtype)

    @numba_njit
    def pull(entries, columns, starts, rows, dense, width):
        wide = dense.shape[1]
        out = np.zeros((width.item(), wide), dtype)
        if len(dense) != len(rows):
            raise ValueError("not one dense row for each sparse one")
        for i in range(len(rows)):
            row = rows[i]
            if row < 0 or row >= len(starts) - 1:
                raise IndexError("row index out of range")
            for k in range(starts[row], starts[row + 1]):
                for j in range(wide):
                    out[columns[k], j] += entries[k] * dense[i, j]
        return out

    return pull, numba_key(__name__, "pull")
