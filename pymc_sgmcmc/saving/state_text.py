"""State of a step method as text, which is read back without running any code.

A state is a tree of dataclasses and named tuples around arrays, numbers and strings. The text
holds the leaves and the names of the fields; the classes come from a state of the same step method.
Floats and arrays keep every bit.
"""

import json
from base64 import b64decode, b64encode
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from pymc_sgmcmc._utils.alarm import Alarm

__all__ = ["leaf_in_text", "state_from_text", "state_to_text"]


def state_to_text(state: Any) -> str:
    """Return JSON of `state`; raise TypeError for a leaf that is not data."""
    return json.dumps(_encode(state), separators=(",", ":"))


def state_from_text(text: str, like: Any) -> Any:
    """Return the state in `text` with the classes of `like`; raise ValueError if they differ."""
    try:
        return _decode(json.loads(text), like)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the saved state does not fit this step method: {error!r}") from error


def leaf_in_text(text: str, name: str) -> Any:
    """Return the number or string `name` of a dictionary in `text`, without decoding the rest."""
    return dict(json.loads(text)["dict"])[name]


def _fields(state: Any) -> list[str] | None:
    """Return the fields of a dataclass or named tuple that may change while sampling, or None."""
    if is_dataclass(state):
        return [field.name for field in fields(state) if not field.metadata.get("frozen")]
    return list(state._fields) if isinstance(state, tuple) and hasattr(state, "_fields") else None


def _encode(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str) or type(value) is float:
        return value
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biuf":
        kind = "array" if isinstance(value, np.ndarray) else "scalar"
        data = b64encode(np.ascontiguousarray(value).tobytes()).decode("ascii")
        return {kind: [value.dtype.str, list(value.shape), data]}
    if isinstance(value, Alarm):
        return {"alarm": [value.kind, value.text, value.level]}
    if (names := _fields(value)) is not None:
        return {"record": {name: _encode(getattr(value, name)) for name in names}}
    if isinstance(value, dict):
        return {"dict": [[_encode(key), _encode(item)] for key, item in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": [_encode(item) for item in value]}
    if isinstance(value, list):
        return [_encode(item) for item in value]
    raise TypeError(f"a state that holds a {type(value).__name__} cannot be saved: {value!r}")


def _decode(data: Any, like: Any) -> Any:
    if isinstance(data, list):
        return [_decode(item, _nth(like, i)) for i, item in enumerate(data)]
    if not isinstance(data, dict):
        return data
    ((kind, content),) = data.items()
    if kind in ("array", "scalar"):
        dtype, shape, text = content
        if np.dtype(dtype).kind not in "biuf":
            raise ValueError(f"the saved state holds an array of type {dtype!r}")
        array = np.frombuffer(b64decode(text), dtype=dtype).reshape(shape)
        return array.copy() if kind == "array" else array[()]
    if kind == "alarm":  # a queue that is empty in `like` has no class for it
        return Alarm(*content)
    if kind == "record":
        names = _fields(like)
        if names is None or set(names) != set(content):
            raise ValueError(
                f"the saved state has fields {sorted(content)}, and {type(like).__name__} has "
                f"{names}"
            )
        changed = {name: _decode(content[name], getattr(like, name)) for name in names}
        if is_dataclass(like) and not isinstance(like, type):
            frozen = {f.name: getattr(like, f.name) for f in fields(like) if f.name not in changed}
            return type(like)(**frozen, **changed)
        return type(like)(**changed)
    if kind == "dict":
        return {_decode(key, None): _decode(item, _value(like, key)) for key, item in content}
    if kind == "tuple":
        return tuple(_decode(item, _nth(like, i)) for i, item in enumerate(content))
    raise ValueError(f"the saved state holds a {kind!r}, which this version does not know")


def _nth(like: Any, i: int) -> Any:
    return like[i] if isinstance(like, list | tuple) and i < len(like) else None


def _value(like: Any, key: Any) -> Any:
    return like.get(key) if isinstance(like, dict) and isinstance(key, str | int) else None
