"""The proof that the rows of a log-likelihood separate."""

from collections.abc import Mapping

import numpy as np
import pytensor.tensor as pt
from pymc import Model
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.backends import interpreted
from pymc_sgmcmc.refusal import refusal
from pymc_sgmcmc.rows import RowGroup
from pymc_sgmcmc.space import manifold_of

__all__ = ["prove_separation"]

SCALES = (0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4)
"""How far points near the initial point are tried until one is inside the support."""

Point = Mapping[str, np.ndarray]


def prove_separation(
    model: Model,
    group: RowGroup,
    terms: Mapping[TensorVariable, TensorVariable],
    point: Point,
    shared: Mapping[TensorVariable, SharedVariable],
) -> None:
    """Raise unless the log-likelihoods of random rows equal those entries of the full ones.

    Two disjoint subsets are compared (a maximum over rows is in one at most), at `point` (value
    variables by name) and at a random point near it, where nothing is zero by chance and all rows
    are finite. `shared` stand for the variables that are not sampled. Nothing is compiled.
    """
    rng = np.random.default_rng(0)
    proof = _Proof(model, group, terms, shared, rng)
    present = {var: replacement.get_value(borrow=True) for var, replacement in shared.items()}
    try:
        proof.holds_at(point)
        near = (_moved(model, point, scale, rng) for scale in SCALES for _ in range(3))
        found = next((candidate for candidate in near if proof.holds_at(candidate)), None)
        if found is None:
            reason = "it is not finite at any point tried near the initial one"
            raise proof.refusal(group.observed[0], reason)
        proof.holds_at(found | _flipped(point, rng))
    finally:
        for var, value in present.items():  # a chain may be at other values than `point`
            shared[var].set_value(value, borrow=True)


class _Proof:
    """Compares the full and the sliced log-likelihoods of a group at one point after another."""

    def __init__(self, model, group: RowGroup, terms, shared, rng: np.random.Generator):
        self._model, self._group, self._shared, self._rng = model, group, shared, rng
        rows = pt.lvector("rows")
        sliced = clone_replace(list(group.terms), group.slices(rows), rebuild_strict=False)
        full = [terms[rv] for rv in terms]
        self._values = [
            leaf
            for leaf in graph_inputs(full)
            if not isinstance(leaf, SharedVariable) and not hasattr(leaf, "data")
        ]
        self._full = interpreted(self._values, full)
        self._sliced = interpreted([*self._values, rows], sliced)

    def refusal(self, name: str, reason: str) -> Exception:
        """The error for observed variable `name`."""
        return refusal(self._model, name, [data.name for data in self._group.data], reason)

    def set_shared(self, point: Point) -> None:
        """Give the variables that are not sampled their values at `point`."""
        for var, replacement in self._shared.items():
            replacement.set_value(np.asarray(point[var.name], dtype=var.dtype))

    def holds_at(self, point: Point) -> bool:
        """Whether all rows are finite at `point`; raise if a part of them differs from the full."""
        self.set_shared(point)
        arrays = [np.asarray(point[leaf.name], dtype=leaf.dtype) for leaf in self._values]
        full = self._full(*arrays)
        n_rows = self._group.length()
        for name, whole in zip(self._group.observed, full, strict=True):
            if whole.shape[:1] != (n_rows,):
                raise self.refusal(name, f"it has shape {whole.shape}, not one value a row")
        if not all(np.isfinite(whole).all() for whole in full):
            return False
        first = max(1, min(n_rows // 3, 17))
        drawn = self._rng.choice(n_rows, size=min(n_rows, first + 1000), replace=False)
        for chosen in np.split(drawn, [first]):
            if len(chosen):
                self._compare(full, arrays, chosen)
        return True

    def _compare(self, full, arrays, chosen: np.ndarray) -> None:
        try:
            parts = self._sliced(*arrays, chosen)
        except Exception as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise self.refusal(self._group.observed[0], reason) from error
        for name, whole, part in zip(self._group.observed, full, parts, strict=True):
            tolerance = 1e-6 if whole.dtype == np.float64 else 1e-3
            expected = whole[chosen]
            if part.shape != expected.shape or not np.allclose(
                part, expected, rtol=tolerance, atol=tolerance
            ):
                reason = f"on {len(chosen)} random rows it differs from those of the full one"
                raise self.refusal(name, reason)


def _moved(model: Model, point: Point, scale: float, rng: np.random.Generator) -> Point:
    """Return `point` with its continuous values moved at random, those on manifolds along them."""
    moved = {
        name: value + scale * rng.standard_normal(np.shape(value))
        if np.asarray(value).dtype.kind == "f"
        else value
        for name, value in point.items()
    }
    for value in model.continuous_value_vars:
        if value.name in moved:
            moved[value.name] = manifold_of(model, value).nearest(moved[value.name])
    return moved


def _flipped(point: Point, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return the discrete values as 0 or 1, which most of their supports hold."""
    return {
        name: rng.integers(2, size=np.shape(value))
        for name, value in point.items()
        if np.asarray(value).dtype.kind != "f"
    }
