"""Forms of log-likelihoods: terms of one form differ only in their data and parameters."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.tensor.basic import Alloc
from pytensor.tensor.shape import SpecifyShape
from pytensor.tensor.variable import TensorVariable

__all__ = ["arguments", "is_data_alone", "of_one_form"]

K = TypeVar("K")


def arguments(node: Apply) -> list[Variable]:
    """Return the inputs of a node except shapes, which follow from the number of rows."""
    return node.inputs[:1] if isinstance(node.op, Alloc | SpecifyShape) else node.inputs


def is_data_alone(moving: set[Variable]) -> Callable[[Variable], bool]:
    """Return a function that tells whether a variable depends on data alone.

    `moving`: shared variables that stand for values drawn by other step methods.
    """
    known: dict[Variable, bool] = {}

    def data_alone(x: Variable) -> bool:
        waiting = [x]
        while waiting:
            here = waiting[-1]
            inputs = here.owner.inputs if here.owner else []
            if here not in known and (unknown := [v for v in inputs if v not in known]):
                waiting += unknown
                continue
            waiting.pop()
            if here.owner is None:
                known[here] = isinstance(here, SharedVariable | Constant) and here not in moving
            else:
                known[here] = all(known[v] for v in inputs)
        return known[x]

    return data_alone


def of_one_form(
    terms: Mapping[K, TensorVariable], data_alone: Callable[[Variable], bool]
) -> list[list[K]]:
    """Group the keys of terms by form: same operations on inputs of the same types and roles."""
    numbers: dict[tuple, int] = {}
    of_variable: dict[Variable, int] = {}
    by_form: dict[int, list[K]] = {}
    for key, term in terms.items():
        for x in _inputs_first(term, data_alone):
            of_variable[x] = numbers.setdefault(_key(x, of_variable, data_alone), len(numbers))
        by_form.setdefault(of_variable[term], []).append(key)
    return list(by_form.values())


def _inputs_first(term: Variable, data_alone: Callable) -> Sequence[Variable]:
    seen: dict[Variable, None] = {}
    waiting = [term]
    while waiting:
        x = waiting[-1]
        inputs = arguments(x.owner) if x.owner and not data_alone(x) else []
        unknown = [v for v in inputs if v not in seen]
        if unknown:
            waiting += unknown
        else:
            seen[waiting.pop()] = None
    return list(seen)


def _key(x: Variable, of_variable: Mapping[Variable, int], data_alone: Callable) -> tuple:
    if x.owner is None or data_alone(x):
        kind, dtype = "value", x.type.dtype
        if data_alone(x):  # PyTensor gives a number the smallest type that holds it
            kind, dtype = "data", np.dtype(dtype).kind
        return kind, type(x.type), dtype, getattr(x.type, "ndim", 0)
    inputs = tuple(of_variable[v] for v in arguments(x.owner))
    return x.owner.op, inputs, x.owner.outputs.index(x)
