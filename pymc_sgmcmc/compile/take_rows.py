"""Rows of a tensor by their indices, the only operation that a minibatch adds to a model's graph.

PyTensor indexes by a vector through generic code. Its Numba code assigns row by row through views
and is three times slower than this op; not every version has C code.
"""

import numpy as np
from pytensor.graph.basic import Apply
from pytensor.tensor import as_tensor_variable
from pytensor.tensor.type import TensorType, integer_dtypes

from pymc_sgmcmc.compile.c_header import HeaderOp

__all__ = ["TakeRows", "take_rows"]


AHEAD = 16
"""Number of rows by which prefetching runs ahead. Random rows of large data are not in the
processor's cache, and waiting for each takes three times as long."""
LINES = 8
"""Number of cache lines of a row that are prefetched: the processor finds the rest by itself."""


class TakeRows(HeaderOp):
    """Indexing x[rows] along the first axis of `x` by a vector of integers, without a gradient.

    An index outside [0, len(x)) raises an IndexError. `take_rows_numba` has the code for Numba.
    """

    header, version = "take_rows.h", 5
    __props__ = ()

    def make_node(self, x, rows):
        x, rows = as_tensor_variable(x), as_tensor_variable(rows)
        if rows.type.dtype not in integer_dtypes or rows.type.ndim != 1:
            raise TypeError(f"rows must be a vector of integers, and is of type {rows.type}.")
        if x.type.ndim == 0:
            raise TypeError(f"x must have rows, and is of type {x.type}.")
        rows = rows.astype("int64")  # the C code reads no other
        out = TensorType(x.dtype, shape=(rows.type.shape[0], *x.type.shape[1:]))
        return Apply(self, [x, rows], [out()])

    def perform(self, node, inputs, outputs):
        x, rows = inputs
        if rows.size and rows.min() < 0:
            raise IndexError("row index out of range")
        outputs[0][0] = np.take(x, rows, axis=0)

    def c_code(self, node, name, inputs, outputs, sub):
        (x, rows), (out,) = inputs, outputs
        call = f"pymc_sgmcmc_take_rows<{AHEAD}, {LINES}>({x}, {rows}, &{out})"
        return f"if (!{call}) {{ {sub['fail']} }}"


take_rows = TakeRows()
