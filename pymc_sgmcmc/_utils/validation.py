"""Checks of users' arguments: each error names the argument, its value, and the remedy."""

from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np


def shortened(value: Any) -> str:
    """Return `repr(value)` on one line of at most 80 characters; the shape of a large array."""
    if isinstance(value, np.ndarray) and value.size > 8:
        return f"array of shape {value.shape}"
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def positive(name: str, value: Any) -> Any:
    """Return `value` if it is a positive finite number, else raise."""
    value = value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name}={shortened(value)} is not a number: pass a positive number.")
    try:
        number = float(value)
    except OverflowError:  # an integer of 400 digits
        number = np.inf
    if not (np.isfinite(number) and number > 0):
        raise ValueError(f"{name}={shortened(value)} must be positive and finite.")
    return value


DEFAULT = "default"
"""Value of an argument that was not given, whose default depends on other arguments."""


def is_word(value: Any, word: str) -> bool:
    """Return whether `value` is the string `word`; safe for arrays, whose == is elementwise."""
    return isinstance(value, str) and value == word


def is_default(value: Any) -> bool:
    """Return whether an argument was not given."""
    return is_word(value, DEFAULT)


def is_auto(value: Any) -> bool:
    """Return whether an argument is to be found automatically."""
    return is_word(value, "auto")


def positive_or_auto(name: str, value: Any) -> float | str:
    """Return `value` if it is "auto" or a positive finite number, else raise."""
    return value if is_auto(value) else positive(name, value)


def fraction(name: str, value: Any) -> float:
    """Return `value` if it is a number between 0 and 1, both excluded, else raise."""
    if positive(name, value) >= 1:
        raise ValueError(f"{name}={shortened(value)} must be below 1.")
    return value


def natural(name: str, value: Any) -> int:
    """Return `value` as an int if it is a whole number of at least one, else raise."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(
            f"{name}={shortened(value)} is not an integer: pass a whole number of at least 1."
        )
    if value < 1:
        raise ValueError(f"{name}={shortened(value)} must be at least 1.")
    return int(value)


def one_of(name: str, value: Any, choices: Iterable[str | None]) -> Any:
    """Return `value` if it is one of `choices`, else raise."""
    choices = list(choices)
    if not (value is None or isinstance(value, str)) or value not in choices:
        raise ValueError(f"{name}={shortened(value)} is unknown: choose from {choices}.")
    return value


def per_coordinate(name: str, value: Any, size: int, *, zero: bool = False) -> np.ndarray:
    """Return `value` as an array of shape () or (size,), finite and positive (`zero`: or zero)."""
    array = np.asarray(value)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name}={shortened(value)} is not a number or an array of numbers.")
    array = array.astype(float)
    if array.shape not in ((), (size,)):
        raise ValueError(
            f"{name} has shape {array.shape}: pass one number, or one for each of the "
            f"{size} coordinates, shape ({size},)."
        )
    if not np.all(np.isfinite(array)) or np.any(array < 0) or (not zero and np.any(array == 0)):
        kind = "non-negative" if zero else "positive"
        raise ValueError(f"{name}={shortened(value)} must be {kind} and finite.")
    return array


def check_axes(axes: Any) -> dict[str, int | None]:
    """Return the argument ``rows=`` as a dict; raise TypeError if it is no mapping to axes."""
    if not isinstance(axes, Mapping):
        raise TypeError(
            f"rows={axes!r} is not a mapping: pass rows={{'name of data': axis or None}}."
        )
    for name, axis in axes.items():
        if isinstance(axis, bool) or not isinstance(axis, Integral | None):
            raise TypeError(f"rows={{{name!r}: {axis!r}}}: pass the axis, an integer, or None.")
    return dict(axes)
