"""Facts given to an algorithm: its use (`Setting`), and the chain it advances (`Context`)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pymc_sgmcmc._utils.types import Array, Vector
from pymc_sgmcmc.dynamics.space import EVERYWHERE, Space

__all__ = ["Context", "Setting"]


@dataclass(frozen=True)
class Setting:
    """The use of an algorithm, which stays as it is while a chain runs.

    Attributes
    ----------
    size : int
        d, the length of q.
    space : Space
        Where q moves.
    temperature : float
        T: the target is exp(-U / T).
    noise_estimate : float, array of shape (d,), or "auto"
        What gradients add to the injected noise, as a rate.
    tunes_step : bool
        Whether the step size is found while tuning.
    """

    size: int = 1
    space: Space = EVERYWHERE
    temperature: float = 1.0
    noise_estimate: Any = 0.0
    tunes_step: bool = False


@dataclass(frozen=True)
class Context:
    """A chain as its algorithm sees it between two draws.

    Attributes
    ----------
    step_size : float
        h of the coming inner step; NaN before it is known.
    inner_steps : int
        How many the chain has made.
    tuning : bool
        Whether `pm.sample` still tunes.
    in_first_window : bool
        Whether nothing has been learned from draws yet.
    noise : array, shape (d,)
        V, the variance of the gradient, as tuning has measured it; zeros before.
    pace : array, shape (d,)
        By how much tuning has shortened each coordinate.
    batched : bool
        Whether batches are drawn independently, and are not all rows.
    n_rows : int
        All rows of all minibatched likelihoods.
    state : mapping of str to array
        The carried variables by name; empty before the chain starts.
    coefficients : mapping of str to array
        Those in use; empty before the chain starts.
    """

    step_size: float = np.nan
    inner_steps: int = 0
    tuning: bool = True
    in_first_window: bool = False
    noise: Vector = field(default_factory=lambda: np.zeros(1))
    pace: Vector = field(default_factory=lambda: np.ones(1))
    batched: bool = False
    n_rows: int = 0
    state: Mapping[str, Array] = field(default_factory=dict)
    coefficients: Mapping[str, Array] = field(default_factory=dict)

    @property
    def measured(self) -> Vector:
        """The rate h V / 2 that gradients add by measurement, (d,)."""
        if not self.noise.any():
            return self.noise  # also before there is a step size
        return self.step_size * self.noise / 2
