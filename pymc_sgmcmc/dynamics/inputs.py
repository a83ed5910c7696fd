"""What an update is given beside numbers: the gradient, and fresh normals."""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from pymc_sgmcmc._utils.types import Graph

__all__ = ["Gradient", "Normals"]

Normals: TypeAlias = Callable[[], Graph]
"""A function that returns fresh standard normals, (d,), at each call."""


class Gradient(Protocol):
    """The gradient of U from the rows of one inner step."""

    def __call__(self, q: Graph) -> Graph:
        """Return the gradient at `q`, (d,)."""

    def potential(self) -> Graph:
        """Return U where the last gradient was taken."""

    def keep(self, g: Graph) -> None:
        """Take `g` for the gradient of the step, in place of what was returned."""
