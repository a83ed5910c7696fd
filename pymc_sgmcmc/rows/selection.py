"""Selection of rows of a variable by selecting them in the inputs of its graph."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from functools import singledispatch
from typing import Any

import pytensor.tensor as pt
from pytensor.graph.op import Op
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import toposort
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.rows.dependence import Dependence

__all__ = ["NotByRow", "Selection", "Steps", "select_through"]

Steps = Generator[tuple[TensorVariable, int], TensorVariable, TensorVariable]
"""Generator that yields each further selection to make, (variable, axis), receives its result, and
returns its own selection."""


class NotByRow(Exception):
    """Error: rows of a variable cannot be computed from rows of data; the message says why."""


class Selection(ABC):
    """Entries of variables along one axis: the rows of a batch, or the entries of an index.

    Calling a selection with a variable and an axis returns a graph of the entries. The graph is
    built from entries of the variable's inputs wherever its operation has a rule
    (`select_through`). Each rule is an identity: selecting before the operation gives the same as
    selecting after it.

    Parameters
    ----------
    dependence : Dependence
        Which variables depend on data alone.

    Attributes
    ----------
    unset : set of TensorVariable
        Selections that hold no values yet: values set later cover all entries that are read.
    """

    def __init__(self, dependence: Dependence):
        self.dependence = dependence
        self.unset: set[TensorVariable] = set()
        self._known: dict[tuple[TensorVariable, int], TensorVariable] = {}

    @abstractmethod
    def steps(self, x: TensorVariable, axis: int) -> Steps:
        """Select entries of `x` along `axis`, step by step; raise `NotByRow` if impossible."""

    @abstractmethod
    def length(self, whole: TensorVariable) -> TensorVariable:
        """Return the number of entries that are selected from an axis of length `whole`."""

    def is_left_out(self, part: TensorVariable, comes: TensorVariable) -> bool:
        """Return whether the rows that come from `part` of another variable may hold any number.

        `comes`: mask of these rows among all rows, bool, a function of data.
        """
        return False

    def __call__(self, x: TensorVariable, axis: int) -> TensorVariable:
        """Return the entries of `x` along `axis`; raise `NotByRow` if impossible."""
        # No recursion: a sum of a thousand terms is a thousand operations deep.
        waiting: list[tuple[tuple[TensorVariable, int], Steps]] = []
        key, result, error = (x, axis), None, None
        while True:
            if key in self._known:
                result = self._known[key]
            else:
                waiting.append((key, self.steps(*key)))
                result = None
            while waiting:
                key, steps = waiting[-1]
                proceed: Callable[[Any], Any] = steps.send if error is None else steps.throw
                try:
                    key = proceed(result if error is None else error)
                    error = None
                    break
                except StopIteration as end:
                    result, error = end.value, None
                    self._known[key] = result
                except NotByRow as reason:
                    result, error = None, reason
                waiting.pop()
            else:
                if error is not None:
                    raise error
                return result

    def with_lengths(self, graph: TensorVariable) -> TensorVariable:
        """Return `graph`, made of selections, with the other lengths of what they are made of.

        The length of an axis that is not selected is that of the entries: an operation that does
        not tell its shape would be computed of all, where a mean divides by it.
        """
        made = {x: (own, axis) for (x, axis), own in self._known.items()}
        replacements = {}
        for node in toposort([graph]):
            if not isinstance(node.op, Shape | Shape_i) or node.inputs[0] not in made:
                continue
            (whole,), (own, axis) = node.inputs, made[node.inputs[0]]
            shape = [(whole if k == axis else own).shape[k] for k in range(whole.type.ndim)]
            is_one = isinstance(node.op, Shape_i)
            replacements[node.outputs[0]] = shape[node.op.i] if is_one else pt.stack(shape)
        return clone_replace(graph, replacements, rebuild_strict=False) if replacements else graph


@singledispatch
def select_through(op: Op, x: TensorVariable, axis: int, selection: Selection) -> Steps:
    """Select along `axis` of `x`, an output of `op`, by selections of its inputs.

    Rules are registered by the class of the op. An op without a rule raises `NotByRow`.
    """
    raise NotByRow(f"the operation {op} is not known to act row by row")
    yield
