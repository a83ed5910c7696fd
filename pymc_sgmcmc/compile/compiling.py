"""Process-wide settings during compilation: one thread at a time, with this package's flags.

PyTensor's configuration and the garbage collector belong to the process. If two threads changed
them at once, each would restore the other's settings.
"""

import gc
import logging
import os
import warnings
from contextlib import ExitStack, contextmanager
from functools import cache
from threading import RLock

import pytensor

__all__ = ["compiling", "one_at_a_time"]

_log = logging.getLogger("pymc.sgmcmc")

_lock, _depth = RLock(), 0

# A fork waits until no other thread compiles. Otherwise the child would inherit a lock that nobody
# releases and a configuration that nobody restores.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
    )

# Fortran routines that PyTensor's C code may call; the wheel's symbols have a prefix.
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
    """Hold the lock that lets one thread compile at a time. The lock is reentrant."""
    with _lock:
        yield


@contextmanager
def compiling():
    """Set the flags of the C compiler and stop the garbage collector, in one thread at a time.

    A nested `compiling` in the same thread changes nothing.
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
    """Return a context that sets PyTensor's configuration for C code.

    The flags leave out debugging symbols, which take a fifth of the compiler's time. They link the
    BLAS of the scipy-openblas32 wheel if PyTensor has found no BLAS. A pip-installed PyTensor finds
    none, and matrix products are then 2 to 50 times slower.
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


@cache  # the advice is given once
def _wheel():
    try:
        import scipy_openblas32
    except ImportError:
        _log.info(
            "PyTensor has found no BLAS for its C code, and matrix products are slow. "
            "pip install scipy-openblas32 brings one; so does PyTensor from conda-forge."
        )
        return None
    return scipy_openblas32


@contextmanager
def _no_garbage_collection():
    """Disable the garbage collector, which takes a quarter of the time: graphs have many cycles."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
