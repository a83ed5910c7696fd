"""Warnings that point at the line of the user's code."""

import sys
import warnings

__all__ = ["warn_user"]

INSIDE = ("pymc_sgmcmc", "pymc", "pytensor", "contextlib")


def warn_user(message: str) -> None:
    """Warn with a `UserWarning`, at the innermost line that is not of this package or PyMC.

    Nor of a decorator that PyMC has put around what the user called.
    """
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _is_inside(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, UserWarning, stacklevel=level)


def _is_inside(module: str) -> bool:
    return module.partition(".")[0] in INSIDE
