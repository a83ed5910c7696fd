"""RMSProp's running mean of squared gradients, from which samplers make a metric."""

from abc import ABC
from typing import Any, ClassVar

import numpy as np
from pymc.stats.convergence import SamplerWarning, WarningType

from pymc_sgmcmc._utils.constraints import NotTaken, Positive
from pymc_sgmcmc.step.step_method import SGMCMC

__all__ = ["RMSProp", "mean_square", "metric"]


def mean_square(v, gradient, rows, decay):
    """The running mean of the squares of mean gradients, those of U over the rows."""
    return decay * v + (1 - decay) * (gradient / rows) ** 2


def metric(v, damping):
    """PSGLD's metric; that of momentum samplers is its square root."""
    return 1 / (damping + v**0.5)


class RMSProp(SGMCMC, ABC):
    """A sampler with such a metric, which adapts while it is tuned, and rests afterwards.

    It carries ``v``, and its update takes `decay`, `rows` and `damping`.

    Parameters
    ----------
    vars : list of variables, optional
        What to sample; default all continuous variables.
    decay : float
        Of v, 0 < decay < 1; default 0.99. At first v is the plain mean of the squares and its
        start, at which the metric is 1.
    damping : float
        > 0, in the units of a mean gradient f / N: where these are smaller, the metric is
        1 / damping, and that of momentum samplers the root of it. Default 1e-5.
    **kwargs
        Common to all samplers: see :class:`~pymc_sgmcmc.SGMCMC`.

    Raises
    ------
    ValueError, TypeError
        If an argument is out of range, or there is a `noise_estimate`; the message names it.
    """

    arguments: ClassVar = {
        "decay": Positive(below=1),
        "damping": Positive(),
        "noise_estimate": NotTaken("no noise is subtracted"),
    }
    learned = ("v",)

    def __init__(self, vars: Any = None, *, decay: float = 0.99, damping: float = 1e-5, **kwargs):
        self.decay, self.damping = decay, damping
        if "noise_estimate" in kwargs:
            raise TypeError(
                f"{type(self).__name__} subtracts no noise_estimate: take a larger batch or a "
                "control variate."
            )
        super().__init__(vars, noise_estimate=0.0, **kwargs)

    def initial_state(self, rng):
        """With the v at which damping + sqrt(v), and every metric made of it, is 1."""
        v = np.full(self.target.size, max(0.0, 1.0 - self.damping) ** 2)
        return super().initial_state(rng) | {"v": v}

    @property
    def rests(self) -> bool:
        """Whether the metric is at rest after tuning."""
        return self.keeps_its_law

    def adapted(self) -> np.ndarray:
        """The metric of the chain as it is, (d,)."""
        return metric(self._carried()["v"], self.damping)

    def scales(self) -> dict[str, float]:
        """N, which is 1 where a step size is tuned, as gradients are about 1 then; the damping."""
        rows = 1.0 if self.step_size is None else max(1, self._lengths.sum())
        return {"rows": rows, "damping": self.damping}

    def sequences(self, steps):
        """The decay at each step: at first a plain mean of the squares and the start; 1 at rest."""
        adapts = self.tune or not self.rests
        decay = np.minimum(self.decay, (steps + 1.0) / (steps + 2.0))
        return {"decay": decay if adapts else np.ones(len(steps))}

    def longest_step(self, curvature):
        known = self.step_size is None  # and then the metric is below 1
        return super().longest_step(curvature) if known else np.inf

    def notice(self):
        if not self.rests or self.draw or self.tune:
            return None
        return SamplerWarning(
            WarningType.BAD_PARAMS,
            f"{self.name}: tune=0 leaves no draw to adapt the metric in, and it is the identity. "
            "Let pm.sample tune for some hundred inner steps.",
            "warn",
            step=0,
        )
