"""Likelihoods as functions of their rows: sliced data and sliced terms."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytensor
import pytensor.tensor as pt
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.compile.take_rows import take_rows
from pymc_sgmcmc.rows.computed import Computed

__all__ = ["RowData", "RowGroup", "join_groups", "row_data"]


@dataclass(frozen=True, eq=False)
class RowData:
    """A data tensor that is indexed by row, and the variable that stands for its slice.

    Attributes
    ----------
    name : str
    source : SharedVariable
    axis : int
        Axis of the rows.
    slice : TensorVariable
    computed : Computed, optional
        The function of data whose value `source` is; None if `source` is data itself.
    """

    name: str
    source: SharedVariable
    axis: int
    slice: TensorVariable
    computed: Computed | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.source.get_value(borrow=True).shape

    def take(self, rows: TensorVariable) -> TensorVariable:
        """Return the slice at the given rows."""
        if self.axis == 0:
            return take_rows(self.source, rows)
        return pt.take(self.source, rows, axis=self.axis)


@dataclass(frozen=True, eq=False)
class RowGroup:
    """Likelihoods that share their rows.

    Attributes
    ----------
    name : str
        The dimension of the rows, or the name of the first likelihood.
    likelihoods : tuple of str
        Names of the likelihoods: observed variables and Potentials.
    data : tuple of RowData
    terms : tuple of TensorVariable
        Elementwise log-likelihood of each of `likelihoods`, a function of the slices.
    computed : tuple of Computed
        Functions of data without rows on which the terms depend.
    """

    name: str
    likelihoods: tuple[str, ...]
    data: tuple[RowData, ...]
    terms: tuple[TensorVariable, ...]
    computed: tuple[Computed, ...] = ()

    def length(self) -> int:
        """Return the present number of rows, which `pm.set_data` may have changed.

        Refresh the functions of data first. Raise ValueError if the data differ in number of rows.
        """
        for computed in (*self.computed, *(data.computed for data in self.data)):
            if computed is not None:
                computed.refresh()
        lengths = [data.shape[data.axis] for data in self.data]
        if len(set(lengths)) != 1:
            found = dict(zip((data.name for data in self.data), lengths, strict=True))
            raise ValueError(
                f"The data of {', '.join(self.likelihoods)} differ in number of rows: {found}. "
                "Give all of them the same number of rows with pm.set_data."
            )
        return lengths[0]

    def slices(self, rows: TensorVariable) -> dict[Variable, Variable]:
        """Return replacements that put the given rows into `terms`."""
        return {data.slice: data.take(rows) for data in self.data}


def join_groups(name: str, parts: Sequence[RowGroup]) -> RowGroup:
    """Return the group of all likelihoods of `parts`, which share their rows."""

    def end_to_end(field: str) -> tuple:
        return tuple(dict.fromkeys(one for part in parts for one in getattr(part, field)))

    names = tuple(name for part in parts for name in part.likelihoods)
    terms = tuple(term for part in parts for term in part.terms)
    return RowGroup(name, names, end_to_end("data"), terms, end_to_end("computed"))


def row_data(
    source: SharedVariable | Constant, name: str, axis: int, computed: Computed | None = None
) -> RowData:
    """Return the data with a variable for their slice.

    Constants become shared variables: Numba would compile them in, and PyTensor would hash them.
    """
    # Axes of length 1 keep their static shape: they broadcast.
    shape = tuple(None if i == axis else size for i, size in enumerate(source.type.shape))
    if not isinstance(source, SharedVariable):
        value = source.data
        if value.dtype.kind == "f":
            value = value.astype(pytensor.config.floatX, copy=False)
        source = pytensor.shared(value, name=name, borrow=True, shape=shape)
    return RowData(name, source, axis, source.type.clone(shape=shape)(f"{name}_rows"), computed)
