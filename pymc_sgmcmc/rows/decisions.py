"""Decisions on likelihoods: minibatched, and how, or exact, and why."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pymc_sgmcmc._utils.text import first_of
from pymc_sgmcmc.model.errors import RowsDoNotSeparate

__all__ = ["Decision", "exact_warnings"]


@dataclass(frozen=True)
class Decision:
    """Decision whether a likelihood is computed on batches of its rows.

    Attributes
    ----------
    name : str
        The observed variable or Potential.
    rows : int
        Number of rows: the length of `axis` of the log-likelihood.
    axis : int
        Axis of the log-likelihood that has the rows.
    sliced : mapping of str to int
        Names of the data that are sliced, with the axis of rows of each. Empty if the likelihood
        is exact.
    reason, cure : str
        Why the likelihood is exact, and advice to the user. Empty if no explanation is due: the
        user wants exact gradients, or there are few rows.
    imputed : int
        Number of rows that have a latent variable of their own, such as an imputed value. These
        rows are exact, as few batches would include a given latent variable.
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
        """Return the error for a likelihood of which the user requires minibatches."""
        return RowsDoNotSeparate(
            f"The rows of {self.name!r} do not separate: its log-likelihood cannot be computed on "
            f"a part of its {self.rows} rows, because {self.reason}. {self.cure}"
        )


def exact_warnings(decisions: Iterable[Decision]) -> list[str]:
    """Return the warnings that exact gradients take the place of minibatches, one a reason."""
    alike: dict[tuple[str, str], list[Decision]] = {}
    for decision in decisions:
        if decision.exact and decision.reason:
            alike.setdefault((decision.reason, decision.cure), []).append(decision)
    return [
        f"Exact gradients of {first_of([one.name for one in of])}, because {reason}. All "
        f"{sum(one.rows for one in of)} rows are read at every inner step; where that is slow, "
        f"sample with NUTS. {cure}"
        for (reason, cure), of in alike.items()
    ]
