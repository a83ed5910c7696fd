"""Addition at indices in C, for the gradients of factors, of group effects, and of classes.

PyTensor has fast C code for vectors only. For other arrays it calls NumPy, which is slower, and a
graph with such an operation cannot be one C function.
"""

import numpy as np
from pytensor.graph.basic import Apply

from pymc_sgmcmc.compile.additions import our_rewriter
from pymc_sgmcmc.compile.c_header import HeaderOp
from pymc_sgmcmc.compile.pytensor_internals import AFTER_INPLACE, register_rewrite
from pymc_sgmcmc.compile.pytensor_versions import ADDITIONS, indices_of_addition

__all__ = ["ADD_AT", "AddAt"]

ADD_AT = "pymc_sgmcmc_add_at"
"""Name under which a mode includes the rewrite."""


class AddAt(HeaderOp):
    """Addition of ``y`` to ``x`` at ``indices`` of the first axes of x; repeated indices add up.

    The indices are arrays of one shape. The shape of y is that shape followed by the remaining axes
    of x, or y is broadcast to it. An index out of bounds raises an IndexError.
    """

    header, version = "scatter_add.h", 3
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

    def c_code(self, node, name, inputs, outputs, sub):
        (x, y, *indices), (out,) = inputs, outputs
        number, _, *types = [f"npy_{given.type.dtype}" for given in node.inputs]
        call = (
            f"pymc_sgmcmc_scatter_add<{', '.join([number, *types])}>"
            f"({x}, {y}, indices, {self.inplace:d}, &{out})"
        )
        return f"""
        {{
            PyArrayObject* const indices[] = {{{", ".join(indices)}}};
            if (!{call}) {{ {sub["fail"]} }}
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
