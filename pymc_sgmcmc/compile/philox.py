"""Bulk random numbers: Philox words, normals by Box and Muller's transform, and integers.

NumPy makes a normal in 8 ns. This code takes 0.7 ns in float32 and 1.8 ns in float64, because the
processor makes several at once: no number depends on an earlier one, and there is no branch. Numba
compiles the code once for all processes if it can store it in a folder, and again when this file
changes; functions that are compiled into each other have to be in one file. The same words give the
same normals on processors of one kind. Other processors may round the last bit differently.
"""

from collections.abc import Callable
from math import factorial, log, pi

import numpy as np
from numba import njit
from numba.extending import overload

__all__ = ["PIECE", "box_muller", "filler", "integers_below", "philox"]

PIECE = 2**15
"""Number of normals that are made at once: few enough to stay in the processor's cache."""

# NumPy's error model: Python's would check each division and raise at the first zero. "contract"
# lets a product and a sum become one instruction.
_OPTIONS = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}

_inlined = njit(forceinline=True, **_OPTIONS)


def _compiled(signature: str) -> Callable:
    def compiled(function):
        try:
            return njit(signature, cache=True, **_OPTIONS)(function)
        except (OSError, RuntimeError):  # no cache folder is writable, or the disk is full
            return njit(signature, **_OPTIONS)(function)

    return compiled


LOW, HALF = np.uint64(2**32 - 1), np.uint64(32)
MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
WEYL = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
ROUNDS = 10


@_compiled("void(uint64, uint64, uint64, uint32[::1])")
def philox(key: int, stream: int, first: int, words: np.ndarray) -> None:
    """Fill `words`, (4 n,) uint32, by Philox 4x32-10 (Salmon et al., 2011).

    Four words, one in each quarter of `words`, are a function of a 128-bit counter and of the key.

    Parameters
    ----------
    key, stream : int
        64 bits each, uint64: the key, and the upper half of the counters.
    first : int
        The lower half of the first counter, uint64. The following counters increase by one.
    words : array, shape (4 n,), uint32
    """
    n = len(words) // 4
    for i in range(n):
        counter = first + np.uint64(i)
        x0, x1, x2, x3 = counter & LOW, counter >> HALF, stream & LOW, stream >> HALF
        k0, k1 = key & LOW, key >> HALF
        for _ in range(ROUNDS):
            a, b = MULTIPLIERS[0] * x0, MULTIPLIERS[1] * x2
            x0, x1, x2, x3 = (b >> HALF) ^ x1 ^ k0, b & LOW, (a >> HALF) ^ x3 ^ k1, a & LOW
            k0, k1 = (k0 + WEYL[0]) & LOW, (k1 + WEYL[1]) & LOW
        words[i], words[n + i], words[2 * n + i], words[3 * n + i] = x0, x1, x2, x3


@_compiled("void(uint64, uint64, uint64[::1])")
def integers_below(bound: int, key: int, words: np.ndarray) -> None:
    """Fill `words`, (2 n,) uint64, with integers in [0, bound) as a function of the key.

    Each integer is the upper half of the product of 64 random bits and the bound. The bound is
    below 2^32, so the probabilities of two integers differ by at most one part in 2^32.

    Parameters
    ----------
    bound, key : int
        uint64.
    words : array, shape (2 n,), uint64
    """
    philox(key, np.uint64(0), np.uint64(0), words.view(np.uint32))
    for i in range(len(words)):
        low, high = words[i] & LOW, words[i] >> HALF
        words[i] = (high * bound + (low * bound >> HALF)) >> HALF


@_inlined
def _series(coefficients, x):
    """Return the power series in `x` with these coefficients (Horner's scheme)."""
    total = coefficients[-1]
    for k in range(len(coefficients) - 2, -1, -1):
        total = coefficients[k] + x * total
    return total


def box_muller(words: np.ndarray) -> None:
    """Turn pairs of random words into pairs of normals, in place (Box and Muller, 1958).

    Only compiled code can call this function. `words`, (2 n,), are uint32 or uint64, and become the
    bits of float32 or float64. Word i of the first half and word i of the second are a pair.
    """
    raise NotImplementedError


@overload(box_muller, jit_options=_OPTIONS)
def _of_words(words):
    if words.dtype.bitwidth == 32:
        return _box_muller(np.float32, np.int32, np.uint32, terms=5)
    return _box_muller(np.float64, np.int64, np.uint64, terms=10)


def _box_muller(real: type, integer: type, word: type, terms: int) -> Callable:
    """Return the implementation of `box_muller` for one precision.

    `integer` and `word` are signed and unsigned integers as long as a `real`. `terms` is the number
    of terms of each power series that its precision needs.
    """
    powers = range(terms)
    of_log = tuple(real(2 / (2 * k + 1)) for k in powers)  # of (1 + s) / (1 - s), divided by s
    of_cos = tuple(real((-1) ** k / factorial(2 * k)) for k in powers)
    of_sin = tuple(real((-1) ** k / factorial(2 * k + 1)) for k in powers)
    bits, digits = 8 * real().itemsize, integer(np.finfo(real).nmant)
    root_half = np.sqrt(real(0.5)).view(integer)
    unit, turn, log_2 = real(0.5**bits), real(pi / 4 * 0.5 ** (bits - 1)), real(log(2))
    half, one, two = real(0.5), real(1), real(2)
    lowest, left, top = word(1), word(2), word(bits - 1)

    def box_muller(words):
        n = len(words) // 2
        for i in range(n):
            # Minus log of a uniform number m 2^exponent, with m from sqrt(1/2) to sqrt(2).
            uniform = real((real(words[i]) + half) * unit).view(integer)
            exponent = integer(integer(uniform - root_half) >> digits)
            m = integer(uniform - integer(exponent << digits)).view(real)
            s = (m - one) / (m + one)
            radius = np.sqrt(-two * (real(exponent) * log_2 + s * _series(of_log, s * s)))
            # The angle is within an eighth of a turn; two more bits give its quarter.
            second = words[n + i]
            angle = real(integer(word(second << left))) * turn
            x = _series(of_cos, angle * angle)
            y = angle * _series(of_sin, angle * angle)
            radius = -radius if (second >> word(top - lowest)) & lowest else radius
            swapped = second >> top
            words[i] = real(radius * (y if swapped else x)).view(word)
            words[n + i] = real(radius * (x if swapped else y)).view(word)

    return box_muller


def filler(dtype: np.dtype) -> Callable[[np.ndarray, int, int, np.ndarray], None]:
    """Return the compiled function ``fill(words, key, stream, begun)``, which makes normals.

    `words` is the memory of 4 n normals of `dtype`, as unsigned integers. `key` and `stream` are
    uint64. `begun` is an array of uint8, (1,), that is set to 1 first. The function runs without
    Python's lock.
    """
    bits = 8 * dtype.itemsize

    def fill(words, key, stream, begun):
        begun[0] = 1
        for start in range(0, len(words), PIECE):
            piece = words[start : start + PIECE]
            philox(key, stream, np.uint64(start), piece.view(np.uint32))
            box_muller(piece)

    fill.__qualname__ += str(bits)  # Numba keeps each in a file of its own
    return _compiled(f"void(uint{bits}[::1], uint64, uint64, uint8[::1])")(fill)
