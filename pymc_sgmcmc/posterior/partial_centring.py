"""Effects of a hierarchy, in coordinates that tie them to their scale nowhere.

Effects are a = m + t z. Where a is sampled (centred), its prior depends on the scale t: a funnel
where rows say little of a. Where z is sampled, the rows depend on t: a thin curved ridge where they
say much. With I the second derivative of the rows' energy in an effect, the coordinate

    w = z sqrt(1 + t^2 I)                            where z is sampled
    w = (a - m / (1 + t^2 I)) sqrt(1 + t^2 I) / t    where a is sampled

has a conditional sd of about one, for any t and each effect by itself. It is z where I is small,
and an effect in units of its sd where I is large. This is the partially non-centred parametrisation
of Papaspiliopoulos, Roberts and Sköld (2007, section 4), with weights that follow t. The posterior
is the same whatever I is, which therefore may be a rough guess.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import mul
from typing import Any, TypeAlias

import numpy as np
import pytensor
import pytensor.tensor as pt
from pymc import Model
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Variable, equal_computations
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import graph_inputs, toposort
from pytensor.scalar.basic import Mul
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.random.basic import LaplaceRV, LogisticRV, NormalRV, StudentTRV
from pytensor.tensor.subtensor import Subtensor
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.compile.backend import Backend
from pymc_sgmcmc.compile.compiled_graph import CompiledGraph
from pymc_sgmcmc.compile.pytensor_versions import GATHERS
from pymc_sgmcmc.model.log_density import is_elementwise
from pymc_sgmcmc.posterior.energy_graph import EnergyGraph
from pymc_sgmcmc.rows.groups import RowGroup

__all__ = ["Effects", "PartialCentring", "centred_effects", "standardized_effects"]

LOCATION_AND_SCALE = (NormalRV, StudentTRV, LaplaceRV, LogisticRV)
"""Distributions whose last two parameters are a location and a scale."""


@dataclass(frozen=True, eq=False)
class Effects:
    """A variable that has effects, with what they are scaled by.

    Attributes
    ----------
    var : TensorVariable
        The value variable: z, or a where there is a `location`. In graphs that are `substituted` it
        stands for w.
    scale : TensorVariable
        t, which broadcasts with `var`: a function of other value variables.
    location : TensorVariable or None
        m; None: z is sampled.
    information : SharedVariable
        I of each effect, of the shape of `var`. At first zero.
    """

    var: TensorVariable
    scale: TensorVariable
    location: TensorVariable | None
    information: SharedVariable

    def inform(self, information: np.ndarray) -> None:
        """Set I; what is not finite counts as nothing known."""
        known = np.where(np.isfinite(information), information, 0.0)
        self.information.set_value(known.astype(self.var.dtype))

    @property
    def value(self) -> TensorVariable:
        """The value of the model's variable as a function of w, which `var` stands for."""
        root = pt.sqrt(1 + self._ratio)
        if self.location is None:
            return self.var / root
        return self.location / (1 + self._ratio) + self.scale * (self.var / root)

    @property
    def coordinate(self) -> TensorVariable:
        """w, as a function of the value of the model's variable, which `var` stands for."""
        root = pt.sqrt(1 + self._ratio)
        if self.location is None:
            return self.var * root
        return (self.var - self.location / (1 + self._ratio)) * (root / self.scale)

    @property
    def log_jacobian(self) -> TensorVariable:
        """Logarithms of the derivatives of `value`, of the shape of `var`."""
        logs = -pt.log1p(self._ratio) / 2
        return logs if self.location is None else logs + pt.log(self.scale)

    @property
    def _ratio(self) -> TensorVariable:
        """How much more rows say of an effect than its prior."""
        return self.scale**2 * self.information


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
    def log_jacobians(self) -> list[TensorVariable]:
        """Log-densities that the change of variables adds, as functions of values."""
        return [own.log_jacobian for own in self.effects]

    def substituted(self, graphs: Sequence[Any]) -> list[Any]:
        """Return `graphs` of values as graphs of coordinates."""
        for own in self.effects:
            graphs = clone_replace(list(graphs), {own.var: own.value}, rebuild_strict=False)
        return list(graphs)

    def in_coordinates(
        self, groups: Sequence[RowGroup], exact: Sequence[TensorVariable]
    ) -> tuple[tuple[RowGroup, ...], list[TensorVariable]]:
        """Return likelihoods and the other log-densities in coordinates, with the Jacobian."""
        if not self.effects:
            return tuple(groups), list(exact)
        changed = [replace(group, terms=tuple(self.substituted(group.terms))) for group in groups]
        return tuple(changed), self.substituted([*exact, *self.log_jacobians])

    def values(self, q: np.ndarray) -> np.ndarray:
        """Return the values, (d,), at coordinates `q` (d,); `q` itself where they are the same."""
        return self._to_values(q)[0] if self.effects else q

    def coordinates(self, values: np.ndarray) -> np.ndarray:
        """Return the coordinates, (d,), of `values` (d,)."""
        return self._of_values(values)[0] if self.effects else values

    @cached_property
    def _to_values(self) -> Callable[[np.ndarray], np.ndarray]:
        return self._function(self.substituted(self._vars))

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
    """Return effects before those that their location and scale depend on."""
    left, found = list(effects), []
    while left:
        parents = {x for own in left for x in _sources(own)}
        free = [own for own in left if own.var not in parents]
        assert free  # a model has no circles
        found += free
        left = [own for own in left if own.var in parents]
    return found


def _sources(own: Effects) -> set[Variable]:
    graphs = [own.scale] if own.location is None else [own.scale, own.location]
    return set(graph_inputs(graphs))


def standardized_effects(
    terms: Sequence[TensorVariable],
    vars: Sequence[TensorVariable],
    shapes: Sequence[tuple[int, ...]],
    slices: Sequence[Variable] = (),
) -> list[Effects]:
    """Return those of `vars` that occur in `terms` only multiplied by one scale: z of t z.

    A term that depends on no other variable is their prior. `slices`: data by row.
    """
    found = []
    for var, shape in zip(vars, shapes, strict=True):
        scale = _scale(var, terms, vars, set(slices)) if np.prod(shape) > 1 else None
        if scale is not None:
            found.append(Effects(var, scale, None, _unknown(var, shape)))
    return found


def centred_effects(
    model: Model, vars: Sequence[TensorVariable], shapes: Sequence[tuple[int, ...]]
) -> list[Effects]:
    """Return those of `vars` whose prior has a location, and a scale that is sampled."""
    found, sampled = [], set(vars)
    for var, shape in zip(vars, shapes, strict=True):
        rv = model.values_to_rvs[var]
        is_free = model.rvs_to_transforms[rv] is None and np.prod(shape) > 1
        if not (is_free and isinstance(rv.owner.op, LOCATION_AND_SCALE)):
            continue
        parameters = rv.owner.op.dist_params(rv.owner)
        location, scale = model.replace_rvs_by_values(list(parameters[-2:]))
        values = set(model.value_vars)
        of_both, of_scale = (
            values.intersection(graph_inputs(graphs)) for graphs in ([location, scale], [scale])
        )
        if of_scale and of_both <= sampled:
            found.append(Effects(var, scale, location, _unknown(var, shape)))
    return found


def _unknown(var: TensorVariable, shape: tuple[int, ...]) -> SharedVariable:
    name = f"information_{var.name}"
    return pytensor.shared(np.zeros(shape, var.dtype), name=name, shape=shape)


def _scale(
    var: TensorVariable,
    terms: Sequence[TensorVariable],
    vars: Sequence[TensorVariable],
    slices: set[Variable],
) -> TensorVariable | None:
    """Return what `var` is multiplied by wherever it occurs beside other variables, or None."""
    found: list[TensorVariable] = []
    for term in terms:
        inputs = set(graph_inputs([term]))
        if var not in inputs or inputs.isdisjoint({*vars} - {var}):
            continue
        nodes = list(toposort([term]))
        others, of_rows = _reached(nodes, {*vars} - {var}), _reached(nodes, slices)
        itself = _reached(nodes, {var})
        for factors in _products(var, nodes):
            own = [(x, moves) for x, moves in factors if x in others]
            if not own or any(x in itself or x in of_rows for x, _ in own):
                return None
            scales = [_by_entry(x, var, moves) for x, moves in own]
            if any(scale is None for scale in scales):
                return None
            found.append(reduce(mul, scales))
    if not found or not all(equal_computations([found[0]], [other]) for other in found[1:]):
        return None
    return found[0]


def _reached(nodes: Sequence[Apply], sources: set[Any]) -> set[Variable]:
    """Return the variables that depend on `sources`."""
    reached = set(sources)
    for node in nodes:
        if not reached.isdisjoint(node.inputs):
            reached.update(node.outputs)
    return reached


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
        x = x.dimshuffle([order.index(axis) if axis in order else "x" for axis in range(op.input_ndim)])
    axes = zip(x.type.broadcastable, var.type.broadcastable, strict=True)
    return x if all(one or not of_var for one, of_var in axes) else None
