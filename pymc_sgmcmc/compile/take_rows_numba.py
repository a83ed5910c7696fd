"""Rows of a data tensor by Numba, apart because Numba takes seconds to import."""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from pymc_sgmcmc.compile.numba_key import numba_key
from pymc_sgmcmc.compile.pytensor_internals import numba_njit, register_funcify_and_cache_key
from pymc_sgmcmc.compile.take_rows import AHEAD, LINES, TakeRows


@intrinsic
def _prefetch(typing_context, address):
    """Hint that `address` will be read soon (LLVM's prefetch). Invalid addresses do no harm."""

    def codegen(context, builder, signature, arguments):
        number, pointer = ir.IntType(32), ir.IntType(8).as_pointer()
        function_type = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer], function_type)
        read, keep, data = (ir.Constant(number, value) for value in (0, 3, 1))
        builder.call(function, [builder.inttoptr(arguments[0], pointer), read, keep, data])
        return context.get_dummy_value()

    return types.void(types.intp), codegen


@numba_njit
def _announce(x, rows, i):
    """Prefetch row rows[i] of x, as the C code does, if i is below the number of rows."""
    if i >= len(rows):
        return
    size = x.strides[0]  # where a row's entries lie side by side
    begin = x.ctypes.data + rows[i] * size
    for line in range(0, min(size, LINES * 64), 64):
        _prefetch(begin + line)


@register_funcify_and_cache_key(TakeRows)
def _numba_take_rows(op, node, **kwargs):
    ndim = node.inputs[0].type.ndim

    if ndim == 2:

        @numba_njit
        def copy(out, i, x, row):  # number by number: faster than by slices
            for j in range(x.shape[1]):
                out[i, j] = x[row, j]

    else:

        @numba_njit
        def copy(out, i, x, row):
            out[i] = x[row]

    @numba_njit
    def take(x, rows):
        out = np.empty((len(rows), *x.shape[1:]), x.dtype)
        for i in range(len(rows)):
            _announce(x, rows, i + AHEAD)
            row = rows[i]
            if row < 0 or row >= len(x):
                raise IndexError("row index out of range")
            copy(out, i, x, row)
        return out

    return take, numba_key(__name__, ndim, AHEAD, LINES)
