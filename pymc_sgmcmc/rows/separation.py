"""Proof that the rows of a log-likelihood separate."""

from collections.abc import Mapping

import numpy as np
import pytensor.tensor as pt
from pymc import Model
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.compile.in_python import interpreted
from pymc_sgmcmc.distributions.manifolds import manifold_of
from pymc_sgmcmc.rows.groups import RowGroup
from pymc_sgmcmc.rows.selection import NotByRow

__all__ = ["prove_separation"]

SCALES = (0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4)
"""Standard deviations of the moves from the initial point, tried in turn until a point is inside
the support."""

Point = Mapping[str, np.ndarray]


def prove_separation(
    model: Model,
    group: RowGroup,
    term: TensorVariable,
    axis: int,
    point: Point,
    shared: Mapping[TensorVariable, SharedVariable],
) -> None:
    """Raise `NotByRow` unless the log-likelihoods of random rows equal those of the full `term`.

    Two disjoint subsets are compared (a maximum over rows is in one at most): at `point` (value
    variables by name), at a random point near it where no value is zero by chance and all rows are
    finite, and there with other discrete values. Nothing is compiled.

    Parameters
    ----------
    model : pymc.Model
    group : RowGroup
        One likelihood.
    term : TensorVariable
        Log-likelihood of all rows, along `axis`.
    axis : int
    point : mapping of str to array
    shared : mapping
        Shared variables that stand for the variables that are not sampled.
    """
    rng = np.random.default_rng(0)
    proof = _Proof(group, term, axis, shared, rng)
    present = {var: replacement.get_value(borrow=True) for var, replacement in shared.items()}
    try:
        proof.holds_at(point)
        near = (_moved(model, point, scale, rng) for scale in SCALES for _ in range(3))
        found = next((candidate for candidate in near if proof.holds_at(candidate)), None)
        if found is None:
            raise NotByRow("it is not finite at any point tried near the initial one")
        proof.holds_at({**found, **_flipped(point, rng)})
    finally:
        for var, value in present.items():  # a chain may be at values other than `point`
            shared[var].set_value(value, borrow=True)


class _Proof:
    """Comparison of the full and the sliced log-likelihood at one point after another."""

    def __init__(self, group: RowGroup, term, axis: int, shared, rng: np.random.Generator):
        self._group, self._axis, self._shared, self._rng = group, axis, shared, rng
        rows = pt.lvector("rows")
        sliced = clone_replace(list(group.terms), group.slices([rows]), rebuild_strict=False)
        leaves = graph_inputs([term, *sliced])
        self._values = [
            leaf
            for leaf in leaves
            if leaf is not rows
            and not isinstance(leaf, SharedVariable)
            and not hasattr(leaf, "data")
        ]
        self._full = interpreted(self._values, [term])
        self._sliced = interpreted([*self._values, rows], sliced)

    def set_shared(self, point: Point) -> None:
        """Set the variables that are not sampled to their values at `point`."""
        for var, replacement in self._shared.items():
            replacement.set_value(np.asarray(point[var.name], dtype=var.dtype))

    def holds_at(self, point: Point) -> bool:
        """Return whether all rows are finite at `point`; raise `NotByRow` if sliced rows differ."""
        self.set_shared(point)
        arrays = [np.asarray(point[leaf.name], dtype=leaf.dtype) for leaf in self._values]
        (whole,) = self._full(*arrays)
        n_rows = self._group.length()
        if whole.shape[self._axis] != n_rows:
            raise NotByRow(f"it has shape {whole.shape}, and its data have {n_rows} rows")
        if not np.isfinite(whole).all():
            return False
        first = max(1, min(n_rows // 3, 17))
        drawn = self._rng.choice(n_rows, size=min(n_rows, first + 1000), replace=False)
        for chosen in np.split(drawn, [first]):
            if len(chosen):
                self._compare(np.take(whole, chosen, self._axis), arrays, chosen)
        return True

    def _compare(self, expected: np.ndarray, arrays, chosen: np.ndarray) -> None:
        try:
            (part,) = self._sliced(*arrays, chosen)
        except Exception as error:
            raise NotByRow("it cannot be computed from some of the rows of its data") from error
        tolerance = 1e-6 if expected.dtype == np.float64 else 1e-3
        if part.shape != expected.shape or not np.allclose(
            part, expected, rtol=tolerance, atol=tolerance
        ):
            raise NotByRow(
                f"on {len(chosen)} random rows of its data it differs from what it is of them "
                "among all"
            )


def _moved(model: Model, point: Point, scale: float, rng: np.random.Generator) -> Point:
    """Return `point` with its continuous values moved at random; manifold values stay on theirs."""
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
    """Draw discrete values from {0, 1}, which most discrete supports contain."""
    return {
        name: rng.integers(2, size=np.shape(value))
        for name, value in point.items()
        if np.asarray(value).dtype.kind != "f"
    }
