"""Samplers that become optimisers where their temperature falls."""

import warnings
from abc import ABC
from typing import Any

import numpy as np
from pymc.stats.convergence import SamplerWarning, WarningType

from pymc_sgmcmc.annealing import Annealing
from pymc_sgmcmc.base import SGMCMC
from pymc_sgmcmc.checks import natural

__all__ = ["Annealed"]


class Annealed(SGMCMC, ABC):
    """A sampler with a temperature for each inner step, which is a number of its update.

    With `annealing` it falls (exploration), and is 0 after `exploration` steps (refinement).

    Parameters
    ----------
    vars : list of variables, optional
    annealing : Annealing or None
        Inverse temperatures, relative to that of the posterior. None: it samples.
    exploration : int or None
        Inner steps before refinement, with `annealing` only. None: no refinement.
    **kwargs
        As for all samplers.
    """

    extra_stats = ("temperature",)

    def __init__(self, vars: Any = None, *, annealing: Annealing | None, exploration: int | None,
                 **kwargs):  # fmt: skip
        self.annealing, self.exploration = annealing, exploration
        self.keeps_its_law = annealing is None
        if annealing is not None and not isinstance(annealing, Annealing):
            raise TypeError(
                f"annealing={annealing!r} is no schedule of inverse temperatures: pass "
                "PowerAnnealing(...), GeometricAnnealing(...), or None to sample."
            )
        if exploration is not None:
            natural("exploration", exploration)
            if annealing is None:
                raise ValueError(
                    f"exploration={exploration!r} says when refinement begins, and without "
                    "annealing there is none: pass annealing=PowerAnnealing(...), or leave it out."
                )
        super().__init__(vars, **kwargs)
        if annealing is not None:
            warnings.warn(
                f"{type(self).__name__} with annealing is an optimiser: it looks for the highest "
                "mode, and its draws are not from the posterior. annealing=None samples.",
                stacklevel=3,
            )

    def sequences(self, steps):
        temperature = np.full(len(steps), self.temperature)
        if self.annealing is not None:
            temperature = temperature / self.annealing(steps)
        if self.exploration is not None:
            temperature = np.where(steps < self.exploration, temperature, 0.0)
        return super().sequences(steps) | {"temperature": temperature}

    def notice(self):
        refines = self.exploration
        if refines is None or not 0 <= refines - self.inner_steps < self.steps_per_draw:
            return super().notice()
        return SamplerWarning(
            WarningType.CONVERGENCE,
            f"{self.name}, draw {self.draw}: refinement begins. What follows is descent to a mode.",
            "info",
            step=self.draw,
        )
