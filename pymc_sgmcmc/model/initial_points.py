"""Starting points of chains: PyMC starts all chains of a given step method at one point."""

from collections.abc import Callable, Sequence

import numpy as np
from pymc import Model
from pytensor.tensor.variable import TensorVariable

__all__ = ["Starts"]


class Starts:
    """Jitter of a starting point, in variables at the model's default that no user chose.

    Parameters
    ----------
    model : pymc.Model
    vars : list of value variables
    nearest : callable
        Projects a jittered point (d,) to the manifolds of the variables.
    jitter : bool
        Whether any variable is moved.
    """

    def __init__(
        self,
        model: Model,
        vars: Sequence[TensorVariable],
        nearest: Callable[[np.ndarray], np.ndarray],
        *,
        jitter: bool,
    ):
        point, initial = model.initial_point(), model.rvs_to_initial_values
        self._nearest = nearest
        self._defaults = [np.ravel(point[var.name]) for var in vars]
        self._moves = [jitter and initial.get(model.values_to_rvs[var]) is None for var in vars]
        self.default = np.concatenate(self._defaults)

    def jitter(self, q: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return `q` (d,) plus U(-1, 1) on variables at their default; `q` itself if none is."""
        sizes = list(map(len, self._defaults))
        parts = zip(self._moves, np.split(q, np.cumsum(sizes)[:-1]), self._defaults, strict=True)
        moved = [
            moves and np.array_equal(part, default.astype(q.dtype))
            for moves, part, default in parts
        ]
        if not any(moved):
            return q
        uniform = rng.integers(-(2**53), 2**53, size=len(q), endpoint=True) / 2.0**53
        return self._nearest((q + np.where(np.repeat(moved, sizes), uniform, 0.0)).astype(q.dtype))
