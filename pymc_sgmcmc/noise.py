"""The normals of the inner steps: what takes longest where there are many parameters."""

from math import prod

import numpy as np

__all__ = ["MANY", "Noise"]

MANY = 2**11
"""From so many normals on, compiled code makes them faster than NumPy's generator."""

PIECE = 2**15
"""Normals that are made at once: so few that they stay in the processor's cache meanwhile."""


class Noise:
    """Standard normals in the working precision, drawn into the same memory again and again."""

    def __init__(self):
        self._buffer = np.empty(0)

    def prepare(self, size: int, dtype: str) -> None:
        """Compile what draws of so many normals take."""
        if size >= MANY:
            fill(np.empty(4, dtype), np.uint64(0), np.uint64(0))

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        """Normals of that shape, until the next call.

        If they are few, those of NumPy's generator; if many, those that `fill` makes of two words.
        """
        size = prod(shape)
        if self._buffer.dtype != dtype or len(self._buffer) < size:
            self._buffer = np.empty(size + -size % 4, dtype)
        normals = self._buffer[:size]
        if size < MANY:
            rng.standard_normal(out=normals, dtype=self._buffer.dtype)
        else:
            fill(self._buffer[: size + -size % 4], *rng.integers(2**64, size=2, dtype=np.uint64))
        return normals.reshape(shape)


def fill(normals: np.ndarray, key: int, stream: int) -> None:
    """Fill `normals`, (4 n,), with a function of two words of 64 bits, uint64.

    Words are uniform in 32 bits in float32, so that none is beyond 6.8, which one in 10^11 normals
    is; in float64 in 64 bits, and none is beyond 9.5.
    """
    from pymc_sgmcmc.normals import box_muller, philox  # Numba takes long to import

    make_normal = box_muller(normals.dtype.name)
    words = normals.view(f"u{normals.itemsize}")
    for start in range(0, len(words), PIECE):
        piece = words[start : start + PIECE]
        philox(key, stream, np.uint64(start), piece.view(np.uint32))
        make_normal(piece)
