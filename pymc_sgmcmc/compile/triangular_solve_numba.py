"""Solutions of sparse triangular systems by Numba, apart because Numba takes seconds to import."""

import numpy as np

from pymc_sgmcmc.compile.numba_key import numba_key
from pymc_sgmcmc.compile.pytensor_internals import numba_njit, register_funcify_and_cache_key
from pymc_sgmcmc.compile.triangular_solve import TriangularSolve


@register_funcify_and_cache_key(TriangularSolve)
def _numba_triangular_solve(op, node, **kwargs):
    dtype = np.dtype(node.outputs[0].type.dtype)

    @numba_njit
    def solve(entries, columns, starts, b):
        x = b.astype(dtype)
        for i in range(len(b)):
            last = starts[i + 1] - 1
            rest = x[i]
            for k in range(starts[i], last):
                rest -= entries[k] * x[columns[k]]
            x[i] = rest / entries[last]
        return x

    @numba_njit
    def transposed_solve(entries, columns, starts, b):
        x = b.astype(dtype)
        for i in range(len(b) - 1, -1, -1):
            last = starts[i + 1] - 1
            x[i] = x[i] / entries[last]
            for k in range(starts[i], last):
                x[columns[k]] -= entries[k] * x[i]
        return x

    function = transposed_solve if op.transposed else solve
    return function, numba_key(__name__, function.__name__)
