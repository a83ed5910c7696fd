"""What one call of the kernel returns, and what several calls one after the other do."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from math import isfinite

import numpy as np

__all__ = ["KernelOutput"]


@dataclass(frozen=True)
class KernelOutput:
    """What one call of the kernel returns."""

    q: np.ndarray
    state: tuple[np.ndarray, ...]
    summed: int
    """Inner steps that `sums`, the kinetic temperature and the largest energy are of."""
    sums: np.ndarray
    """Sums of `MOMENTS` over inner steps, shape (8, d), float64."""
    grad_norm: float
    """Euclidean norm of the last gradient."""
    logp: float
    """Minus the estimate of U at the returned q, on the rows of the last gradient."""
    kinetic_temperature: float
    """Mean of p.p / d over these steps; NaN without momentum."""
    largest_energy: float
    """The largest p.p before one of them; NaN without momentum."""

    @classmethod
    def joined(cls, outputs: "Sequence[KernelOutput]") -> "KernelOutput":
        """That of several calls one after the other."""
        if len(outputs) == 1:
            return outputs[0]
        summed = [output for output in outputs if output.summed]
        weights = [output.summed for output in summed]
        return replace(
            outputs[-1],
            summed=sum(weights),
            sums=reduce(np.add, [output.sums for output in summed]),
            kinetic_temperature=np.average(
                [output.kinetic_temperature for output in summed], weights=weights
            ),
            largest_energy=max(output.largest_energy for output in summed),
        )

    @cached_property
    def is_finite(self) -> bool:
        """Whether the state, the last gradient, and U at the end are finite."""
        return isfinite(self.grad_norm + self.logp) and all(
            np.logical_and.reduce(np.isfinite(value), axis=None) for value in (self.q, *self.state)
        )
