"""Constraints on arguments, as small values with a description, a check, and bad values for tests.

Each public class and function declares a constraint for each of its arguments: see
`pymc_sgmcmc._utils.arguments`.
"""

from pymc_sgmcmc._utils.constraints.base import (
    Constraint,
    Function,
    Instance,
    MappingOf,
    NotTaken,
    Ruled,
)
from pymc_sgmcmc._utils.constraints.choices import Choice, Either, Flag, Names, Optional, Word
from pymc_sgmcmc._utils.constraints.numbers import Numbers, Positive, Whole, Zero

__all__ = [
    "Choice", "Constraint", "Either", "Flag", "Function", "Instance", "MappingOf", "Names",
    "NotTaken", "Numbers", "Optional", "Positive", "Ruled", "Whole", "Word", "Zero",
]  # fmt: skip
