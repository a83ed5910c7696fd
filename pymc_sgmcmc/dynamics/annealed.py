"""Samplers that become optimisers where their temperature falls."""

import warnings
from abc import ABC
from typing import Any, ClassVar

import numpy as np
from pymc.stats.convergence import SamplerWarning, WarningType

from pymc_sgmcmc._utils.constraints import Instance, Optional, Whole
from pymc_sgmcmc.dynamics.annealing import Annealing
from pymc_sgmcmc.step.step_method import SGMCMC

__all__ = ["Annealed"]


class Annealed(SGMCMC, ABC):
    """A sampler with a temperature for each inner step, which is a number of its update.

    With `annealing` it falls (exploration), and is 0 after `exploration` steps (refinement, without
    noise): chains settle in a mode, and **no draw is one from the posterior**. The sample stat
    ``temperature`` says which it was at each draw.

    Parameters
    ----------
    vars : list of variables, optional
        What to sample; default all continuous variables.
    annealing : Annealing or None
        Inverse temperatures, :class:`~pymc_sgmcmc.PowerAnnealing` or
        :class:`~pymc_sgmcmc.GeometricAnnealing`: at the inner step t the temperature is
        `temperature` / annealing(t). None, the default: it samples the posterior.
    exploration : int or None
        Inner steps before refinement, counted from the start of the chain, tuning included; with
        `annealing` only. None, the default: no refinement.
    **kwargs
        Common to all samplers: see :class:`~pymc_sgmcmc.SGMCMC`.

    Raises
    ------
    ValueError, TypeError
        If an argument is out of range; the message names it.

    Warns
    -----
    UserWarning
        With `annealing`.
    """

    arguments: ClassVar = {
        "annealing": Optional(
            Instance(Annealing, "a schedule of inverse temperatures: pass PowerAnnealing(...), "
                                "GeometricAnnealing(...), or None to sample")
        ),
        "exploration": Optional(Whole()),
    }  # fmt: skip
    extra_stats = ("temperature",)

    def __init__(self, vars: Any = None, *, annealing: Annealing | None = None,
                 exploration: int | None = None, **kwargs):  # fmt: skip
        self.annealing, self.exploration = annealing, exploration
        self.keeps_its_law = annealing is None
        if exploration is not None and annealing is None:
            raise ValueError(
                f"exploration={exploration!r} says when refinement begins, and without annealing "
                "there is none: pass annealing=PowerAnnealing(...), or leave it out."
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
