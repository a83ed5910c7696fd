"""Effects of a hierarchy, found in the graphs of a model."""

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import mul
from typing import Any, TypeAlias

import numpy as np
import pytensor
from pymc import Model
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Variable, equal_computations
from pytensor.graph.traversal import graph_inputs, toposort
from pytensor.scalar.basic import Mul
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.random.basic import LaplaceRV, LogisticRV, NormalRV, StudentTRV
from pytensor.tensor.subtensor import Subtensor
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.compile.evaluate import evaluate
from pymc_sgmcmc.compile.pytensor_versions import GATHERS
from pymc_sgmcmc.model.log_density import is_elementwise
from pymc_sgmcmc.posterior.effects import (
    CorrelatedEffects,
    Effects,
    ScaledEffects,
    products_with,
)

__all__ = ["centred_effects", "standardized_effects"]

LOCATION_AND_SCALE = (NormalRV, StudentTRV, LaplaceRV, LogisticRV)
"""Distributions whose last two parameters are a location and a scale."""

MOST = 4
"""Largest number of correlated effects of a group: of five, PyTensor takes minutes to build."""


def centred_effects(
    model: Model, vars: Sequence[TensorVariable], shapes: Sequence[tuple[int, ...]]
) -> list[ScaledEffects]:
    """Return those of `vars` whose prior has a location, and a scale that is sampled."""
    found, values = [], set(model.value_vars)
    for var, shape in zip(vars, shapes, strict=True):
        rv = model.values_to_rvs[var]
        is_free = model.rvs_to_transforms[rv] is None and np.prod(shape) > 1
        if not (is_free and isinstance(rv.owner.op, LOCATION_AND_SCALE)):
            continue
        parameters = rv.owner.op.dist_params(rv.owner)
        location, scale = model.replace_rvs_by_values(list(parameters[-2:]))
        centre = _zeros("centre", var, shape)
        own = ScaledEffects(var, _unknown(var, shape), scale, location, centre)
        if values.intersection(graph_inputs([scale])) and values & own.parents <= set(vars):
            found.append(own)
    return found


def standardized_effects(
    terms: Sequence[TensorVariable],
    values: Mapping[TensorVariable, np.ndarray],
    slices: Sequence[Variable] = (),
) -> list[Effects]:
    """Return the variables that occur in `terms` only multiplied by a scale, or by a factor.

    A term that depends on no other variable is their prior. `values`: of the variables, at any
    point. `slices`: data by row.
    """
    found: list[Effects] = []
    for var, value in values.items():
        if np.size(value) < 2:
            continue
        others = set(values) - {var}
        uses = [list(toposort([term])) for term in terms if _is_shared(term, var, others)]
        scale = _same([_scale(var, nodes, others, set(slices)) for nodes in uses])
        if scale is not None:
            found.append(ScaledEffects(var, _unknown(var, value.shape), scale))
        elif (own := _correlated(var, uses, others, values)) is not None:
            found.append(own)
    return found


def _is_shared(term: TensorVariable, var: TensorVariable, others: set[Any]) -> bool:
    inputs = set(graph_inputs([term]))
    return var in inputs and not inputs.isdisjoint(others)


def _unknown(var: TensorVariable, shape: tuple[int, ...]) -> SharedVariable:
    return _zeros("information", var, shape)


def _zeros(name: str, var: TensorVariable, shape: tuple[int, ...]) -> SharedVariable:
    return pytensor.shared(np.zeros(shape, var.dtype), name=f"{name}_{var.name}", shape=shape)


def _same(graphs: Sequence[Any]) -> Any:
    """Return the first of `graphs` if all compute the same; None if not, or if one is None."""
    if not graphs or any(graph is None for graph in graphs):
        return None
    first, *others = graphs
    return first if all(equal_computations([first], [other]) for other in others) else None


def _reached(nodes: Sequence[Apply], sources: set[Any]) -> set[Variable]:
    """Return the variables that depend on `sources`."""
    reached = set(sources)
    for node in nodes:
        if not reached.isdisjoint(node.inputs):
            reached.update(node.outputs)
    return reached


def _scale(
    var: TensorVariable, nodes: Sequence[Apply], others: set[Any], slices: set[Any]
) -> TensorVariable | None:
    """Return what `var` is multiplied by wherever it occurs in the graph of `nodes`, or None."""
    of_others, of_rows = _reached(nodes, others), _reached(nodes, slices)
    itself, found = _reached(nodes, {var}), []
    for factors in _products(var, nodes):
        own = [(x, moves) for x, moves in factors if x in of_others]
        if not own or any(x in itself or x in of_rows for x, _ in own):
            return None
        scales = [_by_entry(x, var, moves) for x, moves in own]
        if any(scale is None for scale in scales):
            return None
        found.append(reduce(mul, scales))
    return _same(found)


Moves: TypeAlias = tuple[Any, ...]
"""Operations that move entries, in their order."""


def _products(
    var: TensorVariable, nodes: Sequence[Apply]
) -> Iterator[tuple[tuple[TensorVariable, Moves], ...]]:
    """Yield the factors of each product with `var`, and how its entries were moved before it."""
    clients: dict[Variable, list[tuple[Apply, int]]] = {}
    for node in nodes:
        for k, x in enumerate(node.inputs):
            clients.setdefault(x, []).append((node, k))
    ways: list[tuple[Variable, Moves, tuple[Any, ...]]] = [(var, (), ())]
    while ways:
        x, moves, factors = ways.pop()
        for node, k in clients.get(x, ()):
            out = node.outputs[0]
            if is_elementwise(node, Mul):
                others = [(y, moves) for j, y in enumerate(node.inputs) if j != k]
                ways.append((out, moves, (*factors, *others)))
            elif isinstance(node.op, (DimShuffle, Subtensor, *GATHERS)) and k == 0:
                ways.append((out, (*moves, node.op), factors))
            else:
                yield factors


def _by_entry(x: Any, var: TensorVariable, moves: Moves) -> Any:
    """Return `x`, a factor of moved entries of `var`, with one number for each entry or for all.

    None where `x` has more numbers, or it is not known which belongs to which entry.
    """
    if all(x.type.broadcastable):
        return x.dimshuffle()
    for op in reversed(moves):
        if not isinstance(op, DimShuffle):
            return None
        order = list(op.new_order)
        if not all(x.type.broadcastable[k] for k, axis in enumerate(order) if axis == "x"):
            return None
        axes = range(op.input_ndim)
        x = x.dimshuffle([order.index(axis) if axis in order else "x" for axis in axes])
    pairs = zip(x.type.broadcastable, var.type.broadcastable, strict=True)
    return x if all(one or not of_var for one, of_var in pairs) else None


def _correlated(
    var: TensorVariable,
    uses: Sequence[Sequence[Apply]],
    others: set[Any],
    values: Mapping[Any, np.ndarray],
) -> CorrelatedEffects | None:
    """Return the effects of `var`, if it occurs only in products with one triangular factor."""
    if var.type.ndim != 2 or not uses:
        return None
    products = []
    for nodes in uses:
        own = [*products_with(var, nodes)]
        if not own or _is_used_beside(var, nodes, {product.node for product in own}):
            return None
        products += own
    axis, factor = products[0].axis, _same([product.factor for product in products])
    if factor is None or any(product.axis != axis for product in products):
        return None
    inputs = set(graph_inputs([factor]))
    size = values[var].shape[axis]
    is_of_others = not inputs.isdisjoint(others) and var not in inputs
    if not is_of_others or not 1 < size <= MOST:
        return None
    try:
        (L,) = evaluate([factor], values)
    except KeyError:  # it depends on rows
        return None
    is_factor = L.shape == (size, size) and not np.triu(L, 1).any() and np.diag(L).all()
    return (
        CorrelatedEffects(var, _unknown(var, values[var].shape), factor, axis)
        if is_factor
        else None
    )


def _is_used_beside(var: TensorVariable, nodes: Sequence[Apply], products: set[Apply]) -> bool:
    """Return whether `var` has other clients than `products` and transposes for these."""
    of_var = {var}
    for node in nodes:
        used = of_var.intersection(node.inputs)
        if not used or node in products:
            continue
        if isinstance(node.op, DimShuffle) and tuple(node.op.new_order) == (1, 0):
            of_var.update(node.outputs)
        else:
            return True
    return False
