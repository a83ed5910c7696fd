"""Digests of Python values: equal, in any process, for values that compute the same.

Data are identified by their bytes. A function is identified by its bytecode, its constants, its
defaults, the values in its closure, and the globals that it reads, recursively. Objects that a
library defines are identified by their name. Generators of random numbers are identified by their
kind, because their state changes with every draw.
"""

import builtins
import dis
import functools
import hashlib
import random
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from pymc_sgmcmc.saving.libraries import is_library, name_and_version, version_of

__all__ = ["Fingerprints", "NotIdentified"]

GENERATORS = (np.random.Generator, np.random.BitGenerator, np.random.RandomState, random.Random)
PLAIN = (int, float, complex, bool, str, bytes, type(None), type(...), range)
DESCRIPTORS = (types.MethodDescriptorType, types.WrapperDescriptorType,
               types.ClassMethodDescriptorType, types.GetSetDescriptorType,
               types.MemberDescriptorType)  # fmt: skip
READS = ("LOAD_GLOBAL", "LOAD_NAME")


class NotIdentified(ValueError):
    """Error for a value with state that cannot be read, so that equality cannot be decided."""


class Fingerprints:
    """Digests of values. Each value is visited once.

    A subclass may support further kinds of values with `special`.
    """

    def __init__(self):
        self._done: dict[int, tuple[Any, bytes]] = {}  # with the value, so that no id is reused
        self._open: dict[int, int] = {}

    def text(self, value: Any) -> str:
        """Return the digest of `value`, 32 hexadecimal digits, or raise NotIdentified."""
        try:
            return self.digest(value).hex()[:32]
        except RecursionError:
            raise NotIdentified(f"a {type(value).__name__} is nested too deeply") from None

    def digest(self, value: Any) -> bytes:
        """Return the digest of `value`, 32 bytes."""
        key = id(value)
        if key in self._done:
            return self._done[key][1]
        if key in self._open:  # it contains itself
            return self._hash("cycle", len(self._open) - self._open[key])
        self._open[key] = len(self._open)
        try:
            digest = self._hash(*self._parts(value))
        finally:
            del self._open[key]
        self._done[key] = value, digest
        return digest

    def special(self, value: Any) -> tuple | None:
        """Return the parts that identify a value that only a subclass supports, or None."""

    def _hash(self, kind: str, *parts: Any) -> bytes:
        total = hashlib.sha256(kind.encode())
        for part in parts:
            is_data = isinstance(part, bytes | memoryview)
            data = part if is_data else str(part).encode("utf-8", "surrogatepass")
            total.update(f":{len(data)}:".encode())
            total.update(data)
        return total.digest()

    def _each(self, values: Any) -> Iterator[bytes]:
        return map(self.digest, values)

    def _parts(self, value: Any) -> tuple:
        """Return the kind of `value` and the parts that distinguish it from others of that kind."""
        cls = type(value)
        if cls in PLAIN:
            return "plain", cls.__name__, repr(value)
        if (parts := self.special(value)) is not None:
            return parts
        if cls in (np.ndarray, np.memmap) or isinstance(value, np.generic):
            return self._array(np.asarray(value))
        if cls in (tuple, list):
            kinds = set(map(type, value))
            if len(kinds) == 1 and kinds.issubset(PLAIN):  # quicker than one by one
                return "plain", cls.__name__, repr(value)
            return cls.__name__, *self._each(value)
        if cls in (set, frozenset):
            return "set", *sorted(self._each(value))
        if cls in (dict, types.MappingProxyType):
            return "dict", *self._items(value)
        if isinstance(value, GENERATORS):
            return "random numbers", cls.__name__
        if isinstance(value, types.ModuleType):
            return "module", value.__name__, version_of(value.__name__)
        if isinstance(value, types.CodeType):
            return self._code(value)
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, types.MethodType):
            return "method", *self._each((value.__func__, value.__self__))
        if isinstance(value, types.BuiltinFunctionType | types.MethodWrapperType):
            return self._builtin(value)
        if isinstance(value, DESCRIPTORS):
            return "descriptor", self.digest(value.__objclass__), value.__name__
        if isinstance(value, np.ufunc):
            return self._named(value, np)
        if isinstance(value, property):
            return "property", *self._each((value.fget, value.fset, value.fdel))
        if isinstance(value, staticmethod | classmethod):
            return cls.__name__, self.digest(value.__func__)
        if isinstance(value, functools._lru_cache_wrapper):
            return "cached", self.digest(value.__wrapped__)
        if isinstance(value, type):
            return self._class(value)
        if callable(inner := getattr(value, "py_func", None)):  # compiled by Numba
            return "compiled", self.digest(inner)
        return self._object(value)

    def _array(self, array: np.ndarray) -> tuple:
        about = array.dtype.str, str(array.dtype.descr), array.shape
        if array.dtype.hasobject:
            return "objects", *about, *self._each(array.ravel().tolist())
        flat = np.ascontiguousarray(array).reshape(-1)
        return "array", *about, memoryview(flat.view(np.uint8)) if flat.nbytes else b""

    def _items(self, mapping: Mapping) -> list[bytes]:
        pairs = ((self.digest(key), self.digest(item)) for key, item in mapping.items())
        return sorted(key + item for key, item in pairs)

    def _code(self, code: types.CodeType) -> tuple:
        # File names and line numbers are left out: a function may move.
        return ("code", code.co_code, code.co_exceptiontable, *self._each(code.co_consts),
                code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars,
                code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount,
                code.co_flags)  # fmt: skip

    def _function(self, function: types.FunctionType) -> tuple:
        cells = [_content(cell) for cell in function.__closure__ or ()]
        around = function.__defaults__, function.__kwdefaults__ or {}, cells
        attributes = {k: v for k, v in vars(function).items() if not k.startswith("__")}
        if is_library(function.__module__):
            return "named function", *name_and_version(function), *self._each(around)
        code = function.__code__
        return ("function", *self._each((code, *around, attributes)),
                *self._globals(function))  # fmt: skip

    def _globals(self, function: types.FunctionType) -> Iterator[Any]:
        """Yield the names and digests of the globals that the code reads.

        Include the attributes of a user's modules that the code may read.
        """
        codes = list(_nested(function.__code__))
        names = {str(i.argval) for c in codes for i in dis.get_instructions(c) if i.opname in READS}
        attributes = sorted({name for c in codes for name in c.co_names})
        for cell in function.__closure__ or ():
            yield from self._reached(_content(cell), attributes, ())
        for name in sorted(names):
            if name in function.__globals__:
                yield name
                yield self.digest(function.__globals__[name])
                yield from self._reached(function.__globals__[name], attributes, ())
            elif not hasattr(builtins, name):
                yield f"{name} is missing"

    def _reached(self, value: Any, attributes: list[str], within: tuple) -> Iterator[Any]:
        """Yield the names and digests of `attributes` of `value`, if that is a user's module."""
        if not isinstance(value, types.ModuleType) or is_library(value.__name__) or value in within:
            return
        for name in attributes:
            if hasattr(value, name):
                yield name
                yield self.digest(getattr(value, name))
                yield from self._reached(getattr(value, name), attributes, (*within, value))

    def _builtin(self, value: Any) -> tuple:
        owner = value.__self__
        if owner is None or isinstance(owner, types.ModuleType):
            return "builtin", *name_and_version(value)
        return "builtin method", value.__name__, self.digest(owner)

    def _named(self, value: Any, *modules: types.ModuleType) -> tuple:
        name = value.__name__
        loaded = [*modules, sys.modules.get("scipy.special")]
        if any(getattr(module, name, None) is value for module in loaded):
            return "named", type(value).__name__, name
        raise NotIdentified(f"{value!r} has no code that can be read")

    def _class(self, cls: type) -> tuple:
        if is_library(cls.__module__):
            return "named class", *name_and_version(cls)
        kept = {
            name: value
            for name, value in vars(cls).items()
            if not isinstance(value, types.GetSetDescriptorType | types.MemberDescriptorType)
            and not name.startswith("_abc_")
            and (not name.startswith("__") or isinstance(value, types.FunctionType))
        }
        return "class", cls.__name__, *self._each(cls.__bases__), *self._items(kept)

    def _object(self, value: Any) -> tuple:
        """Return the class and the state of `value` as `pickle` reads them, without pickling."""
        try:
            reduced = value.__reduce_ex__(4)
        except Exception as error:
            raise NotIdentified(f"a {type(value).__name__} cannot be read ({error})") from error
        if isinstance(reduced, str):
            if is_library(getattr(value, "__module__", None) or type(value).__module__):
                return "global", type(value).__module__, reduced
            raise NotIdentified(f"{value!r} is known by its name only")
        make, arguments, state, entries, items = (*reduced, None, None, None)[:5]
        return ("object", *self._each((type(value), make, arguments, state)),
                *self._each(entries or ()),
                *self._items(dict(items or ())))  # fmt: skip


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _nested(constant)


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return "an empty cell"
