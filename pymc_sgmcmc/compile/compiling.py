"""The process while this package compiles: one thread at a time, under flags of its own.

PyTensor's configuration and the garbage collector belong to the process. Two threads that changed
them at once would each restore what the other had set.
"""

import gc
import logging
import os
import warnings
from contextlib import ExitStack, contextmanager
from threading import RLock

import pytensor

__all__ = ["compiling", "one_at_a_time"]

_log = logging.getLogger("pymc.sgmcmc")

_lock, _depth = RLock(), 0

# A fork waits until no other thread compiles: the child would inherit a lock that nobody releases
# and a configuration that nobody restores.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
    )

# The Fortran routines that PyTensor's C code may call; the wheel's symbols carry a prefix.
_BLAS_ROUTINES = [
    precision + routine
    for precision in "sd"
    for routine in (
        *("axpy", "copy", "dot", "gemm", "gemv", "ger", "nrm2", "rot", "scal", "swap"),
        *("symm", "symv", "syr", "syr2", "syrk", "syr2k", "trmm", "trmv", "trsm", "trsv"),
    )
]


@contextmanager
def one_at_a_time():
    """Wait until no other thread compiles, and keep others waiting. A thread may enter again."""
    with _lock:
        yield


@contextmanager
def compiling():
    """Set the flags of the C compiler, and stop the garbage collector, in one thread at a time.

    Within another `compiling` of the same thread all is set already.
    """
    global _depth
    with one_at_a_time(), ExitStack() as settings:
        if not _depth:
            settings.enter_context(_compiler_flags())
            settings.enter_context(_no_garbage_collection())
        _depth += 1
        try:
            yield
        finally:
            _depth -= 1


def _compiler_flags():
    """Return a context of the configuration under which C code is compiled.

    Without symbols for a debugger, which take a fifth of the compiler's time, and with the BLAS of
    the scipy-openblas32 wheel: a pip-installed PyTensor finds none, and matrix products are then 2
    to 50 times slower. Where PyTensor has one of its own, it is left alone.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PyTensor could not link to a BLAS")
        ldflags, flags = pytensor.config.blas__ldflags, ["-g0"]
    if not ldflags and (wheel := _wheel()) is not None:
        folder = wheel.get_lib_dir()
        ldflags = f"-L{folder} -l{wheel.get_library()} -Wl,-rpath,{folder}"
        flags += [f"-D{name}_=scipy_{name}_" for name in _BLAS_ROUTINES]
    flags.append(pytensor.config.gcc__cxxflags)  # a user's own come last, and win
    return pytensor.config.change_flags(
        blas__ldflags=ldflags, gcc__cxxflags=" ".join(flags).strip()
    )


def _wheel():
    try:
        import scipy_openblas32
    except ImportError:
        _log.debug("no BLAS for PyTensor's C code: scipy-openblas32 is not installed")
        return None
    return scipy_openblas32


@contextmanager
def _no_garbage_collection():
    """Do not search for cycles, of which graphs are full: it takes a quarter of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
