"""Search for the part of a model that is not finite at a point: variable, rows, coordinate."""

from collections.abc import Callable, Sequence

import numpy as np
import pytensor
import pytensor.tensor as pt

from pymc_sgmcmc._utils.flat import shaped
from pymc_sgmcmc._utils.text import listed
from pymc_sgmcmc.compile.in_python import interpreted
from pymc_sgmcmc.model.inspection import values_at
from pymc_sgmcmc.posterior.energy_graph import EnergyGraph
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.rows.groups import RowGroup
from pymc_sgmcmc.rows.requests import BatchRequest

__all__ = ["REMEDY", "culprit", "is_transformed", "numbered", "without_derivative"]

REMEDY = (
    "Mend or drop those data, or write the likelihood so that it and its derivative are finite "
    "there (a root, a logarithm or a ratio at zero, an exponential that overflows do this)."
)

NAMED = 3
"""Largest number of rows, and of coordinates, that are named."""


def culprit(target: Target, q: np.ndarray) -> str:
    """Describe the part of the model that is not finite at `q` (d,); empty if all is finite.

    The description names the first term of the log-density whose value is infinite or NaN, with its
    rows; else the first term with such a gradient, with its rows where they separate. Graphs are
    interpreted, which takes seconds and no compiler.
    """
    with np.errstate(all="ignore"):
        values = target.centring.values(q)
        return _of_values(target, values) or _of_gradients(target, values)


def is_transformed(target: Target) -> np.ndarray:
    """Return whether each coordinate belongs to a transformed variable, (d,) of bool."""
    model = target.model
    transforms = [model.rvs_to_transforms[model.values_to_rvs[var]] for var in target.vars]
    sizes = [int(np.prod(shape)) for shape in target.shapes]
    return np.repeat([transform is not None for transform in transforms], sizes)


def without_derivative(target: Target, q: np.ndarray) -> str:
    """Describe a gradient that is not finite where all values are; empty if there is none."""
    with np.errstate(all="ignore"):
        values = target.centring.values(q)
        return "" if _of_values(target, values) else _of_gradients(target, values)


def numbered(rows: Sequence[int], total: int) -> str:
    """Return the first of `rows` and their number, as in "rows 2, 5, 9, ... (12 of 100)"."""
    first = ", ".join(map(str, rows[:NAMED]))
    if len(rows) == 1:
        return f"row {first}"
    more = f", ... ({len(rows)} of {total})" if len(rows) > NAMED else ""
    return f"rows {first}{more}"


def _of_values(target: Target, q: np.ndarray) -> str:
    parts = zip(target.vars, shaped(q, target.shapes), strict=True)
    point = {var.name: part for var, part in parts}
    for rv, value in values_at(target.terms, point).items():
        bad = ~np.isfinite(value)
        if not bad.any():
            continue
        what = f"The log-density of {rv.name!r} is {_kind(value[bad])}"
        if not bad.ndim:
            return f"{what}."
        rows = np.flatnonzero(bad.reshape(len(bad), -1).any(axis=1))
        return f"{what} at {numbered(rows.tolist(), len(bad))}."
    return ""


def _of_gradients(target: Target, q: np.ndarray) -> str:
    for rv, term in target.terms.items():
        energy = EnergyGraph(target.vars, target.shapes, [term], [])
        gradient = _gradient(energy, [])(q)
        bad = np.flatnonzero(~np.isfinite(gradient))
        if not len(bad):
            continue
        along = listed([target.coordinate(int(i)) for i in bad])
        what = f"The gradient of the log-density of {rv.name!r} along {along} is "
        rows = _rows(target, rv, q)
        where = f" at {numbered(rows, 0)}" if rows else ""
        return f"{what}{_kind(gradient[bad])}{where}, where its value is finite."
    return ""


def _rows(target: Target, rv, q: np.ndarray) -> list[int]:
    """Return the first rows of `rv` whose own gradient is not finite, if its rows separate."""
    if rv not in target.model.observed_RVs:
        return []
    group = target.likelihoods.planner.plan(BatchRequest(rv, 1, (0,), explicit=False)).group
    if group is None:
        return []
    gradient = _gradient(EnergyGraph(target.vars, target.shapes, [], [group]), [group])
    return _search(lambda rows: bool(np.isfinite(gradient(q, rows)).all()), group.length())


def _search(is_fine: Callable[[np.ndarray], bool], length: int) -> list[int]:
    """Return the first `NAMED` rows that are not fine by themselves, found by halving."""
    found: list[int] = []
    waiting = [np.arange(length)]
    while waiting and len(found) < NAMED:
        rows = waiting.pop()
        if is_fine(rows):
            continue
        if len(rows) == 1:
            found.append(int(rows[0]))
        else:
            waiting += [rows[len(rows) // 2 :], rows[: len(rows) // 2]]
    return found


def _gradient(energy: EnergyGraph, groups: Sequence[RowGroup]) -> Callable:
    """Return the gradient of U as a function of q, and of the rows of each of `groups`."""
    q = pt.vector("q", dtype=pytensor.config.floatX, shape=(energy.size,))
    rows = [pt.lvector() for _ in groups]
    slices = {k: v for group, row in zip(groups, rows) for k, v in group.slices([row]).items()}
    _, gradient = energy.estimator()(q, slices, [pt.ones(()) for _ in groups])
    function = interpreted([q, *rows], [gradient])
    return lambda at, *rows: function(np.asarray(at, pytensor.config.floatX), *rows)[0]


def _kind(numbers: np.ndarray) -> str:
    return "NaN" if np.isnan(numbers).all() else "infinite" if numbers.max() == np.inf else "-inf"
