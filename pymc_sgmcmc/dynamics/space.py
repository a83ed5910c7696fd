"""Space of the flat q of a step method: a product of manifolds, one for each variable."""

from collections.abc import Iterable, Sequence

import numpy as np
import pytensor.tensor as pt

from pymc_sgmcmc._utils.types import Graph, Operand, Vector
from pymc_sgmcmc.distributions.manifolds import FLAT, Manifold

__all__ = ["EVERYWHERE", "Space"]


class Space:
    """The product of `manifolds`, one for each variable, of the given `shapes`.

    The flat q holds the variables end to end.

    Attributes
    ----------
    curved : bool
        Whether the space is not all of R^d.
    dimension : int
        The intrinsic dimension, which is d if the space is not curved.
    """

    def __init__(self, manifolds: Sequence[Manifold], shapes: Sequence[tuple[int, ...]]):
        self.manifolds, self._shapes = list(manifolds), [tuple(shape) for shape in shapes]
        self.dimension = sum(m.dimension(shape) for m, shape in self._parts())
        self.curved = any(m is not FLAT for m in self.manifolds)

    def tangent(self, q: Operand, v: Operand) -> Operand:
        """Project `v` (d,) on the tangent space at `q` (d,)."""
        if not self.curved:
            return v
        parts = zip(self._parts(), self._split(q), self._split(v), strict=True)
        return _joined(m.tangent(x, y) for (m, _), x, y in parts)

    def flow(self, q: Operand, p: Operand, t: Operand) -> tuple[Operand, Operand]:
        """Return position and velocity at time `t` on the geodesic from `q` with velocity `p`."""
        if not self.curved:
            return q + t * p, p
        parts = zip(self._parts(), self._split(q), self._split(p), strict=True)
        ends = [m.flow(x, v, t) for (m, _), x, v in parts]
        return _joined(x for x, _ in ends), _joined(v for _, v in ends)

    def nearest(self, q: Vector) -> Vector:
        """Return the point of the space that is closest to `q` (d,)."""
        if not self.curved:
            return q
        parts = zip(self._parts(), self._split(q), strict=True)
        return np.concatenate([m.nearest(x).ravel() for (m, _), x in parts]).astype(q.dtype)

    def _parts(self) -> Iterable[tuple[Manifold, tuple[int, ...]]]:
        return zip(self.manifolds, self._shapes, strict=True)

    def _split(self, q: Operand) -> list[Operand]:
        ends = np.cumsum([int(np.prod(shape)) for shape in self._shapes]).tolist()
        return [
            q[start:end].reshape(shape)
            for start, end, shape in zip([0, *ends[:-1]], ends, self._shapes, strict=True)
        ]


def _joined(parts: Iterable[Operand]) -> Graph:
    flat = [part.ravel() for part in parts]
    return flat[0] if len(flat) == 1 else pt.concatenate(flat)


EVERYWHERE = Space([], [])
"""The space R^d, for any d."""
