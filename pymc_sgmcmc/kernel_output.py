"""What one call of the kernel returns, and what several calls one after the other do."""

from typing import NamedTuple

import numpy as np

__all__ = ["KernelOutput"]


class KernelOutput(NamedTuple):
    """What one call of the kernel returns."""

    q: np.ndarray
    state: tuple[np.ndarray, ...]
    is_finite: bool
    """Whether q, the state, the last gradient, and U at the end are finite."""
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

    def after(self, earlier: "KernelOutput | None") -> "KernelOutput":
        """The end of this call, and the sums of `earlier` ones too; None adds nothing."""
        if earlier is None or not earlier.summed:
            return self
        if not self.summed:
            kept = ("summed", "sums", "kinetic_temperature", "largest_energy")
            return self._replace(**{name: getattr(earlier, name) for name in kept})
        parts = [earlier, self]
        return self._replace(
            summed=earlier.summed + self.summed,
            sums=earlier.sums + self.sums,
            kinetic_temperature=np.average(
                [part.kinetic_temperature for part in parts],
                weights=[part.summed for part in parts],
            ),
            largest_energy=max(part.largest_energy for part in parts),
        )
