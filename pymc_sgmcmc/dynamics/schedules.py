"""Step sizes as pure functions of the number of previous inner steps."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from pymc_sgmcmc._utils.arguments import check_fields
from pymc_sgmcmc._utils.constraints import Either, Positive, Ruled, Whole, Zero
from pymc_sgmcmc._utils.types import Array, Counts, Vector
from pymc_sgmcmc._utils.validation import positive

__all__ = [
    "Constant",
    "CyclicalCosine",
    "Polynomial",
    "Schedule",
    "as_schedule",
    "repeated",
]


@lru_cache(maxsize=16)
def repeated(step_size: float, shape: tuple[int, ...]) -> Array:
    """Return a cached array of that shape filled with `step_size`, which must not be changed.

    The array is not marked as read-only, because Numba would compile again for that type.
    """
    return np.full(shape, step_size)


class Schedule(ABC):
    """A step size for every inner step, a pure function of the step count.

    Derive a schedule of your own from this class, for the argument ``step_size`` of a step method.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_sgmcmc import Schedule
    >>> class Halving(Schedule):
    ...     def __call__(self, steps):
    ...         return 0.1 * 0.5 ** (steps // 1000)
    >>> Halving()(np.array([0, 999, 1000]))
    array([0.1 , 0.1 , 0.05])
    """

    @abstractmethod
    def __call__(self, steps: Counts) -> Vector:
        """Return step sizes at the absolute inner step counts `steps` (0, 1, ...), same shape."""

    def explores(self, steps: Counts) -> NDArray[np.bool_] | None:
        """Return which `steps` are those of an optimiser, without noise; None if never any."""
        return None


@final
@dataclass(frozen=True)
class Constant(Schedule):
    """The same step size h at every step.

    Parameters
    ----------
    step_size : float
        h > 0, the time step of the diffusion.

    Raises
    ------
    ValueError, TypeError
        If `step_size` is not a positive number.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_sgmcmc import Constant
    >>> Constant(0.1)(np.arange(3))
    array([0.1, 0.1, 0.1])
    """

    arguments: ClassVar = {"step_size": Positive()}

    step_size: float

    def __post_init__(self) -> None:
        check_fields(self)

    def __call__(self, steps: Counts) -> Vector:
        return repeated(float(self.step_size), steps.shape)


@final
@dataclass(frozen=True)
class Polynomial(Schedule):
    """Decreasing steps, h_t = a (b + t)^-gamma at inner step t (Welling and Teh, 2011).

    For 0 < gamma <= 1 the bias and the error of `weighted_mean` vanish in a long chain (Chen, Ding
    and Carin, 2015, theorem 5): the step sizes sum to infinity, and the sums of their squares and
    higher powers grow more slowly. With an integrator of order K (1 for Euler, 2 for a splitting)
    the bias falls fastest with gamma = 1 / (K + 1), and the mean square error with 1 / (2 K + 1).
    Welling and Teh also require a finite sum of squares, gamma > 0.5.

    Parameters
    ----------
    a : float
        Scale, a > 0: the step size at b + t = 1.
    b : float
        Offset in inner steps, b > 0.
    gamma : float
        Decay, 0 < gamma <= 1.

    Raises
    ------
    ValueError, TypeError
        If an argument is out of range.

    References
    ----------
    - Welling, M. and Teh, Y. W. (2011). Bayesian learning via stochastic gradient Langevin
      dynamics. ICML.
    - Chen, C., Ding, N. and Carin, L. (2015). On the convergence of stochastic gradient MCMC
      algorithms with high-order integrators. NIPS.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_sgmcmc import Polynomial
    >>> Polynomial(a=1.0, b=1.0, gamma=0.5)(np.array([0, 3]))
    array([1. , 0.5])
    """

    arguments: ClassVar = {"a": Positive(), "b": Positive(), "gamma": Positive()}

    a: float
    b: float = 1.0
    gamma: float = 0.55

    def __post_init__(self) -> None:
        check_fields(self)
        if self.gamma > 1:
            raise ValueError(
                f"gamma={self.gamma!r} must be at most 1: with a faster decay the step sizes "
                "have a finite sum and the chain stops before it reaches the posterior."
            )

    def __call__(self, steps: Counts) -> Vector:
        return self.a * (self.b + np.asarray(steps, dtype=float)) ** -self.gamma


@final
@dataclass(frozen=True)
class CyclicalCosine(Schedule):
    """Cycles of long and short steps (Zhang et al., 2020, equation 1).

    At inner step t, h_t = (h_0 / 2) (cos(pi (t mod M) / M) + 1).

    Each cycle begins with steps that are long enough to leave a mode, and ends with short steps,
    which have little bias. With `exploration` each cycle begins as an optimiser, without noise (not
    for thermostats). Only the draws of the sampling stage are then draws from the posterior, once
    the chain has left the mode. The sample stat ``sampling`` marks them, as in
    ``idata.posterior.where(idata.sample_stats.sampling)``.

    Parameters
    ----------
    initial : float
        The step size h_0 > 0 at the start of each cycle.
    cycle : int
        The length M of a cycle in inner steps.
    exploration : float
        The fraction of a cycle in its exploration stage, 0 <= exploration < 1; the paper's beta.

    Raises
    ------
    ValueError, TypeError
        If an argument is out of range.

    References
    ----------
    - Zhang, R., Li, C., Zhang, J., Chen, C. and Wilson, A. G. (2020). Cyclical stochastic gradient
      MCMC for Bayesian deep learning. ICLR.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_sgmcmc import CyclicalCosine
    >>> CyclicalCosine(initial=0.2, cycle=2)(np.arange(4))
    array([0.2, 0.1, 0.2, 0.1])
    """

    arguments: ClassVar = {
        "initial": Positive(),
        "cycle": Whole(),
        "exploration": Either(Zero(), Positive(below=1)),
    }

    initial: float
    cycle: int
    exploration: float = 0.0

    def __post_init__(self) -> None:
        check_fields(self)

    def __call__(self, steps: Counts) -> Vector:
        return 0.5 * self.initial * (np.cos(np.pi * self._phase(steps)) + 1.0)

    def explores(self, steps: Counts) -> NDArray[np.bool_] | None:
        return self._phase(steps) < self.exploration if self.exploration else None

    def _phase(self, steps: Counts) -> Vector:
        return np.mod(steps, self.cycle) / self.cycle


STEP_SIZE = Ruled(
    "a positive number or a Schedule",
    lambda name, value: as_schedule(value),
    lambda: ["a", True, 1j, [0.1], np.ones(2), {}, 0, 0.0, -0.0, -1.0, np.nan, np.inf, object()],
)
"""Rule that checks the argument ``step_size``."""


def as_schedule(step_size: Any) -> Schedule:
    """Return `step_size` if it is a `Schedule`, or the constant schedule of a number."""
    return (
        step_size if isinstance(step_size, Schedule) else Constant(positive("step_size", step_size))
    )
