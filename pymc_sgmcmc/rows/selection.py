"""Selecting rows of a variable by selecting them in what it is computed from."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from functools import singledispatch
from typing import Any

from pytensor.graph.op import Op
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.rows.dependence import Dependence

__all__ = ["NotByRow", "Selection", "Steps", "select_through"]

Steps = Generator[tuple[TensorVariable, int], TensorVariable, TensorVariable]
"""Yields what else is to be selected, (variable, axis), receives it, and returns the selected."""


class NotByRow(Exception):
    """Rows of a variable cannot be computed from rows of data; the message says why."""


class Selection(ABC):
    """Entries along one axis of variables: those of a batch of rows, or those of an index.

    Calling it with a variable and an axis returns a graph of the entries. It is built from entries
    of the inputs of the variable wherever its operation has a rule (`select_through`), each of
    which is an identity: selecting before the operation is selecting after it.

    Parameters
    ----------
    dependence : Dependence
        What depends on data alone.

    Attributes
    ----------
    unset : set of TensorVariable
        Selections that hold no values yet: what is put in their place covers all that is read.
    """

    def __init__(self, dependence: Dependence):
        self.dependence = dependence
        self.unset: set[TensorVariable] = set()
        self._known: dict[tuple[TensorVariable, int], TensorVariable] = {}

    @abstractmethod
    def steps(self, x: TensorVariable, axis: int) -> Steps:
        """The selection from `x` along `axis`; raise `NotByRow` where there is none."""

    @abstractmethod
    def length(self, whole: TensorVariable) -> TensorVariable:
        """How many entries are selected of an axis that has the length `whole`."""

    def is_left_out(self, part: TensorVariable, comes: TensorVariable) -> bool:
        """Whether the rows that come from `part` of another variable may hold any number.

        `comes`: which ones of all rows these are, a function of data, bool.
        """
        return False

    def __call__(self, x: TensorVariable, axis: int) -> TensorVariable:
        """The entries of `x` along `axis`; raise `NotByRow` where there is no way to them."""
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


@singledispatch
def select_through(op: Op, x: TensorVariable, axis: int, selection: Selection) -> Steps:
    """The selection along `axis` of `x`, an output of `op`, by selections of its inputs.

    Rules are registered by the class of the op. One that has none is not known to act by row.
    """
    raise NotByRow(f"the operation {op} is not known to act row by row")
    yield
