"""Output of one call of the kernel, or of several consecutive calls."""

from math import isfinite, nan
from typing import NamedTuple

import numpy as np

__all__ = ["KernelOutput"]


class KernelOutput(NamedTuple):
    """Output of a call of the kernel: its end, and sums over some of its steps.

    If no step is summed, only q and the state are known.
    """

    q: np.ndarray
    state: tuple[np.ndarray, ...]
    is_finite: bool = True
    """Whether q, the state, the last gradient, and U at the end are finite; True if unknown."""
    grad_norm: float = nan
    """Euclidean norm of the last gradient."""
    reach: float = nan
    """|z|^2 of the returned q in the sampler's coordinates."""
    logp: float = nan
    """Minus the estimate of U at the returned q, on the rows of the last gradient."""
    summed: int = 0
    """Number of inner steps that the following fields are computed from."""
    sums: np.ndarray | None = None
    """Sums of `MOMENTS`, shape (9, d), float64."""
    kinetic: float = 0.0
    """Sum of p.p / d; NaN without momentum."""
    largest_energy: float = 0.0
    """The largest p.p before a summed step; NaN without momentum."""
    friction: float = 0.0
    """Sum of the mean of xi over the coordinates; NaN without thermostats."""

    @classmethod
    def read(
        cls, end: list[np.ndarray], summed: int, sums: np.ndarray, scalars: np.ndarray
    ) -> "KernelOutput":
        """Convert the results of the compiled function.

        `end` holds q and the state. `scalars` are |g|^2, -U, the sum of q and the state, and |z|^2,
        all at the end, followed by the last three fields.
        """
        squared_norm, logp, total, reach, *of_steps = scalars.tolist()
        norm = squared_norm**0.5
        finite = isfinite(norm + logp + total)
        return cls(end[0], tuple(end[1:]), finite, norm, reach, logp, summed, sums, *of_steps)

    @property
    def kinetic_temperature(self) -> float:
        """Mean of p.p / d; NaN without momentum."""
        return self.kinetic / (self.summed or nan)

    @property
    def thermostat(self) -> float:
        """Mean of xi; NaN without thermostats."""
        return self.friction / (self.summed or nan)

    def unsummed(self) -> "KernelOutput":
        """Return a copy without sums."""
        return self._replace(summed=0, sums=None, kinetic=0.0, largest_energy=0.0, friction=0.0)

    def after(self, earlier: "KernelOutput | None") -> "KernelOutput":
        """Return a copy with the sums of `earlier` added; None adds nothing."""
        if earlier is None or earlier.sums is None or not earlier.summed:
            return self
        return self._replace(
            summed=earlier.summed + self.summed,
            sums=earlier.sums + self.sums if self.summed else earlier.sums,
            kinetic=earlier.kinetic + self.kinetic,
            largest_energy=max(earlier.largest_energy, self.largest_energy),
            friction=earlier.friction + self.friction,
        )
