"""Graphs of one point, evaluated at many points in one call, because Python's time is per call."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc._utils.types import Array, Vector
from pymc_sgmcmc.compile.evaluate import evaluate
from pymc_sgmcmc.compile.in_python import interpreted, simplified

__all__ = ["NUMBERS", "AtPoints", "at_points"]

NUMBERS = 2**17
"""Numbers in the points of one call, beside which the time of a call does not count."""

AtPoints: TypeAlias = Callable[[Array], list[Array]]


def at_points(q: TensorVariable, graphs: Sequence[TensorVariable], example: Vector) -> AtPoints:
    """Return a function of points (k, d) that returns each of `graphs` at each point, (k, ...).

    Graphs of `q` (d,) run in Python. Where PyTensor cannot evaluate them at two points at once, or
    does not find at `example` what they are by themselves, points take turns.
    """
    return _in_blocks(_together(q, graphs, example) or _in_turn(q, graphs), q.dtype)


def _together(q: TensorVariable, graphs: Sequence, example: Vector) -> AtPoints | None:
    points = pt.matrix(dtype=q.dtype, shape=(None, len(example)))
    two = np.stack([example, 0.5 * example + 0.1]).astype(q.dtype)
    try:
        # First simpler, then of many points: the other way round takes three times as long.
        batched: Sequence[Variable] = vectorize_graph(list(simplified(graphs)), {q: points})
        function = interpreted([points], batched, optimizer="merge")
        constant = [
            own.type.ndim == one.type.ndim for own, one in zip(batched, graphs, strict=True)
        ]

        def together(points: Array) -> list[Array]:
            return [
                np.broadcast_to(value, (len(points), *value.shape)) if same else value
                for value, same in zip(function(points), constant, strict=True)
            ]

        with np.errstate(all="ignore"):
            found, expected = together(two), [evaluate(graphs, {q: point}) for point in two]
    except Exception:  # whatever an operation cannot do for two points, it may do for one
        return None
    agree = all(_agree(of_all, of_each) for of_all, *of_each in zip(found, *expected, strict=True))
    return together if agree else None


def _agree(of_all: Array, of_each: Sequence[Array]) -> bool:
    expected = np.stack(of_each)
    if np.shape(of_all) != expected.shape:
        return False
    close = np.sqrt(np.finfo(expected.dtype).eps) if expected.dtype.kind == "f" else 0
    size = np.abs(expected[np.isfinite(expected)]).max(initial=0.0)
    return np.allclose(of_all, expected, rtol=close, atol=close * size, equal_nan=True)


def _in_turn(q: TensorVariable, graphs: Sequence) -> AtPoints:
    function = interpreted([q], list(graphs))
    return lambda points: [np.stack(of_all) for of_all in zip(*map(function, points), strict=True)]


def _in_blocks(function: AtPoints, dtype: str) -> AtPoints:
    """Return `function`, called with few of many long points at once."""

    def in_blocks(points: Array) -> list[Array]:
        step = max(1, NUMBERS // points.shape[1])
        blocks = [points[i : i + step].astype(dtype) for i in range(0, len(points), step)]
        return [np.concatenate(found) for found in zip(*map(function, blocks), strict=True)]

    return in_blocks
