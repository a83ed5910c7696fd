"""The normals of the inner steps: what takes longest where there are many parameters."""

import os
import threading
import time
from collections.abc import Callable
from functools import cache
from math import prod

import numpy as np

__all__ = ["MANY", "Noise"]

MANY = 2**11
"""From so many normals a draw on, compiled code makes them faster than NumPy's generator."""

AHEAD = 2**17
"""From so many normals at once on, making them takes longer than starting a thread for it."""

PATIENCE = 1e-3
"""Seconds to wait for the thread to begin."""


class Noise:
    """Standard normals in the working precision, drawn into the same memory again and again.

    Few come from NumPy's generator. Many are a function of a key and of the number of the inner
    step they begin with: those of the next steps can be made ahead, and nothing has to be
    remembered of it.

    Parameters
    ----------
    size : int
        Normals in a draw.
    dtype : str or numpy.dtype

    Attributes
    ----------
    many : bool
    """

    def __init__(self, size: int, dtype: str | np.dtype):
        self._size, self._dtype, self.many = size, np.dtype(dtype), size >= MANY
        self._buffer, self._next = np.empty(0, dtype), np.empty(0, dtype)
        self._made: tuple[int, int, int] | None = None
        self._thread: threading.Thread | None = None
        if self.many:
            fill(np.empty(4, dtype), 0, 0)  # compiled here, not by every worker

    def __reduce__(self):
        return Noise, (self._size, self._dtype)

    def draw(
        self, rng: np.random.Generator, key: int, step: int, shape: tuple[int, ...]
    ) -> np.ndarray:
        """Normals of that shape, until the next call: of `rng`, or of `key` and `step`."""
        size = prod(shape)
        if not self.many:
            self._buffer = _room(self._buffer, size)
            rng.standard_normal(out=self._buffer[:size], dtype=self._dtype)
        else:
            if self._thread is not None and self._thread.ident is not None:
                self._thread.join()
            if self._made != (key, step, size):
                self._make(key, step, size)
            self._buffer, self._next, self._made = self._next, self._buffer, None
        return self._buffer[:size].reshape(shape)

    def begin(self, key: int, step: int, shape: tuple[int, ...]) -> None:
        """Have another thread make what `draw` will be asked for, if a core has nothing to do."""
        if prod(shape) < AHEAD or not _a_core_is_free():
            return
        begun = np.zeros(1, np.uint8)
        # Known before it starts: what interrupts us then leaves none that `draw` does not wait for.
        self._thread = threading.Thread(target=self._make, args=(key, step, prod(shape), begun))
        try:
            self._thread.start()
        except RuntimeError:  # there are as many threads as there may be
            return
        end = time.perf_counter() + PATIENCE
        # Compiled graphs keep Python's lock, and it would wait for them if it had not left it.
        while not begun[0] and time.perf_counter() < end:
            time.sleep(0)

    def _make(self, key: int, step: int, size: int, begun: np.ndarray | None = None) -> None:
        self._next, self._made = _room(self._next, size), None
        fill(self._next[: size + -size % 4], key, step, begun)
        self._made = key, step, size


def fill(normals: np.ndarray, key: int, stream: int, begun: np.ndarray | None = None) -> None:
    """Fill `normals`, (4 n,), with a function of two words of 64 bits.

    Words are uniform in 32 bits in float32, so that none is beyond 6.8, which one in 10^11 normals
    is; in float64 in 64 bits, and none is beyond 9.5.
    """
    word, compiled = _filler(normals.dtype)
    begun = np.zeros(1, np.uint8) if begun is None else begun
    compiled(normals.view(word), np.uint64(key), np.uint64(stream), begun)


@cache
def _filler(dtype: np.dtype) -> tuple[np.dtype, Callable]:
    """The words that normals are made of, and what makes them."""
    from pymc_sgmcmc.compile.philox import filler  # Numba takes long to import

    return np.dtype(f"u{dtype.itemsize}"), filler(dtype)


def _room(buffer: np.ndarray, size: int) -> np.ndarray:
    """Memory for so many, and up to the next multiple of four."""
    return buffer if len(buffer) >= size else np.empty(size + -size % 4, buffer.dtype)


def _a_core_is_free() -> bool:
    """Whether fewer threads run at the moment than there are cores for us, as far as Linux says."""
    try:
        with open("/proc/loadavg") as now:
            running = int(now.read().split()[3].partition("/")[0])
        return running < len(os.sched_getaffinity(0))
    except (OSError, AttributeError):  # another system
        return False
