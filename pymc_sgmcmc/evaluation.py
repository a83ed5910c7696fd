"""U and its gradient as numbers: estimated on given rows, or exact in chunks of bounded memory."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytensor
import pytensor.tensor as pt

from pymc_sgmcmc.backends import Backend, CompiledGraph
from pymc_sgmcmc.rows import RowGroup

__all__ = ["Evaluation", "Part"]

CHUNK = 2**17
"""Numbers of row data in one chunk of an exact gradient: 1 MB, which stays in the processor's cache
from one q to the next. No fewer than there are in a gradient."""

Part = Callable[[np.ndarray], tuple[float, np.ndarray]]


class Evaluation:
    """Compiles a target's estimator with its weights as inputs, and adds up its chunks.

    Parameters
    ----------
    estimator : callable
        `Target.estimator`.
    size : int
        The length of q.
    groups : list of RowGroup
    backend : Backend
    """

    def __init__(
        self, estimator: Callable, size: int, groups: Sequence[RowGroup], backend: Backend
    ):
        self._groups, self._size = groups, size
        dtype = pytensor.config.floatX
        q = pt.vector("q", dtype=dtype, shape=(size,))
        exact_weight = pt.scalar("exact_weight", dtype=dtype)
        weights = [pt.scalar(f"weight_{group.name}", dtype=dtype) for group in groups]
        rows = [pt.lvector(f"rows_{group.name}") for group in groups]
        slices = {k: v for group, row in zip(groups, rows) for k, v in group.slices(row).items()}
        outputs = estimator(exact_weight)(q, slices, weights)
        self._function = CompiledGraph([q, exact_weight, *weights, *rows], outputs, backend)
        self._dtype = dtype
        self.rows_evaluated = 0

    def on_rows(
        self,
        q: np.ndarray,
        weights: Sequence[float],
        rows: Sequence[np.ndarray],
        exact_weight: float = 1.0,
    ) -> tuple[float, np.ndarray]:
        """U and its gradient with the likelihood of `rows` weighted, one weight for each group."""
        self.rows_evaluated += max(map(len, rows), default=1)
        value, gradient = self._function(
            # Copies: Numba compiles anew for an array that is read-only or not contiguous.
            *(np.array(number, self._dtype) for number in (q, exact_weight, *weights)),
            *(np.ascontiguousarray(row, np.int64) for row in rows),
        )
        return float(value), np.asarray(gradient, dtype=np.float64)

    def exact(
        self, q: np.ndarray, lengths: Sequence[int], exact_weight: float = 1.0
    ) -> tuple[float, np.ndarray]:
        """U and its gradient on all rows, `lengths` of them in each group."""
        value, gradient = 0.0, np.zeros(self._size)
        for part in self.parts(lengths, exact_weight):
            more, slope = part(q)
            value, gradient = value + more, gradient + slope
        return value, gradient

    def on_group(
        self, q: np.ndarray, k: int, rows: np.ndarray, weight: float = 1.0
    ) -> tuple[float, np.ndarray]:
        """The part of U that is the likelihood of `rows` of group k, times `weight`."""
        weights, every = self._nothing()
        weights[k], every[k] = weight, rows
        return self.on_rows(q, weights, every, exact_weight=0.0)

    def parts(self, lengths: Sequence[int], exact_weight: float = 1.0) -> list[Part]:
        """Functions of q whose values and gradients add up to those of U."""
        weights, rows = self._nothing()
        parts: list[Part] = [
            partial(self.on_rows, weights=weights, rows=rows, exact_weight=exact_weight)
        ]
        for k, group in enumerate(self._groups):
            widest = max(np.prod(data.shape) / lengths[k] for data in group.data)
            chunk = max(1, int(max(CHUNK, self._size) / widest))
            starts = range(0, lengths[k], chunk)
            parts += [partial(self._slice, k, a, min(a + chunk, lengths[k])) for a in starts]
        return parts

    def _slice(self, k: int, start: int, stop: int, q: np.ndarray) -> tuple[float, np.ndarray]:
        return self.on_group(q, k, np.arange(start, stop))

    def _nothing(self) -> tuple[np.ndarray, list[np.ndarray]]:
        """Weights of zero, and the one row that each group must have."""
        return np.zeros(len(self._groups)), [np.zeros(1, np.int64)] * len(self._groups)
