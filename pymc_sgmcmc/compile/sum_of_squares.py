"""Sums of squares by BLAS: for C code, which PyTensor lets add number by number.

They are found where they are written with `pt.sqr`, and are added in the precision of the numbers.
Numba sums as fast by itself, and its product of two vectors takes longer.
"""

import pytensor.tensor as pt
from pytensor.compile import optdb
from pytensor.graph.rewriting.basic import in2out
from pytensor.tensor.math import Sum

from pymc_sgmcmc.compile.additions import our_rewriter

__all__ = ["SQUARE_SUMS"]

SQUARE_SUMS = "pymc_sgmcmc_square_sums"
"""What a mode includes to have them."""

LONG = 1000
"""From so many numbers on a call of BLAS is worth its overhead."""


@our_rewriter([Sum])
def _square_sum_by_blas(fgraph, node):
    [squares] = node.inputs
    if squares.owner is None or squares.owner.op != pt.sqr or squares.type.ndim != 1:
        return None
    [x] = squares.owner.inputs
    length, dtype = x.type.shape[0], x.type.dtype
    if length is None or length < LONG or dtype not in ("float32", "float64"):  # as BLAS has them
        return None
    if dtype != node.outputs[0].type.dtype:
        return None
    return [pt.dot(x, x)]


# Before PyTensor finds the products that BLAS has a routine for, at 1.7.
optdb.register(SQUARE_SUMS, in2out(_square_sum_by_blas), position=1.65)
