"""Likelihoods as functions of their rows: sliced data and sliced terms."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.compile.take_rows import take_rows
from pymc_sgmcmc.rows.computed import Computed
from pymc_sgmcmc.rows.readers import RowReader, reader_of

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
    reader : RowReader, optional
        Reads the rows, of which `source` holds the first; None: `source` has all of them.
    """

    name: str
    source: SharedVariable
    axis: int
    slice: TensorVariable
    computed: Computed | None = None
    reader: RowReader | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of all rows."""
        return (self.reader or self.source.get_value(borrow=True)).shape

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

    def inputs(self) -> list[TensorVariable]:
        """Return variables for a batch: indices of its rows, and rows of data that are read."""
        read = [data.slice.type(f"{data.name}_read") for data, _ in self._read]
        return [pt.lvector(f"rows_{self.name}"), *read]

    def batch(self, rows: np.ndarray) -> list[np.ndarray]:
        """Return values of `inputs` for the rows with the given indices, of any shape."""
        read = [np.asarray(reader.read(rows), data.slice.dtype) for data, reader in self._read]
        return [np.ascontiguousarray(rows, np.int64), *read]

    def slices(self, inputs: Sequence[TensorVariable]) -> dict[Variable, Variable]:
        """Return replacements that put the rows of `inputs` into `terms`."""
        rows, *read = inputs
        held = {data.slice: data.take(rows) for data in self.data if data.reader is None}
        return held | dict(zip((data.slice for data, _ in self._read), read, strict=True))

    @property
    def numbers_in_a_row(self) -> int:
        """How many numbers the inputs have for one row."""
        return 1 + sum(prod(data.shape[1:]) for data, _ in self._read)

    @cached_property
    def is_in_memory(self) -> bool:
        """Whether no data are read."""
        return not self._read

    @cached_property
    def _read(self) -> list[tuple[RowData, RowReader]]:
        return [(data, data.reader) for data in self.data if data.reader is not None]

    def with_readers(self) -> "RowGroup":
        """Return the group on all rows of the readers that data stand for.

        Raise NotImplementedError if an axis other than the first has the rows of a reader.
        """
        if not any(reader_of(data.source) for data in self.data):
            return self
        for data in self.data:
            if reader_of(data.source) and data.axis:
                raise NotImplementedError(
                    f"{data.name} has its rows on axis {data.axis}: those that are read from "
                    "elsewhere are on axis 0."
                )
        read = tuple(replace(data, reader=reader_of(data.source)) for data in self.data)
        return replace(self, data=read)


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
