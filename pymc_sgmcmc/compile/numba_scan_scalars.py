"""Rewrite that passes the constant scalars of a scan to its steps as numbers, for Numba.

PyTensor passes them as arrays. Numba counts references to an array at every use, which takes a
third of the time of a small model.
"""

from importlib.util import find_spec

from pytensor.graph.replace import graph_replace
from pytensor.tensor import atleast_Nd, scalar_from_tensor, tensor_from_scalar
from pytensor.tensor.type import TensorType

from pymc_sgmcmc.compile.additions import our_rewriter
from pymc_sgmcmc.compile.pytensor_internals import (
    BEFORE_FUSION,
    Scan,
    inner_graph,
    register_rewrite,
    remake_scan,
)

__all__ = ["NUMBERS"]

NUMBERS = "pymc_sgmcmc_numbers"
"""Name under which a mode includes the rewrite."""


@our_rewriter([Scan])
def _numbers(fgraph, node):
    op = node.op
    step = inner_graph(op)
    outer, inner, given = list(node.inputs), list(step.inputs), {}
    for k in range(-op.info.n_non_seqs, 0):
        if isinstance(inner[k].type, TensorType) and all(inner[k].type.broadcastable):
            array, outer[k] = inner[k], scalar_from_tensor(outer[k].squeeze())
            inner[k] = outer[k].type()
            given[array] = atleast_Nd(tensor_from_scalar(inner[k]), n=array.type.ndim)
    if not given:
        return None
    outputs = graph_replace(step.outputs, given, strict=False)
    return remake_scan(op, inner, outputs)(*outer, return_list=True)


# Run after the other rewrites of scans, but before scans work in place and before elementwise
# operations are fused. Older versions of PyTensor turn such numbers into arrays again.
if find_spec("pytensor.tensor.rewriting.scalarize"):
    register_rewrite(NUMBERS, _numbers, BEFORE_FUSION)
