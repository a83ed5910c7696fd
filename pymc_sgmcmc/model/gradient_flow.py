"""Variables that the gradient of a log-density reaches."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from pytensor.gradient import DisconnectedGrad, ZeroGrad
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import walk
from pytensor.scalar.basic import (
    Ceil,
    Floor,
    IntDiv,
    RoundHalfAwayFromZero,
    RoundHalfToEven,
    Second,
    Sign,
    Switch,
    Trunc,
)
from pytensor.tensor.basic import Alloc
from pytensor.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.model.log_density import is_elementwise, is_minus_infinity

__all__ = ["refuse_without_gradient", "unreached"]

STEPS = (Ceil, Floor, IntDiv, RoundHalfAwayFromZero, RoundHalfToEven, Sign, Trunc)
"""Scalar operations whose result is a float and whose derivative is zero."""


def refuse_without_gradient(
    terms: Mapping[Variable, TensorVariable], values: Sequence[TensorVariable]
) -> None:
    """Raise ValueError if a term depends on a variable that its gradient does not reach."""
    for term, names in unreached(terms, values):
        which = ", ".join(map(repr, names))
        raise ValueError(
            f"The log-density of {term!r} depends on {which} through comparisons, roundings or "
            "indices only, whose derivative is zero: a gradient sampler would not see it, and "
            f"sample {which} as if {term!r} were not there. Make it smooth, as "
            "pm.math.sigmoid((a - b) / width) in place of a > b, or leave the variable to another "
            "step method, as in pm.sample(step=[SGNHT([others]), pm.Metropolis([it])])."
        )


def unreached(
    terms: Mapping[Variable, TensorVariable], values: Sequence[TensorVariable]
) -> Iterator[tuple[str, list[str]]]:
    """Yield the terms whose value depends on a variable that their gradient does not reach.

    A comparison, a rounding, or a number used as an index has a derivative of zero. Conditions that
    only decide whether a term is minus infinity do not count: they are the edges of a support.

    Parameters
    ----------
    terms : mapping
        Elementwise log-densities, by random variable or potential.
    values : sequence of value variables

    Yields
    ------
    (str, list of str)
        Name of the term, and names of its unreached variables. Nothing is compiled.
    """
    for rv, term in terms.items():
        depends, reached = set(walk([term], _inputs)), set(walk([term], _smooth_inputs))
        names = [var.name for var in values if var in depends and var not in reached]
        if names:
            yield rv.name, names


def _inputs(variable: Variable) -> Iterable[Variable]:
    """Return the inputs that determine the number `variable` where it is finite."""
    node = variable.owner
    if node is None or isinstance(node.op, Shape | Shape_i):
        return []
    if isinstance(node.op, Alloc | SpecifyShape | Reshape):
        return node.inputs[:1]
    if is_elementwise(node, Second):
        return node.inputs[1:]
    if is_elementwise(node, Switch):
        branches = [branch for branch in node.inputs[1:] if not is_minus_infinity(branch)]
        return branches if len(branches) < 2 else node.inputs
    return node.inputs


def _smooth_inputs(variable: Variable) -> Iterable[Variable]:
    """Return the inputs of `_inputs` along which there is a derivative."""
    node = variable.owner
    if node is None or np.dtype(getattr(variable.type, "dtype", "float64")).kind in "biu":
        return []
    if isinstance(node.op, DisconnectedGrad | ZeroGrad) or is_elementwise(node, STEPS):
        return []
    condition = node.inputs[0] if is_elementwise(node, Switch) else None
    return [x for x in _inputs(variable) if x is not condition]
