"""Sums and products of many terms, split for NumPy, whose functions take 32 operands at most.

PyTensor merges nested sums to one operation, and can compute long ones in C only.
"""

from pytensor.graph.basic import Apply
from pytensor.tensor.elemwise import Elemwise

from pymc_sgmcmc.compile.additions import our_rewriter
from pymc_sgmcmc.compile.pytensor_internals import LAST, register_rewrite

__all__ = ["FEW_OPERANDS", "has_too_many_operands"]

FEW_OPERANDS = "pymc_sgmcmc_few_operands"
"""Name under which a mode for Python code includes the rewrite."""

MOST = 31
"""NumPy's limit, minus one operand for the result."""


def has_too_many_operands(node: Apply) -> bool:
    """Return whether NumPy has no function for so many operands of an elementwise operation."""
    return isinstance(node.op, Elemwise) and len(node.inputs) > MOST


@our_rewriter([Elemwise])
def _few_operands(fgraph, node):
    scalar_op, (output, *_) = node.op.scalar_op, node.outputs
    if not has_too_many_operands(node) or not getattr(scalar_op, "associative", False):
        return None
    op = Elemwise(scalar_op)
    terms = [x.astype(output.type.dtype) for x in node.inputs]  # as in one sum
    while len(terms) > 1:
        parts = [terms[k : k + MOST] for k in range(0, len(terms), MOST)]
        terms = [op(*part) if len(part) > 1 else part[0] for part in parts]
    return terms


# Run after all rewrites that merge sums.
register_rewrite(FEW_OPERANDS, _few_operands, LAST)
