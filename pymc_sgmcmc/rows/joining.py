"""Log-likelihoods of one form, joined into one on the rows of all of them end to end.

Each variable of the terms y_1, ..., y_G is of one of three kinds. A COMMON variable is the same in
all terms. An EACH variable differs between terms and has no rows, such as a coefficient of a group.
A ROWS variable has the rows of its term on its first axis. In the joined term, EACH and ROWS
variables have one entry for each of the R rows of all terms.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import singledispatch

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Constant, Variable, equal_computations
from pytensor.graph.op import Op
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.compile.evaluate import evaluate
from pymc_sgmcmc.rows.forms import arguments

__all__ = ["Joint", "Kind", "NotJoined", "join", "join_node"]


class NotJoined(Exception):
    """Error: terms cannot be written as one; the message says why."""


class Kind(Enum):
    """Kind of a variable, by its difference between the terms."""

    COMMON = "common"
    EACH = "each"
    ROWS = "rows"


@dataclass(frozen=True, eq=False)
class Joint:
    """The joined variable, in place of one variable of each term.

    Attributes
    ----------
    kind : Kind
    graph : TensorVariable
        COMMON: the variable itself. EACH: (R, *its shape). ROWS: (R, *its other axes).
    """

    kind: Kind
    graph: TensorVariable

    def as_rows(self) -> TensorVariable:
        """Return the graph for an operation on rows; the rows replace a first axis of length 1."""
        if self.kind is Kind.ROWS:
            return self.graph
        if self.kind is Kind.COMMON:
            if self.graph.type.ndim and not self.graph.type.broadcastable[0]:
                raise NotJoined("a variable that all have may have a row for each row")
            return self.graph
        if self.graph.type.ndim < 2 or not self.graph.type.broadcastable[1]:
            raise NotJoined("a variable of each may have a row for each row")
        return self.graph.dimshuffle(0, *range(2, self.graph.type.ndim))

    def as_each(self) -> TensorVariable:
        """Return the graph with an axis of rows before its own axes."""
        if self.kind is Kind.COMMON:
            return self.graph.dimshuffle("x", *range(self.graph.type.ndim))
        if self.kind is Kind.ROWS:
            raise NotJoined("a variable with rows")
        return self.graph


@singledispatch
def join_node(op: Op, nodes: Sequence[Apply], inputs: Sequence[Joint], joining: "Joining") -> Joint:
    """Join the outputs of aligned nodes, given their joined inputs, `inputs`.

    Rules are registered by the class of the operation.
    """
    raise NotJoined(f"the operation {op} has no rule")


class Joining:
    """Procedure that joins aligned variables of the terms.

    Parameters
    ----------
    lengths : sequence of int
        Present number of rows of each term.
    data_alone : callable
        Returns whether a variable depends on data alone.
    """

    def __init__(self, lengths: Sequence[int], data_alone: Callable[[Variable], bool]):
        self.lengths, self._data_alone = list(lengths), data_alone
        self._known: dict[tuple[Variable, ...], Joint] = {}
        self._sized: list[Variable] | None = None

    def __call__(self, terms: Sequence[TensorVariable]) -> Joint:
        self._find_rows(terms)
        waiting = [tuple(terms)]
        while waiting:
            here = waiting[-1]
            if here in self._known:
                waiting.pop()
            elif self._is_leaf(here):
                self._known[here] = self._leaf(here)
            else:
                inputs = list(zip(*(arguments(x.owner) for x in here), strict=True))
                if unknown := [given for given in inputs if given not in self._known]:
                    waiting += unknown
                    continue
                joints = [self._known[given] for given in inputs]
                nodes = [x.owner for x in here]
                if all(joint.kind is Kind.COMMON for joint in joints) and len(set(here)) == 1:
                    self._known[here] = Joint(Kind.COMMON, here[0])
                else:
                    self._known[here] = join_node(nodes[0].op, nodes, joints, self)
        return self._known[tuple(terms)]

    @property
    def number(self) -> TensorVariable:
        """The number of rows of all terms together, R."""
        return self.group.shape[0]

    def _find_rows(self, terms: Sequence[TensorVariable]) -> None:
        """Set the graphs of the term of each row, `group`, and its place there, `within`."""
        lengths = [self._length(term, n) for term, n in zip(terms, self.lengths, strict=True)]
        counts = pt.stack([pt.as_tensor_variable(n, dtype="int64") for n in lengths])
        self.group = pt.repeat(pt.arange(len(terms)), counts)
        self.group.name = "group"
        before = pt.cumsum(counts) - counts
        self.within = pt.arange(pt.sum(counts)) - before[self.group]

    def _length(self, term: TensorVariable, n: int) -> TensorVariable | int:
        """Return the number of rows as the length of data that can change, else as `n`."""
        for leaf in graph_inputs([term]):
            if isinstance(leaf, SharedVariable) and self._data_alone(leaf):
                value = leaf.get_value(borrow=True)
                if np.ndim(value) and len(value) == n:
                    return leaf.shape[0]
        return n

    def _is_leaf(self, variables: Sequence[Variable]) -> bool:
        return any(x.owner is None or self._data_alone(x) for x in variables)

    def _leaf(self, variables: tuple[Variable, ...]) -> Joint:
        first = variables[0]
        if not all(map(self._data_alone, variables)):
            if len(set(variables)) == 1:
                return Joint(Kind.COMMON, first)
            return Joint(Kind.EACH, pt.stack(variables)[self.group])
        if len(set(variables)) > 1 and _are_one(variables):
            variables = (first,) * len(variables)
        values = evaluate(variables, {})
        shapes = [np.shape(value) for value in values]
        if len({shape[1:] for shape in shapes}) > 1 or len(set(map(len, shapes))) > 1:
            raise NotJoined("data of different shapes")
        by_row = bool(shapes[0]) and [shape[0] for shape in shapes] == self.lengths
        if by_row and max(self.lengths) > 1:
            if len(set(variables)) == 1:
                return Joint(Kind.ROWS, first[self.within])
            rows = pt.concatenate(variables)
            if variables[0].name and variables[-1].name:
                rows.name = f"{variables[0].name}, ..., {variables[-1].name}"
            return Joint(Kind.ROWS, rows)
        if len(set(variables)) == 1:
            return Joint(Kind.COMMON, first)
        if len(set(shapes)) > 1:
            raise NotJoined("data of different shapes")
        if all(isinstance(x, Constant) for x in variables):
            each = pt.constant(np.stack(values))[self.group]
            each.name = "constants by likelihood"
            return Joint(Kind.EACH, each)
        return Joint(Kind.EACH, pt.stack(variables)[self.group])


def _are_one(variables: Sequence[Variable]) -> bool:
    """Return whether variables are the same functions of equal constants, and so stay equal."""
    if any(not isinstance(leaf, Constant) for leaf in graph_inputs(variables)):
        return False
    return all(equal_computations([variables[0]], [x]) for x in variables[1:])


def join(
    terms: Sequence[TensorVariable],
    lengths: Sequence[int],
    data_alone: Callable[[Variable], bool],
) -> TensorVariable:
    """Join `terms` of one form end to end into one term, (sum of the lengths, ...).

    Raises
    ------
    NotJoined
        If an operation has no rule, or the shapes of data do not fit.
    """
    try:
        joint = Joining(lengths, data_alone)(terms)
    except (TypeError, ValueError, NotImplementedError, IndexError) as error:
        raise NotJoined(str(error)) from error
    if joint.kind is not Kind.ROWS:
        raise NotJoined("the terms have no rows")
    return joint.graph
