"""Effects of a hierarchy, and coordinates that tie them to their scale nowhere.

Effects are a = m + t z. Where a is sampled (centred), its prior depends on the scale t: a funnel
where rows say little of a. Where z is sampled, the rows depend on t: a thin curved ridge where they
say much. With I the second derivative of the rows' energy in an effect, the coordinate

    w = z r                             where z is sampled
    w = (a - c - (m - c) / (1 + t^2 I)) r / t
                                        where a is sampled,     r^2 = (1 + t^2 I) / (1 + I),

has a conditional sd that does not depend on t, for each effect by itself. It is z where I is small,
and the effect itself where I is large. This is the partially non-centred parametrisation
of Papaspiliopoulos, Roberts and Sköld (2007, section 4), with weights that follow t. With the
effect that the rows alone imply for c, its conditional mean does not depend on m and t either: that
it did would be worse, the farther m is from zero. The posterior is the same whatever I and c are,
which therefore may be rough guesses.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import graph_inputs, toposort
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.math import Dot
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.compile.evaluate import evaluate

__all__ = ["CorrelatedEffects", "Effects", "ScaledEffects", "inform", "products_with", "uninformed"]

TINY = 1e-30
"""Scale, relative to others of the same variable, below which rows say nothing of an effect."""

FARTHEST = 3.0
"""Distance from its location at which a centred effect starts, in its scale."""

Values = Mapping[Any, np.ndarray]


def inform(effects: "Effects", information: np.ndarray, implied: np.ndarray | None = None) -> None:
    """Set I of `effects`, and c to what rows imply; what is not finite counts as nothing known."""
    known = np.where(np.isfinite(information), information, 0.0)
    effects.information.set_value(known.astype(effects.var.dtype))
    if implied is not None and isinstance(effects, ScaledEffects) and effects.centre is not None:
        centre = np.where(np.isfinite(implied), implied, effects.centre.get_value())
        effects.centre.set_value(centre.astype(effects.var.dtype))


@contextmanager
def uninformed(effects: Sequence["Effects"]) -> Iterator[None]:
    """Set I of all `effects` to zero, for a while."""
    known = [own.information.get_value() for own in effects]
    try:
        for own, value in zip(effects, known, strict=True):
            inform(own, np.zeros_like(value))
        yield
    finally:
        for own, value in zip(effects, known, strict=True):
            inform(own, value)


class Effects(Protocol):
    """A variable that has effects, and its coordinates w.

    Attributes
    ----------
    var : TensorVariable
        The value variable. In graphs of coordinates it stands for w.
    information : SharedVariable
        I of each effect, of the shape of `var`.
    """

    @property
    def var(self) -> TensorVariable: ...
    @property
    def information(self) -> SharedVariable: ...
    @property
    def parents(self) -> set[Variable]:
        """Variables that the effects are scaled or moved by."""

    @property
    def coordinate(self) -> TensorVariable:
        """w, as a function of the value of the model's variable, which `var` stands for."""

    @property
    def log_jacobian(self) -> TensorVariable:
        """Logarithms of the derivatives of values in coordinates."""

    def replacements(self, graphs: Sequence[Any]) -> dict[Variable, Any]:
        """Return what takes the place of variables of `graphs`, where `var` then stands for w."""

    def deviations(self, values: Values) -> np.ndarray:
        """Return t, of the shape of `var`, at the `values` of variables."""

    def moved(self, values: Values, by: np.ndarray) -> np.ndarray:
        """Return how far z has to move, that effects move `by`."""

    def pulled(self, values: Values, gradient: np.ndarray) -> np.ndarray:
        """Return the gradient in effects, from the `gradient` in z."""


@dataclass(frozen=True, eq=False)
class ScaledEffects:
    """Effects each of which has a scale.

    Attributes
    ----------
    var : TensorVariable
        z, or a where there is a `location`.
    information : SharedVariable
    scale : TensorVariable
        t, which broadcasts with `var`: a function of other value variables.
    location : TensorVariable or None
        m; None: z is sampled.
    centre : SharedVariable or None
        c, of the shape of `var`, where there is a `location`.
    """

    var: TensorVariable
    information: SharedVariable
    scale: TensorVariable
    location: TensorVariable | None = None
    centre: SharedVariable | None = None

    @property
    def parents(self) -> set[Variable]:
        graphs = [self.scale] if self.location is None else [self.scale, self.location]
        return set(graph_inputs(graphs))

    @property
    def coordinate(self) -> TensorVariable:
        root = pt.sqrt((1 + self._ratio) / (1 + self.information))
        if self.location is None:
            return self.var * root
        return (self.var - self._middle) * (root / self.scale)

    @property
    def _middle(self) -> TensorVariable:
        """The effect where w is zero: c where rows know it well, and m where they do not."""
        assert self.location is not None and self.centre is not None
        return self.centre + (self.location - self.centre) / (1 + self._ratio)

    @property
    def log_jacobian(self) -> TensorVariable:
        logs = (pt.log1p(self.information) - pt.log1p(self._ratio)) / 2
        return logs if self.location is None else logs + pt.log(self.scale)

    @property
    def _ratio(self) -> TensorVariable:
        """How much more rows say of an effect than its prior."""
        return self.scale**2 * self.information

    def replacements(self, graphs: Sequence[Any]) -> dict[Variable, Any]:
        z = self.var / pt.sqrt((1 + self._ratio) / (1 + self.information))
        if self.location is None:
            return {self.var: z}
        return {self.var: self._middle + self.scale * z}

    def deviations(self, values: Values) -> np.ndarray:
        (scale,) = evaluate([self.scale], values)
        return np.broadcast_to(scale, np.shape(values[self.var])).astype(float)

    def moved(self, values: Values, by: np.ndarray) -> np.ndarray:
        return by * self._inverse(values)

    def pulled(self, values: Values, gradient: np.ndarray) -> np.ndarray:
        return self.moved(values, gradient)

    def near(self, values: Values) -> np.ndarray:
        """Return the effects at `values`, no farther from their location than the prior has them.

        As far as that is likely: `FARTHEST` scales. Standardized effects stay.
        """
        if self.location is None:
            return values[self.var]
        location, scale = evaluate([self.location, self.scale], values)
        return np.clip(values[self.var], location - FARTHEST * scale, location + FARTHEST * scale)

    def _inverse(self, values: Values) -> np.ndarray:
        """Return 1 / t; zero where nothing moves a row."""
        scale = self.deviations(values)
        is_large = scale > TINY * np.sqrt(np.mean(scale**2))
        return np.divide(1, scale, out=np.zeros_like(scale), where=is_large)


@dataclass(frozen=True, eq=False)
class CorrelatedEffects:
    """Several effects of each group, L z, where L is a Cholesky factor and z is sampled.

    Given the first k - 1 effects of a group, number k has the scale L_kk and the location l that
    the others imply; it is partially centred as such. Of the location it has the share
    s = r / (1 + r), with r = L_kk^2 I and the mean of I over groups:

        w_k = (z_k + s l / L_kk) sqrt((1 + r_k) / (1 + I_k)),

    so that z and the effects are products of matrices K x K with what w is of each group.

    Attributes
    ----------
    var : TensorVariable
        z, a matrix.
    information : SharedVariable
    factor : TensorVariable
        L, (K, K), lower triangular: a function of other value variables.
    axis : int
        Axis of z with the K effects of a group.
    """

    var: TensorVariable
    information: SharedVariable
    factor: TensorVariable
    axis: int

    @property
    def parents(self) -> set[Variable]:
        return set(graph_inputs([self.factor]))

    @property
    def coordinate(self) -> TensorVariable:
        z, C = self.parts(self.var), self._shares
        own = [z[k] + sum(C[k, j] * z[j] for j in range(k)) for k in range(self._size)]
        roots = (self._root(k) for k in range(self._size))
        return pt.stack([x * root for x, root in zip(own, roots, strict=True)], axis=self.axis)

    @property
    def log_jacobian(self) -> TensorVariable:
        logs = [-pt.log(self._root(k)) for k in range(self._size)]
        return pt.stack(logs, axis=self.axis)

    def replacements(self, graphs: Sequence[Any]) -> dict[Variable, Any]:
        own = [self._part(self.var, k) / self._root(k) for k in range(self._size)]
        of_z, of_effects = self._inverse
        z, effects = (
            [sum(matrix[k, j] * own[j] for j in range(k + 1)) for k in range(self._size)]
            for matrix in (of_z, of_effects)
        )
        products = products_with(self.var, list(toposort(graphs)))
        return {self.var: pt.stack(z, axis=self.axis)} | {
            product.node.outputs[0]: pt.stack(effects, axis=product.out_axis)
            for product in products
        }

    def deviations(self, values: Values) -> np.ndarray:
        scales = np.sqrt(np.sum(self._factor(values) ** 2, axis=1))
        shape = [1, 1]
        shape[self.axis] = -1
        return np.broadcast_to(scales.reshape(shape), np.shape(values[self.var]))

    def moved(self, values: Values, by: np.ndarray) -> np.ndarray:
        return self._along(np.linalg.inv(self._factor(values)), by)

    def pulled(self, values: Values, gradient: np.ndarray) -> np.ndarray:
        return self._along(np.linalg.inv(self._factor(values)).T, gradient)

    def parts(self, x: TensorVariable) -> list[TensorVariable]:
        """Return what a matrix like z has of each effect."""
        return [self._part(x, k) for k in range(self._size)]

    def _along(self, matrix: np.ndarray, x: np.ndarray) -> np.ndarray:
        return matrix @ x if self.axis == 0 else x @ matrix.T

    def _factor(self, values: Values) -> np.ndarray:
        return evaluate([self.factor], values)[0]

    @property
    def _size(self) -> int:
        return self.information.type.shape[self.axis]

    def _part(self, x: Any, k: int) -> Any:
        return x[k] if self.axis == 0 else x[:, k]

    def _ratio(self, k: int) -> Any:
        return self.factor[k, k] ** 2 * self._part(self.information, k)

    def _root(self, k: int) -> Any:
        return pt.sqrt((1 + self._ratio(k)) / (1 + self._part(self.information, k)))

    @property
    def _shares(self) -> dict[tuple[int, int], Any]:
        """C, strictly lower triangular: w is z + C z of each group, but for its length."""
        L, shares = self.factor, {}
        known = self.information.mean(axis=1 - self.axis)
        for k in range(1, self._size):
            ratio = L[k, k] ** 2 * known[k]
            for j in range(k):
                shares[k, j] = ratio / (1 + ratio) * L[k, j] / L[k, k]
        return shares

    @property
    def _inverse(self) -> tuple[dict[tuple[int, int], Any], dict[tuple[int, int], Any]]:
        """(1 + C)^-1 and L (1 + C)^-1, lower triangular."""
        L, C = self.factor, self._shares
        inverse: dict[tuple[int, int], Any] = {}
        product: dict[tuple[int, int], Any] = {}
        for k in range(self._size):
            inverse[k, k], product[k, k] = pt.ones((), L.dtype), L[k, k]
            for j in range(k):
                inverse[k, j] = -sum(C[k, i] * inverse[i, j] for i in range(j, k))
                product[k, j] = sum(L[k, i] * inverse[i, j] for i in range(j, k + 1))
        return inverse, product


@dataclass(frozen=True, eq=False)
class FactorProduct:
    """A product L z or z L', with L (K, K), and the axes of z and of the product that have K."""

    node: Apply
    factor: TensorVariable
    axis: int
    out_axis: int


def products_with(var: TensorVariable, nodes: Sequence[Apply]) -> Iterator[FactorProduct]:
    """Yield the matrix products of `var`, or of its transpose, among `nodes`."""
    turned = {node.outputs[0] for node in nodes if _is_transpose(node) and node.inputs[0] is var}
    for node in nodes:
        if not _is_product(node):
            continue
        left, right = node.inputs
        for x, factor, k in ((right, left, 0), (left, right, 1)):
            if x is var or x in turned:
                axis = k if x is var else 1 - k
                yield FactorProduct(node, factor if k == 0 else factor.T, axis, k)


def _is_transpose(node: Apply) -> bool:
    return isinstance(node.op, DimShuffle) and tuple(node.op.new_order) == (1, 0)


def _is_product(node: Apply) -> bool:
    op = node.op.core_op if isinstance(node.op, Blockwise) else node.op
    return isinstance(op, Dot) and all(x.type.ndim == 2 for x in node.inputs)
