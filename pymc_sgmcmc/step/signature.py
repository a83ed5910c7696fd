"""Arguments of a sampler: its own, the fields of its algorithm, and the shared ones."""

import inspect
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any

from pymc_sgmcmc.step.arguments import SHARED, Arguments

if TYPE_CHECKING:
    from pymc_sgmcmc.step.step_method import SGMCMC

__all__ = ["signature_of", "split_arguments"]


def split_arguments(
    cls: type["SGMCMC"], given: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a sampler's own arguments and the shared ones; raise TypeError if one is missing."""
    parameters = inspect.signature(cls).parameters.values()
    required = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    missing = [name for name in required if name not in given]
    if missing:
        words = ", ".join(map(repr, missing))
        raise TypeError(f"{cls.__name__}() is missing the argument {words}.")
    own = {name: value for name, value in given.items() if name not in SHARED}
    return own, {name: value for name, value in given.items() if name in SHARED}


def signature_of(cls: type["SGMCMC"]) -> inspect.Signature:
    """Return what `help` and editors say that a sampler takes."""
    Parameter, keyword = inspect.Parameter, inspect.Parameter.KEYWORD_ONLY
    parameters = [Parameter("vars", Parameter.POSITIONAL_OR_KEYWORD, default=None)]
    parameters += [Parameter(name, keyword) for name in cls.required]
    if cls.algorithm_class is None:
        parameters.append(Parameter("algorithm", keyword, default=None))
    for one in fields(cls.algorithm_class or Arguments):
        if "constraint" in one.metadata:
            default = Parameter.empty if one.default is MISSING else one.default
            parameters.append(Parameter(one.name, keyword, default=default))
    if cls.algorithm_class is not None:
        parameters.append(Parameter("kwargs", Parameter.VAR_KEYWORD))
    return inspect.Signature(parameters)
