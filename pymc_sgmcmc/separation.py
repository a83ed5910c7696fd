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

__all__ = ["prove_separation"]


def prove_separation(
    model: Model,
    group: RowGroup,
    terms: Mapping[TensorVariable, TensorVariable],
    point: Mapping[str, np.ndarray],
    shared: Mapping[TensorVariable, SharedVariable],
) -> None:
    """Raise unless the log-likelihoods of random rows equal those entries of the full ones.

    Two disjoint subsets are compared (a maximum over rows is in one at most), at `point` (value
    variables by name), where all is finite, and near it, where nothing is zero by chance. `shared`
    stand for the variables that are not sampled. Nothing is compiled.
    """
    rng = np.random.default_rng(0)
    moved = {name: _moved(np.asarray(value), rng) for name, value in point.items()}
    floats = {name: value for name, value in moved.items() if value.dtype.kind == "f"}
    try:
        for at in (point, {**point, **floats}, *([moved] if len(floats) < len(moved) else [])):
            for var, replacement in shared.items():
                replacement.set_value(np.asarray(at[var.name], dtype=var.dtype))
            _prove_at(at, model, group, terms, rng)
    finally:
        for var, replacement in shared.items():
            replacement.set_value(np.asarray(point[var.name], dtype=var.dtype))


def _prove_at(point, model, group: RowGroup, terms, rng: np.random.Generator) -> None:
    n_rows, names = group.length(), [data.name for data in group.data]
    rows = pt.lvector("rows")
    sliced = clone_replace(list(group.terms), group.slices(rows), rebuild_strict=False)
    for rv, name, part in zip(terms, group.observed, sliced, strict=True):
        values = [leaf for leaf in graph_inputs([terms[rv]]) if leaf.name in point]
        arrays = [np.asarray(point[leaf.name], dtype=leaf.dtype) for leaf in values]
        try:
            whole = interpreted(values, [terms[rv]])(*arrays)[0]
        except Exception:  # A parameter outside its range: this point proves nothing.
            continue
        if whole.shape[:1] != (n_rows,):
            raise refusal(model, name, names, f"it has shape {whole.shape}, not one value a row")
        on_rows = interpreted([*values, rows], [part])
        first = max(1, min(n_rows // 3, 17))
        drawn = rng.choice(n_rows, size=min(n_rows, first + 1000), replace=False)
        for chosen in np.split(drawn, [first]):
            if not len(chosen):
                continue
            expected = whole[chosen]
            try:
                actual = on_rows(*arrays, chosen)[0]
            except Exception as error:
                reason = str(error).splitlines()[0] if str(error) else type(error).__name__
                raise refusal(model, name, names, reason) from error
            tolerance = 1e-6 if whole.dtype == np.float64 else 1e-3
            if actual.shape != expected.shape or not np.allclose(
                actual, expected, rtol=tolerance, atol=tolerance, equal_nan=True
            ):
                reason = (
                    f"on {len(chosen)} random rows it differs from those entries of the full one"
                )
                raise refusal(model, name, names, reason)


def _moved(value: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if value.dtype.kind != "f":
        # 0 and 1 are in the support of every discrete distribution that selects or counts.
        return rng.integers(2, size=value.shape).astype(value.dtype)
    return (value + 0.1 * rng.standard_normal(value.shape)).astype(value.dtype)
