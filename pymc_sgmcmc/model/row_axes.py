"""The dimension and the number of the rows of observed variables."""

import numpy as np
from pymc import Model
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.compile.in_python import interpreted

__all__ = ["FEW_ROWS", "number_of_rows", "row_dim", "value_of"]

FEW_ROWS = 256
"""Largest number of rows that are as cheap as a batch: all of them are computed."""


def value_of(leaf: SharedVariable | Constant) -> np.ndarray:
    """Return the array of a shared variable or a constant, not copied."""
    return leaf.get_value(borrow=True) if isinstance(leaf, SharedVariable) else leaf.data


def row_dim(model: Model, rv: TensorVariable, axis: int = 0) -> str | None:
    """Return the dimension of an axis of `rv`, from its own dims or those of its data."""
    value = model.rvs_to_values.get(rv, rv)
    while value.owner and isinstance(value.owner.op, Elemwise) and len(value.owner.inputs) == 1:
        value = value.owner.inputs[0]  # a cast of the data; dims of data would not fit a transpose
    for name in (rv.name, value.name):
        dims = model.named_vars_to_dims.get(name)
        if dims:
            return dims[axis] if axis < len(dims) else None
    return None


def number_of_rows(model: Model, rv: TensorVariable) -> int:
    """Return the length of the leading axis of the observed values."""
    value = model.rvs_to_values[rv]
    return int(interpreted([], [value.shape[0]])()[0])
