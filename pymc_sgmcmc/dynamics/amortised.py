"""Samplers that accept or reject once a draw, at the end of a trajectory of minibatch steps."""

import math
from abc import ABC
from typing import Any, ClassVar

import numpy as np

from pymc_sgmcmc._utils.constraints import NotTaken, Optional, Positive
from pymc_sgmcmc.dynamics.metropolis import gain
from pymc_sgmcmc.dynamics.momentum import Momentum

__all__ = ["Amortised"]


class Amortised(Momentum, ABC):
    """A sampler with an accept step by U on all rows, once a draw: exact at every step size.

    It carries its ``momentum``; ``r``, the log of the ratio of densities of the inner steps and of
    their reverse, times the temperature; its potential ``u`` on all rows; the ``factor`` by which
    tuning multiplies the step size; and the last ``acceptance``.

    Parameters
    ----------
    vars : list of variables, optional
    step_size : float, Schedule or None
    target_accept : float or None
        From 0 to 1. None: the step size stays.
    gradient : {"plain", "control_variate"} or None
    **kwargs
        As for all samplers, but for noise estimates and batches that remember the chain.
    """

    extra_stats = ("acceptance", "factor")
    learned = ("factor",)
    descends = False
    corrects = True
    arguments: ClassVar = {
        "target_accept": Optional(Positive(below=1)),
        "noise_estimate": NotTaken("gradient noise is corrected exactly"),
    }
    trajectories = True

    def __init__(self, vars: Any, *, step_size: Any, target_accept: float | None,
                 gradient: str | None, **kwargs):  # fmt: skip
        name = type(self).__name__
        self.target_accept = target_accept
        if "noise_estimate" in kwargs:
            raise TypeError(f"{name} corrects gradient noise exactly: leave out noise_estimate.")
        if kwargs.get("batches") == "epochs" or gradient == "svrg":
            raise ValueError(
                f"{name} is exact where gradients do not remember the chain: batches='epochs' and "
                "gradient='svrg' do. Use batches='random' and gradient='control_variate'."
            )
        gradient = gradient or ("plain" if step_size is not None else "control_variate")
        super().__init__(vars, step_size=step_size, gradient=gradient, noise_estimate=0.0, **kwargs)
        self.target.value_and_gradient(self._starts.default)  # compiled here, not by each worker

    def initial_state(self, rng):
        p = super().initial_state(rng)["p"]
        return {"momentum": p, "r": 0.0, "u": np.nan, "factor": 1.0, "acceptance": 1.0}

    def _advance(self, q):
        """A trajectory from `q`, and its end or its start."""
        start = self._carried() | {"r": 0.0}
        if self._moved or np.isnan(start["u"]):  # else it is known since the last draw
            start["u"] = self.target.value_and_gradient(q)[0]
        self.carried = tuple(start.values())
        output, last, rows = super()._advance(q)
        if not output.is_finite:
            return output, last, rows
        end = dict(zip(start, output.state, strict=True))
        end["u"] = self.target.value_and_gradient(self._to_position(output.q))[0]
        log_ratio = (start["u"] - end["u"] + float(end["r"])) / self.temperature
        acceptance = math.exp(min(log_ratio, 0.0)) if np.isfinite(log_ratio) else 0.0
        uniform = 0.5 * math.erfc(-self.rng.standard_normal() / math.sqrt(2.0))
        if uniform > acceptance:
            end |= {"momentum": -start["momentum"], "u": start["u"]}
            output = output._replace(q=self._to_coordinates(q))
        if self.tune and self.target_accept is not None:
            change = gain(self.draw) * (acceptance - self.target_accept)
            end["factor"] = end["factor"] * math.exp(change)
        end["acceptance"] = acceptance
        return output._replace(state=tuple(map(np.asarray, end.values()))), last, rows
