"""Selections of entries moved inside elementwise operations: (m + t * z)[g] as m + t * z[g].

The effects of a hierarchy that is not centred, or scales by group, are then elementwise functions
of variables that are selected by row, as those of a centred one are.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import MergeOptimizer
from pytensor.graph.traversal import toposort
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.subtensor import Subtensor
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.compile.pytensor_versions import GATHERS
from pymc_sgmcmc.posterior.stacks import Stack, stacked
from pymc_sgmcmc.rows.indices import entries_of

__all__ = ["lifted"]

Select = Callable[[TensorVariable], TensorVariable]


def lifted(
    graphs: Sequence[TensorVariable], vars: Sequence[Variable], *, through_sums: bool = True
) -> list[Any]:
    """Return `graphs` with selections inside elementwise operations, where these depend on `vars`.

    The values are the same. An operation is then on as many numbers as are selected.
    `through_sums`: False moves selections to the parts of stacks alone.
    """
    depends: set[Variable] = set(vars)
    found: dict[Variable, Any] = {}
    stacks: dict[Variable, Stack] = {}
    for node in toposort(graphs):
        if depends.isdisjoint(node.inputs):
            continue
        depends.update(node.outputs)
        old, inputs = node.inputs, [found.get(x, x) for x in node.inputs]
        parts = stacked(node, inputs, stacks)
        if isinstance(parts, Stack):
            within = [*map(_lifted, parts.parts)] if through_sums else parts.parts
            stacks[node.outputs[0]] = Stack(parts.axis, within)
            continue
        if parts is not None:
            found[node.outputs[0]] = _lifted(parts) if through_sums else parts
            continue
        select = _selection(node, inputs) if through_sums else None
        if select is not None:
            found[node.outputs[0]] = _inside(select, inputs[0])
        elif any(new is not x for new, x in zip(inputs, old, strict=True)):
            made = node.clone_with_new_inputs(inputs, strict=False).outputs
            found.update(zip(node.outputs, made, strict=True))
    return _merged([found.get(x, x) for x in graphs])


def _merged(graphs: Sequence[Any]) -> list[Any]:
    """Return `graphs` in which what is computed twice is one variable."""
    graph = FunctionGraph(outputs=list(graphs), clone=False)
    MergeOptimizer().rewrite(graph)
    return list(graph.outputs)


def _lifted(x: Any) -> Any:
    """Return `x` with its last operation inside, if that selects."""
    select = None if x.owner is None else _selection(x.owner, x.owner.inputs)
    return x if select is None else _inside(select, x.owner.inputs[0])


def _inside(select: Select, whole: TensorVariable) -> TensorVariable:
    """Return what `select` takes of `whole`, from the inputs of elementwise operations."""

    @cache  # so that a variable that occurs twice is one variable
    def inside(x: Any) -> Any:
        if x.owner is not None and isinstance(x.owner.op, Elemwise):
            return x.owner.op(*map(inside, x.owner.inputs))
        return select(x)

    return inside(whole)


def _selection(node: Apply, inputs: Sequence[Any]) -> Select | None:
    """Return a function that does what `node` does to the first of `inputs`, if it selects.

    It takes variables that broadcast with this input, and what it makes of them broadcasts.
    """
    whole = inputs[0]
    if not (whole.owner and isinstance(whole.owner.op, Elemwise)) or whole.type.ndim == 0:
        return None
    if isinstance(node.op, DimShuffle):
        return node.op
    entries = entries_of(node) if isinstance(node.op, (Subtensor, *GATHERS)) else None
    if entries is None:
        return None
    wide = node.outputs[0].type.ndim

    def select(x: Any) -> Any:
        if all(x.type.broadcastable):
            return x.dimshuffle().dimshuffle(["x"] * wide)
        own = zip(entries, x.type.broadcastable, whole.type.broadcastable, strict=True)
        return x[tuple(_first(entry) if one and not of_all else entry
                       for entry, one, of_all in own)]  # fmt: skip

    return select


def _first(entry: Any) -> Any:
    """Return the entry that takes the only number of an axis, in as many axes as `entry` makes."""
    if isinstance(entry, slice):
        return slice(None)
    return pt.constant(np.zeros((1,) * entry.type.ndim, np.int64))
