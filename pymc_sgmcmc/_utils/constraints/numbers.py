"""Constraints on numbers."""

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from pymc_sgmcmc._utils.constraints.base import Constraint
from pymc_sgmcmc._utils.validation import fraction, natural, positive, shortened

__all__ = ["Numbers", "Positive", "Whole", "Zero"]

NOT_NUMBERS: tuple[Any, ...] = ("a", True, None, 1j, [1.0], {}, np.ones(2), object())
"""Values that are not numbers, or hold more than one."""


@dataclass(frozen=True)
class Positive(Constraint):
    """A positive finite number; with `below` = 1, a fraction."""

    below: float = np.inf

    @property
    def words(self) -> str:
        return "a positive number" if self.below == np.inf else "a number between 0 and 1"

    def check(self, name: str, value: Any) -> None:
        (positive if self.below == np.inf else fraction)(name, value)

    def bad(self) -> list[Any]:
        bad = [*NOT_NUMBERS, 0, 0.0, -0.0, -1.0, np.nan, np.inf, -np.inf, np.float32(-1)]
        return bad if self.below == np.inf else [*bad, 1, 1.0, 2.5, 10**400]


@dataclass(frozen=True)
class Whole(Constraint):
    """A whole number of at least `least`."""

    least: int = 1

    @property
    def words(self) -> str:
        return f"a whole number of at least {self.least}"

    def check(self, name: str, value: Any) -> None:
        if self.least == 1:
            natural(name, value)
            return
        if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
            raise TypeError(f"{name}={shortened(value)} is not an integer: pass {self.words}.")
        if value < self.least:
            raise ValueError(f"{name}={value!r} must be at least {self.least}.")

    def bad(self) -> list[Any]:
        return [
            *NOT_NUMBERS,
            1.5,
            2.0,
            "3",
            np.nan,
            self.least - 1,
            -(10**30),
            (i for i in ""),
        ]


@dataclass(frozen=True)
class Zero(Constraint):
    """The number 0, as an option of `Either`."""

    words = "0"

    def check(self, name: str, value: Any) -> None:
        if isinstance(value, bool | np.bool_) or not isinstance(value, Real) or value != 0:
            raise self._refuse(name, value)

    def bad(self) -> list[Any]:
        return [*NOT_NUMBERS, 1, np.nan]


@dataclass(frozen=True)
class Numbers(Constraint):
    """A number or an array of them, finite and positive (`zero`: or zero).

    The array has at most `ndim` axes; None: its shape is checked where the coordinates are known.
    """

    zero: bool = False
    ndim: int | None = None

    @property
    def words(self) -> str:
        kind = "of at least 0" if self.zero else "above 0"
        return f"a number {kind}, or an array of them"

    def check(self, name: str, value: Any) -> None:
        try:
            array = np.asarray(value)
        except (TypeError, ValueError):
            array = np.array(None)
        if array.dtype.kind not in "iuf":
            raise TypeError(
                f"{name}={shortened(value)} is not a number or an array of numbers: pass "
                f"{self.words}."
            )
        if self.ndim is not None and array.ndim > self.ndim:
            raise ValueError(f"{name} has shape {array.shape}: pass {self.words}.")
        lowest = np.any(array < 0) if self.zero else np.any(array <= 0)
        if not np.isfinite(array).all() or lowest:
            kind = "non-negative" if self.zero else "positive"
            raise ValueError(f"{name}={shortened(value)} must be {kind} and finite.")

    def bad(self) -> list[Any]:
        bad = ["a", None, True, 1j, [1.0, "b"], {}, object(), (i for i in ""), [[1.0], [1.0, 2.0]],
               -1.0, np.nan, np.inf, [1.0, -1.0], [np.nan, 1.0], [1.0, np.inf]]  # fmt: skip
        return bad if self.zero else [*bad, 0.0, -0.0, [0.0, 1.0]]
