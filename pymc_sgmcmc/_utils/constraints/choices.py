"""Constraints on words and flags, and choices between constraints."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_sgmcmc._utils.constraints.base import Constraint
from pymc_sgmcmc._utils.validation import is_word, one_of

__all__ = ["Choice", "Either", "Flag", "Names", "Optional", "Word"]


@dataclass(frozen=True)
class Flag(Constraint):
    """True or False."""

    words = "True or False"

    def check(self, name: str, value: Any) -> None:
        if not isinstance(value, bool | np.bool_):
            raise self._refuse(name, value)

    def bad(self) -> list[Any]:
        return ["False", "no", "x", 0, 1, 1.0, None, [], np.array([True])]


@dataclass(frozen=True)
class Choice(Constraint):
    """One of some words."""

    choices: tuple[str | None, ...]

    @property
    def words(self) -> str:
        return f"one of {list(self.choices)}"

    def check(self, name: str, value: Any) -> None:
        one_of(name, value, self.choices)

    def bad(self) -> list[Any]:
        bad = ["nonsense", "", 3, 1.5, True, ["c"], {}, np.array(["a", "b"]), b"c"]
        return bad if None in self.choices else [*bad, None]


@dataclass(frozen=True)
class Word(Constraint):
    """One word alone, as an option of `Either`."""

    word: str

    @property
    def words(self) -> str:
        return repr(self.word)

    def check(self, name: str, value: Any) -> None:
        if not is_word(value, self.word):
            raise self._refuse(name, value)

    def bad(self) -> list[Any]:
        return ["nonsense", 3, None, [self.word], np.array([self.word, self.word])]


@dataclass(frozen=True)
class Names(Constraint):
    """A name, or a sequence of names."""

    words = "a name or a list of names"

    def check(self, name: str, value: Any) -> None:
        if isinstance(value, str):
            return
        fits = isinstance(value, Sequence | np.ndarray | set | frozenset | Mapping)
        if not fits or not all(isinstance(each, str) for each in value):
            raise self._refuse(name, value)

    def bad(self) -> list[Any]:
        return [3, 1.5, True, [3], [None], b"a", object(), (name for name in "ab"), np.ones(2)]


@dataclass(frozen=True)
class Either(Constraint):
    """A value that one of several constraints accepts; the error is that of the last constraint."""

    options: tuple[Constraint, ...]

    def __init__(self, *options: Constraint):
        object.__setattr__(self, "options", options)

    @property
    def words(self) -> str:
        return " or ".join(option.words for option in self.options)

    def check(self, name: str, value: Any) -> None:
        if not any(option.accepts(value) for option in self.options[:-1]):
            self.options[-1].check(name, value)

    def bad(self) -> list[Any]:
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

    def check(self, name: str, value: Any) -> None:
        if value is not None:
            self.of.check(name, value)

    def bad(self) -> list[Any]:
        return [value for value in self.of.bad() if value is not None]
