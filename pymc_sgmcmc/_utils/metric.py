"""Constant metrics G = L L', by what their factor L does: q = centre + L z.

A sampler with metric G is the same sampler with unit metric in z. All that is done with L is here.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from pymc_sgmcmc._utils.types import Array, Matrix, Operand, Vector

__all__ = ["Dense", "Diagonal", "Metric", "identity", "metric_of", "square_root"]


@dataclass(frozen=True, eq=False)
class Metric(ABC):
    """A metric of d coordinates.

    Subclass it for another form of L, as a frozen dataclass of arrays of floats. Compiled code uses
    the same class with variables in place of the arrays: `times` and `pull` of one vector are
    written for both.

    Examples
    --------
    L = 1 + w w', for a posterior that is long in one direction:

    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> import pymc as pm
    >>> from pymc_sgmcmc import SGNHT, Metric
    >>> @dataclass(frozen=True)
    ... class Long(Metric):
    ...     w: np.ndarray
    ...     def times(self, z):
    ...         return z + (z @ self.w)[..., None] * self.w
    ...     def pull(self, gradient):
    ...         return self.times(gradient)
    ...     def solve(self, difference):
    ...         along = (difference @ self.w)[..., None] * self.w
    ...         return difference - along / (1 + self.w @ self.w)
    ...     @property
    ...     def scales(self):
    ...         return np.linalg.norm(self.times(np.eye(len(self.w))), axis=1)
    >>> with pm.Model():
    ...     x = pm.MvNormal("x", np.zeros(2), np.array([[25.0, 24.0], [24.0, 25.0]]))
    ...     step = SGNHT(metric=Long(np.array([1.7, 1.7])), step_size=0.3)
    ...     idata = pm.sample(step=step, progressbar=False, random_seed=1)
    >>> np.round(idata.posterior["x"].std(("chain", "draw")).values)
    array([5., 5.])
    """

    dense: ClassVar[bool] = False
    """Whether covariances in z are measured while tuning, (d, d); else variances only, (d,)."""

    any_length: ClassVar[frozenset[str]] = frozenset()
    """Names of arrays that may have another length, along their first axis, at another time."""

    def arrays(self) -> dict[str, Any]:
        """Return the arrays by the names of their fields."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @abstractmethod
    def times(self, z: Operand) -> Operand:
        """Return L z of a vector (d,), which may be a graph, or of several, (..., d)."""

    @abstractmethod
    def pull(self, gradient: Operand) -> Operand:
        """Return L' g of a vector (d,), which may be a graph, or of several, (..., d)."""

    @abstractmethod
    def solve(self, difference: Array) -> Array:
        """Return z with L z = `difference`, for one vector or several, (..., d)."""

    def scaled(self, by: Vector | Matrix) -> "Metric":
        """Return the metric with L diag(`by`), (d,), or if it is dense, L times `by`, (d, d).

        Tuning asks only metrics that it learns.
        """
        raise NotImplementedError(f"{type(self).__name__} is given, not learned.")

    @property
    @abstractmethod
    def scales(self) -> Vector:
        """The square roots of the diagonal of G, (d,): about the sds of q."""

    @property
    def condition(self) -> float:
        """The condition number of G after scaling its diagonal to one, as far as it is known."""
        return 1.0

    @property
    def widest(self) -> Vector:
        """The direction of q, (d,), that varies most for its `scales`; zeros where none does."""
        return np.zeros_like(self.scales)

    @property
    def leading(self) -> NDArray[np.intp]:
        """The index of the coordinate of q that moves most, in its scale, with each z, (d,)."""
        return np.arange(len(self.scales))


@final
@dataclass(frozen=True, eq=False)
class Diagonal(Metric):
    """A metric without correlations: L is diagonal.

    Attributes
    ----------
    factor : array, shape (d,)
        The diagonal of L.
    """

    factor: Vector

    def times(self, z: Operand) -> Operand:
        return self.factor * z

    def pull(self, gradient: Operand) -> Operand:
        return self.factor * gradient

    @cached_property
    def _inverse(self) -> Vector:
        return 1.0 / self.factor

    def solve(self, difference: Array) -> Array:
        return difference * self._inverse

    def scaled(self, by: Vector | Matrix) -> Metric:
        return Diagonal(self.factor * by)

    @property
    def scales(self) -> Vector:
        return self.factor


@final
@dataclass(frozen=True, eq=False)
class Dense(Metric):
    """A metric with all correlations.

    Attributes
    ----------
    factor : array, shape (d, d)
        L, any invertible matrix.
    """

    factor: Matrix
    dense = True

    def times(self, z: Operand) -> Operand:
        return self.factor @ z if z.ndim == 1 else z @ self.factor.T

    def pull(self, gradient: Operand) -> Operand:
        return self.factor.T @ gradient if gradient.ndim == 1 else gradient @ self.factor

    @cached_property
    def _inverse(self) -> Matrix:
        return np.linalg.inv(self.factor)

    def solve(self, difference: Array) -> Array:
        return difference @ self._inverse.T

    def scaled(self, by: Vector | Matrix) -> Metric:
        return Dense(self.factor @ (np.diag(by) if by.ndim == 1 else by))

    @property
    def scales(self) -> Vector:
        return np.linalg.norm(self.factor, axis=1)

    @cached_property
    def _in_scales(self) -> Matrix:
        """L with its rows scaled to length one."""
        return self.factor / np.linalg.norm(self.factor, axis=1, keepdims=True)

    @cached_property
    def condition(self) -> float:
        values = np.linalg.svd(self._in_scales, compute_uv=False)
        return float((values[0] / values[-1]) ** 2)

    @property
    def widest(self) -> Vector:
        left, values, _ = np.linalg.svd(self._in_scales)
        return self.scales * left[:, 0] * values[0]

    @property
    def leading(self) -> NDArray[np.intp]:
        return np.argmax(np.abs(self._in_scales), axis=0)


def metric_of(factor: Vector | Matrix) -> Metric:
    """Return the metric with L given as a matrix (d, d), or as its diagonal (d,)."""
    return Dense(factor) if factor.ndim == 2 else Diagonal(factor)


def identity(size: int, *, dense: bool = False) -> Metric:
    """Return the unit metric."""
    return Dense(np.eye(size)) if dense else Diagonal(np.ones(size))


def square_root(covariance: Matrix | Vector) -> Matrix | Vector:
    """Return L with L L' equal to a covariance (d, d), or to its diagonal (d,)."""
    return np.linalg.cholesky(covariance) if covariance.ndim == 2 else np.sqrt(covariance)
