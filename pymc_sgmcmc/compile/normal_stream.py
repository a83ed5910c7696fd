"""Standard normals for the inner steps, the most expensive part with many parameters."""

import os
import threading
import time
from collections.abc import Callable
from functools import cache
from math import prod

import numpy as np

__all__ = ["MANY", "Noise"]

MANY = 2**11
"""Least number of normals per draw that compiled code makes faster than NumPy's generator."""

AHEAD = 2**17
"""Least number of normals at once that take longer to make than a thread takes to start."""

PATIENCE = 1e-3
"""Seconds to wait for the thread to begin."""


class Noise:
    """Standard normals in the working precision; large draws use the same memory at each call.

    Small draws come from NumPy's generator. Large draws are a function of a key and of the number
    of their first inner step, so the normals of the next steps can be made ahead without any state.

    Parameters
    ----------
    size : int
        Number of normals in a draw.
    dtype : str or numpy.dtype

    Attributes
    ----------
    many : bool
        Whether draws are large: `size` is at least `MANY`.
    """

    def __init__(self, size: int, dtype: str | np.dtype):
        self._size, self._dtype, self.many = size, np.dtype(dtype), size >= MANY
        self._buffer, self._next = np.empty(0, dtype), np.empty(0, dtype)
        self._made: tuple[int, int, int] | None = None
        self._thread: threading.Thread | None = None
        if self.many:
            fill(np.empty(4, dtype), 0, 0)  # compile here, not in every worker

    def __reduce__(self):
        return Noise, (self._size, self._dtype)

    def draw(
        self, rng: np.random.Generator, key: int, step: int, shape: tuple[int, ...]
    ) -> np.ndarray:
        """Draw normals of `shape`, from `rng` if few, or as a function of `key` and `step`.

        The array is valid until the next call.
        """
        if not self.many:
            return rng.standard_normal(shape, self._dtype)
        size = prod(shape)
        if self._thread is not None and self._thread.ident is not None:
            self._thread.join()
        if self._made != (key, step, size):
            self._make(key, step, size)
        self._buffer, self._next, self._made = self._next, self._buffer, None
        return self._buffer[:size].reshape(shape)

    def begin(self, key: int, step: int, shape: tuple[int, ...]) -> None:
        """Start a thread that makes the normals of the next `draw`, if a core is free."""
        if prod(shape) < AHEAD or not _a_core_is_free():
            return
        begun = np.zeros(1, np.uint8)
        # Store the thread before it starts, so that `draw` joins it even after an interrupt in
        # between.
        self._thread = threading.Thread(target=self._make, args=(key, step, prod(shape), begun))
        try:
            self._thread.start()
        except RuntimeError:  # the process may not start more threads
            return
        end = time.perf_counter() + PATIENCE
        # Compiled graphs hold Python's lock. Wait until the thread runs without it: otherwise the
        # thread could not start before the graph ends.
        while not begun[0] and time.perf_counter() < end:
            time.sleep(0)

    def _make(self, key: int, step: int, size: int, begun: np.ndarray | None = None) -> None:
        self._next, self._made = _room(self._next, size), None
        fill(self._next[: size + -size % 4], key, step, begun)
        self._made = key, step, size


def fill(normals: np.ndarray, key: int, stream: int, begun: np.ndarray | None = None) -> None:
    """Fill `normals`, (4 n,), with a function of two words of 64 bits, `key` and `stream`.

    In float32 the uniform words have 32 bits: no value is beyond 6.8, which one in 10^11 normals
    exceeds. In float64 they have 64 bits, and no value is beyond 9.5.
    """
    word, compiled = _filler(normals.dtype)
    begun = np.zeros(1, np.uint8) if begun is None else begun
    compiled(normals.view(word), np.uint64(key), np.uint64(stream), begun)


@cache
def _filler(dtype: np.dtype) -> tuple[np.dtype, Callable]:
    """Return the integer type of the random words and the compiled function that fills them."""
    from pymc_sgmcmc.compile.philox import filler  # Numba takes long to import

    return np.dtype(f"u{dtype.itemsize}"), filler(dtype)


def _room(buffer: np.ndarray, size: int) -> np.ndarray:
    """Return `buffer`, or a new one of `size` rounded up to a multiple of 4 if it is too short."""
    return buffer if len(buffer) >= size else np.empty(size + -size % 4, buffer.dtype)


def _a_core_is_free() -> bool:
    """Return whether fewer threads run now than this process has cores (False if not Linux)."""
    try:
        with open("/proc/loadavg") as now:
            running = int(now.read().split()[3].partition("/")[0])
        return running < len(os.sched_getaffinity(0))
    except (OSError, AttributeError):  # another system
        return False
