"""What a run is of: variables, data and settings that must not change when it is resumed."""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
from pymc import Model
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import graph_inputs
from pytensor.printing import debugprint

from pymc_sgmcmc.resumable import Resumable
from pymc_sgmcmc.row_axes import value_of

__all__ = ["check_identity", "identity_of"]

ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def identity_of(step: Resumable, model: Model) -> dict[str, Any]:
    """What must not change between the parts of a run, as JSON."""
    log_density = model.logp(sum=False)
    leaves = [v for v in graph_inputs(log_density) if isinstance(v, SharedVariable | Constant)]
    arrays = [a for a in map(value_of, leaves) if isinstance(a, np.ndarray)]
    graph = debugprint(log_density, print_type=True, file="str")
    return {
        "PyMC": pm.__version__,
        "variables": {v.name: str(v.type) for v in model.value_vars},
        "data and constants": sorted({_describe(a) for a in arrays if a.dtype.kind in "biuf"}),
        "log-density": hashlib.sha256(ADDRESS.sub("", graph).encode()).hexdigest(),
        "step methods": [
            [type(method).__name__, [v.name for v in method.vars], _settings(method)]
            for method in step.methods
        ],
    }


def _settings(method: Any) -> dict[str, Any]:
    (_, *args), kwargs = method.__getnewargs_ex__()
    aside = ("model", "rng", "initial_point", "compile_kwargs", "backend", "jitter")
    positional = {str(position): value for position, value in enumerate(args)}
    named = {name: value for name, value in kwargs.items() if name not in aside}
    return {name: _describe(value) for name, value in (positional | named).items()}


def _describe(value: Any) -> str:
    """A text that is the same for equal numbers, arrays, dataclasses and mappings of them."""
    if isinstance(value, np.ndarray):
        digest = hashlib.sha256(np.ascontiguousarray(value)).hexdigest()
        return f"{value.dtype}{value.shape} {digest}"
    if isinstance(value, Mapping):
        return str({key: _describe(item) for key, item in value.items()})
    if isinstance(value, list | tuple):
        return str([_describe(item) for item in value])
    text = repr(value)
    return type(value).__qualname__ if ADDRESS.search(text) else text


def check_identity(saved: Mapping[str, Any], now: Mapping[str, Any], folder: Path) -> None:
    """Raise ValueError if the run in `folder` was started with another identity."""
    for name, value in _plain(now).items():
        before = saved.get(name)
        if before != value:
            raise ValueError(
                f"The run in {str(folder)!r} has other {name}: {_shortened(before)}, and here they "
                f"are {_shortened(value)}. Resume it with what it was started with, or start a new "
                "one."
            )


def _plain(value: Any) -> Any:
    """As JSON gives it back."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _shortened(value: Any, length: int = 300) -> str:
    text = str(value)
    return text if len(text) <= length else f"{text[:length]}..."
