"""Which data carry the rows of an observed variable, and the proof that its rows separate."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytensor
import pytensor.tensor as pt
from pymc import Model
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.backends import interpreted
from pymc_sgmcmc.gather import take_rows

__all__ = ["RowData", "RowGroup", "RowsDoNotSeparate", "find_groups", "prove_separation"]


class RowsDoNotSeparate(ValueError):
    """The log-likelihood is not a sum over the rows of the data that were sliced."""


@dataclass(frozen=True, eq=False)
class RowData:
    """A data tensor that is indexed by row, and the variable that stands for its slice."""

    name: str
    source: SharedVariable
    axis: int
    slice: TensorVariable

    @property
    def shape(self) -> tuple[int, ...]:
        return self.source.get_value(borrow=True).shape

    def take(self, rows: TensorVariable) -> TensorVariable:
        """The slice at the given rows."""
        if self.axis == 0:
            return take_rows(self.source, rows)
        return pt.take(self.source, rows, axis=self.axis)


@dataclass(frozen=True, eq=False)
class RowGroup:
    """Observed variables that share their rows.

    Attributes
    ----------
    name : str
        The dimension of the rows, or the name of the first observed variable.
    observed : tuple of str
    data : tuple of RowData
    terms : tuple of TensorVariable
        Elementwise log-likelihood of each observed variable, a function of the slices.
    """

    name: str
    observed: tuple[str, ...]
    data: tuple[RowData, ...]
    terms: tuple[TensorVariable, ...]

    def length(self) -> int:
        """Number of rows now: `pm.set_data` may have changed it since construction."""
        lengths = {data.name: data.shape[data.axis] for data in self.data}
        if len(set(lengths.values())) != 1:
            raise ValueError(
                f"The data of {', '.join(self.observed)} differ in their number of rows: {lengths}. "
                "Give all of them the same number of rows with pm.set_data."
            )
        return next(iter(lengths.values()))

    def slices(self, rows: TensorVariable) -> dict[Variable, Variable]:
        """Replacements that put the given rows into `terms`."""
        return {data.slice: data.take(rows) for data in self.data}


def find_groups(
    model: Model,
    terms: Mapping[TensorVariable, TensorVariable],
    names: Mapping[Variable, str],
    axes: Mapping[str, int | None],
) -> list[RowGroup]:
    """Group observed variables by their rows, and slice the data of each.

    Parameters
    ----------
    model : pymc.Model
    terms : mapping
        The elementwise log-likelihood of each observed variable that is to be sliced.
    names : mapping
        The variables' names behind the tensors that stand for other variables' values.
    axes : mapping of str to int or None
        The row axis of tensors by name, in place of what is found; None: not sliced.
    """
    unknown = set(axes)
    members: dict[object, list[TensorVariable]] = {}
    for rv in terms:
        members.setdefault(row_dim(model, rv) or _length(model, rv), []).append(rv)
    groups = []
    for key, rvs in members.items():
        found: dict[Variable, RowData] = {}
        sliced = []
        n_rows = _length(model, rvs[0])
        for rv in rvs:
            for leaf in graph_inputs([terms[rv]]):
                if not isinstance(leaf, SharedVariable | Constant) or leaf in found:
                    continue
                name = names.get(leaf) or leaf.name
                unknown.discard(name)
                axis = _row_axis(model, leaf, name, key, n_rows, axes)
                if axis is not None:
                    found[leaf] = _row_data(leaf, name or f"constant {leaf.type}", axis)
            sliced.append(_slice(model, rv, terms[rv], found))
        name = key if isinstance(key, str) else rvs[0].name
        groups.append(
            RowGroup(name, tuple(rv.name for rv in rvs), tuple(found.values()), tuple(sliced))
        )
    if unknown:
        known = sorted({data.name for group in groups for data in group.data})
        raise ValueError(
            f"rows={dict(axes)!r} names {sorted(unknown)}, which no observed variable depends on. "
            f"Data that are sliced by row: {known}."
        )
    return groups


def value_of(leaf: SharedVariable | Constant) -> np.ndarray:
    """The array behind a shared variable or a constant, not copied."""
    return leaf.get_value(borrow=True) if isinstance(leaf, SharedVariable) else leaf.data


def row_dim(model: Model, rv: TensorVariable) -> str | None:
    value = model.rvs_to_values[rv]
    for name in (rv.name, *(leaf.name for leaf in graph_inputs([value]))):
        dims = model.named_vars_to_dims.get(name)
        if dims:
            return dims[0]
    return None


def _length(model: Model, rv: TensorVariable) -> int:
    value = model.rvs_to_values[rv]
    return int(interpreted([], [value.shape[0]])()[0])


def _row_axis(model, leaf, name, key, n_rows, axes) -> int | None:
    if not isinstance(leaf.type, TensorType) or leaf.type.ndim == 0:
        return None
    shape = value_of(leaf).shape
    if name in axes:
        axis = axes[name]
        if axis is not None and not (0 <= axis < len(shape) and shape[axis] == n_rows):
            raise ValueError(
                f"rows={{{name!r}: {axis!r}}} does not fit: {name} has shape {shape}, and the "
                f"observed variable has {n_rows} rows."
            )
        return axis
    dims = model.named_vars_to_dims.get(name, ())
    if key in dims:
        return list(dims).index(key)
    labelled_otherwise = isinstance(key, str) and dims and all(dims)
    return 0 if shape[0] == n_rows and not labelled_otherwise else None


def _row_data(leaf: SharedVariable | Constant, name: str, axis: int) -> RowData:
    """Constants become shared variables: Numba would compile them in, and PyTensor hash them."""
    if not isinstance(leaf, SharedVariable):
        value = leaf.data
        if value.dtype.kind == "f":
            value = value.astype(pytensor.config.floatX, copy=False)
        leaf = pytensor.shared(value, name=name, borrow=True, shape=(None,) * value.ndim)
    shape = tuple(None if i == axis else size for i, size in enumerate(leaf.type.shape))
    return RowData(name, leaf, axis, pt.tensor(f"{name}_rows", dtype=leaf.type.dtype, shape=shape))


def _slice(model, rv, term, found: Mapping[Variable, RowData]) -> TensorVariable:
    try:
        return clone_replace(
            [term], {leaf: data.slice for leaf, data in found.items()}, rebuild_strict=False
        )[0]
    except (TypeError, ValueError, NotImplementedError) as error:
        raise RowsDoNotSeparate(_refusal(model, rv.name, found.values(), str(error))) from error


def prove_separation(
    model: Model,
    group: RowGroup,
    terms: Mapping[TensorVariable, TensorVariable],
    point: Mapping[str, np.ndarray],
) -> None:
    """Raise unless the log-likelihoods of random rows equal those entries of the full ones.

    Random subsets of two sizes are compared, at a random point near `point` (value variables by
    name). Nothing is compiled.
    """
    rng = np.random.default_rng(0)
    n_rows = group.length()
    rows = pt.lvector("rows")
    sliced = clone_replace(list(group.terms), group.slices(rows), rebuild_strict=False)
    for rv, name, part in zip(terms, group.observed, sliced, strict=True):
        full = terms[rv]
        values = [leaf for leaf in graph_inputs([full]) if leaf.name in point]
        near = [_jittered(point[leaf.name], rng) for leaf in values]
        whole = interpreted(values, [full])(*near)[0]
        if whole.shape[:1] != (n_rows,):
            raise RowsDoNotSeparate(
                _refusal(model, name, group.data, f"it has shape {whole.shape}, one value for all rows")
            )
        on_rows = interpreted([*values, rows], [part])
        for size in {max(1, min(n_rows // 2, 17)), max(1, min(n_rows - 1, 1000))}:
            chosen = rng.choice(n_rows, size=size, replace=False)
            expected = whole[chosen]
            try:
                actual = on_rows(*near, chosen)[0]
            except Exception as error:
                reason = str(error).splitlines()[0] if str(error) else type(error).__name__
                raise RowsDoNotSeparate(_refusal(model, name, group.data, reason)) from error
            tolerance = 1e-6 if whole.dtype == np.float64 else 1e-3
            if actual.shape != expected.shape or not np.allclose(
                actual, expected, rtol=tolerance, atol=tolerance, equal_nan=True
            ):
                reason = f"on {len(chosen)} random rows it differs from those entries of the full one"
                raise RowsDoNotSeparate(_refusal(model, name, group.data, reason))


def _jittered(value: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if value.dtype.kind != "f":
        return value
    return (value + 0.1 * rng.standard_normal(value.shape)).astype(value.dtype)


def _refusal(model: Model, name: str, data: Sequence[RowData], reason: str) -> str:
    (rv,) = (rv for rv in model.observed_RVs if rv.name == name)
    n_rows = _length(model, rv)
    latents = []
    for free in model.free_RVs:
        value = model.rvs_to_values[free]
        dims = model.named_vars_to_dims.get(free.name, ())
        if value.type.ndim and (row_dim(model, rv) in dims or value.type.shape[0] == n_rows):
            latents.append(free.name)
    message = (
        f"The rows of {name!r} do not separate: its log-likelihood cannot be computed on a part of "
        f"its {n_rows} rows ({reason}). Sliced by row: {', '.join(sorted(d.name for d in data))}. "
    )
    if latents:
        message += (
            f"The latent variable {', '.join(map(repr, latents))} has one value per row; minibatches "
            "need a posterior whose size does not grow with the data: marginalise it. "
        )
    return message + (
        "If the wrong data were sliced, say rows={'name': axis} or rows={'name': None} for named "
        "pm.Data; a model whose rows depend on each other (a Gaussian process, a time series) needs "
        "batch_size=None, the exact gradient."
    )
