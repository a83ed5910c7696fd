"""Part of a graph as one function in C, which all graphs have in common that have such a part.

The compiler then sees it once, and not again for each model.
"""

from collections.abc import Sequence

import pytensor
import pytensor.tensor as pt
from pytensor.compile import optdb
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.graph.replace import clone_replace
from pytensor.graph.rewriting.basic import in2out
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.variable import TensorConstant

from pymc_sgmcmc.compile.additions import our_rewriter
from pymc_sgmcmc.compile.c_call import CallsInner, Inner

__all__ = ["AS_ONE", "Call", "Part", "as_one"]

AS_ONE = "pymc_sgmcmc_as_one"
"""What a mode includes where graphs have such parts."""


def as_one(
    inputs: Sequence[Variable], outputs: Sequence[Variable], mode: Mode
) -> Sequence[Variable]:
    """Return `outputs`, with what is between them and `inputs` compiled by itself.

    It knows no lengths but 1, so that it is the same code whatever they are: numbers that are a
    length become inputs. Where an operation has no C code all stays as it is.

    Parameters
    ----------
    inputs, outputs : sequences of tensor variables
    mode : Mode
        One with the linker `OneFunction`.
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
    if not hasattr(function.vm, "cthunk"):
        return outputs
    return Part(Inner(function), general, inner)(*inputs, return_list=True)


class Part(Op):
    """A place in a graph for `Call`, while PyTensor rewrites the rest.

    It computes `outputs` of `inputs`, as the function `inner` does.
    """

    def __init__(self, inner: Inner, inputs: Sequence[Variable], outputs: Sequence[Variable]):
        self.inner, self.inputs, self.outputs = inner, inputs, outputs

    def make_node(self, *inputs):
        return Apply(self, list(inputs), [output.type() for output in self.outputs])

    def perform(self, node, inputs, outputs):
        raise NotImplementedError("a mode includes AS_ONE where there are parts")


class Call(CallsInner):
    """A call of the inner function, whose inputs and outputs are those of the node."""

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


# When all around it has been rewritten, as for loops.
optdb.register(AS_ONE, in2out(_call), position=102)
