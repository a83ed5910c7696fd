"""Paths through graphs: what depends on variables, is affine in them, or has rows of data."""

from collections.abc import Callable, Container, Iterable, Sequence
from itertools import chain
from math import prod
from typing import Any

import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import graph_inputs, toposort
from pytensor.scalar.basic import Add, Cast, Identity, Mul, Neg, Sub, TrueDiv
from pytensor.tensor.basic import Alloc, Join, MakeVector
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot, Sum
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor
from pytensor.tensor.type import float_dtypes
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.compile.sparse_dot import SparseDot

__all__ = ["Ways"]

_SUMS = Add | Sub | Neg | Identity | Cast
_MOVES = (DimShuffle, Reshape, Subtensor, AdvancedSubtensor, Sum, Join, MakeVector, Alloc,
          SpecifyShape)  # fmt: skip


FEW = 16
"""Largest number of entries of variables that a number without rows is expanded in."""


class Ways:
    """The paths from `vars` to `terms`: variables that depend on vars, are affine, or have rows.

    `coefficients`: whether arrays without rows count as affine, whatever they are of `vars`.
    """

    def __init__(
        self,
        terms: Sequence[Any],
        vars: Sequence[TensorVariable],
        slices: Iterable[Variable],
        *,
        coefficients: bool = False,
    ):
        self.depends, self.affine, self.of_rows = set(vars), set(vars), set(slices)
        self._vars, self._linear, self._coefficients = vars, set(vars), set[Variable]()
        self._entries: dict[Variable, list[tuple[Any, Any]]] = {}
        for node in toposort(terms):
            if not self.of_rows.isdisjoint(node.inputs):
                self.of_rows.update(node.outputs)
            through = [x for x in node.inputs if x in self.depends]
            self.depends.update(node.outputs if through else [])
            if not through:
                continue
            is_linear = _is_linear(node, through)
            if is_linear and self.affine.issuperset(through):
                self.affine.update(node.outputs)
            if is_linear and self._linear.issuperset(through):
                self._linear.update(node.outputs)
            elif coefficients and _is_array(node) and self.of_rows.isdisjoint(node.outputs):
                self._linear.update(node.outputs)
                self._coefficients.update(node.outputs)

    def coefficients_of(self, graphs: Sequence[Variable]) -> list[Any]:
        """Return the coefficients on which affine `graphs` depend, but for `vars`.

        Sums without rows are one: (m + t z)[group] has m + t z, and not t z.
        """
        ways, seen, found = [*graphs], set(), []
        while ways:
            x = ways.pop()
            if x in seen or x in self.affine or x not in self.depends:
                continue
            seen.add(x)
            if x in self._coefficients or (x not in self.of_rows and _is_elementwise_array(x)):
                found.append(x)
            elif x.owner is not None:
                ways += x.owner.inputs
        return found

    def is_row(self, x: Variable) -> bool:
        """Return whether `x` has a number of each row, affine in vars, or one for all rows."""
        one = all(x.type.broadcastable)
        if x.type.ndim > 1:
            return False
        return not one and x in self._linear if x in self.of_rows else one

    def is_entry(self, x: Variable) -> bool:
        """Return whether `x` is affine in vars, or one number for all entries."""
        return x in self.affine or all(x.type.broadcastable)

    def is_linear(self, x: Variable) -> bool:
        """Return whether `x` is affine in vars, or has rows and is so in coefficients too."""
        return x in self.affine or (x in self._linear and x in self.of_rows)

    def is_scalar(self, x: Variable) -> bool:
        return x in self.affine and all(x.type.broadcastable)

    def of_scalars(self, x: Any) -> tuple[Any, dict[Any, tuple[Any, Any]]] | None:
        """Return `x`, one number, and the numbers affine in vars that it is a function of.

        Each with its value, and with a symbol that may stand for it in `x`. Where they are not
        found in its graph, they are the entries of the few variables that it depends on, and `x` is
        written anew, of symbols for them. None if there are many.
        """
        found = self.back([x], self.is_scalar, through=(Elemwise, DimShuffle))
        if found is not None:
            return x, {own: (own, own.type()) for own in found}
        inputs = set(graph_inputs([x]))
        vars = [var for var in self._vars if var in inputs]
        shapes = {var: var.type.shape for var in vars}
        if None in chain(*shapes.values()) or sum(map(prod, shapes.values())) > FEW:
            return None
        entries = {var: self._entries_of(var) for var in vars}
        wholes = {
            var: pt.stack([symbol for _, symbol in own]).reshape(shapes[var])
            for var, own in entries.items()
        }
        (written,) = clone_replace([x], wholes, rebuild_strict=False)
        return written, {own: (own, symbol) for own, symbol in chain(*entries.values())}

    def _entries_of(self, var: Any) -> list[tuple[Any, Any]]:
        """Return the entries of a variable, each with a symbol: the same at each call."""
        if var not in self._entries:
            own = [var.ravel()[k] for k in range(prod(var.type.shape))]
            self._entries[var] = [(entry, entry.type()) for entry in own]
        return self._entries[var]

    def gathered(self, graphs: Sequence[Any]) -> list[Any]:
        """Return `graphs` with what is affine of sums by row gathered in one summand each.

        It is then one predictor. The values are the same, to rounding.
        """
        clients: dict[Variable, list[Apply]] = {x: [] for x in graphs}
        nodes = list(toposort(graphs))
        for node in nodes:
            for x in node.inputs:
                clients.setdefault(x, []).append(node)
        found: dict[Variable, Any] = {}
        for node in nodes:
            (x, *_) = node.outputs
            of_rows = x in self.of_rows and x in self.depends
            if not (of_rows and _is_sum(node)) or self._goes_on(clients[x]):
                continue
            affine, rest = self._summands(x, found)
            if rest is not None and affine is not None and self._is_of_vars(affine):
                found[x] = pt.add(affine, rest).astype(x.dtype)
        return clone_replace(list(graphs), found, rebuild_strict=False) if found else list(graphs)

    def _is_of_vars(self, x: Any) -> bool:
        return not set(self._vars).isdisjoint(graph_inputs([x]))

    def _goes_on(self, clients: Sequence[Apply]) -> bool:
        """Return whether a sum is used in one place alone, where it goes on."""
        if len(clients) != 1:
            return False
        return _is_sum(clients[0]) or self._data_times(clients[0]) is not None

    def _data_times(self, node: Apply) -> Any:
        """Return the input of `node` that depends on variables, if it multiplies it with data."""
        through = [x for x in node.inputs if x in self.depends]
        is_product = isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, Mul)
        return through[0] if is_product and len(through) == 1 else None

    def _summands(self, x: Any, whole: Container[Any]) -> tuple[Any, Any]:
        """Return the affine part of a sum, and the rest; None for what is not there.

        `whole`: sums that are not taken apart.
        """
        if x not in self.depends or x in self._linear:
            return x, None
        node = x.owner
        if x in whole or node is None:
            return None, x
        if _is_sum(node):
            parts = [self._summands(y, whole) for y in node.inputs]
            return tuple(_combined(node.op, own) for own in zip(*parts, strict=True))
        inner = self._data_times(node)
        if inner is None:
            return None, x
        affine, rest = self._summands(inner, whole)
        if affine is None:
            return None, x

        def times(part: Any) -> Any:
            return (
                None if part is None else node.op(*(part if y is inner else y for y in node.inputs))
            )

        return times(affine), times(rest)

    def back(self, ends, is_cut: Callable, through: tuple[type, ...]) -> list[Variable] | None:
        """Go back from `ends` to variables that `is_cut`; None if other operations are met.

        A row's quantity that is a function of others, such as minus one of them, is none.
        """
        ways, seen, found = [*ends], set(), []
        while ways:
            x = ways.pop()
            # Derivatives do not pass through variables that are not floats, such as conditions.
            if x not in self.depends or x in seen or x.dtype not in float_dtypes:
                continue
            seen.add(x)
            if is_cut(x):
                found.append(x)
            elif x.owner and isinstance(x.owner.op, through):
                ways += x.owner.inputs
            else:
                return None
        return [x for x in found if not (x in self.of_rows and self._follows(x, found, through))]

    def _follows(self, x: Any, found: Sequence[Variable], through: tuple[type, ...]) -> bool:
        """Return whether `x` is a function of others of `found`, by operations `through`."""
        others, ways = {y for y in found if y is not x}, [x]
        while ways:
            y = ways.pop()
            if y not in self.depends or y in others:
                continue
            if y.owner is None or not isinstance(y.owner.op, through):
                return False
            ways += y.owner.inputs
        return True


def _is_sum(node: Apply) -> bool:
    return isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, Add | Sub)


def _combined(op: Any, parts: Sequence[Any]) -> Any:
    """Return what a sum makes of `parts`, of which None are zero."""
    if all(part is None for part in parts):
        return None
    return op(*(pt.zeros(()) if part is None else part for part in parts))


def _is_array(node: Apply) -> bool:
    """Return whether the output of `node` has several floating-point numbers."""
    (out, *_) = node.outputs
    return out.dtype in float_dtypes and not all(getattr(out.type, "broadcastable", (True,)))


def _is_elementwise_array(x: Any) -> bool:
    return _is_array(x.owner) and isinstance(x.owner.op, Elemwise)


def _is_linear(node: Apply, through: Sequence[Variable]) -> bool:
    """Return whether the outputs of `node` are affine in its inputs `through`."""
    op = node.op
    if node.outputs[0].dtype not in float_dtypes:
        return False
    if isinstance(op, Elemwise):
        if isinstance(op.scalar_op, Mul):
            return len(through) == 1
        divides = isinstance(op.scalar_op, TrueDiv) and through == node.inputs[:1]
        return divides or isinstance(op.scalar_op, _SUMS)
    if isinstance(op, Dot) or (isinstance(op, Blockwise) and isinstance(op.core_op, Dot)):
        return len(through) == 1
    return isinstance(op, (*_MOVES, SparseDot))
