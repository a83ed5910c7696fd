"""Rows of a tensor by their indices, the only operation that a minibatch adds to a model's graph.

PyTensor indexes by a vector through generic code. Its Numba code assigns row by row through views
and is three times slower than this op; not every version has C code.
"""

import numpy as np
from pytensor.graph.basic import Apply
from pytensor.tensor import as_tensor_variable
from pytensor.tensor.type import TensorType, integer_dtypes

from pymc_sgmcmc.compile.pytensor_internals import COp

__all__ = ["TakeRows", "take_rows"]


AHEAD = 16
"""Number of rows by which prefetching runs ahead. Random rows of large data are not in the
processor's cache, and waiting for each takes three times as long."""
LINES = 8
"""Number of cache lines of a row that are prefetched: the processor finds the rest by itself."""


class TakeRows(COp):
    """Indexing x[rows] along the first axis of `x` by a vector of integers, without a gradient.

    An index outside [0, len(x)) raises an IndexError. `take_rows_numba` has the code for Numba.
    """

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

    def c_code_cache_version(self):
        return (4,)

    def c_support_code(self, **kwargs):
        return f"""
        // SIZE: the bytes of a row where the compiler may know them, or 0.
        template <npy_intp SIZE>
        static void pymc_sgmcmc_take(
            char* to, const char* from, npy_intp row_bytes, PyArrayObject* rows)
        {{
            const npy_intp n = PyArray_DIM(rows, 0), size = SIZE ? SIZE : row_bytes;
            for (npy_intp i = 0; i < n; i++) {{
                if (i + {AHEAD} < n) {{
                    const char* soon =
                        from + *(const npy_int64*) PyArray_GETPTR1(rows, i + {AHEAD}) * size;
                    for (npy_intp line = 0; line < size && line < {LINES * 64}; line += 64) {{
                        __builtin_prefetch(soon + line);
                    }}
                }}
                const npy_intp row = *(const npy_int64*) PyArray_GETPTR1(rows, i);
                memcpy(to + i * size, from + row * size, size);
            }}
        }}
        """

    def c_headers(self, **kwargs):
        return ["<cstring>"]

    def c_code(self, node, name, inputs, outputs, sub):
        (x, rows), (out,), fail = inputs, outputs, sub["fail"]
        return f"""
        {{
            const int ndim = PyArray_NDIM({x});
            npy_intp shape[NPY_MAXDIMS];
            npy_intp row_bytes = PyArray_ITEMSIZE({x});
            shape[0] = PyArray_DIM({rows}, 0);
            bool fits = {out} != NULL && PyArray_IS_C_CONTIGUOUS({out})
                && PyArray_DIM({out}, 0) == shape[0];
            for (int k = 1; k < ndim; k++) {{
                shape[k] = PyArray_DIM({x}, k);
                row_bytes *= shape[k];
                fits = fits && PyArray_DIM({out}, k) == shape[k];
            }}
            if (!fits) {{
                Py_XDECREF({out});
                {out} = (PyArrayObject*) PyArray_EMPTY(ndim, shape, PyArray_TYPE({x}), 0);
                if ({out} == NULL) {{ {fail}; }}
            }}
            const npy_intp length = PyArray_DIM({x}, 0);
            const npy_intp first = shape[0] ? *(const npy_int64*) PyArray_GETPTR1({rows}, 0) : 0;
            bool consecutive = true;
            for (npy_intp i = 0; i < shape[0]; i++) {{
                const npy_intp row = *(const npy_int64*) PyArray_GETPTR1({rows}, i);
                consecutive = consecutive && row == first + i;
                if (row < 0 || row >= length) {{
                    PyErr_SetString(PyExc_IndexError, "row index out of range");
                    {fail};
                }}
            }}
            if (PyArray_IS_C_CONTIGUOUS({x}) && consecutive) {{
                // As for exact gradients, which go through all the data.
                memcpy(PyArray_BYTES({out}), PyArray_BYTES({x}) + first * row_bytes,
                       shape[0] * row_bytes);
            }} else if (PyArray_IS_C_CONTIGUOUS({x}) && row_bytes == 8) {{
                pymc_sgmcmc_take<8>(PyArray_BYTES({out}), PyArray_BYTES({x}), 8, {rows});
            }} else if (PyArray_IS_C_CONTIGUOUS({x}) && row_bytes == 4) {{
                pymc_sgmcmc_take<4>(PyArray_BYTES({out}), PyArray_BYTES({x}), 4, {rows});
            }} else if (PyArray_IS_C_CONTIGUOUS({x})) {{
                pymc_sgmcmc_take<0>(PyArray_BYTES({out}), PyArray_BYTES({x}), row_bytes, {rows});
            }} else if (ndim == 2) {{
                // Columns of a data frame, say: each entry lies apart.
                const npy_intp item = PyArray_ITEMSIZE({x});
                char* to = PyArray_BYTES({out});
                for (npy_intp i = 0; i < shape[0]; i++) {{
                    const npy_intp row = *(const npy_int64*) PyArray_GETPTR1({rows}, i);
                    for (npy_intp j = 0; j < shape[1]; j++, to += item) {{
                        memcpy(to, PyArray_GETPTR2({x}, row, j), item);
                    }}
                }}
            }} else {{
                Py_DECREF({out});
                {out} = (PyArrayObject*) PyArray_TakeFrom(
                    {x}, (PyObject*) {rows}, 0, NULL, NPY_RAISE);
                if ({out} == NULL) {{ {fail}; }}
            }}
        }}
        """


take_rows = TakeRows()
