"""The normals of the inner steps: what takes longest where there are many parameters."""

from math import prod

import numpy as np

__all__ = ["Noise"]

PIECE = 2**15
"""Pairs of normals that are made at once: so few that their buffers, half a megabyte, stay in the
processor's cache, so many that the calls themselves take little of the time."""


class Noise:
    """Standard normals in the working precision, drawn into the same memory again and again."""

    def __init__(self):
        self._buffer = np.empty(0)

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        """Normals of that shape, until the next call.

        In float64 those of NumPy, in float32 by `box_muller`, three to four times faster.
        """
        size = prod(shape)
        if self._buffer.dtype != dtype or len(self._buffer) < size:
            self._buffer = np.empty(size, dtype)
        normals = self._buffer[:size]
        if dtype == "float32":
            box_muller(rng, normals)
        else:
            rng.standard_normal(out=normals)
        return normals.reshape(shape)


def box_muller(rng: np.random.Generator, out: np.ndarray) -> None:
    """Fill `out`, (n,) float32, with normals: two from two uniforms (Box and Muller, 1958).

    The uniforms have 32 bits, so that none is beyond 6.8, which one in 10^11 normals is.
    """
    half = (len(out) + 1) // 2
    for start in range(0, half, PIECE):
        stop = min(start + PIECE, half)
        bits = rng.integers(2**64, size=stop - start, dtype=np.uint64)  # twice 32: half the calls
        radius, angle = bits.view(np.uint32).reshape(2, -1).astype(np.float32)
        radius += 0.5
        radius *= 2.0**-32
        np.log(radius, out=radius)
        radius *= -2.0
        np.sqrt(radius, out=radius)
        angle *= 2.0 * np.pi / 2**32
        first, second = out[start:stop], out[half + start : half + stop]
        np.cos(angle, out=first)
        first *= radius
        np.sin(angle, out=angle)
        np.multiply(radius[: len(second)], angle[: len(second)], out=second)
