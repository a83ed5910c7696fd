"""Temporary replacement of a model's data by other rows."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytensor
from pymc import Model
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import walk
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.compile.rebuild import rebuild

__all__ = ["NewData"]


class NewData:
    """New values of a model's `pm.Data`, and the lengths that follow from them.

    Observed values are filled in with zeros where the number of rows changes: predictions use only
    their shape.

    Parameters
    ----------
    model : pymc.Model
        A model without `pm.Minibatch`.
    new_data, coords
        Arguments of `predict`.
    wanted : list of variables
        The variables to predict.

    Attributes
    ----------
    coords : dict
        Labels of the dimensions whose lengths change.
    """

    def __init__(
        self,
        model: Model,
        new_data: Mapping[str, Any],
        coords: Mapping[str, Any],
        wanted: Sequence[TensorVariable],
    ):
        self._model = model
        self._values = dict(_checked(model, name, value) for name, value in new_data.items())
        # Keys are dimensions; rows without a name have their old number as key.
        self._lengths: dict[str | int | None, int] = {}
        for data, value in self._values.items():
            self._note_lengths(data, value.shape)
        self.coords: dict[str, Any] = {}
        for dim, length in self._lengths.items():
            if isinstance(dim, str):
                self._resize(dim, length, coords.get(dim, np.arange(length)))
        needed = _data_of(wanted)
        observed = _data_of(model.rvs_to_values[rv] for rv in model.observed_RVs)
        for data in (needed | observed) - self._values.keys():
            if (shape := self._new_shape(data)) == _shape(data):
                continue
            if data in needed:
                what = repr(data.name) if data in model.data_vars else "an array that is no pm.Data"
                raise ValueError(
                    f"new_data lacks {what}: predictions depend on it, and its rows are those of "
                    f"what is given. Give it too, with shape {shape}, as a pm.Data."
                )
            self._values[data] = np.zeros(shape, data.dtype)
        for rv in wanted:
            self._check_follows(rv)
        # A shared variable that full_data makes of an array may have a type of fixed length.
        fixed = [data for data, value in self._values.items() if not _fits(data, value)]
        self._replacements = {d: pytensor.shared(self._values.pop(d)) for d in fixed}

    def on(self, variables: Sequence[TensorVariable]) -> list[TensorVariable]:
        """Return the variables rebuilt on the new data, for use `in_place`."""
        rebuilt = rebuild(variables, self._replacements)
        return [rebuilt.get(variable, variable) for variable in variables]

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Set the new data in the model within the block, and restore the old data afterwards."""
        old = {data: data.get_value(borrow=True) for data in self._values}
        try:
            for data, value in self._values.items():
                data.set_value(value, borrow=True)
            yield
        finally:
            for data, value in old.items():
                data.set_value(value, borrow=True)

    def _note_lengths(self, data: SharedVariable, shape: tuple[int, ...]) -> None:
        for axis, (key, old, new) in enumerate(zip(self._keys(data), _shape(data), shape)):
            if old == new:
                continue
            if key is None:
                raise ValueError(
                    f"new_data[{data.name!r}] has length {new} on axis {axis}, and the model {old}:"
                    " only rows, the first axis, and named dimensions may change in length."
                )
            if self._lengths.setdefault(key, new) != new:
                what = repr(key) if isinstance(key, str) else "rows"
                raise ValueError(
                    f"new_data[{data.name!r}] has {new} {what}, and other data have "
                    f"{self._lengths[key]}: give all the same number."
                )

    def _resize(self, dim: str, length: int, labels: Sequence) -> None:
        if len(labels) != length:
            raise ValueError(
                f"coords[{dim!r}] has {len(labels)} labels, and new_data {length} of them."
            )
        self.coords[dim] = labels
        own = self._model.dim_lengths[dim]
        if isinstance(own, SharedVariable):
            self._values[own] = np.asarray(length, own.dtype)

    def _keys(self, data: SharedVariable) -> Sequence[str | int | None]:
        """Return the key of each axis: its dimension, the old number of rows, or None."""
        shape = _shape(data)
        dims = self._model.named_vars_to_dims.get(data.name) or [None] * len(shape)
        return [dim or (None if k else n) for k, (dim, n) in enumerate(zip(dims, shape))]

    def _new_shape(self, data: SharedVariable) -> tuple[int, ...]:
        """Return the shape of data that are not given, by the lengths of those that are."""
        return tuple(self._lengths.get(key, n) for key, n in zip(self._keys(data), _shape(data)))

    def _check_follows(self, rv: TensorVariable) -> None:
        """Raise ValueError if the old length of an observed array is fixed in its variable."""
        value = self._model.rvs_to_values.get(rv)
        if value is None or self._model.named_vars_to_dims.get(rv.name) or _data_of([value]):
            return
        given = [data for data in _data_of([rv]) if data in self._values and data.ndim]
        rows = value.type.shape[:1]
        if any(_shape(data)[:1] == rows != self._values[data].shape[:1] for data in given):
            raise ValueError(
                f"{rv.name!r} has the fixed length {rows[0]} of its observed array, and new_data "
                "another: write it with dims=, or observed=pm.Data(...), and its length follows."
            )


def _checked(model: Model, name: str, value: Any) -> tuple[SharedVariable, np.ndarray]:
    known = {data.name: data for data in model.data_vars}
    if name not in known:
        raise ValueError(
            f"new_data has {name!r}, and the model's pm.Data are {list(known)}: arrays that are to "
            "be replaced must be written as pm.Data, also within pm.Minibatch."
        )
    data, value = known[name], np.asarray(value)
    if value.ndim != data.ndim:
        raise ValueError(
            f"new_data[{name!r}] has shape {value.shape}: it needs {data.ndim} axes, as the "
            f"model's, which has {_shape(data)}."
        )
    try:
        return data, value.astype(data.dtype, casting="same_kind")
    except TypeError:
        raise ValueError(
            f"new_data[{name!r}] has the dtype {value.dtype}, and the model's is {data.dtype}."
        ) from None


def _fits(data: SharedVariable, value: np.ndarray) -> bool:
    return all(n in (None, m) for n, m in zip(data.type.shape, value.shape, strict=True))


def _shape(data: SharedVariable) -> tuple[int, ...]:
    return data.get_value(borrow=True).shape


def _data_of(variables: Iterable[Variable]) -> set[SharedVariable]:
    """Return the shared arrays on whose values, not only shapes, variables depend."""

    def inputs(variable):
        if variable.owner is None or isinstance(variable.owner.op, Shape | Shape_i):
            return ()
        return variable.owner.inputs

    return {
        variable
        for variable in walk(variables, inputs)
        if isinstance(variable, SharedVariable) and isinstance(variable, TensorVariable)
    }
