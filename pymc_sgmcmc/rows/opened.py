"""Conversion of log-densities that are written as one sum into the vector that is summed."""

import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import toposort
from pytensor.scalar.basic import Add, Cast, Identity, Mul, Neg, TrueDiv
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Sum
from pytensor.tensor.variable import TensorVariable

__all__ = ["opened"]


def opened(term: TensorVariable) -> TensorVariable:
    """Return a tensor whose sum is `term`, with more axes if `term` is a scalar sum.

    Factors of the sum move into the elements: -0.5 * sum(x) / s is the sum of -0.5 * x / s.
    """
    if term.type.ndim or term.owner is None:
        return term
    found: dict[Variable, TensorVariable] = {}
    for node in toposort([term]):  # no recursion: a thousand sums may be added up
        (x, *_) = node.outputs
        vector = _vector(node, [found.get(given) for given in node.inputs])
        if vector is not None:
            found[x] = vector
    return found.get(term, term)


def _vector(node: Apply, parts: list[TensorVariable | None]) -> TensorVariable | None:
    """Return the tensor whose sum is the output of `node`, given those of its inputs, `parts`."""
    if isinstance(node.op, Sum):
        (inner,) = node.inputs
        whole = node.op.axis is None or len(node.op.axis) == inner.type.ndim
        return inner if whole and inner.type.ndim else None
    known = [k for k, part in enumerate(parts) if part is not None]
    tensors = [part for part in parts if part is not None]
    if not known or not isinstance(node.op, Elemwise) or node.outputs[0].type.ndim:
        return None
    op = node.op.scalar_op
    if isinstance(op, Add) and len(known) == len(parts):
        shapes = {part.type.shape for part in tensors}
        return pt.add(*parts) if len(shapes) == 1 and None not in next(iter(shapes)) else None
    divides = isinstance(op, TrueDiv) and known == [0]
    if len(known) != 1 or not (divides or isinstance(op, Neg | Cast | Identity | Mul)):
        return None
    ndim = tensors[0].type.ndim
    factors = [x.dimshuffle(*["x"] * ndim) for x in node.inputs]
    return node.op(*(factors[k] if part is None else part for k, part in enumerate(parts)))
