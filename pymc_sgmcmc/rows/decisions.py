"""What becomes of each likelihood: it is minibatched, and how, or exact, and why."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pymc_sgmcmc.model.errors import RowsDoNotSeparate

__all__ = ["Decision"]


@dataclass(frozen=True)
class Decision:
    """Whether a likelihood is computed on batches of its rows.

    Attributes
    ----------
    name : str
        The observed variable or Potential.
    rows : int
        How many rows it has: the length of `axis` of its log-likelihood.
    axis : int
        Which axis of its log-likelihood has the rows.
    sliced : mapping of str to int
        The data that are sliced, and the axis of each that has the rows. Empty: it is exact.
    reason, cure : str
        Why it is exact, and what to do for batches of it. Empty if there is nothing to be said: the
        user wants it so, or it has few rows.
    imputed : int
        How many of the rows have a latent variable of their own, as imputed values are: these are
        exact, as few batches would see that variable.
    """

    name: str
    rows: int
    axis: int = 0
    sliced: Mapping[str, int] = field(default_factory=dict)
    reason: str = ""
    cure: str = ""
    imputed: int = 0

    @property
    def exact(self) -> bool:
        """Whether all rows are evaluated at every inner step."""
        return not self.sliced

    def __str__(self) -> str:
        if not self.exact:
            data = ", ".join(f"{name} (axis {axis})" for name, axis in self.sliced.items())
            but = (
                f" {self.imputed} of them, with imputed values, are exact." if self.imputed else ""
            )
            return f"{self.name}: minibatches of {self.rows} rows of {data}.{but}"
        if not self.reason:
            return f"{self.name}: exact."
        return f"{self.name}: exact, because {self.reason}. {self.cure}"

    def error(self) -> RowsDoNotSeparate:
        """What is raised where the user wants minibatches of it."""
        return RowsDoNotSeparate(
            f"The rows of {self.name!r} do not separate: its log-likelihood cannot be computed on "
            f"a part of its {self.rows} rows, because {self.reason}. {self.cure}"
        )

    def warning(self) -> str:
        """What is said where exact gradients take the place of minibatches."""
        return (
            f"Exact gradients of {self.name}, because {self.reason}. All {self.rows} rows are read "
            f"at every inner step; where that is slow, sample with NUTS. {self.cure}"
        )
