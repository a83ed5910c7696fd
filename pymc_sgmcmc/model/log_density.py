"""Terms of a PyMC model's log-density."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc import Model
from pymc.logprob.utils import local_check_parameter_to_ninf_switch
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import clone_replace
from pytensor.graph.rewriting.basic import PatternNodeRewriter, in2out
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.graph.traversal import toposort, walk
from pytensor.scalar.basic import (
    GE,
    GT,
    LE,
    LT,
    Abs,
    Add,
    Cast,
    Clip,
    Maximum,
    Minimum,
    Mul,
    Neg,
    Sign,
    Sub,
    Switch,
    convert_to_int8,
)
from pytensor.tensor.basic import Alloc, get_underlying_scalar_constant_value
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Sum
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.distributions.embedded import without_refusal

__all__ = [
    "flat_gradient",
    "has_kinks",
    "inside",
    "is_elementwise",
    "is_minus_infinity",
    "log_density_terms",
    "pulled_back",
    "stabilized",
]


def log_density_terms(
    model: Model, shared: Mapping[TensorVariable, SharedVariable]
) -> dict[TensorVariable, TensorVariable]:
    """Return the elementwise log-density of each random variable and potential, with Jacobians.

    A parameter outside its range, or a value off its manifold, makes a term -inf, where PyMC's
    graph raises: a chain that leaves the support is rolled back and does not end. `shared`:
    variables that stand for the values that are not sampled.
    """
    variables = [*model.free_RVs, *model.observed_RVs, *model.potentials]
    terms = clone_replace(model.logp(vars=variables, sum=False), shared, rebuild_strict=False)
    graph = FunctionGraph(outputs=terms, clone=False)
    in2out(local_check_parameter_to_ninf_switch, without_refusal).rewrite(graph)
    return dict(zip(variables, graph.outputs, strict=True))


def inside(log_density: TensorVariable) -> TensorVariable:
    """Drop the branches that return -inf (parameter and support checks), for gradients only.

    The result equals `log_density` where that is finite. Elsewhere gradients have no meaning, and
    checks by row can take as long as the gradient itself. Infinite branches stay within functions
    other than sums and products: a component of a mixture may be impossible while the mixture is
    possible.
    """
    carriers = set(walk([log_density], _carriers))
    finite: dict[Variable, Variable] = {}
    for node in toposort([log_density]):
        if node.outputs[0] not in carriers or not (own := _carriers(node.outputs[0])):
            continue
        (whole,) = node.outputs
        inputs = [finite.get(x, x) if x in own else x for x in node.inputs]
        is_switch = is_elementwise(node, Switch)
        kept = [x for x in inputs if not is_minus_infinity(x)] if is_switch else []
        if len(kept) == 2 and whole.type.is_super(kept[1].type):  # the condition and one branch
            finite[whole] = kept[1]
        elif any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
            finite[whole] = node.clone_with_new_inputs(inputs, strict=False).outputs[0]
    return finite.get(log_density, log_density)


def _carriers(variable: TensorVariable) -> list[TensorVariable]:
    """Return the inputs of `variable` whose infinity makes `variable` infinite too."""
    node = variable.owner
    if node is None:
        return []
    if is_elementwise(node, Switch):
        return node.inputs[1:]
    if isinstance(node.op, Alloc):
        return node.inputs[:1]
    combines = is_elementwise(node, Add | Sub | Mul | Neg | Cast)
    spreads = combines or isinstance(node.op, Sum | DimShuffle)
    return node.inputs if spreads else []


def is_elementwise(node: Apply, kind: type | tuple[type, ...]) -> bool:
    """Return whether `node` applies a scalar operation of that kind to each element."""
    return isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, kind)


_KINKED = (Abs, Clip, GE, GT, LE, LT, Maximum, Minimum, Sign)


def has_kinks(graphs: Sequence[Any], vars: Collection[Variable]) -> bool:
    """Return whether `graphs` may have kinks in `vars`.

    A function without kinks may consist of parts that have some, for precision: then it counts.
    """
    depends = set(vars)
    for node in toposort(graphs):
        if not depends.isdisjoint(node.inputs):
            if is_elementwise(node, _KINKED):
                return True
            depends.update(node.outputs)
    return False


def is_minus_infinity(variable: TensorVariable) -> bool:
    """Return whether `variable` is the constant -inf, of any shape."""
    value: Any = get_underlying_scalar_constant_value(variable, raise_not_constant=False)
    is_number = isinstance(value, np.ndarray | np.number)
    return is_number and bool(np.isneginf(value))


def flat_gradient(value: TensorVariable, vars: Sequence[TensorVariable]) -> TensorVariable:
    """Return the gradient in `vars`, (d,), of `value`."""
    return _flat(pt.grad(value, list(vars), disconnected_inputs="ignore"))


def pulled_back(
    gradients: Mapping[TensorVariable, TensorVariable], vars: Sequence[TensorVariable]
) -> TensorVariable:
    """Return the gradient in `vars`, (d,), of a function with `gradients` in functions of these.

    The functions may be functions of each other. (PyTensor's `known_grads` and `Lop` would take the
    gradient of the inner one as all that there is of it.)
    """
    symbols = {gradient.type(): gradient for gradient in gradients.values()}
    products = [x * symbol for x, symbol in zip(gradients, symbols, strict=True)]
    total = pt.add(0.0, *map(pt.sum, products))
    found = _flat(pt.grad(total, list(vars), disconnected_inputs="ignore"))
    return clone_replace(found, symbols, rebuild_strict=False)


def _flat(gradients: Sequence[TensorVariable]) -> TensorVariable:
    return pt.concatenate([gradient.ravel() for gradient in gradients])


_NUMBER = Elemwise(convert_to_int8)
"""Cast of a bool to a number: PyTensor's rewrites fail (and print so) if a factor is a bool."""

_RESIDUAL = in2out(
    PatternNodeRewriter(
        (pt.switch, "c", (pt.neg, (pt.softplus, (pt.neg, "x"))), (pt.neg, (pt.softplus, "x"))),
        (pt.sub, (pt.mul, (_NUMBER, (pt.neq, "c", 0)), "x"), (pt.softplus, "x")),
    )
)
"""Rewrite of a Bernoulli variable's term y log p + (1 - y) log(1 - p): one softplus of its logit x
takes the place of two. The slope is then the residual y - p."""


def stabilized(value: TensorVariable) -> TensorVariable:
    """Return a graph of the same value by numerically stable operations."""
    return rewrite_graph(value, include=("stabilize",), custom_rewrite=_RESIDUAL, clone=False)
