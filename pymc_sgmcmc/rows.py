"""Observed variables as functions of their rows: the data that are sliced, and the sliced terms."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytensor
import pytensor.tensor as pt
from pymc import Model
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import graph_inputs, toposort
from pytensor.tensor.basic import Alloc
from pytensor.tensor.shape import SpecifyShape
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.batching import Batching, is_among
from pymc_sgmcmc.gather import take_rows
from pymc_sgmcmc.refusal import refusal
from pymc_sgmcmc.row_axes import check_axes, number_of_rows, row_axis, row_dim, value_of

__all__ = ["RowData", "RowGroup", "find_groups"]


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
                f"The data of {', '.join(self.observed)} differ in number of rows: {lengths}. "
                "Give all of them the same number of rows with pm.set_data."
            )
        return next(iter(lengths.values()))

    def slices(self, rows: TensorVariable) -> dict[Variable, Variable]:
        """Replacements that put the given rows into `terms`."""
        return {data.slice: data.take(rows) for data in self.data}


def find_groups(
    model: Model,
    batches: Sequence[Batching],
    terms: Mapping[TensorVariable, TensorVariable],
    names: Mapping[Variable, str],
    axes: Mapping[str, int | None],
) -> list[RowGroup]:
    """Slice the data of observed variables that share their rows.

    Parameters
    ----------
    model : pymc.Model
    batches : sequence of Batching
    terms : mapping
        The elementwise log-likelihood of each observed variable.
    names : mapping
        The variables' names behind the tensors that stand for other variables' values.
    axes : mapping of str to int or None
        The row axis of tensors by name, in place of what is found; None: not sliced.
    """
    axes = check_axes(axes)
    unknown = set(axes)
    groups = []
    for batch in batches:
        rvs = batch.observed
        found: dict[Variable, RowData] = {}
        sliced = []
        n_rows = number_of_rows(model, rvs[0])
        key = next(filter(None, (row_dim(model, rv) for rv in rvs)), n_rows)
        for rv in rvs:
            for leaf in graph_inputs([terms[rv]]):
                if not isinstance(leaf, SharedVariable | Constant) or leaf in found:
                    continue
                name = names.get(leaf) or leaf.name or _name(model, rv, leaf)
                if name not in axes and not batch.may_slice(leaf):
                    continue
                unknown.discard(name)
                if name in axes or not batch.draws(leaf):
                    axis = row_axis(model, leaf, name, key, n_rows, axes)
                else:
                    axis = 0
                if axis is not None:
                    found[leaf] = _row_data(
                        leaf, name or f"an unnamed array of shape {value_of(leaf).shape}", axis
                    )
            sliced.append(_slice(model, rv, terms[rv], found, key, n_rows) if found else terms[rv])
        name = key if isinstance(key, str) else rvs[0].name
        if not found:
            raise ValueError(
                f"rows={axes!r} leaves no data of {', '.join(rv.name for rv in rvs)} to slice: "
                f"{batch.exact(name)}."
            )
        groups.append(
            RowGroup(name, tuple(rv.name for rv in rvs), tuple(found.values()), tuple(sliced))
        )
    if unknown:
        known = sorted({data.name for group in groups for data in group.data})
        raise ValueError(
            f"rows={axes!r} names {sorted(unknown)}, which no minibatched variable depends on. "
            f"Data that are sliced by row: {known}."
        )
    return groups


def _name(model: Model, rv: TensorVariable, leaf: SharedVariable | Constant) -> str | None:
    """That of the variable whose observed values they are: `pm.Minibatch` gives them none."""
    return rv.name if is_among(leaf, graph_inputs([model.rvs_to_values[rv]])) else None


def _row_data(leaf: SharedVariable | Constant, name: str, axis: int) -> RowData:
    """Constants become shared variables: Numba would compile them in, and PyTensor hash them."""
    # Axes of length 1 keep their static shape: they broadcast.
    shape = tuple(None if i == axis else size for i, size in enumerate(leaf.type.shape))
    if not isinstance(leaf, SharedVariable):
        value = leaf.data
        if value.dtype.kind == "f":
            value = value.astype(pytensor.config.floatX, copy=False)
        leaf = pytensor.shared(value, name=name, borrow=True, shape=shape)
    return RowData(name, leaf, axis, leaf.type.clone(shape=shape)(f"{name}_rows"))


def _slice(model, rv, term, found: Mapping[Variable, RowData], key, n_rows) -> TensorVariable:
    """Return the term as a function of the slices, with as many rows as they have.

    PyMC allocates terms to the size of their variable: a number, or the length of a dimension.
    """
    clones: dict[Variable, Variable] = {leaf: data.slice for leaf, data in found.items()}
    any_data = next(iter(found.values()))
    length = any_data.slice.shape[any_data.axis]
    if isinstance(key, str) and isinstance(model.dim_lengths[key], SharedVariable):
        clones[model.dim_lengths[key]] = length
    try:
        for node in toposort([term]):
            inputs = [clones.get(variable, variable) for variable in node.inputs]
            shape = getattr(node.outputs[0].type, "shape", ())
            if isinstance(node.op, Alloc | SpecifyShape) and n_rows in shape:
                inputs[1 + shape.index(n_rows)] = length
            if any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
                if isinstance(node.op, OpFromGraph):  # Its inner graph has static shapes too.
                    outputs = node.op(*inputs, return_list=True)
                else:
                    outputs = node.clone_with_new_inputs(inputs, strict=False).outputs
                clones |= zip(node.outputs, outputs, strict=True)
        return clones.get(term, term)
    except (TypeError, ValueError, NotImplementedError) as error:
        names = [data.name for data in found.values()]
        raise refusal(model, rv.name, names, str(error)) from error
