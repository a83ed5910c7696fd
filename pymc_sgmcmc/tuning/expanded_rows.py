"""The minibatched part of U to second order around a point."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from pymc_sgmcmc._utils.types import Vector
from pymc_sgmcmc.posterior.row_hessian import Hessian

__all__ = ["ExpandedRows", "is_finite"]


@dataclass(frozen=True, eq=False)
class ExpandedRows:
    """Gradient and Hessian of rows, by which they are known around a centre."""

    centre: Vector
    gradient: Vector
    hessian: csr_array
    points: int
    """Number of points over which these are means."""

    @classmethod
    def mean(cls, centre: Vector, found: Sequence[tuple[Vector, Hessian]]) -> "ExpandedRows":
        """Return the mean of what is `found` at points around a centre."""
        slopes, hessians = zip(*found, strict=True)
        n = len(found)
        return cls(centre, np.mean(slopes, axis=0), csr_array(sum(hessians) / n), n)

    @property
    def is_finite(self) -> bool:
        return is_finite(self.gradient, self.hessian)

    def slope(self, q: Vector) -> Vector:
        """Return the gradient at `q`."""
        return self.gradient + self.hessian @ (q - self.centre)


def is_finite(gradient: Vector, H: csr_array) -> bool:
    """Return whether a gradient and a Hessian are finite."""
    return bool(np.isfinite(gradient).all() and np.isfinite(H.data).all())
