"""Embedded manifolds on which constrained variables move.

Each manifold is given by its geodesic flow, force-free motion at constant speed, and by the
projection of vectors on its tangent space at a point (Byrne and Girolami, 2013). Densities are with
respect to its surface. Gradients and momenta are those of the space around it.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, final

import numpy as np
import pytensor.tensor as pt
from pymc import Model
from pytensor.tensor.variable import TensorVariable

__all__ = ["FLAT", "SPHERE", "STIEFEL", "Manifold", "manifold_of"]


class Manifold(ABC):
    """The manifold of one variable, as a geodesic sampler uses it; x has the variable's shape."""

    name: ClassVar[str]

    @abstractmethod
    def dimension(self, shape: tuple[int, ...]) -> int:
        """Return the intrinsic dimension for a variable of that shape."""

    @abstractmethod
    def tangent(self, x: TensorVariable, v: TensorVariable) -> TensorVariable:
        """Project `v` on the tangent space of the manifold at `x`."""

    @abstractmethod
    def flow(
        self, x: TensorVariable, v: TensorVariable, t: TensorVariable
    ) -> tuple[TensorVariable, TensorVariable]:
        """Return position and velocity at time `t` on the geodesic from `x` with velocity `v`."""

    @abstractmethod
    def nearest(self, x: np.ndarray) -> np.ndarray:
        """Return the point of the manifold that is closest to `x`."""


@final
class Flat(Manifold):
    """The whole space R^d."""

    name = "flat"

    def dimension(self, shape):
        return int(np.prod(shape))

    def tangent(self, x, v):
        return v

    def flow(self, x, v, t):
        return x + t * v, v

    def nearest(self, x):
        return x


@final
class Sphere(Manifold):
    """Unit vectors along the last axis, with great circles as geodesics."""

    name = "sphere"

    def dimension(self, shape):
        return int(np.prod(shape[:-1])) * (shape[-1] - 1)

    def tangent(self, x, v):
        return v - pt.sum(x * v, axis=-1, keepdims=True) * x

    def flow(self, x, v, t):
        # The smallest number avoids 0 / 0 for a vector at rest.
        smallest = np.finfo(v.dtype).tiny
        speed = pt.sqrt(pt.sum(v**2, axis=-1, keepdims=True) + smallest)
        cos, sin = pt.cos(t * speed), pt.sin(t * speed)
        there = x * cos + v * (sin / speed)
        # Normalize, because rounding errors would add up from step to step.
        there = there / pt.sqrt(pt.sum(there**2, axis=-1, keepdims=True))
        return there, v * cos - x * (speed * sin)

    def nearest(self, x):
        return x / np.linalg.norm(x, axis=-1, keepdims=True)


@final
class Stiefel(Manifold):
    """Matrices (..., n, p) with orthonormal columns; geodesics by Edelman et al. (1998), 2.2.2.

    With A = X'V and S = V'V the flow is::

        [X(t), V(t)] = [X, V] exp(t [[A, -S], [I, A]]) diag(exp(-t A), exp(-t A))
    """

    name = "Stiefel manifold"

    def dimension(self, shape):
        *lead, n, p = shape
        return int(np.prod(lead)) * (n * p - p * (p + 1) // 2)

    def tangent(self, x, v):
        product = pt.matmul(x.mT, v)
        return v - pt.matmul(x, (product + product.mT) / 2.0)

    def flow(self, x, v, t):
        p = x.type.shape[-1]
        a, s = pt.matmul(x.mT, v), pt.matmul(v.mT, v)
        one = pt.broadcast_to(pt.eye(p, dtype=x.dtype), a.shape)
        above, below = pt.concatenate([a, -s], axis=-1), pt.concatenate([one, a], axis=-1)
        ahead = pt.linalg.expm(t * pt.concatenate([above, below], axis=-2)).astype(x.dtype)
        both = pt.matmul(pt.concatenate([x, v], axis=-1), ahead)
        back = pt.linalg.expm(-t * a).astype(x.dtype)
        x, v = pt.matmul(both[..., :p], back), pt.matmul(both[..., p:], back)
        # One step of Newton and Schulz corrects rounding errors off the manifold.
        return 1.5 * x - 0.5 * pt.matmul(x, pt.matmul(x.mT, x)), v

    def nearest(self, x):
        left, _, right = np.linalg.svd(x, full_matrices=False)
        return left @ right


FLAT, SPHERE, STIEFEL = Flat(), Sphere(), Stiefel()


def manifold_of(model: Model, value: TensorVariable) -> Manifold:
    """Return the manifold of a value variable: that of its distribution, or R^d if it has none."""
    rv = model.values_to_rvs[value]
    transformed = model.rvs_to_transforms[rv] is not None
    return FLAT if transformed else getattr(rv.owner.op, "manifold", FLAT)
