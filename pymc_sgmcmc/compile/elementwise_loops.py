"""Elementwise operations in C as plain loops that the compiler vectorizes.

PyTensor writes such a loop only if it knows all lengths statically and no argument is broadcast.
A step size times a momentum, the rows of a batch, and a bias added to each row do not qualify. For
these PyTensor's loops use strides known only at run time, and are four to eight times slower.
"""

from pytensor.tensor.elemwise import Elemwise

from pymc_sgmcmc.compile.additions import our_rewriter
from pymc_sgmcmc.compile.pytensor_internals import AFTER_INPLACE, register_rewrite, scalar_node

__all__ = ["CONTIGUOUS", "Contiguous"]

CONTIGUOUS = "pymc_sgmcmc_contiguous"
"""Name under which a mode includes the rewrite."""


class Contiguous(Elemwise):
    """An elementwise operation with a plain loop over the last axis.

    If no array is broadcast, the code is one loop over all axes. An argument that is broadcast
    along the last axis is read once per loop.
    """

    def _c_all(self, node, nodename, inames, onames, sub):
        *head, by_strides, end = super()._c_all(node, nodename, inames, onames, sub)
        out, repeated = onames[0], node.outputs[0].type.broadcastable
        if all(repeated):  # the static shape may be known only since the rewrite
            return *head, by_strides, end
        shapes = dict(zip(inames, [x.type.broadcastable for x in node.inputs], strict=True))
        shapes |= dict.fromkeys(onames, repeated)
        arrays = {x: shape for x, shape in shapes.items() if not all(shape)}
        address, loops, last = {x: f"PyArray_BYTES({x})" for x in shapes}, "", len(repeated) - 1
        if set(arrays.values()) == {repeated}:
            along, length = list(arrays), f"PyArray_SIZE({out})"
            plain = [f"PyArray_IS_C_CONTIGUOUS({x})" for x in along]
        else:
            along = [x for x, shape in arrays.items() if not shape[last] or x in onames]
            length = f"PyArray_DIM({out}, {last})"
            plain = [f"PyArray_STRIDE({x}, {last}) == PyArray_ITEMSIZE({x})" for x in along]
            for axis in range(last):
                i = f"i{axis}"
                loops += f"for (npy_intp {i} = 0; {i} < PyArray_DIM({out}, {axis}); {i}++) "
                for x in (x for x, shape in arrays.items() if not shape[axis]):
                    address[x] += f" + {i} * PyArray_STRIDE({x}, {axis})"
        once = [x for x in shapes if x not in along]
        names = ([f"{x}_i" for x in some] for some in (inames, onames))
        task = self.scalar_op.c_code(scalar_node(node), f"{nodename}_contiguous_", *names, sub)
        loop = f"""
        if ({" && ".join(plain)}) {{
            const npy_intp length = {length};
            {loops} {{
                {"".join(f"dtype_{x} {x}_i = *(dtype_{x}*) ({address[x]});" for x in once)}
                {"".join(f"dtype_{x}* {x}_data = (dtype_{x}*) ({address[x]});" for x in along)}
                #ifdef __clang__
                #pragma clang loop vectorize(assume_safety)
                #else
                #pragma GCC ivdep
                #endif
                for (npy_intp k = 0; k < length; k++) {{
                    {"".join(f"dtype_{x}& {x}_i = {x}_data[k];" for x in along)}
                    {task}
                }}
            }}
        }} else {{
            {by_strides}
        }}
        """
        return *head, loop, end

    def c_code_cache_version_apply(self, node):
        version = super().c_code_cache_version_apply(node)
        return (*version, "contiguous", 3) if version else version


@our_rewriter([Elemwise])
def _contiguous(fgraph, node):
    op, repeated = node.op, node.outputs[0].type.broadcastable
    if type(op) is not Elemwise or all(repeated):
        return None
    return Contiguous(op.scalar_op, op.inplace_pattern).make_node(*node.inputs).outputs


# Run after all other rewrites of elementwise operations.
register_rewrite(CONTIGUOUS, _contiguous, AFTER_INPLACE)
