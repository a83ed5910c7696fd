"""The values of a graph by Python and NumPy, node by node, and how far rounding may move them."""

from collections.abc import Sequence

import numpy as np
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import toposort

__all__ = ["Reference", "agree"]


class Reference:
    """Graphs as they are written: neither rewritten nor compiled.

    `bounds` evaluates them again, each time with every number of every intermediate result moved by
    a unit in its last place, up or down by chance (Vignes, 1993, "A stochastic arithmetic for
    reliable scientific computation"): what is ill-conditioned then moves by itself.
    """

    def __init__(self, inputs: Sequence[Variable], outputs: Sequence[Variable]):
        self._inputs, self._outputs = list(inputs), list(outputs)
        self._nodes, self._run = list(toposort(self._outputs)), []
        self._storage = {
            v: [v.data if isinstance(v, Constant) else None]
            for node in self._nodes
            for v in (*node.inputs, *node.outputs)
        } | {v: [None] for v in self._inputs}
        self._storage |= {v: [v.data] for v in self._outputs if isinstance(v, Constant)}
        computed = {v: [True] for v in self._storage}
        for node in self._nodes:
            thunk = node.op.make_thunk(node, self._storage, computed, [], impl="py")
            self._run.append((node, thunk))

    def __call__(self, values: Sequence[np.ndarray], moved: np.random.Generator | None = None):
        """The outputs; `moved` moves all floating-point numbers on the way to them."""
        for variable, value in zip(self._inputs, values, strict=True):
            self._storage[variable][0] = _moved(value.copy(), moved)
        with np.errstate(all="ignore"):
            for node, thunk in self._run:
                for output in node.outputs:
                    self._storage[output][0] = None
                thunk()
                for output in node.outputs:
                    self._storage[output][0] = _moved(np.asarray(self._storage[output][0]), moved)
        return [np.array(self._storage[output][0]) for output in self._outputs]

    def bounds(self, values: Sequence[np.ndarray], seed: int, times: int = 4):
        """Yield each output with the least and the largest value that rounding may give it."""
        rng, exact = np.random.default_rng(seed), self(values)
        runs = zip(*(self(values, rng) for _ in range(times)), strict=True)
        for value, others in zip(exact, runs, strict=True):
            yield value, _range([value, *others])


def _moved(value: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
    if rng is None or value.dtype.kind != "f":
        return value
    signs = rng.integers(2, size=value.shape) * 2 - 1
    return np.asarray(value * (1 + signs * np.finfo(value.dtype).eps), value.dtype)


def _range(values):
    """None where shapes differ."""
    if len({v.shape for v in values}) > 1:
        return None
    values = np.stack(values).astype(float)
    with np.errstate(all="ignore"):
        return values.min(axis=0), values.max(axis=0)


def agree(found: np.ndarray, exact: np.ndarray, bounds, factor: float = 50.0) -> bool:
    """Whether `found` has the type and the shape of `exact`, and its numbers up to rounding.

    Not-a-number must be in the same places, and infinities; but where rounding decides on that.
    """
    if bounds is None:  # rounding decides on the shape: how many are positive
        return True
    found = np.asarray(found)
    if found.shape != exact.shape or found.dtype != exact.dtype:
        return False
    low, high = bounds
    unsure = ~np.isfinite(low + high) & ~((low == high) | np.isnan(exact) & np.isnan(low))
    a, b = found.astype(float), exact.astype(float)
    with np.errstate(all="ignore"):
        eps = np.finfo(exact.dtype).eps if exact.dtype.kind == "f" else 0
        largest = np.abs(b[np.isfinite(b)]).max(initial=0) if b.size else 0
        near = np.abs(a - b) <= factor * (high - low + eps * np.abs(b) + 1e-3 * eps * largest)
    same = (a == b) | (np.isnan(a) & np.isnan(b)) | near | unsure
    return bool(same.all())
