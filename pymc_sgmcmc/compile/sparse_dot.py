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

from pymc_sgmcmc.compile.pytensor_internals import COp
from pymc_sgmcmc.compile.take_rows import AHEAD

__all__ = ["SparseDot", "SparsePull", "sparse_dot", "sparse_pull"]

CHECKS = """
    for (npy_intp i = 0; i < n; i++) {
        const npy_int64 row = ROW;
        if (row < 0 || row >= length) {
            PyErr_SetString(PyExc_IndexError, "row index out of range");
            FAIL
        }
    }
"""


class _OfRows(COp):
    """An operation on (entries, columns, starts, rows, dense, ...): the first three are CSR.

    `entries` (nnz,), `columns` int32 (nnz,) and `starts` int64 (N + 1,) are `data`, `indices` and
    `indptr` of SciPy. Columns may be in any order, and duplicates add up. A row index outside
    [0, N) raises an IndexError. Columns are not checked.
    """

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

    def c_code_cache_version(self):
        return (1,)

    def _c_code(self, node, inputs, outputs, sub, *, length, body):
        """Return C code around a `body` that fills the array `to`, which has `length` rows."""
        entries, columns, starts, rows, dense, *_ = inputs
        entry, value = (f"npy_{node.inputs[k].type.dtype}" for k in (0, 4))
        owned = {"entries": entries, "columns": columns, "starts": starts, "dense": dense}
        take = "".join(
            f"PyArrayObject* {own} = PyArray_GETCONTIGUOUS({x});" for own, x in owned.items()
        )
        release = "".join(f"Py_XDECREF({own});" for own in owned)
        code = f"""
        {{
            typedef {entry} entry_t;
            typedef {value} value_t;
            typedef npy_{node.outputs[0].type.dtype} out_t;
            {take}
            if (!dense || !entries || !columns || !starts) FAIL
            const entry_t* entry = (const entry_t*) PyArray_DATA(entries);
            const npy_int32* column = (const npy_int32*) PyArray_DATA(columns);
            const npy_int64* start = (const npy_int64*) PyArray_DATA(starts);
            const value_t* from = (const value_t*) PyArray_DATA(dense);
            const npy_intp n = PyArray_DIM({rows}, 0), length = PyArray_DIM(starts, 0) - 1;
            const npy_intp wide = PyArray_DIM(dense, 1);
            {CHECKS}
            npy_intp shape[2] = {{{length}, wide}};
            if (OUT == NULL || !PyArray_IS_C_CONTIGUOUS(OUT)
                || PyArray_DIM(OUT, 0) != shape[0] || PyArray_DIM(OUT, 1) != shape[1]) {{
                Py_XDECREF(OUT);
                OUT = (PyArrayObject*) PyArray_EMPTY(2, shape, OUT_TYPE, 0);
                if (OUT == NULL) FAIL
            }}
            out_t* to = (out_t*) PyArray_DATA(OUT);
            {body}
            {release}
        }}
        """
        words = {
            "OUT_TYPE": node.outputs[0].type.dtype_specs()[2],
            "OUT": outputs[0],
            "WIDTH": f"*(const npy_int64*) PyArray_DATA({inputs[-1]})",
            "SOON_ROW": f"*(const npy_int64*) PyArray_GETPTR1({rows}, i + {AHEAD})",
            "ROW": f"*(const npy_int64*) PyArray_GETPTR1({rows}, i)",
            "FAIL": f"{{ {release} {sub['fail']} }}",
        }
        for word, meaning in words.items():
            code = code.replace(word, meaning)
        return code

    def c_headers(self, **kwargs):
        return ["<algorithm>"]


SOON = f"""
    if (i + {AHEAD} < n) {{
        const npy_int64 soon = start[SOON_ROW];
        __builtin_prefetch(entry + soon);
        __builtin_prefetch(column + soon);
    }}
    const npy_int64 row = ROW, stop = start[row + 1];
"""

_DOT = f"""
    if (wide == 1) {{
        for (npy_intp i = 0; i < n; i++) {{
            {SOON}
            out_t sum = 0;
            for (npy_int64 k = start[row]; k < stop; k++) {{
                sum += entry[k] * from[column[k]];
            }}
            to[i] = sum;
        }}
    }} else {{
        for (npy_intp i = 0; i < n; i++) {{
            {SOON}
            out_t* sums = to + i * wide;
            std::fill(sums, sums + wide, out_t(0));
            for (npy_int64 k = start[row]; k < stop; k++) {{
                const value_t* values = from + column[k] * wide;
                for (npy_intp j = 0; j < wide; j++) sums[j] += entry[k] * values[j];
            }}
        }}
    }}
"""

_PULL = f"""
    std::fill(to, to + shape[0] * wide, out_t(0));
    if (PyArray_DIM(dense, 0) != n) {{
        PyErr_SetString(PyExc_ValueError, "not one dense row for each sparse one");
        FAIL
    }}
    for (npy_intp i = 0; i < n; i++) {{
        {SOON}
        const value_t* values = from + i * wide;
        for (npy_int64 k = start[row]; k < stop; k++) {{
            out_t* sums = to + column[k] * wide;
            for (npy_intp j = 0; j < wide; j++) sums[j] += entry[k] * values[j];
        }}
    }}
"""


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

    def infer_shape(self, *given):
        *_, shapes = given  # a graph and a node come first, or the node alone in PyTensor 3
        return [(shapes[3][0], shapes[4][1])]

    def L_op(self, inputs, outputs, gradients):
        *design, rows, dense = inputs
        pulled = sparse_pull(*design, rows, gradients[0], dense.shape[0])
        return self._gradients(inputs, pulled.astype(dense.type.dtype))

    pullback = L_op  # its name since PyTensor 3

    def c_code(self, node, name, inputs, outputs, sub):
        return self._c_code(node, inputs, outputs, sub, length="n", body=_DOT)


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

    def infer_shape(self, *given):
        *_, node, shapes = given
        return [(node.inputs[5], shapes[4][1])]

    def L_op(self, inputs, outputs, gradients):
        *design, rows, dense, _ = inputs
        slopes = sparse_dot(*design, rows, gradients[0])
        return self._gradients(inputs, slopes.astype(dense.type.dtype))

    pullback = L_op

    def c_code(self, node, name, inputs, outputs, sub):
        return self._c_code(node, inputs, outputs, sub, length="WIDTH", body=_PULL)


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
