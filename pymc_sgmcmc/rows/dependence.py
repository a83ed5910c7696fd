"""Dependence of the variables of a model's graph on data alone, and their shapes."""

from collections.abc import Collection, Mapping

import numpy as np
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.compile.in_python import interpreted
from pymc_sgmcmc.model.row_axes import value_of

__all__ = ["Dependence"]


class Dependence:
    """Record of which variables of a graph depend on more than data, and of their shapes.

    Parameters
    ----------
    moving : collection of SharedVariable
        Shared variables that stand for values drawn by other step methods: they are no data.
    point : mapping of str to array
        Values of the value variables by name, at which shapes are taken.
    """

    def __init__(self, moving: Collection[SharedVariable], point: Mapping[str, np.ndarray]):
        self._moving, self._point = set(moving), point
        self._moves: dict[Variable, bool] = {}
        self._shapes: dict[Variable, tuple[int, ...]] = {}

    def is_data(self, leaf: Variable) -> bool:
        """Return whether a variable without an owner is a constant or the user's shared data."""
        return isinstance(leaf, SharedVariable | Constant) and leaf not in self._moving

    def moves(self, x: Variable) -> bool:
        """Return whether `x` depends on anything but data."""
        waiting = [x]
        while waiting:
            here = waiting[-1]
            if here in self._moves:
                waiting.pop()
            elif here.owner is None:
                self._moves[here] = not self.is_data(here)
            elif unknown := [v for v in here.owner.inputs if v not in self._moves]:
                waiting += unknown
            else:
                self._moves[here] = any(self._moves[v] for v in here.owner.inputs)
        return self._moves[x]

    def is_sampled(self, x: Variable) -> bool:
        """Return whether `x` is a sampled array or an elementwise transform of one."""
        while x.owner is not None and isinstance(x.owner.op, Elemwise | DimShuffle):
            moving = [v for v in x.owner.inputs if self.moves(v)]
            if len(moving) != 1:
                return False
            (x,) = moving
        return x.owner is None and self.moves(x) and bool(x.type.ndim)

    def know(self, x: TensorVariable, shape: tuple[int, ...]) -> None:
        """Remember the shape of `x`, which the caller knows."""
        self._shapes[x] = tuple(shape)

    def shape_of(self, x: TensorVariable) -> tuple[int, ...]:
        """Return the shape of `x` at the point."""
        if x not in self._shapes:
            static = x.type.shape
            if x.owner is None and not hasattr(x, "data") and x.name in self._point:
                static = np.shape(self._point[x.name])
            elif isinstance(x, SharedVariable | Constant):
                static = np.shape(value_of(x))
            if None in static:
                inputs = [v for v in graph_inputs([x]) if v.name in self._point]
                values = [np.asarray(self._point[v.name], dtype=v.dtype) for v in inputs]
                (shape,) = interpreted(inputs, [x.shape])(*values)
                static = shape
            self._shapes[x] = tuple(int(length) for length in static)
        return self._shapes[x]
