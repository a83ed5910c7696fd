"""Sums of squares by BLAS, for C code, in which PyTensor adds number by number.

The rewrite finds sums that are written with `pt.sqr`, and adds in the precision of the numbers.
Numba's own sums are as fast, and its product of two vectors takes longer.
"""

import pytensor.tensor as pt
from pytensor.tensor.math import Sum

from pymc_sgmcmc.compile.additions import our_rewriter
from pymc_sgmcmc.compile.pytensor_internals import BEFORE_BLAS, register_rewrite

__all__ = ["SQUARE_SUMS"]

SQUARE_SUMS = "pymc_sgmcmc_square_sums"
"""Name under which a mode includes the rewrite."""

LONG = 1000
"""Least number of terms for which a call of BLAS is worth its overhead."""


@our_rewriter([Sum])
def _square_sum_by_blas(fgraph, node):
    [squares] = node.inputs
    if squares.owner is None or squares.owner.op != pt.sqr or squares.type.ndim != 1:
        return None
    [x] = squares.owner.inputs
    length, dtype = x.type.shape[0], x.type.dtype
    if length is None or length < LONG or dtype not in ("float32", "float64"):  # types of BLAS
        return None
    if dtype != node.outputs[0].type.dtype:
        return None
    return [pt.dot(x, x)]


# Run before PyTensor looks for products that BLAS computes.
register_rewrite(SQUARE_SUMS, _square_sum_by_blas, BEFORE_BLAS)
