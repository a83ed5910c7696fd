"""Inverse temperatures as pure functions of the number of inner steps made so far."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from pymc_sgmcmc._utils.arguments import check_fields
from pymc_sgmcmc._utils.constraints import Instance, Optional, Positive, Whole
from pymc_sgmcmc.dynamics.algorithm import Message

__all__ = ["Annealing", "Cooling", "GeometricAnnealing", "PowerAnnealing"]


class Annealing(ABC):
    """An inverse temperature for every inner step, a pure function of the step count.

    Derive from it for one of your own, for the argument ``annealing`` of `Santa`.

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
    def __call__(self, steps: np.ndarray) -> np.ndarray:
        """Inverse temperatures at the absolute inner step counts `steps`, same shape, positive."""


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
        Growth, gamma > 0; the paper's are 1/4, 1/2 and 1.

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

    def __post_init__(self):
        check_fields(self)

    def __call__(self, steps: np.ndarray) -> np.ndarray:
        return self.a * (self.b + np.asarray(steps, dtype=float)) ** self.gamma


@final
@dataclass(frozen=True)
class GeometricAnnealing(Annealing):
    """Inverse temperatures that grow by one factor each inner step, and then stay.

    At inner step t, beta_t = beta_0 (beta_n / beta_0)^(t / n) up to t = n, and beta_n afterwards.

    Parameters
    ----------
    initial : float
        beta_0 > 0.
    final : float
        beta_n > beta_0.
    length : int
        n, the inner steps from the first to the last.

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

    def __post_init__(self):
        check_fields(self)
        if self.final <= self.initial:
            raise ValueError(
                f"final={self.final!r} must exceed initial={self.initial!r}: these are inverse "
                "temperatures, which grow as the temperature falls."
            )

    def __call__(self, steps: np.ndarray) -> np.ndarray:
        share = np.minimum(np.asarray(steps, dtype=float) / self.length, 1.0)
        return self.initial * (self.final / self.initial) ** share


@dataclass(frozen=True)
class Cooling:
    """The temperature of each inner step, of an algorithm that becomes an optimiser as it falls.

    Parameters
    ----------
    annealing : Annealing or None
        At the inner step t the temperature is T / annealing(t). None: it stays T.
    exploration : int or None
        Inner steps before refinement, where the temperature is 0; None: there is none.
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

    def __post_init__(self):
        if self.exploration is not None and self.annealing is None:
            raise ValueError(
                f"exploration={self.exploration!r} says when refinement begins, and without "
                "annealing there is none: pass annealing=PowerAnnealing(...), or leave it out."
            )

    def planned(self, steps: np.ndarray, temperature: float) -> dict[str, np.ndarray]:
        """Return the temperature at absolute counts `steps`, where it is at first `temperature`."""
        temperatures = np.full(len(steps), temperature)
        if self.annealing is not None:
            temperatures = temperatures / self.annealing(steps)
        if self.exploration is not None:
            temperatures = np.where(steps < self.exploration, temperatures, 0.0)
        return {"temperature": temperatures}

    def message(self, name: str, draw: int, inner_steps: int, steps: int) -> Message | None:
        """Return what to say of an algorithm called `name` in the draw where refinement begins."""
        begins = self.exploration
        if begins is None or not 0 <= begins - inner_steps < steps:
            return None
        text = f"{name}, draw {draw}: refinement begins. What follows is descent to a mode."
        return Message(text, "info")
