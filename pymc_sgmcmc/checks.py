"""Checks of what a user gives: each error names the argument, its value, and the remedy."""

from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np


def positive(name: str, value: Any) -> float:
    """Return `value` if it is a positive finite number, else raise."""
    value = value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name}={value!r} is not a number: pass a positive number.")
    if not (np.isfinite(value) and value > 0):
        raise ValueError(f"{name}={value!r} must be positive and finite.")
    return value


def is_word(value: Any, word: str) -> bool:
    """Whether `value` is that `word`; of an array, which may be compared with none, too."""
    return isinstance(value, str) and value == word


def positive_or_auto(name: str, value: Any) -> float | str:
    """Return `value` if it is "auto" or a positive finite number, else raise."""
    return value if is_word(value, "auto") else positive(name, value)


def fraction(name: str, value: Any) -> float:
    """Return `value` if it is a number between 0 and 1, both excluded, else raise."""
    if positive(name, value) >= 1:
        raise ValueError(f"{name}={value!r} must be below 1.")
    return value


def fraction_or_none(name: str, value: Any) -> float | None:
    """Return `value` if it is None or a number between 0 and 1, both excluded, else raise."""
    return None if value is None else fraction(name, value)


def natural(name: str, value: Any) -> int:
    """Return `value` as an int if it is a whole number of at least one, else raise."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name}={value!r} is not an integer: pass a whole number of at least 1.")
    if value < 1:
        raise ValueError(f"{name}={value!r} must be at least 1.")
    return int(value)


def one_of(name: str, value: Any, choices: Iterable[str | None]) -> Any:
    """Return `value` if it is one of `choices`, else raise."""
    choices = list(choices)
    if not (value is None or isinstance(value, str)) or value not in choices:
        raise ValueError(f"{name}={value!r} is unknown: choose from {choices}.")
    return value


def per_coordinate(name: str, value: Any, size: int, *, zero: bool = False) -> np.ndarray:
    """Return `value` as an array of shape () or (size,), finite and positive (`zero`: or zero)."""
    array = np.asarray(value)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name}={value!r} is not a number or an array of numbers.")
    array = array.astype(float)
    if array.shape not in ((), (size,)):
        raise ValueError(
            f"{name} has shape {array.shape}: pass one number, or one for each of the "
            f"{size} coordinates, shape ({size},)."
        )
    if not np.all(np.isfinite(array)) or np.any(array < 0) or (not zero and np.any(array == 0)):
        kind = "non-negative" if zero else "positive"
        raise ValueError(f"{name}={value!r} must be {kind} and finite.")
    return array
