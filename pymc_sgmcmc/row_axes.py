"""Where the rows are: the dimension, the number and the axis of the rows of observed variables."""

from collections.abc import Mapping
from numbers import Integral
from typing import Any

import numpy as np
from pymc import Model
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.backends import interpreted
from pymc_sgmcmc.csr import is_whole

__all__ = ["check_axes", "number_of_rows", "row_axis", "row_dim", "value_of"]


def value_of(leaf: SharedVariable | Constant) -> np.ndarray:
    """The array behind a shared variable or a constant, not copied."""
    return leaf.get_value(borrow=True) if isinstance(leaf, SharedVariable) else leaf.data


def row_dim(model: Model, rv: TensorVariable) -> str | None:
    """Return the dimension of the rows of `rv`, from its own dims or those of its data."""
    value = model.rvs_to_values[rv]
    while value.owner and isinstance(value.owner.op, Elemwise) and len(value.owner.inputs) == 1:
        value = value.owner.inputs[0]  # a cast of the data; their dims do not fit a transpose
    for name in (rv.name, value.name):
        dims = model.named_vars_to_dims.get(name)
        if dims:
            return dims[0]
    return None


def number_of_rows(model: Model, rv: TensorVariable) -> int:
    """Return the length of the leading axis of the observed values."""
    value = model.rvs_to_values[rv]
    return int(interpreted([], [value.shape[0]])()[0])


def row_axis(
    model: Model,
    leaf: SharedVariable | Constant,
    name: str | None,
    key: object,
    n_rows: int,
    axes: Mapping[str, int | None],
) -> int | None:
    """Return the axis of `leaf` that holds the `n_rows` rows of dimension `key`, or None.

    `axes`, given by the user, comes first; then dims; then the length of the leading axis.
    """
    if not isinstance(leaf.type, TensorType) or leaf.type.ndim == 0 or is_whole(leaf):
        return None
    shape = value_of(leaf).shape
    if name in axes:
        axis = axes[name]
        if axis is not None and not (0 <= axis < len(shape) and shape[axis] == n_rows):
            raise ValueError(
                f"rows={{{name!r}: {axis!r}}} does not fit: {name} has shape {shape}, and the "
                f"observed variable has {n_rows} rows."
            )
        return axis
    dims = model.named_vars_to_dims.get(name, ())
    if key in dims:
        return list(dims).index(key)
    labelled_otherwise = isinstance(key, str) and dims and all(dims)
    return 0 if shape[0] == n_rows and not labelled_otherwise else None


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
