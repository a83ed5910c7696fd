"""Elementwise operations by NumPy, where PyTensor has Python compute them entry by entry."""

from collections.abc import Callable
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.scalar.basic import Cast, Clip, Second
from pytensor.scalar.math import Log1mexp, Softplus
from pytensor.tensor.elemwise import Elemwise

from pymc_sgmcmc.compile.additions import our_rewriter
from pymc_sgmcmc.compile.pytensor_internals import LAST, register_rewrite

__all__ = ["NUMPY_FUNCTIONS", "by_numpy"]

NUMPY_FUNCTIONS = "pymc_sgmcmc_numpy_functions"
"""Name under which a mode for Python code includes the rewrite."""


def _second(like: np.ndarray, values: np.ndarray) -> np.ndarray:
    return np.broadcast_to(values, np.broadcast_shapes(np.shape(like), np.shape(values))).copy()


def _log1mexp(x: np.ndarray) -> np.ndarray:
    """Return log(1 - exp(x)) by the better of two forms for each x (Mächler, 2012)."""
    return np.where(x < -np.log(2.0), np.log1p(-np.exp(x)), np.log(-np.expm1(x)))


_FUNCTIONS: dict[type, Callable[..., Any]] = {
    Cast: lambda x: x,  # the result has the type of the operation
    Clip: lambda x, least, most: np.where(x < least, least, np.where(x > most, most, x)),
    Log1mexp: _log1mexp,
    Second: _second,
    Softplus: lambda x: np.logaddexp(0.0, x),
}


class _ByNumPy(Elemwise):
    """An elementwise operation whose result NumPy computes in one call."""

    def perform(self, node: Apply, inputs: list[np.ndarray], output_storage: list[list]) -> None:
        with np.errstate(all="ignore"):
            value = _FUNCTIONS[type(self.scalar_op)](*inputs)
            output_storage[0][0] = np.array(value, dtype=node.outputs[0].type.dtype)


def by_numpy(op: Op) -> Op:
    """Return the operation that computes the same as `op` in one call of NumPy, or `op` itself."""
    is_slow = type(op) is Elemwise and type(op.scalar_op) in _FUNCTIONS
    return _ByNumPy(op.scalar_op) if is_slow else op


@our_rewriter([Elemwise])
def _numpy_functions(fgraph, node):
    op = by_numpy(node.op)
    return None if op is node.op else op.make_node(*node.inputs).outputs


# Run after all rewrites that look for these operations.
register_rewrite(NUMPY_FUNCTIONS, _numpy_functions, LAST)
