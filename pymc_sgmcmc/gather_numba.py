"""Rows of a data tensor by Numba: apart, as Numba takes seconds to import."""

import numpy as np
from pytensor.link.numba.dispatch.basic import numba_njit, register_funcify_and_cache_key

from pymc_sgmcmc.gather import TakeRows


@register_funcify_and_cache_key(TakeRows)
def _numba_take_rows(op, node, **kwargs):
    ndim = node.inputs[0].type.ndim

    if ndim == 2:

        @numba_njit
        def take(x, rows):
            out = np.empty((len(rows), x.shape[1]), x.dtype)
            for i in range(len(rows)):
                row = rows[i]
                if row < 0 or row >= len(x):
                    raise IndexError("row index out of range")
                for j in range(x.shape[1]):
                    out[i, j] = x[row, j]
            return out

    else:

        @numba_njit
        def take(x, rows):
            out = np.empty((len(rows), *x.shape[1:]), x.dtype)
            for i in range(len(rows)):
                row = rows[i]
                if row < 0 or row >= len(x):
                    raise IndexError("row index out of range")
                out[i] = x[row]
            return out

    return take, f"pymc_sgmcmc-take_rows-{ndim}-1"
