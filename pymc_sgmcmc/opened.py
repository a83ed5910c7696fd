"""Log-densities that are written as one sum, as the vector that is summed."""

import pytensor.tensor as pt
from pytensor.scalar.basic import Add, Cast, Identity, Mul, Neg, TrueDiv
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Sum
from pytensor.tensor.variable import TensorVariable

__all__ = ["opened"]


def opened(term: TensorVariable) -> TensorVariable:
    """Return a tensor whose sum is `term`, with more axes if `term` is a number that is a sum.

    The factors of a sum go into it: -0.5 * sum(x) / s is the sum of -0.5 * x / s.
    """
    if term.type.ndim or term.owner is None:
        return term
    found = _opened(term)
    return term if found is None else found


def _opened(term: TensorVariable) -> TensorVariable | None:
    node = term.owner
    if node is None or not isinstance(node.op, Sum | Elemwise):
        return None
    if isinstance(node.op, Sum):
        (inner,) = node.inputs
        whole = node.op.axis is None or len(node.op.axis) == inner.type.ndim
        return inner if whole and inner.type.ndim else None
    op, parts = node.op.scalar_op, [_opened(given) for given in node.inputs]
    found = [k for k, part in enumerate(parts) if part is not None]
    if isinstance(op, Add) and len(found) == len(parts):
        same = (
            len({part.type.ndim for part in parts}) == 1
            and len({part.type.shape for part in parts}) == 1
        )
        return pt.add(*parts) if same and None not in parts[0].type.shape else None
    alone = len(found) == 1 and (
        isinstance(op, Neg | Cast | Identity | Mul) or (isinstance(op, TrueDiv) and found == [0])
    )
    if not alone:
        return None
    inputs = [given if part is None else part for given, part in zip(node.inputs, parts)]
    ndim = inputs[found[0]].type.ndim
    return node.op(*(x if x.type.ndim else x.dimshuffle(*["x"] * ndim) for x in inputs))
