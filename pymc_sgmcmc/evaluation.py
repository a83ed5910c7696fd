"""U and its gradient as numbers: estimated on given rows, or exact in chunks of bounded memory."""

from collections.abc import Callable, Sequence

import numpy as np
import pytensor
import pytensor.tensor as pt

from pymc_sgmcmc.backends import Backend, CompiledGraph
from pymc_sgmcmc.rows import RowGroup

__all__ = ["Evaluation"]

CHUNK = 2**22
"""Numbers of row data in one chunk of an exact gradient: 32 MB in float64."""


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
        self._groups = groups
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
        zeros, one_row = np.zeros(len(lengths)), [np.zeros(1, dtype=np.int64) for _ in lengths]
        value, gradient = self.on_rows(q, zeros, one_row, exact_weight)
        for k, group in enumerate(self._groups):
            only_this = np.eye(len(lengths))[k]
            widest = max(np.prod(data.shape) / lengths[k] for data in group.data)
            chunk = max(1, int(CHUNK / widest))
            for start in range(0, lengths[k], chunk):
                rows = list(one_row)
                rows[k] = np.arange(start, min(start + chunk, lengths[k]))
                part, part_gradient = self.on_rows(q, only_this, rows, exact_weight=0.0)
                value, gradient = value + part, gradient + part_gradient
        return value, gradient
