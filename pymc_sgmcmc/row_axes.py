"""The dimension and the number of the rows of observed variables, and the axes that users give."""

from collections.abc import Mapping
from numbers import Integral
from typing import Any

import numpy as np
from pymc import Model
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.backends import interpreted

__all__ = ["check_axes", "number_of_rows", "row_dim", "value_of"]


def value_of(leaf: SharedVariable | Constant) -> np.ndarray:
    """The array behind a shared variable or a constant, not copied."""
    return leaf.get_value(borrow=True) if isinstance(leaf, SharedVariable) else leaf.data


def row_dim(model: Model, rv: TensorVariable, axis: int = 0) -> str | None:
    """Return the dimension of an axis of `rv`, from its own dims or those of its data."""
    value = model.rvs_to_values.get(rv, rv)
    while value.owner and isinstance(value.owner.op, Elemwise) and len(value.owner.inputs) == 1:
        value = value.owner.inputs[0]  # a cast of the data; their dims do not fit a transpose
    for name in (rv.name, value.name):
        dims = model.named_vars_to_dims.get(name)
        if dims:
            return dims[axis] if axis < len(dims) else None
    return None


def number_of_rows(model: Model, rv: TensorVariable) -> int:
    """Return the length of the leading axis of the observed values."""
    value = model.rvs_to_values[rv]
    return int(interpreted([], [value.shape[0]])()[0])


def check_axes(axes: Any) -> dict[str, int | None]:
    """Return what the user gave as ``rows=``, or raise if it is no mapping to axes."""
    if not isinstance(axes, Mapping):
        raise TypeError(
            f"rows={axes!r} is not a mapping: pass rows={{'name of data': axis or None}}."
        )
    for name, axis in axes.items():
        if isinstance(axis, bool) or not isinstance(axis, Integral | None):
            raise TypeError(f"rows={{{name!r}: {axis!r}}}: pass the axis, an integer, or None.")
    return dict(axes)
