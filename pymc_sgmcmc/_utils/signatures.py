"""Signatures of step methods for `help` and editors."""

import inspect
from typing import Any, TypeVar

__all__ = ["shows_its_arguments"]

C = TypeVar("C", bound=type)


def shows_its_arguments(cls: C) -> C:
    """Return `cls`, with the signature of its ``__init__``, which PyMC's ``__new__`` hides."""
    shown: Any = cls
    _, *arguments = inspect.signature(shown.__init__).parameters.values()
    shown.__signature__ = inspect.Signature(arguments)
    return cls
