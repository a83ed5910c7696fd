"""A scan as a loop in C, where its inner function is one function in C.

PyTensor's own is written in Python around a loop in Cython: with little data, the slices that it
takes for each step take longer than all computing.
"""

from copy import copy

from pytensor.compile import Function, optdb
from pytensor.compile.mode import get_mode
from pytensor.graph.basic import Apply
from pytensor.graph.rewriting.basic import in2out, node_rewriter
from pytensor.link.c.op import COp
from pytensor.link.c.type import generic
from pytensor.scan.op import Scan
from pytensor.tensor.type import TensorType

from pymc_sgmcmc.loop_code import SUPPORT
from pymc_sgmcmc.one_function import OneFunction

__all__ = ["LOOP", "Loop"]

LOOP = "pymc_sgmcmc_loop"
"""What a mode includes to have it."""


class Loop(COp):
    """A scan over sequences that keeps paths.

    A path is a buffer that begins with its start; one with fewer elements than there are steps, and
    a start, keeps the last ones in order.

    The inner function is in the tag of a node: PyTensor writes operations, as parts of the keys of
    compiled code, to disk.
    """

    __props__ = ("n_sequences", "n_paths", "in_place")
    params_type = generic

    def __init__(self, scan: Scan):
        self.n_sequences, self.n_paths = scan.info.n_seqs, scan.info.n_sit_sot
        self.destroy_map, self.in_place = scan.destroy_map, tuple(sorted(scan.destroy_map))

    def of(self, node: Apply, function: Function) -> Apply:
        """The loop of a scan with that inner function."""
        loop = Apply(self, node.inputs, [output.type() for output in node.outputs])
        loop.tag.step = _Step(function)
        return loop

    def perform(self, node, inputs, outputs):
        raise NotImplementedError("a loop has C code alone")

    def get_params(self, node):
        return node.tag.step

    def c_headers(self, **kwargs):
        return ["<algorithm>", "<vector>"]

    def c_code_cache_version(self):
        return (2,)

    def c_support_code(self, **kwargs):
        return SUPPORT

    def c_support_code_struct(self, node, name):
        return f"pymc_sgmcmc_step step_{name};"

    def c_init_code_struct(self, node, name, sub):
        return f"if (!step_{name}.read({sub['params']})) {sub['fail']}"

    def c_cleanup_code_struct(self, node, name):
        return f"step_{name}.forget();"

    def c_code(self, node, name, inputs, outputs, sub):
        n_steps, *given = inputs
        buffers = enumerate(given[self.n_sequences :][: self.n_paths])
        own = [f"pymc_sgmcmc_own({path}, {int(k in self.in_place)})" for k, path in buffers]
        return f"""
        {{
            PyArrayObject* given[] = {{{", ".join(given)}}};
            PyArrayObject* paths[] = {{{", ".join(own)}}};
            const npy_intp n_steps = PyArray_PyIntAsIntp((PyObject*) {n_steps});
            const bool good = step_{name}.loop(
                n_steps, given, paths, {self.n_sequences}, {self.n_paths}, {len(given)});
            step_{name}.empty();
            if (!good) {{
                for (PyArrayObject* path : paths) Py_XDECREF(path);
                {sub["fail"]}
            }}
            {"".join(f"Py_XDECREF({out}); {out} = paths[{k}];" for k, out in enumerate(outputs))}
        }}
        """


class _Step:
    """The inner function as C code calls it: cells, lists of one, hold what it reads and writes.

    It pickles as its graph: where it is loaded, it is linked when the loop is.
    """

    def __init__(self, function: Function):
        self._maker, self._function = function.maker, function

    def __getstate__(self):
        return {"_maker": self._maker, "_function": None}

    @property
    def function(self) -> Function:
        if self._function is None:
            self._function = self._maker.create([None] * len(self._maker.inputs))
        return self._function

    thunk = property(lambda self: self.function.vm.cthunk)
    errors = property(lambda self: self.function.vm.error_storage)
    inputs = property(lambda self: [cell.storage for cell in self.function.input_storage])
    outputs = property(lambda self: [cell.storage for cell in self.function.output_storage])


@node_rewriter([Scan])
def _loop(fgraph, node):
    op, info = node.op, node.op.info
    others = info.n_mit_mot, info.n_mit_sot, info.n_nit_sot, info.n_untraced_sit_sot
    if info.as_while or any(others) or not isinstance(get_mode(op.mode).linker, OneFunction):
        return None
    if not all(isinstance(v.type, TensorType) for v in (*node.inputs, *node.outputs)):
        return None
    # That of a copy: the graph keeps `op` in its history, and would pickle its function with it.
    function = copy(op.clone()).fn
    return Loop(op).of(node, function).outputs if hasattr(function.vm, "cthunk") else None


# After all that looks for scans.
optdb.register(LOOP, in2out(_loop), position=102)
