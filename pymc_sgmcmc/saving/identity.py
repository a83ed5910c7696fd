"""Identity of a run: the variables, data and settings that must be the same when it resumes."""

from collections.abc import Iterator, Mapping, Sequence
from inspect import signature
from typing import Any

import numpy as np
import pymc as pm
from pymc import Model

from pymc_sgmcmc.saving.fingerprints import NotIdentified
from pymc_sgmcmc.saving.graph_fingerprints import GraphFingerprints, describe_model, value_of_data

__all__ = ["Identity", "check_identity", "declare"]

ASIDE = ("vars", "model", "rng", "initial_point", "compile_kwargs", "backend", "jitter", "blocked",
         "initvals")  # fmt: skip
"""Arguments of step methods that do not affect a chain after its start."""
NOT_IDENTIFIED = "not identified"
NOW = ("data", "coordinates")
"""Parts that may change after sampling, because the draws belong to their values before."""


class Identity:
    """Identity of a model and its step methods, computed at each request.

    A pickled `Identity` becomes `Taken`, with the identity at that time. Spawned processes get
    their identity this way; their copies of the data do not change later.
    """

    def __init__(self, model: Model, methods: Sequence[Any]):
        self.model, self._methods = model, methods
        self._parts, self._data, self._unknown = describe_model(model)

    def now(self) -> dict[str, Any]:
        """Return the identity of a chain that starts now, as values that JSON can store."""
        prints, unknown = GraphFingerprints(), dict(self._unknown)
        data = {name: value_of_data(variable) for name, variable in self._data.items()}
        methods = [_describe_method(prints, method, unknown) for method in self._methods]
        parts = {
            "PyMC": pm.__version__,
            **self._parts,
            "data": _described(prints, data, unknown),
            "coordinates": self._coordinates(prints, unknown),
            "step methods": methods,
        }
        return parts | {NOT_IDENTIFIED: unknown}

    def _coordinates(self, prints: GraphFingerprints, unknown: dict[str, str]) -> dict[str, Any]:
        """Return descriptions of the labels of the dimensions of each stored variable."""
        model = self.model
        named = {var.name: model.named_vars_to_dims.get(var.name) for var in model.unobserved_RVs}
        labels = {
            name: [[dim, model.coords.get(dim)] for dim in dims]
            for name, dims in named.items()
            if dims
        }
        return _described(prints, labels, unknown)

    def __reduce__(self):
        return Taken, (self.now(),)


class Taken:
    """Identity of a run, recorded at an earlier time."""

    model = None

    def __init__(self, identity: Mapping[str, Any]):
        self._identity = identity

    def now(self) -> Mapping[str, Any]:
        """Return the recorded identity."""
        return self._identity


def declare(identity: Mapping[str, Any], declared: str | None) -> dict[str, Any]:
    """Return `identity` with the user's text `declared` in place of the code of functions.

    Raises
    ------
    ValueError
        If `declared` is None and some function or object cannot be identified.
    TypeError
        If `declared` is not a text.
    """
    unknown = identity[NOT_IDENTIFIED]
    kept = {name: part for name, part in identity.items() if name != NOT_IDENTIFIED}
    if declared is None:
        if unknown:
            (what, why), *_ = unknown.items()
            raise ValueError(
                f"Nothing says whether {what} is the same when the run is resumed: {why}. Pass "
                "identity='...', a text of your own that changes when it does, to save() and "
                "resume()."
            )
        return kept
    if not isinstance(declared, str):
        raise TypeError(f"identity={declared!r} is not a text.")
    methods = [{**method, "code": {}} for method in kept["step methods"]]
    return kept | {"step methods": methods, "identity": declared}


def check_identity(was: Mapping[str, Any], now: Mapping[str, Any], what: str, cure: str,
                   but: Sequence[str] = ()) -> None:  # fmt: skip
    """Raise ValueError, which names the first part that differs, unless the identities are equal.

    The message begins with `what` and ends with `cure`. The parts in `but` may differ.
    """
    for name in (*was, *(name for name in now if name not in was)):
        if name in but or was.get(name) == now.get(name):
            continue
        path, before, after = next(_differences(name, was.get(name), now.get(name)))
        if path == "identity":
            path = "identity=, your own text for functions"
        raise ValueError(
            f"{what} has other {path}: {_shortened(before)}, and here it is {_shortened(after)}. "
            f"{cure}"
        )


def _differences(path: str, was: Any, now: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(was, Mapping) and isinstance(now, Mapping):
        for name in (*was, *(name for name in now if name not in was)):
            if was.get(name) != now.get(name):
                words = path if name in ("settings", "code") else f"{path} {name!r}"
                yield from _differences(words, was.get(name), now.get(name))
    elif isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        for before, after in zip(was, now, strict=True):  # step methods
            if before != after:
                where = f"{path}: {before['sampler']} of {', '.join(before['variables'])},"
                yield from _differences(where, before, after)
    else:
        yield path, was, now


def _describe_method(prints: GraphFingerprints, method: Any, unknown: dict) -> dict[str, Any]:
    (_, *args), kwargs = method.__getnewargs_ex__()
    arguments = [name for name in signature(type(method)).parameters if name != "vars"]
    given = dict(zip(arguments, args, strict=False)) | kwargs
    given = {name: value for name, value in given.items() if name not in ASIDE}
    names, of = [var.name for var in method.vars], type(method).__name__
    settings = {name: value for name, value in given.items() if _is_data(value)}
    code = {name: value for name, value in given.items() if name not in settings}
    code |= {"class": type(method)}
    return {
        "sampler": of,
        "variables": names,
        "settings": _described(prints, settings, unknown),
        "code": _described(prints, code, unknown, f"of {of}({names})"),
    }


def _described(prints: GraphFingerprints, values: Mapping[str, Any], unknown: dict[str, str],
               of: str = "") -> dict[str, str]:  # fmt: skip
    """Return a text for each value, the same for equal values.

    Store in `unknown` why a value cannot be identified.
    """
    texts = {}
    for name, value in values.items():
        try:
            texts[str(name)] = _describe(prints, value)
        except NotIdentified as error:
            texts[str(name)] = NOT_IDENTIFIED
            unknown[" ".join([f"{name!r}", of]).strip()] = str(error)
    return texts


def _describe(prints: GraphFingerprints, value: Any) -> str:
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, bool | int | float | complex | str):
        return repr(value)
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape} {prints.text(value)}"
    if isinstance(value, Mapping) and _is_data(value):
        return str({key: _describe(prints, item) for key, item in sorted(value.items(), key=str)})
    if isinstance(value, list | tuple) and _is_data(value) and len(value) < 20:
        return str([_describe(prints, item) for item in value])
    return f"{type(value).__name__} {prints.text(value)}"


def _is_data(value: Any) -> bool:
    """Return whether `value` consists of numbers, arrays and text only."""
    if isinstance(value, Mapping):
        return all(map(_is_data, value)) and all(map(_is_data, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_data, value))
    if isinstance(value, np.ndarray):
        return not value.dtype.hasobject
    return value is None or isinstance(value, bool | int | float | complex | str | np.generic)


def _shortened(value: Any, length: int = 300) -> str:
    text = str(value)
    return text if len(text) <= length else f"{text[:length]}..."
