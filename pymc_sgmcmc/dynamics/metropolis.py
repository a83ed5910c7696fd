"""What samplers share that propose with gradients on all rows, and accept or reject."""

from abc import ABC
from typing import Any, ClassVar

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc._utils.constraints import NotTaken, Optional, Positive
from pymc_sgmcmc._utils.context import model_of
from pymc_sgmcmc._utils.coordinates import pull
from pymc_sgmcmc.model.full_data import minibatches
from pymc_sgmcmc.step.step_method import SGMCMC

__all__ = ["Metropolis", "chosen", "gain"]

NOWHERE = 1e30
"""U before the first step: any proposal is better."""


def gain(steps: np.ndarray) -> np.ndarray:
    """How far the step size may still change, at absolute counts of tuning (Robbins and Monro)."""
    return (steps + 1.0) ** -0.6


class Metropolis(SGMCMC, ABC):
    """A sampler with an accept step, exact at every step size.

    It carries its gradient ``g``, its potential ``u``, the ``factor`` by which tuning multiplies
    the step size so that the mean acceptance is `target_accept`, and the last ``acceptance``.

    Parameters
    ----------
    vars : list of variables, optional
    target_accept : float or None
        From 0 to 1. None: the step size stays.
    model : pymc.Model, optional
    **kwargs
        As for all samplers, but for minibatches.
    """

    learned = ("factor",)
    descends = False
    corrects = True
    arguments: ClassVar = {
        "target_accept": Optional(Positive(below=1)),
    } | {
        name: NotTaken("gradients are taken on all rows")
        for name in ("batch_size", "batches", "gradient", "noise_estimate")
    }

    def __init__(self, vars: Any, *, target_accept: float | None, model: Any = None, **kwargs):
        model, name = model_of(model), type(self).__name__
        self.target_accept = target_accept
        for argument in ("batch_size", "batches", "gradient", "noise_estimate"):
            if kwargs.pop(argument, None) is not None:
                raise TypeError(f"{name} takes gradients on all rows: leave out {argument}.")
        if minibatches(model):
            raise ValueError(
                f"{name} takes gradients on all rows, and the model has a pm.Minibatch: sample "
                "full_data(model), from pymc_sgmcmc, which is the same model on all rows."
            )
        super().__init__(
            vars, batch_size=None, batches="random", gradient="plain", noise_estimate=0.0,
            model=model, **kwargs,
        )  # fmt: skip

    def initial_state(self, rng):
        return {"g": np.zeros(self.target.size), "u": NOWHERE, "factor": 1.0, "acceptance": 1.0}

    def coefficients(self):
        return {"temperature": self.temperature}

    def sequences(self, steps):
        adapts = self.tune and self.target_accept is not None
        return {"gain": gain(steps) if adapts else np.zeros(len(steps))}

    def step_bias(self, h, curvature):
        return 0.0

    def capacity(self):
        return self.temperature

    def longest_step(self, curvature):
        return 2 / curvature if self.step_size is None else np.inf  # longer ones are rejected

    def judged(
        self, log_ratio: TensorVariable, z: TensorVariable, factor: TensorVariable, gain: Any
    ) -> tuple[TensorVariable, TensorVariable, TensorVariable]:
        """Whether a proposal is accepted, its acceptance probability, and the adapted factor.

        `log_ratio`: of the densities of the move and of its reverse; NaN where one is nowhere.
        `z`: a standard normal, of which a uniform number is made.
        """
        log_ratio = pt.switch(pt.isnan(log_ratio), -np.inf, log_ratio)
        acceptance = pt.exp(pt.minimum(log_ratio, 0.0))
        accepted = pt.lt(0.5 * pt.erfc(-z / np.sqrt(2.0)), acceptance)
        target = 0.0 if self.target_accept is None else self.target_accept
        return accepted, acceptance, factor * pt.exp(gain * (acceptance - target))

    def _advance(self, q):
        if self._moved:  # by other step methods: U at q is then another than after the last draw
            u, g = self.target.value_and_gradient(q)
            now = {"u": u, "g": pull(self.tuned.coordinates.factor, g)}
            self.carried = tuple((self._carried() | now).values())
        return super()._advance(q)


def chosen(accepted: TensorVariable, there: Any, here: Any) -> list[TensorVariable]:
    """Each of `there` if the proposal was accepted, else of `here`."""
    return [pt.switch(accepted, a, b) for a, b in zip(there, here, strict=True)]
