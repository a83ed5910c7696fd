"""Sums and products of many terms, for Python: NumPy's functions take 32 operands at most.

PyTensor makes one sum of all that are added to each other, and has only C code for long ones.
"""

from pytensor.compile import optdb
from pytensor.graph.rewriting.basic import in2out
from pytensor.tensor.elemwise import Elemwise

from pymc_sgmcmc.compile.additions import our_rewriter

__all__ = ["FEW_OPERANDS"]

FEW_OPERANDS = "pymc_sgmcmc_few_operands"
"""What a mode includes where Python computes."""

MOST = 31
"""NumPy's limit, less one for the result."""


@our_rewriter([Elemwise])
def _few_operands(fgraph, node):
    scalar_op, (output, *_) = node.op.scalar_op, node.outputs
    if len(node.inputs) <= MOST or not getattr(scalar_op, "associative", False):
        return None
    op = Elemwise(scalar_op)
    terms = [x.astype(output.type.dtype) for x in node.inputs]  # as the whole has them
    while len(terms) > 1:
        parts = [terms[k : k + MOST] for k in range(0, len(terms), MOST)]
        terms = [op(*part) if len(part) > 1 else part[0] for part in parts]
    return terms


# After all that joins sums.
optdb.register(FEW_OPERANDS, in2out(_few_operands), position=103)
