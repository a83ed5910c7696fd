"""Compilation of a subgraph to one C function that all graphs containing it share.

The C compiler compiles it once, and not again for each model.
"""

from collections.abc import Sequence

import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.variable import TensorConstant

from pymc_sgmcmc.compile.additions import our_rewriter
from pymc_sgmcmc.compile.c_call import CallsInner, Inner
from pymc_sgmcmc.compile.pytensor_internals import (
    AFTER_SCANS,
    Mode,
    has_c_function,
    register_rewrite,
)

__all__ = ["AS_ONE", "Call", "Part", "as_one"]

AS_ONE = "pymc_sgmcmc_as_one"
"""Name under which a mode includes the rewrite of each `Part` to a `Call`."""


def as_one(
    inputs: Sequence[Variable], outputs: Sequence[Variable], mode: Mode
) -> Sequence[Variable]:
    """Return `outputs` with the graph between `inputs` and them compiled to one C function.

    The function has no static length other than 1, so its code is the same for all lengths: a
    constant that equals a length of an input becomes an input. Return `outputs` unchanged if an
    operation has no C code.

    Parameters
    ----------
    inputs, outputs : sequences of tensor variables
    mode : Mode
        A mode with the linker `OneFunction`.
    """
    lengths = {n for x in inputs for n in x.type.shape if n is not None and n > 2}
    leaves = graph_inputs(outputs, blockers=inputs)
    numbers = [x for x in leaves if isinstance(x, TensorConstant) and x.type.ndim == 0]
    inputs = [*inputs, *(x for x in numbers if x.data.item() in lengths)]
    general = [
        pt.tensor(dtype=x.type.dtype, shape=[1 if n == 1 else None for n in x.type.shape])
        for x in inputs
    ]
    inner = clone_replace(outputs, dict(zip(inputs, general, strict=True)), rebuild_strict=False)
    function = pytensor.function(general, inner, mode=mode, on_unused_input="ignore")
    if not has_c_function(function):
        return outputs
    return Part(Inner(function), general, inner)(*inputs, return_list=True)


class Part(Op):
    """A placeholder for `Call` while PyTensor rewrites the rest of the graph.

    The op computes `outputs` from `inputs`, as the function `inner` does.
    """

    def __init__(self, inner: Inner, inputs: Sequence[Variable], outputs: Sequence[Variable]):
        self.inner, self.inputs, self.outputs = inner, inputs, outputs

    def make_node(self, *inputs):
        return Apply(self, list(inputs), [output.type() for output in self.outputs])

    def perform(self, node, inputs, outputs):
        raise NotImplementedError("a mode includes AS_ONE where there are parts")


class Call(CallsInner):
    """A call of the inner function with the inputs and outputs of the node."""

    __props__ = ()

    def c_code(self, node, name, inputs, outputs, sub):
        return f"""
        {{
            PyArrayObject* given[] = {{{", ".join(inputs)}}};
            PyArrayObject* made[{len(outputs)}];
            const bool good = inner_{name}.call(given, {len(inputs)}, made, {len(outputs)});
            inner_{name}.empty();
            if (!good) {{ {sub["fail"]} }}
            {"".join(f"Py_XDECREF({out}); {out} = made[{k}];" for k, out in enumerate(outputs))}
        }}
        """


@our_rewriter([Part])
def _call(fgraph, node):
    return Call().of(node, node.op.inner).outputs


# Run after the rest of the graph has been rewritten, as for loops.
register_rewrite(AS_ONE, _call, AFTER_SCANS)
