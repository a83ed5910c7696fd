"""Products of some rows of a sparse matrix with a dense one, and their transposes.

The matrix is given as the three arrays of its compressed sparse rows (CSR), so that no compiled
graph has a sparse type: Numba hardly supports it, and PyTensor slices it through SciPy.
"""

import numpy as np
import pytensor
from pytensor.gradient import DisconnectedType
from pytensor.graph.basic import Apply
from pytensor.scalar import upcast
from pytensor.tensor import as_tensor_variable
from pytensor.tensor.type import TensorType

from pymc_sgmcmc.compile.c_header import HeaderOp
from pymc_sgmcmc.compile.take_rows import AHEAD

__all__ = ["SparseDot", "SparsePull", "sparse_dot", "sparse_pull"]


class _OfRows(HeaderOp):
    """An operation on (entries, columns, starts, rows, dense, ...): the first three are CSR.

    `entries` (nnz,), `columns` int32 (nnz,) and `starts` int64 (N + 1,) are `data`, `indices` and
    `indptr` of SciPy. Columns may be in any order, and duplicates add up. A row index outside
    [0, N) raises an IndexError. Columns are not checked.
    """

    header, version = "sparse_dot.h", 2
    __props__ = ()

    def connection_pattern(self, node):
        return [[position == 4] for position in range(len(node.inputs))]

    def _gradients(self, inputs, of_dense):
        return [of_dense if k == 4 else DisconnectedType()() for k in range(len(inputs))]

    def _made(self, inputs, shape):
        entries, columns, starts, rows, dense, *_ = inputs
        expected = [("int32", columns), ("int64", starts), ("int64", rows)]
        if any(x.type.ndim != 1 or x.type.dtype != dtype for dtype, x in expected):
            raise TypeError(f"expected columns (int32), starts and rows (int64), got {inputs}")
        if entries.type.ndim != 1 or dense.type.ndim != 2:
            raise TypeError(f"expected entries (nnz,) and a dense matrix, got {inputs}")
        dtype = upcast(entries.type.dtype, dense.type.dtype)
        if dtype not in ("float32", "float64"):
            dtype = pytensor.config.floatX
        return Apply(self, inputs, [TensorType(dtype, shape=shape)()])

    def _calling(self, function, node, inputs, outputs, sub):
        """Return code that calls a function of the header."""
        made = node.outputs[0].type
        types = [node.inputs[0].type.dtype, node.inputs[4].type.dtype, made.dtype]
        call = (
            f"{function}<{AHEAD}, {', '.join(f'npy_{dtype}' for dtype in types)}>"
            f"({', '.join(inputs)}, &{outputs[0]}, {made.dtype_specs()[2]})"
        )
        return f"if (!{call}) {{ {sub['fail']} }}"


class SparseDot(_OfRows):
    """The product X[rows] @ dense, (n, C), of a sparse X (N, K) and `dense` (K, C)."""

    def make_node(self, entries, columns, starts, rows, dense):
        inputs = [*map(as_tensor_variable, (entries, columns, starts, rows, dense))]
        return self._made(inputs, (inputs[3].type.shape[0], inputs[4].type.shape[1]))

    def perform(self, node, inputs, outputs):
        entries, columns, starts, rows, dense = inputs
        owner, at = _entries_of(starts, rows)
        products = np.zeros((len(rows), dense.shape[1]), node.outputs[0].dtype)
        np.add.at(products, owner, entries[at, None] * dense[columns[at]])
        outputs[0][0] = products

    def c_code(self, node, name, inputs, outputs, sub):
        return self._calling("pymc_sgmcmc_sparse_dot", node, inputs, outputs, sub)

    def infer_shape(self, *given):
        *_, shapes = given  # a graph and a node come first, or the node alone in PyTensor 3
        return [(shapes[3][0], shapes[4][1])]

    def L_op(self, inputs, outputs, gradients):
        *design, rows, dense = inputs
        pulled = sparse_pull(*design, rows, gradients[0], dense.shape[0])
        return self._gradients(inputs, pulled.astype(dense.type.dtype))

    pullback = L_op  # its name since PyTensor 3


class SparsePull(_OfRows):
    """The product X[rows].T @ dense, (K, C), of a sparse X (N, K) and `dense` (n, C), given K."""

    def make_node(self, entries, columns, starts, rows, dense, width):
        inputs = [*map(as_tensor_variable, (entries, columns, starts, rows, dense))]
        width = as_tensor_variable(width).astype("int64")
        return self._made([*inputs, width], (None, inputs[4].type.shape[1]))

    def perform(self, node, inputs, outputs):
        entries, columns, starts, rows, dense, width = inputs
        owner, at = _entries_of(starts, rows)
        sums = np.zeros((int(width), dense.shape[1]), node.outputs[0].dtype)
        np.add.at(sums, columns[at], entries[at, None] * dense[owner])
        outputs[0][0] = sums

    def c_code(self, node, name, inputs, outputs, sub):
        return self._calling("pymc_sgmcmc_sparse_pull", node, inputs, outputs, sub)

    def infer_shape(self, *given):
        *_, node, shapes = given
        return [(node.inputs[5], shapes[4][1])]

    def L_op(self, inputs, outputs, gradients):
        *design, rows, dense, _ = inputs
        slopes = sparse_dot(*design, rows, gradients[0])
        return self._gradients(inputs, slopes.astype(dense.type.dtype))

    pullback = L_op


def _entries_of(starts: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return, for each entry of the given rows, its position in `rows` and in `entries`.

    Raise an IndexError if a row is out of range.
    """
    if rows.size and (rows.min() < 0 or rows.max() >= len(starts) - 1):
        raise IndexError("row index out of range")
    first, counts = starts[rows], starts[rows + 1] - starts[rows]
    before = np.cumsum(counts) - counts
    at = np.arange(counts.sum()) + np.repeat(first - before, counts)
    return np.repeat(np.arange(len(rows)), counts), at


sparse_dot, sparse_pull = SparseDot(), SparsePull()
