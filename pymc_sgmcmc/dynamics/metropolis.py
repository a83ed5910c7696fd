"""What algorithms share that accept or reject: by the step, with gradients on all rows."""

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytensor.tensor as pt

from pymc_sgmcmc._utils.constraints import Optional, Positive
from pymc_sgmcmc._utils.types import Counts, Graph, Number, Operand, Vector
from pymc_sgmcmc.dynamics.algorithm import Algorithm
from pymc_sgmcmc.dynamics.setting import Context

__all__ = ["TARGET_ACCEPT", "Metropolis", "gain", "where_accepted"]

NOWHERE = 1e30
"""U before the first step: any proposal is better."""

TARGET_ACCEPT = Optional(Positive(below=1))


def gain(steps: Operand) -> Operand:
    """Return how far the step size may still change, at counts of tuning (Robbins and Monro)."""
    return (steps + 1.0) ** -0.6


@dataclass(frozen=True, kw_only=True, eq=False)
class Metropolis(Algorithm, ABC):
    """An algorithm with an accept step, exact at every step size.

    It carries its gradient ``g``, its potential ``u``, the ``factor`` by which tuning multiplies
    the step size so that the mean acceptance is `target_accept`, and the last ``acceptance``.

    Parameters
    ----------
    target_accept : float or None
        From 0 to 1. None: the step size stays.
    """

    has_accept_step = True
    learned_state = ("factor",)
    kept_energy = ("u", "g")
    stats = ("acceptance", "factor")

    target_accept: float | None

    def initial_state(self, rng: np.random.Generator, context: Context) -> dict[str, Number]:
        return {"g": np.zeros(self.size), "u": NOWHERE, "factor": 1.0, "acceptance": 1.0}

    def coefficients(self, context: Context) -> dict[str, Number]:
        return {"temperature": self.temperature}

    def planned(self, steps: Counts, *, tuning: bool) -> dict[str, Vector]:
        adapts = tuning and self.target_accept is not None
        return {"gain": gain(steps) if adapts else np.zeros(len(steps))}

    def step_bias(self, h: float, curvature: float) -> float:
        return 0.0

    def injected_noise(self) -> float:
        return self.temperature

    def longest_step(self, curvature: float) -> float:
        return 2 / curvature if self.setting.tunes_step else np.inf  # longer ones are rejected

    def accept(
        self, log_ratio: Graph, z: Graph, factor: Graph, gain: Operand
    ) -> tuple[Graph, Graph, Graph]:
        """Return whether a proposal is accepted, its probability, and the adapted factor.

        `log_ratio`: of the densities of the move and of its reverse; NaN where one is nowhere.
        `z`: a standard normal, of which a uniform number is made.
        """
        log_ratio = pt.switch(pt.isnan(log_ratio), -np.inf, log_ratio)
        acceptance = pt.exp(pt.minimum(log_ratio, 0.0))
        accepted = pt.lt(0.5 * pt.erfc(-z / np.sqrt(2.0)), acceptance)
        target = 0.0 if self.target_accept is None else self.target_accept
        return accepted, acceptance, factor * pt.exp(gain * (acceptance - target))


def where_accepted(accepted: Graph, there: Sequence[Graph], here: Sequence[Graph]) -> list[Graph]:
    """Return each of `there` if the proposal was accepted, else of `here`."""
    return [pt.switch(accepted, a, b) for a, b in zip(there, here, strict=True)]
