"""Scan as a C loop, for scans whose inner function is one C function.

PyTensor's own scan is Python code around a Cython loop. With little data, slicing its arrays at
each step takes longer than the computation.
"""

from copy import copy

from pytensor.compile import optdb
from pytensor.compile.mode import get_mode
from pytensor.graph.rewriting.basic import in2out
from pytensor.scan.op import Scan
from pytensor.tensor.type import TensorType

from pymc_sgmcmc.compile.additions import our_rewriter
from pymc_sgmcmc.compile.c_call import CallsInner, Inner
from pymc_sgmcmc.compile.c_linker import OneFunction

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
        self.n_sequences, self.n_paths = scan.info.n_seqs, scan.info.n_sit_sot
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
    op, info = node.op, node.op.info
    others = info.n_mit_mot, info.n_mit_sot, info.n_nit_sot, info.n_untraced_sit_sot
    if info.as_while or any(others) or not isinstance(get_mode(op.mode).linker, OneFunction):
        return None
    if not all(isinstance(v.type, TensorType) for v in (*node.inputs, *node.outputs)):
        return None
    # Compile a copy: the graph keeps `op` in its history, and would pickle its function with it.
    function = copy(op.clone()).fn
    return Loop(op).of(node, Inner(function)).outputs if hasattr(function.vm, "cthunk") else None


# Run after all other rewrites of scans.
optdb.register(LOOP, in2out(_loop), position=102)
