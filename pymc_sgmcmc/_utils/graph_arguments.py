"""Constraints on what may be part of a graph: parameters of distributions, and shapes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from pytensor.graph.basic import Variable

from pymc_sgmcmc._utils.constraints import Optional, Ruled
from pymc_sgmcmc._utils.validation import shortened

__all__ = ["GRAPH", "SHAPE"]


def _graph(name: str, value: Any) -> None:
    if isinstance(value, Variable):
        return
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.array(None)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name}={shortened(value)} is not an array of numbers, or a variable.")
    if np.isnan(array).any():
        raise ValueError(f"{name}={shortened(value)} must not hold NaN.")


GRAPH = Ruled(
    "an array of numbers, or a variable", _graph,
    lambda: ["a", None, 1j, ["x"], {}, object(), (i for i in ""), np.nan, [1.0, np.nan], [[1], []]],
)  # fmt: skip


def _shape(name: str, value: Any) -> None:
    several = list(value) if isinstance(value, Sequence | np.ndarray) else [value]
    for length in several:
        whole = isinstance(length, int | np.integer) and not isinstance(length, bool | np.bool_)
        if isinstance(value, str) or not (whole or isinstance(length, Variable | type(Ellipsis))):
            raise TypeError(f"{name}={shortened(value)} is no shape: pass whole numbers.")
        if whole and length < 0:
            raise ValueError(f"{name}={shortened(value)} holds a negative length.")


SHAPE = Optional(
    Ruled("whole numbers", _shape,
          lambda: ["x", 1.5, True, [1.5], (2, "a"), {}, -1, (3, -2), object()])
)  # fmt: skip
