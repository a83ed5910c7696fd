"""Addition at indices in C, for the gradients of factors, of group effects, and of classes.

PyTensor has fast C code for vectors only. For other arrays it calls NumPy, which is slower, and a
graph with such an operation cannot be one C function.
"""

import numpy as np
from pytensor.graph.basic import Apply

from pymc_sgmcmc.compile.additions import our_rewriter
from pymc_sgmcmc.compile.pytensor_internals import AFTER_INPLACE, COp, register_rewrite
from pymc_sgmcmc.compile.pytensor_versions import ADDITIONS, indices_of_addition

__all__ = ["ADD_AT", "AddAt"]

ADD_AT = "pymc_sgmcmc_add_at"
"""Name under which a mode includes the rewrite."""


class AddAt(COp):
    """Addition of ``y`` to ``x`` at ``indices`` of the first axes of x; repeated indices add up.

    The indices are arrays of one shape. The shape of y is that shape followed by the remaining axes
    of x, or y is broadcast to it. An index out of bounds raises an IndexError.
    """

    __props__ = ("inplace",)

    def __init__(self, inplace: bool):
        self.inplace = inplace
        if inplace:
            self.destroy_map = {0: [0]}

    def make_node(self, x, y, *indices):
        return Apply(self, [x, y, *indices], [x.type()])

    def perform(self, node, inputs, outputs):
        x, y, *indices = inputs
        outputs[0][0] = x if self.inplace else x.copy()
        np.add.at(outputs[0][0], tuple(indices), y)

    def c_code_cache_version(self):
        return (2,)

    def c_code(self, node, name, inputs, outputs, sub):
        (x, y, *indices), (out,), fail = inputs, outputs, sub["fail"]
        axes, ndim = len(indices), node.inputs[2].type.ndim
        same = " && ".join(f"PyArray_SAMESHAPE({indices[0]}, {other})" for other in indices)
        find, move, release = "", "", ""
        for axis in range(axes):
            it = f"index_{axis}_it"
            dtype = f"npy_{node.inputs[2 + axis].type.dtype}"
            find += f"""
                {{
                    const npy_intp n = PyArray_DIM({out}, {axis});
                    npy_intp k = *({dtype}*) PyArray_ITER_DATA({it});
                    k += k < 0 ? n : 0;
                    if (k < 0 || k >= n) {{ outside = true; break; }}
                    to += k * PyArray_STRIDE({out}, {axis});
                }}
            """
            move += f"PyArray_ITER_NEXT({it});"
            release += f"Py_XDECREF({it});"
        iterators = "".join(
            f"PyArrayIterObject* index_{axis}_it = (PyArrayIterObject*) PyArray_IterNew("
            f"(PyObject*) {index});"
            for axis, index in enumerate(indices)  # one may be that of two axes: a diagonal
        )
        keep = f"{self.inplace:d} && PyArray_IS_C_CONTIGUOUS({x})"
        number = f"npy_{node.inputs[0].type.dtype}"
        return f"""
        {{
            if ({keep}) {{
                Py_INCREF({x});
                Py_XDECREF({out});
                {out} = {x};
            }} else {{
                Py_XDECREF({out});
                {out} = (PyArrayObject*) PyArray_NewCopy({x}, NPY_CORDER);
                if ({out} == NULL) {{ {fail}; }}
            }}
            if (!({same})) {{
                PyErr_SetString(PyExc_ValueError, "indices have different shapes");
                {fail};
            }}
            npy_intp shape[NPY_MAXDIMS], block = 1;
            for (int k = 0; k < {ndim}; k++) shape[k] = PyArray_DIM({indices[0]}, k);
            for (int k = {axes}; k < PyArray_NDIM({out}); k++) {{
                shape[{ndim - axes} + k] = PyArray_DIM({out}, k);
                block *= PyArray_DIM({out}, k);
            }}
            const int all = {ndim - axes} + PyArray_NDIM({out});
            PyArrayIterObject* y_it = (PyArrayIterObject*) PyArray_BroadcastToShape(
                (PyObject*) {y}, shape, all);
            if (y_it == NULL) {{ {fail}; }}
            {iterators}
            const npy_intp length = PyArray_SIZE({indices[0]});
            const bool plain = PyArray_IS_C_CONTIGUOUS({y}) && PyArray_SIZE({y}) == length * block;
            const {number}* from = ({number}*) PyArray_DATA({y});
            bool outside = false;
            for (npy_intp i = 0; i < length; i++) {{
                char* to = PyArray_BYTES({out});
                {find}
                {number}* sum = ({number}*) to;
                if (plain) {{
                    for (npy_intp j = 0; j < block; j++) sum[j] += *from++;
                }} else {{
                    for (npy_intp j = 0; j < block; j++) {{
                        sum[j] += *({number}*) PyArray_ITER_DATA(y_it);
                        PyArray_ITER_NEXT(y_it);
                    }}
                }}
                {move}
            }}
            Py_DECREF(y_it);
            {release}
            if (outside) {{
                PyErr_SetString(PyExc_IndexError, "index out of range");
                {fail};
            }}
        }}
        """


@our_rewriter(ADDITIONS)
def _add_at(fgraph, node):
    x, y, *_ = node.inputs
    indices = indices_of_addition(node)
    if not indices or x.type.ndim == 1 or len({of.type.broadcastable for of in indices}) > 1:
        return None
    if x.type.dtype != y.type.dtype or x.type.dtype not in ("float32", "float64"):
        return None
    return AddAt(node.op.inplace).make_node(x, y, *indices).outputs


# Run after PyTensor has decided which operations work in place.
register_rewrite(ADD_AT, _add_at, AFTER_INPLACE)
