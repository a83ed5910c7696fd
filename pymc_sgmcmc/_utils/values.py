"""Equality of values that hold arrays."""

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

__all__ = ["equal_values"]


def equal_values(one: Any, other: Any) -> bool:
    """Return whether two trees of dataclasses, tuples, lists, dicts and arrays are equal.

    NaN equals NaN.
    """
    if type(one) is not type(other):
        return False
    if is_dataclass(one):
        names = [field.name for field in fields(one)]
        return all(equal_values(getattr(one, name), getattr(other, name)) for name in names)
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(equal_values, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal_values(one[k], other[k]) for k in one)
    if isinstance(one, np.ndarray | np.generic | float):
        same_type = np.asarray(one).dtype == np.asarray(other).dtype
        is_float = np.asarray(one).dtype.kind in "fc"
        return bool(same_type and np.array_equal(one, other, equal_nan=is_float))
    return bool(one == other)
