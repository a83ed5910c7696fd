"""Signatures of step methods for `help` and editors."""

import inspect

__all__ = ["shows_its_arguments"]


def shows_its_arguments(cls: type) -> type:
    """Return `cls`, with the signature of its ``__init__``, which PyMC's ``__new__`` hides."""
    _, *arguments = inspect.signature(cls.__init__).parameters.values()
    cls.__signature__ = inspect.Signature(arguments)
    return cls
