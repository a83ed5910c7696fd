"""Solutions of sparse triangular systems, of a matrix or its transpose.

The matrix is given as the three arrays of its compressed sparse rows (CSR), as in `sparse_dot`.
"""

import pytensor
from pytensor.gradient import DisconnectedType
from pytensor.graph.basic import Apply
from pytensor.scalar import upcast
from pytensor.tensor import as_tensor_variable
from pytensor.tensor.type import TensorType

from pymc_sgmcmc.compile.c_header import HeaderOp

__all__ = ["TriangularSolve", "lower_solve", "transposed_solve"]


class TriangularSolve(HeaderOp):
    """The solution x, (d,), of L x = b, or of L' x = b where `transposed`.

    Inputs are (entries, columns, starts, b): `data`, `indices` as int32 and `indptr` as int64 of
    a lower triangular L (d, d) in SciPy's CSR, of which each row ends with its diagonal. The
    pattern is not checked. L is data: there is no derivative in its entries.
    """

    header = "triangular_solve.h"
    __props__ = ("transposed",)

    def __init__(self, *, transposed: bool):
        self.transposed = transposed

    def make_node(self, entries, columns, starts, b):
        inputs = [*map(as_tensor_variable, (entries, columns, starts, b))]
        entries, columns, starts, b = inputs
        types = (columns.type.dtype, starts.type.dtype)
        if types != ("int32", "int64") or any(x.type.ndim != 1 for x in inputs):
            raise TypeError(f"expected vectors, columns of int32 and starts of int64, got {inputs}")
        dtype = upcast(entries.type.dtype, b.type.dtype)
        if dtype not in ("float32", "float64"):
            dtype = pytensor.config.floatX
        return Apply(self, inputs, [TensorType(dtype, shape=b.type.shape)()])

    def perform(self, node, inputs, outputs):
        entries, columns, starts, b = inputs
        x = b.astype(node.outputs[0].dtype)
        last = starts[1:] - 1
        order = range(len(b))
        for i in reversed(order) if self.transposed else order:
            before = slice(starts[i], last[i])
            if self.transposed:
                x[i] /= entries[last[i]]
                x[columns[before]] -= entries[before] * x[i]
            else:
                x[i] = (x[i] - entries[before] @ x[columns[before]]) / entries[last[i]]
        outputs[0][0] = x

    def c_code(self, node, name, inputs, outputs, sub):
        made = node.outputs[0].type
        types = [node.inputs[0].type.dtype, node.inputs[3].type.dtype, made.dtype]
        call = (
            f"pymc_sgmcmc_triangular_solve<{', '.join(f'npy_{dtype}' for dtype in types)}>"
            f"({', '.join(inputs)}, {str(self.transposed).lower()}, &{outputs[0]}, "
            f"{made.dtype_specs()[2]})"
        )
        return f"if (!{call}) {{ {sub['fail']} }}"

    def infer_shape(self, *given):
        *_, shapes = given  # a graph and a node come first, or the node alone in PyTensor 3
        return [shapes[3]]

    def connection_pattern(self, node):
        return [[False], [False], [False], [True]]

    def L_op(self, inputs, outputs, gradients):
        *matrix, b = inputs
        pulled = TriangularSolve(transposed=not self.transposed)(*matrix, gradients[0])
        return [*(DisconnectedType()() for _ in matrix), pulled.astype(b.type.dtype)]

    pullback = L_op  # its name since PyTensor 3


lower_solve, transposed_solve = TriangularSolve(transposed=False), TriangularSolve(transposed=True)
