"""Groups of draws in files, whose arrays are read when they are used."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import h5py
import numpy as np
import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing

from pymc_sgmcmc.saving.stored_files import StoredFile
from pymc_sgmcmc.saving.stored_groups import ENTRY, KINDS, TEXT

__all__ = ["check_layout", "join_groups"]

FIELDS: dict[str, Any] = {
    "name": str, "stored": (str, type(None)), "kind": str, "dims": list, "dtype": str,
    "shape": list, "is_coordinate": bool,
}  # fmt: skip

LONGEST = 2**48
"""Upper bound on the length of an axis; longer ones do not fit a machine."""


def check_layout(layout: Any) -> None:
    """Raise ValueError, KeyError or TypeError unless `layout` is what `write_group` returns."""
    if set(layout) != {"attrs", "variables"} or not isinstance(layout["attrs"], dict):
        raise ValueError("no layout of a group")
    for entry in layout["variables"]:
        wrong = [name for name, cls in FIELDS.items() if not isinstance(entry[name], cls)]
        dtype, shape = np.dtype(entry["dtype"]), entry["shape"]
        counts = all(type(length) is int and 0 <= length < LONGEST for length in shape)
        if (
            wrong
            or entry["kind"] not in KINDS
            or (dtype.hasobject and entry["kind"] != "objects")
            or not counts
            or (entry["stored"] is None and 0 not in shape)
            or len(shape) != len(entry["dims"])
            or not all(isinstance(dim, str) for dim in entry["dims"])
        ):
            raise ValueError(f"no layout of a variable: {entry}")


def join_groups(parts: Sequence[tuple[StoredFile, Mapping[str, Any]]]) -> xr.Dataset:
    """Return one group whose draws are those of its parts (files and layouts), concatenated.

    Variables without draws are those of the first part.

    Raises
    ------
    DamagedRun
        If a part has other variables than the first; or, when an array is read, if its file has
        changed.
    """
    tables = [{entry["name"]: entry for entry in layout["variables"]} for _, layout in parts]
    variables, coordinates = {}, []
    for name, first in tables[0].items():
        pieces = []
        for (file, _), table in zip(parts, tables, strict=True):
            entry = table.get(name)
            if entry is None or len(table) != len(tables[0]) or not _fits(first, entry):
                raise file.damaged(f"has other variables than the first segment: {name!r}")
            pieces.append(_Piece(file, entry))
        array = _Joined(pieces if "draw" in first["dims"] else pieces[:1])
        read_late: Any = indexing.LazilyIndexedArray(array)
        lazy = indexing.MemoryCachedArray(indexing.CopyOnWriteArray(read_late))
        variables[name] = xr.Variable(first["dims"], lazy)
        coordinates += [name] if first["is_coordinate"] else []
    data = xr.Dataset(variables, attrs=parts[0][1]["attrs"])
    return data.set_coords(coordinates)


def _fits(first: Mapping[str, Any], entry: Mapping[str, Any]) -> bool:
    """Return whether two entries can be parts of one array."""
    lengths = [
        [length for dim, length in zip(e["dims"], e["shape"], strict=True) if dim != "draw"]
        for e in (first, entry)
    ]
    kinds = [np.dtype(e["dtype"]).kind for e in (first, entry)]
    return first["dims"] == entry["dims"] and lengths[0] == lengths[1] and kinds[0] == kinds[1]


class _Piece:
    """An array in a file."""

    def __init__(self, file: StoredFile, entry: Mapping[str, Any]):
        self.file, self.entry = file, entry
        self.dtype, self.shape = np.dtype(entry["dtype"]), tuple(entry["shape"])

    def read(self, key: tuple[int | slice, ...]) -> np.ndarray:
        """Return the part `key` of the array, given integers and slices with positive steps."""
        if 0 in self.shape:
            return np.empty(self.shape, self.dtype)[key]
        path, rule = self.file.check(), KINDS[self.entry["kind"]]
        try:
            with h5py.File(path, "r") as file:
                stored = file[self.entry["stored"]]
                if json.loads(stored.attrs[ENTRY]) != self.entry:
                    raise ValueError(f"it is {stored.attrs[ENTRY]}")
                given = stored.asstr() if stored.dtype == TEXT else stored
                part = rule.back(np.asarray(given[key]), self.dtype)
        except (OSError, KeyError, ValueError, TypeError, AttributeError, RuntimeError) as error:
            raise self.file.damaged(f"does not hold {self.entry['name']!r} ({error!r})") from error
        if part.dtype != self.dtype:
            raise self.file.damaged(f"holds {self.entry['name']!r} as {part.dtype}")
        return part


class _Joined(BackendArray):
    """Pieces of an array, concatenated along the draws."""

    def __init__(self, pieces: Sequence[_Piece]):
        first = pieces[0]
        dims = first.entry["dims"]
        self._pieces, self._axis = pieces, dims.index("draw") if "draw" in dims else None
        self.dtype = np.result_type(*(piece.dtype for piece in pieces))
        self.shape = first.shape
        if self._axis is not None:
            draws = sum(piece.shape[self._axis] for piece in pieces)
            self.shape = (*self.shape[: self._axis], draws, *self.shape[self._axis + 1 :])

    def __getitem__(self, key: indexing.ExplicitIndexer) -> np.ndarray:
        basic = indexing.IndexingSupport.BASIC
        return indexing.explicit_indexing_adapter(key, self.shape, basic, self._read)

    def _read(self, key: tuple[int | slice, ...]) -> np.ndarray:
        forward, flips = [], []
        for index, length in zip(key, self.shape, strict=True):
            if isinstance(index, slice):
                taken = range(length)[index]
                flips.append(slice(None, None, -1 if taken.step < 0 else 1))
                taken = taken[::-1] if taken.step < 0 else taken
                index = slice(taken.start, taken.stop, taken.step) if taken else slice(0, 0)
            forward.append(index)
        return self._forward(tuple(forward))[tuple(flips)].astype(self.dtype, copy=False)

    def _forward(self, key: tuple[int | slice, ...]) -> np.ndarray:
        axis = self._axis
        if axis is None:
            return self._pieces[0].read(key)
        wanted, parts, start = key[axis], [], 0
        for piece in self._pieces:
            stop = start + piece.shape[axis]
            if isinstance(wanted, slice):
                taken = range(*wanted.indices(self.shape[axis]))
                skipped = max(-(-(start - taken.start) // taken.step), 0)
                here = taken[skipped:]
                here = here[: max(-(-(stop - here.start) // here.step), 0)] if here else here
                if here:
                    local = slice(here[0] - start, here[-1] - start + 1, here.step)
                    parts.append(piece.read((*key[:axis], local, *key[axis + 1 :])))
            elif start <= wanted < stop:
                return piece.read((*key[:axis], wanted - start, *key[axis + 1 :]))
            start = stop
        if not parts:
            none = (*key[:axis], slice(0, 0), *key[axis + 1 :])
            return self._pieces[0].read(none)
        where = sum(isinstance(index, slice) for index in key[:axis])
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=where)
