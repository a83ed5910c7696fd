"""Inverse temperatures as pure functions of the number of previous inner steps."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from pymc_sgmcmc._utils.alarm import Alarm
from pymc_sgmcmc._utils.arguments import check_fields
from pymc_sgmcmc._utils.constraints import Instance, Optional, Positive, Whole
from pymc_sgmcmc._utils.types import Counts, Vector

__all__ = ["Annealing", "Cooling", "GeometricAnnealing", "PowerAnnealing"]


class Annealing(ABC):
    """An inverse temperature for every inner step, a pure function of the step count.

    Derive a schedule of your own from this class, for the argument ``annealing`` of `Santa`.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_sgmcmc import Annealing
    >>> class Logarithmic(Annealing):
    ...     def __call__(self, steps):
    ...         return 1 + np.log1p(steps)
    >>> Logarithmic()(np.array([0, 100, 10_000])).round(1)
    array([ 1. ,  5.6, 10.2])
    """

    @abstractmethod
    def __call__(self, steps: Counts) -> Vector:
        """Return positive inverse temperatures at the inner step counts `steps`, same shape."""


@final
@dataclass(frozen=True)
class PowerAnnealing(Annealing):
    """Growing inverse temperatures, beta_t = a (b + t)^gamma at inner step t (Chen et al., 2016).

    Parameters
    ----------
    a : float
        Scale, a > 0.
    b : float
        Offset in inner steps, b > 0.
    gamma : float
        Growth, gamma > 0; the paper uses 1/4, 1/2 and 1.

    Raises
    ------
    ValueError, TypeError
        If an argument is out of range.

    References
    ----------
    - Chen, C., Carlson, D., Gan, Z., Li, C. and Carin, L. (2016). Bridging the gap between
      stochastic gradient MCMC and stochastic optimization. AISTATS.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_sgmcmc import PowerAnnealing
    >>> PowerAnnealing(a=0.1, b=1.0, gamma=0.5)(np.array([0, 99]))
    array([0.1, 1. ])
    """

    arguments: ClassVar = {"a": Positive(), "b": Positive(), "gamma": Positive()}

    a: float
    b: float = 1.0
    gamma: float = 0.5

    def __post_init__(self) -> None:
        check_fields(self)

    def __call__(self, steps: Counts) -> Vector:
        return self.a * (self.b + np.asarray(steps, dtype=float)) ** self.gamma


@final
@dataclass(frozen=True)
class GeometricAnnealing(Annealing):
    """Inverse temperatures that grow by a constant factor in each inner step, up to a final value.

    At inner step t, beta_t = beta_0 (beta_n / beta_0)^(t / n) up to t = n, and beta_n afterwards.

    Parameters
    ----------
    initial : float
        The initial value beta_0 > 0.
    final : float
        The final value beta_n > beta_0.
    length : int
        The number n of inner steps from the initial to the final value.

    Raises
    ------
    ValueError, TypeError
        If an argument is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_sgmcmc import GeometricAnnealing
    >>> GeometricAnnealing(initial=0.1, final=10.0, length=2)(np.arange(4))
    array([ 0.1,  1. , 10. , 10. ])
    """

    arguments: ClassVar = {"initial": Positive(), "final": Positive(), "length": Whole()}

    initial: float
    final: float
    length: int

    def __post_init__(self) -> None:
        check_fields(self)
        if self.final <= self.initial:
            raise ValueError(
                f"final={self.final!r} must exceed initial={self.initial!r}: these are inverse "
                "temperatures, which grow as the temperature falls."
            )

    def __call__(self, steps: Counts) -> Vector:
        share = np.minimum(np.asarray(steps, dtype=float) / self.length, 1.0)
        return self.initial * (self.final / self.initial) ** share


@dataclass(frozen=True)
class Cooling:
    """Temperatures of the inner steps of an algorithm that becomes an optimiser.

    Parameters
    ----------
    annealing : Annealing or None
        Schedule of the temperature, T / annealing(t) at inner step t. With None it stays T.
    exploration : int or None
        Number of inner steps before refinement, in which the temperature is 0. None means no
        refinement.
    """

    arguments: ClassVar = {
        "annealing": Optional(
            Instance(Annealing, "a schedule of inverse temperatures: pass PowerAnnealing(...), "
                                "GeometricAnnealing(...), or None to sample")
        ),
        "exploration": Optional(Whole()),
    }  # fmt: skip

    annealing: Annealing | None
    exploration: int | None

    def __post_init__(self) -> None:
        if self.exploration is not None and self.annealing is None:
            raise ValueError(
                f"exploration={self.exploration!r} says when refinement begins, and without "
                "annealing there is none: pass annealing=PowerAnnealing(...), or leave it out."
            )

    def planned(self, steps: Counts, temperature: float) -> dict[str, Vector]:
        """Return the temperatures at absolute counts `steps`, given the initial `temperature` T."""
        temperatures = np.full(len(steps), temperature)
        if self.annealing is not None:
            temperatures = temperatures / self.annealing(steps)
        if self.exploration is not None:
            temperatures = np.where(steps < self.exploration, temperatures, 0.0)
        return {"temperature": temperatures}

    def alarm(self, name: str, draw: int, inner_steps: int, steps: int) -> Alarm | None:
        """Return the alarm of algorithm `name` for the draw in which refinement begins, or None."""
        begins = self.exploration
        if begins is None or not 0 <= begins - inner_steps < steps:
            return None
        text = f"{name}, draw {draw}: refinement begins. What follows is descent to a mode."
        return Alarm("refinement", text, "info")
