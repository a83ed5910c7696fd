"""Fields of algorithms: a default, and what a user may give instead."""

from dataclasses import MISSING, field, fields
from typing import Any

from pymc_sgmcmc._utils.constraints import Constraint

__all__ = ["constraints_of", "hyperparameter"]


def hyperparameter(constraint: Constraint, *, default: Any = MISSING) -> Any:
    """Return a field of a dataclass that a user gives as the argument of the same name."""
    return field(default=default, metadata={"constraint": constraint})


def constraints_of(algorithm: type) -> dict[str, Constraint]:
    """Return what each hyper-parameter of a class of algorithms may be, by name."""
    return {
        one.name: one.metadata["constraint"]
        for one in fields(algorithm)
        if "constraint" in one.metadata
    }
