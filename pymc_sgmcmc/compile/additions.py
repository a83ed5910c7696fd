"""Additions to PyTensor: left out where they fail or where the user wishes it.

PyTensor alone compiles the graph then. A traceback would blame the user's model, and be pages long.
"""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps

from pymc_sgmcmc.compile.pytensor_internals import cmodule, node_rewriter

__all__ = ["SAID", "is_plain", "our_rewriter", "plainly", "quiet_compiler", "say_fallback"]

_log = logging.getLogger("pymc.sgmcmc")

SAID: set[str] = set()
"""Reasons that this process has logged."""


_PLAIN = "PYMC_SGMCMC_PLAIN"


def is_plain() -> bool:
    """Return whether the environment variable ``PYMC_SGMCMC_PLAIN`` leaves our additions out."""
    return os.environ.get(_PLAIN, "0") not in ("", "0")


@contextmanager
def plainly() -> Iterator[None]:
    """Leave our additions out meanwhile."""
    before = os.environ.get(_PLAIN)
    os.environ[_PLAIN] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_PLAIN]
        else:
            os.environ[_PLAIN] = before


def our_rewriter(tracks):
    """Return a decorator like `node_rewriter` whose rewriters leave a node unchanged at an error.

    PyTensor would write the traceback of each error to the screen.
    """

    def decorate(find):
        @wraps(find)
        def transform(fgraph, node):
            try:
                return find(fgraph, node)
            except Exception as error:
                say_fallback(error)
                return None

        return node_rewriter(tracks)(transform)

    return decorate


def say_fallback(error: Exception) -> None:
    """Log that PyTensor's plain mode is used because of `error`, once for each reason."""
    reason = _reason(error)
    if reason not in SAID:
        SAID.add(reason)
        _log.warning(
            "The faster code of this package does not compile for this model (%s): PyTensor's "
            "plain mode is used, with the same numbers in more time. Please report it.",
            reason,
        )


def _reason(error: Exception) -> str:
    """Return the type of `error` and its main line: the first with "error:", else the first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    errors = [line.partition("error:")[2].strip() for line in lines if "error:" in line]
    [first, *_] = errors or lines or ["without a message"]
    return f"{type(error).__name__}: {first[:200]}"


@contextmanager
def quiet_compiler():
    """Keep PyTensor from printing the path of C code that does not compile."""
    cmodule.print = _print_to_files
    try:
        yield
    finally:
        del cmodule.print


def _print_to_files(*args, file=None, **kwargs):
    """Print to a file, as PyTensor does to store C code, but never to the screen."""
    if file is not None and file is not sys.stderr:
        print(*args, file=file, **kwargs)
