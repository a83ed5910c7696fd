"""The base class of constraints, and constraints by type or by a function."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_sgmcmc._utils.validation import shortened

__all__ = ["Constraint", "Function", "Instance", "MappingOf", "NotTaken", "Ruled"]


class Constraint(ABC):
    """Constraint on an argument.

    Attributes
    ----------
    words : str
        Description of the accepted values, as in "a positive number".
    """

    @property
    @abstractmethod
    def words(self) -> str: ...

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
class Instance(Constraint):
    """An instance of some types."""

    types: type | tuple[type, ...]
    text: str

    @property
    def words(self) -> str:
        return self.text

    def check(self, name: str, value: Any) -> None:
        if not isinstance(value, self.types) or isinstance(value, bool):
            raise TypeError(f"{name}={shortened(value)} is not {self.words}.")

    def bad(self) -> list[Any]:
        return [value for value in ("x", 3, 1.5, True, [], {}, object(), np.ones(2), None)
                if not isinstance(value, self.types) or isinstance(value, bool)]  # fmt: skip


@dataclass(frozen=True)
class Function(Constraint):
    """A callable; `of` describes its arguments."""

    of: str

    @property
    def words(self) -> str:
        return f"a function of {self.of}"

    def check(self, name: str, value: Any) -> None:
        if not callable(value):
            raise TypeError(f"{name}={shortened(value)} is no function: pass one of {self.of}.")

    def bad(self) -> list[Any]:
        return [2.0, "x", None, [], {}, np.ones(2)]


@dataclass(frozen=True)
class MappingOf(Constraint):
    """A mapping from names; its values are checked where they are used."""

    text: str

    @property
    def words(self) -> str:
        return self.text

    def check(self, name: str, value: Any) -> None:
        if not isinstance(value, Mapping):
            raise TypeError(f"{name}={shortened(value)} is not a mapping: pass {self.words}.")

    def bad(self) -> list[Any]:
        return ["x", 3, [("a", 1)], {"a"}, (pair for pair in ""), np.ones(2), object()]


@dataclass(frozen=True)
class NotTaken(Constraint):
    """An argument that one class refuses, with a reason, though similar classes take it."""

    why: str

    @property
    def words(self) -> str:
        return f"nothing: {self.why}"

    def check(self, name: str, value: Any) -> None:
        """Do nothing: the class itself refuses the argument."""

    def bad(self) -> list[Any]:
        return []


@dataclass(frozen=True)
class Ruled(Constraint):
    """A value that a function, ``rule(name, value)``, accepts; the function raises otherwise."""

    text: str
    rule: Callable[[str, Any], Any]
    examples: Callable[[], Iterable[Any]]
    """Function that returns new bad values at each call, as some can be read only once."""

    @property
    def words(self) -> str:
        return self.text

    def check(self, name: str, value: Any) -> None:
        self.rule(name, value)

    def bad(self) -> list[Any]:
        return list(self.examples())
