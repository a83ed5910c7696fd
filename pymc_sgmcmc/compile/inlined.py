"""Operations that are made of others, taken apart for Python: PyTensor would compile each to C.

A softmax is one in PyTensor 3, and a derivative of it.
"""

from pytensor.compile.builders import OpFromGraph
from pytensor.graph.replace import clone_replace

from pymc_sgmcmc.compile.additions import our_rewriter
from pymc_sgmcmc.compile.pytensor_internals import BEFORE_FUSION, inner_graph, register_rewrite

__all__ = ["INLINED"]

INLINED = "pymc_sgmcmc_inlined"
"""Name under which a mode for Python code includes the rewrite."""


@our_rewriter([OpFromGraph])
def _inlined(fgraph, node):
    inner = inner_graph(node.op)
    return clone_replace(inner.outputs, dict(zip(inner.inputs, node.inputs, strict=True)))


register_rewrite(INLINED, _inlined, BEFORE_FUSION)
