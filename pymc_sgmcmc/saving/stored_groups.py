"""Groups of draws as netCDF-4 files, from which each array is read when it is used.

A netCDF-4 file is an HDF5 file with named dimensions. Numbers and text are stored as they are.
Types that HDF5 does not support are stored as types that HDF5 supports: see `KINDS`. The layout, as
JSON, describes each array of the file.
"""

import json
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import xarray as xr

from pymc_sgmcmc.saving.labels import label_from_text, label_to_text

__all__ = ["ENTRY", "KINDS", "TEXT", "NotStorable", "encode", "write_group"]

TEXT = h5py.string_dtype("utf-8")
ENTRY = "pymc_sgmcmc"
"""Name of the attribute of an array that holds its entry of the layout."""


class NotStorable(TypeError):
    """Error for an array whose objects could not be restored exactly."""


@dataclass(frozen=True)
class _Kind:
    """Rule for storing arrays of some types.

    ``takes(array)`` returns whether the rule applies. ``to(array)`` returns the array to store, of
    the same shape or with one more axis. ``back(stored, dtype)`` restores the array.
    """

    takes: Callable[[np.ndarray], bool]
    to: Callable[[np.ndarray], np.ndarray]
    back: Callable[[np.ndarray, np.dtype], np.ndarray]


def _is_plain_text(array: np.ndarray) -> bool:
    if array.dtype.kind != "U":
        return False
    try:
        return b"\0" not in "".join(array.ravel().tolist()).encode()
    except UnicodeEncodeError:  # half of a pair of surrogates
        return False


def _to_text(array: np.ndarray) -> np.ndarray:
    texts = [label_to_text(item) for item in array.ravel().tolist()]
    return _objects(texts).reshape(array.shape)


def _from_text(stored: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return _objects([label_from_text(text) for text in stored.ravel()]).reshape(stored.shape)


def _objects(items: Sequence[Any]) -> np.ndarray:
    array = np.empty(len(items), dtype=object)
    for place, item in enumerate(items):  # one by one: an item may be a sequence
        array[place] = item
    return array


def _to_parts(array: np.ndarray, part: Any) -> np.ndarray:
    """Split each number into its parts, of type `part`, along a new last axis."""
    return np.ascontiguousarray(array).reshape(*array.shape, 1).view(part)


def _whole(stored: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return np.ascontiguousarray(stored).view(dtype)[..., 0]


def _is_number(array: np.ndarray) -> bool:
    return array.dtype.kind in "iuf" and array.dtype.itemsize in (1, 2, 4, 8) and array.dtype != "e"


KINDS = {
    "number": _Kind(_is_number, lambda a: a, lambda a, dtype: a),
    "truth": _Kind(lambda a: a.dtype.kind == "b", lambda a: a.view(np.int8),
                   lambda a, dtype: a.astype(bool)),
    "moment": _Kind(lambda a: a.dtype.kind in "mM" and a.dtype.isnative,
                    lambda a: a.view(np.int64), lambda a, dtype: a.view(dtype)),
    "complex": _Kind(lambda a: a.dtype.kind == "c" and a.dtype.itemsize <= 16,
                     lambda a: _to_parts(a, a.real.dtype), _whole),
    "text": _Kind(_is_plain_text, lambda a: a.astype(object), lambda a, dtype: a.astype(dtype)),
    "objects": _Kind(lambda a: a.dtype.kind == "O", _to_text, _from_text),
    "bytes": _Kind(lambda a: not a.dtype.hasobject, lambda a: _to_parts(a, np.uint8), _whole),
}  # fmt: skip
"""Rules by kind, in the order in which they are tried."""


def encode(name: Any, array: np.ndarray) -> tuple[str, np.ndarray]:
    """Return the kind of an array and the array to store; raise NotStorable, which names `name`."""
    kind = next((kind for kind, rule in KINDS.items() if rule.takes(array)), None)
    if kind is None:
        raise NotStorable(f"{name!r} cannot be saved: it has the type {array.dtype}.")
    try:
        return kind, KINDS[kind].to(array)
    except (TypeError, RecursionError) as error:
        raise NotStorable(f"{name!r} cannot be saved: {error}") from error


def write_group(path: Path, data: xr.Dataset) -> dict[str, Any]:
    """Write a group as a new file, and return its layout.

    Raises
    ------
    NotStorable
        If a variable cannot be stored and restored exactly; the message names it.
    OSError
        If the file cannot be written.
    """
    names = _stored_names([*data.sizes, *data.variables])
    variables = []
    with h5py.File(path, "w") as file:
        for name in sorted(data.variables, key=lambda name: name not in data.sizes):
            variable = data.variables[name]
            array = variable.values
            kind, stored = encode(name, array)
            target = names[name]
            if name in data.sizes and stored.ndim > 1:  # a dimension scale has one axis
                taken = {*names.values(), *file}
                target = next(new for k in count() if (new := f"{target}_{k}") not in taken)
            entry = {
                "name": name,
                "stored": target if array.size else None,
                "kind": kind,
                "dims": list(variable.dims),
                "dtype": array.dtype.str,
                "shape": list(array.shape),
                "is_coordinate": name in data.coords,
            }
            variables.append(entry)
            if array.size:  # netCDF takes a dimension of length 0 as unlimited
                dims = [names[dim] for dim in variable.dims]
                dims += [f"parts_{size}" for size in stored.shape[array.ndim :]]
                _write(file, target, stored, dims).attrs[ENTRY] = json.dumps(entry)
    plain = {k: v for k, v in data.attrs.items() if isinstance(v, str | int | float)}
    return {"attrs": plain, "variables": variables}


def _stored_names(names: Iterable[Any]) -> dict[Any, str]:
    """Return, for each of `names`, a name that every reader accepts: the same if possible."""
    names = list(dict.fromkeys(names))
    stored = {name: name for name in names if _is_plain_name(name)}
    for place, name in enumerate(names):
        new = f"variable_{place}"
        while name not in stored and new in stored.values():
            new += "_"
        stored.setdefault(name, new)
    return stored


def _is_plain_name(name: str) -> bool:
    normal = unicodedata.normalize("NFC", name) == name and name.isidentifier()
    return normal and not name.startswith("_") and len(name) < 100


def _write(file: h5py.File, stored: str, array: np.ndarray, dims: list[str]) -> h5py.Dataset:
    """Write an array by the conventions of netCDF-4, with a named dimension scale for each axis."""
    dtype = TEXT if array.dtype == object else array.dtype
    dataset = file.create_dataset(stored, data=array, dtype=dtype)
    if [stored] == dims:
        dataset.make_scale(stored)
        return dataset
    for axis, (dim, length) in enumerate(zip(dims, array.shape, strict=True)):
        if dim not in file:
            scale = file.create_dataset(dim, shape=(length,), dtype=">f4")  # not filled: no bytes
            scale.make_scale(f"This is a netCDF dimension but not a netCDF variable.{length:10d}")
        dataset.dims[axis].attach_scale(file[dim])
    return dataset
