"""Change of variables between the values of a model and the coordinates of its effects."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.compile.backend import Backend
from pymc_sgmcmc.compile.compiled_graph import CompiledGraph
from pymc_sgmcmc.posterior.effects import CorrelatedEffects, Effects, ScaledEffects
from pymc_sgmcmc.posterior.energy_graph import EnergyGraph
from pymc_sgmcmc.rows.groups import RowGroup

__all__ = ["PartialCentring"]


class PartialCentring:
    """Change between the values of a model's variables and the coordinates of its effects.

    Parameters
    ----------
    effects : list of Effects
        With none, coordinates are the values.
    vars : list of TensorVariable
        The value variables that make up q.
    shapes : list of tuple of int
    backend : Backend
    """

    def __init__(
        self,
        effects: Sequence[Effects],
        vars: Sequence[TensorVariable],
        shapes: Sequence[tuple[int, ...]],
        backend: Backend,
    ):
        self.effects, self._vars, self._shapes = _children_first(effects), vars, shapes
        self._backend = backend

    @property
    def moves_centred_effects(self) -> bool:
        """Whether effects that the model has centred have other coordinates."""
        return any(isinstance(own, ScaledEffects) and own.location is not None
                   for own in self.effects)  # fmt: skip

    def in_coordinates(
        self, groups: Sequence[RowGroup], exact: Sequence[TensorVariable]
    ) -> tuple[tuple[RowGroup, ...], list[TensorVariable]]:
        """Return likelihoods and the other log-densities in coordinates, with the Jacobian."""
        if not self.effects:
            return tuple(groups), list(exact)
        changed = [replace(group, terms=tuple(self.changed(group.terms))) for group in groups]
        jacobians = [own.log_jacobian for own in self.effects]
        return tuple(changed), self.changed([*self._in_parts(exact), *self._in_parts(jacobians)])

    def _in_parts(self, terms: Sequence[TensorVariable]) -> list[TensorVariable]:
        """Return `terms` with those of correlated effects taken apart: one for each effect."""
        matrices = {own.var: own for own in self.effects if isinstance(own, CorrelatedEffects)}
        found = []
        for term in terms:
            of = [own for var, own in matrices.items() if var in graph_inputs([term])]
            of += [own for own in matrices.values() if own.information in graph_inputs([term])]
            if len(of) == 1 and term.type.ndim == 2:
                found += of[0].parts(term)
            else:
                found.append(term)
        return found

    def changed(self, graphs: Sequence[Any]) -> list[Any]:
        """Return graphs of values as graphs of coordinates."""
        for own in self.effects:
            replacements = own.replacements(graphs)
            graphs = clone_replace(list(graphs), replacements, rebuild_strict=False)
        return list(graphs)

    def values(self, q: np.ndarray) -> np.ndarray:
        """Return the values, (d,), at coordinates `q` (d,); `q` itself where they are the same."""
        return self._to_values(q)[0] if self.effects else q

    def coordinates(self, values: np.ndarray) -> np.ndarray:
        """Return the coordinates, (d,), of `values` (d,)."""
        if not self.effects:
            return values
        return self._of_values(values.astype(pytensor.config.floatX))[0]

    def start(self, values: np.ndarray) -> np.ndarray:
        """Return the coordinates, (d,), at which a search from `values` (d,) starts.

        Centred effects start near their location. At the values, which may be a million scales
        away where a scale is tiny, their coordinates would be as many sds from the posterior.
        """
        energy = EnergyGraph(self._vars, self._shapes, (), ())
        at, near = energy.coordinates(), np.array(values, dtype=float)
        for own in reversed(self.effects):  # what others are scaled or moved by comes first
            if isinstance(own, ScaledEffects):
                near[at[own.var]] = np.ravel(own.near(energy.values_at(near)))
        return self.coordinates(near)

    @cached_property
    def _to_values(self) -> Callable[[np.ndarray], np.ndarray]:
        return self._function(self.changed(self._vars))

    @cached_property
    def _of_values(self) -> Callable[[np.ndarray], np.ndarray]:
        made = {own.var: own.coordinate for own in self.effects}
        return self._function([made.get(var, var) for var in self._vars])

    def _function(self, graphs: Sequence[Any]) -> Callable[[np.ndarray], np.ndarray]:
        """Return a function of the flat q for graphs of its variables."""
        energy = EnergyGraph(self._vars, self._shapes, (), ())
        q = pt.vector("q", dtype=pytensor.config.floatX, shape=(energy.size,))
        flat = pt.concatenate([x.ravel() for x in energy.at(q, graphs)])
        return CompiledGraph([q], [flat], self._backend)


def _children_first(effects: Sequence[Effects]) -> list[Effects]:
    """Return effects before those that they are scaled or moved by."""
    left, found = list(effects), []
    while left:
        parents = {x for own in left for x in own.parents}
        free = [own for own in left if own.var not in parents]
        assert free  # a model has no circles
        found += free
        left = [own for own in left if own.var in parents]
    return found
