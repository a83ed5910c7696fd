"""Functions of data alone: evaluated once, and again after `pm.set_data` has changed the data."""

from collections.abc import Callable

import numpy as np
import pytensor
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import graph_inputs, toposort
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.compile.in_python import interpreted
from pymc_sgmcmc.model.row_axes import value_of
from pymc_sgmcmc.rows.dependence import Dependence

__all__ = ["Computed", "describe", "with_computed"]

FEW = 256
"""Largest array whose functions stay in the graph, where they are as cheap."""


class Computed:
    """The value of a function of data.

    Parameters
    ----------
    function : TensorVariable
        A graph of constants and shared variables.

    Attributes
    ----------
    value : SharedVariable
        The value of `function`; floats have the working precision.
    """

    def __init__(self, function: TensorVariable):
        leaves = graph_inputs([function])
        self._function = function
        self._sources = [leaf for leaf in leaves if isinstance(leaf, SharedVariable)]
        self._seen = self._arrays()
        shape = [1 if length == 1 else None for length in function.type.shape]
        name = describe(function) or None
        self.value = pytensor.shared(self._evaluated(), name=name, borrow=True, shape=shape)

    def refresh(self) -> None:
        """Evaluate the function again if its data are other arrays than before."""
        now = self._arrays()
        if any(new is not old for new, old in zip(now, self._seen, strict=True)):
            self.value.set_value(self._evaluated(), borrow=True)
            self._seen = now

    def _arrays(self) -> list[np.ndarray]:
        return [source.get_value(borrow=True) for source in self._sources]

    def _evaluated(self) -> np.ndarray:
        value = np.asarray(interpreted([], [self._function])()[0])
        return (
            value.astype(pytensor.config.floatX, copy=False) if value.dtype.kind == "f" else value
        )


def describe(function: TensorVariable) -> str:
    """Return the name of a function of data, else "computed from" its data's names, else ""."""
    names = sorted({leaf.name for leaf in graph_inputs([function]) if leaf.name})
    return function.name or (f"computed from {', '.join(names)}" if names else "")


def with_computed(
    term: TensorVariable,
    dependence: Dependence,
    computed: Callable[[TensorVariable], Computed],
) -> tuple[TensorVariable, list[Computed]]:
    """Replace each function of many data in `term` by its value; return the term and the values."""
    found: dict[Variable, Computed] = {}
    nodes = toposort([term])
    clients = {x: node for node in nodes for x in node.inputs if dependence.moves(node.outputs[0])}
    for x in clients:
        if x.owner and not dependence.moves(x) and isinstance(x.type, TensorType) and _reads(x):
            found[x] = computed(x)
    if not found:
        return term, []
    values = {x: one.value for x, one in found.items()}
    return clone_replace(term, values, rebuild_strict=False), list(found.values())


def _reads(x: TensorVariable) -> bool:
    """Return whether `x` reads an array of more than `FEW` numbers, not only its shape."""
    waiting, seen = [x], set()
    while waiting:
        here = waiting.pop()
        if here in seen:
            continue
        seen.add(here)
        if here.owner is None:
            is_array = isinstance(here, SharedVariable | Constant)
            if is_array and isinstance(here.type, TensorType) and value_of(here).size > FEW:
                return True
        elif not isinstance(here.owner.op, Shape | Shape_i):
            waiting += here.owner.inputs
    return False
