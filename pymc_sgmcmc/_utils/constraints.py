"""Constraints on arguments, as small values with a description, a check, and bad values for tests.

Each public class and function declares a constraint for each of its arguments: see
`pymc_sgmcmc._utils.arguments`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from pymc_sgmcmc._utils.validation import fraction, is_word, natural, one_of, positive, shortened

__all__ = [
    "Choice", "Constraint", "Either", "Flag", "Function", "Instance", "MappingOf", "Names",
    "NotTaken", "Numbers", "Optional", "Positive", "Ruled", "Whole", "Word", "Zero",
]  # fmt: skip

NOT_NUMBERS = ("a", True, None, 1j, [1.0], {}, np.ones(2), object())
"""Values that are not numbers, or hold more than one."""


class Constraint(ABC):
    """Constraint on an argument.

    Attributes
    ----------
    words : str
        Description of the accepted values, as in "a positive number".
    """

    words: str

    @abstractmethod
    def check(self, name: str, value: Any) -> None:
        """Raise ValueError or TypeError that names the argument, unless `value` is accepted."""

    @abstractmethod
    def bad(self) -> list[Any]:
        """Return values that must be refused, for tests."""

    def accepts(self, value: Any) -> bool:
        """Return whether `value` is accepted."""
        try:
            self.check("", value)
        except (TypeError, ValueError):
            return False
        return True

    def _refuse(self, name: str, value: Any, error: type[Exception] = TypeError) -> Exception:
        return error(f"{name}={shortened(value)} is not accepted: pass {self.words}.")


@dataclass(frozen=True)
class Positive(Constraint):
    """A positive finite number; with `below` = 1, a fraction."""

    below: float = np.inf

    @property
    def words(self) -> str:
        return "a positive number" if self.below == np.inf else "a number between 0 and 1"

    def check(self, name, value):
        (positive if self.below == np.inf else fraction)(name, value)

    def bad(self):
        bad = [*NOT_NUMBERS, 0, 0.0, -0.0, -1.0, np.nan, np.inf, -np.inf, np.float32(-1)]
        return bad if self.below == np.inf else [*bad, 1, 1.0, 2.5, 10**400]


@dataclass(frozen=True)
class Whole(Constraint):
    """A whole number of at least `least`."""

    least: int = 1

    @property
    def words(self) -> str:
        return f"a whole number of at least {self.least}"

    def check(self, name, value):
        if self.least == 1:
            natural(name, value)
            return
        if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
            raise TypeError(f"{name}={shortened(value)} is not an integer: pass {self.words}.")
        if value < self.least:
            raise ValueError(f"{name}={value!r} must be at least {self.least}.")

    def bad(self):
        return [*NOT_NUMBERS, 1.5, 2.0, "3", np.nan, self.least - 1, -(10**30), (i for i in ())]


@dataclass(frozen=True)
class Flag(Constraint):
    """True or False."""

    words = "True or False"

    def check(self, name, value):
        if not isinstance(value, bool | np.bool_):
            raise self._refuse(name, value)

    def bad(self):
        return ["False", "no", "x", 0, 1, 1.0, None, [], np.array([True])]


@dataclass(frozen=True)
class Choice(Constraint):
    """One of some words."""

    choices: tuple[str | None, ...]

    @property
    def words(self) -> str:
        return f"one of {list(self.choices)}"

    def check(self, name, value):
        one_of(name, value, self.choices)

    def bad(self):
        bad = ["nonsense", "", 3, 1.5, True, ["c"], {}, np.array(["a", "b"]), b"c"]
        return bad if None in self.choices else [*bad, None]


@dataclass(frozen=True)
class Word(Constraint):
    """One word alone, as an option of `Either`."""

    word: str

    @property
    def words(self) -> str:
        return repr(self.word)

    def check(self, name, value):
        if not is_word(value, self.word):
            raise self._refuse(name, value)

    def bad(self):
        return ["nonsense", 3, None, [self.word], np.array([self.word, self.word])]


@dataclass(frozen=True)
class Zero(Constraint):
    """The number 0, as an option of `Either`."""

    words = "0"

    def check(self, name, value):
        if isinstance(value, bool | np.bool_) or not isinstance(value, Real) or value != 0:
            raise self._refuse(name, value)

    def bad(self):
        return [*NOT_NUMBERS, 1, np.nan]


@dataclass(frozen=True)
class Either(Constraint):
    """A value that one of several constraints accepts; the error is that of the last constraint."""

    options: tuple[Constraint, ...]

    def __init__(self, *options: Constraint):
        object.__setattr__(self, "options", options)

    @property
    def words(self) -> str:
        return " or ".join(option.words for option in self.options)

    def check(self, name, value):
        if not any(option.accepts(value) for option in self.options[:-1]):
            self.options[-1].check(name, value)

    def bad(self):
        return [value for option in self.options for value in option.bad()
                if not any(other.accepts(value) for other in self.options if other is not option)
                ]  # fmt: skip


@dataclass(frozen=True)
class Optional(Constraint):
    """None, or a value that another constraint accepts."""

    of: Constraint

    @property
    def words(self) -> str:
        return f"{self.of.words}, or None"

    def check(self, name, value):
        if value is not None:
            self.of.check(name, value)

    def bad(self):
        return [value for value in self.of.bad() if value is not None]


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

    def check(self, name, value):
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

    def bad(self):
        bad = ["a", None, True, 1j, [1.0, "b"], {}, object(), (i for i in ()), [[1.0], [1.0, 2.0]],
               -1.0, np.nan, np.inf, [1.0, -1.0], [np.nan, 1.0], [1.0, np.inf]]  # fmt: skip
        return bad if self.zero else [*bad, 0.0, -0.0, [0.0, 1.0]]


@dataclass(frozen=True)
class Instance(Constraint):
    """An instance of some types."""

    types: type | tuple[type, ...]
    words: str

    def check(self, name, value):
        if not isinstance(value, self.types) or isinstance(value, bool):
            raise TypeError(f"{name}={shortened(value)} is not {self.words}.")

    def bad(self):
        return [value for value in ("x", 3, 1.5, True, [], {}, object(), np.ones(2), None)
                if not isinstance(value, self.types) or isinstance(value, bool)]  # fmt: skip


@dataclass(frozen=True)
class Function(Constraint):
    """A callable; `of` describes its arguments."""

    of: str

    @property
    def words(self) -> str:
        return f"a function of {self.of}"

    def check(self, name, value):
        if not callable(value):
            raise TypeError(f"{name}={shortened(value)} is no function: pass one of {self.of}.")

    def bad(self):
        return [2.0, "x", None, [], {}, np.ones(2)]


@dataclass(frozen=True)
class Names(Constraint):
    """A name, or a sequence of names."""

    words = "a name or a list of names"

    def check(self, name, value):
        if isinstance(value, str):
            return
        fits = isinstance(value, Sequence | np.ndarray | set | frozenset | Mapping)
        if not fits or not all(isinstance(each, str) for each in value):
            raise self._refuse(name, value)

    def bad(self):
        return [3, 1.5, True, [3], [None], b"a", object(), (name for name in "ab"), np.ones(2)]


@dataclass(frozen=True)
class MappingOf(Constraint):
    """A mapping from names; its values are checked where they are used."""

    words: str

    def check(self, name, value):
        if not isinstance(value, Mapping):
            raise TypeError(f"{name}={shortened(value)} is not a mapping: pass {self.words}.")

    def bad(self):
        return ["x", 3, [("a", 1)], {"a"}, (pair for pair in ()), np.ones(2), object()]


@dataclass(frozen=True)
class NotTaken(Constraint):
    """An argument that one class refuses, with a reason, though similar classes take it."""

    why: str

    @property
    def words(self) -> str:
        return f"nothing: {self.why}"

    def check(self, name, value):
        """Do nothing: the class itself refuses the argument."""

    def bad(self):
        return []


@dataclass(frozen=True)
class Ruled(Constraint):
    """A value that a function, ``rule(name, value)``, accepts; the function raises otherwise."""

    words: str
    rule: Callable[[str, Any], Any]
    examples: Callable[[], Iterable[Any]]
    """Function that returns new bad values at each call, as some can be read only once."""

    def check(self, name, value):
        self.rule(name, value)

    def bad(self):
        return list(self.examples())
