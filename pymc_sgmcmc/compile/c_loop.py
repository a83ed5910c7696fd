"""Scan as a C loop, for scans whose inner function is one C function.

PyTensor's own scan is Python code around a Cython loop. With little data, slicing its arrays at
each step takes longer than the computation.
"""

from copy import copy

from pytensor.tensor.type import TensorType

from pymc_sgmcmc.compile.additions import our_rewriter
from pymc_sgmcmc.compile.c_call import CallsInner, Inner
from pymc_sgmcmc.compile.c_linker import OneFunction
from pymc_sgmcmc.compile.pytensor_internals import (
    AFTER_SCANS,
    Scan,
    get_mode,
    has_c_function,
    paths_alone,
    register_rewrite,
)

__all__ = ["LOOP", "Loop"]

LOOP = "pymc_sgmcmc_loop"
"""Name under which a mode includes the rewrite."""


class Loop(CallsInner):
    """A scan over sequences that stores paths.

    A path is a buffer whose first element is the start. A buffer with fewer elements than steps + 1
    keeps the last elements, in order.
    """

    __props__ = ("n_sequences", "n_paths", "in_place")

    def __init__(self, scan: Scan):
        alone = paths_alone(scan)
        assert alone is not None  # other scans are not rewritten
        self.n_sequences, self.n_paths = alone
        self.destroy_map, self.in_place = scan.destroy_map, tuple(sorted(scan.destroy_map))

    def c_code(self, node, name, inputs, outputs, sub):
        n_steps, *given = inputs
        buffers = enumerate(given[self.n_sequences :][: self.n_paths])
        own = [f"pymc_sgmcmc_own({path}, {int(k in self.in_place)})" for k, path in buffers]
        return f"""
        {{
            PyArrayObject* given[] = {{{", ".join(given)}}};
            PyArrayObject* paths[] = {{{", ".join(own)}}};
            const npy_intp n_steps = PyArray_PyIntAsIntp((PyObject*) {n_steps});
            const bool good = inner_{name}.loop(
                n_steps, given, paths, {self.n_sequences}, {self.n_paths}, {len(given)});
            inner_{name}.empty();
            if (!good) {{
                for (PyArrayObject* path : paths) Py_XDECREF(path);
                {sub["fail"]}
            }}
            {"".join(f"Py_XDECREF({out}); {out} = paths[{k}];" for k, out in enumerate(outputs))}
        }}
        """


@our_rewriter([Scan])
def _loop(fgraph, node):
    op = node.op
    if not paths_alone(op) or not isinstance(get_mode(op.mode).linker, OneFunction):
        return None
    if not all(isinstance(v.type, TensorType) for v in (*node.inputs, *node.outputs)):
        return None
    # Compile a copy: the graph keeps `op` in its history, and would pickle its function with it.
    function = copy(op.clone()).fn
    return Loop(op).of(node, Inner(function)).outputs if has_c_function(function) else None


# Run after all other rewrites of scans.
register_rewrite(LOOP, _loop, AFTER_SCANS)
