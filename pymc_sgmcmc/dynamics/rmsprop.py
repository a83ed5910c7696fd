"""RMSProp's running mean of squared gradients, from which algorithms make a metric."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pymc_sgmcmc._utils.alarm import Alarm
from pymc_sgmcmc._utils.constraints import Positive
from pymc_sgmcmc._utils.types import Counts, Graph, Number, Operand, Vector

__all__ = ["RMSProp", "mean_square", "metric"]


def mean_square(v: Graph, gradient: Graph, rows: Graph, decay: Graph) -> Graph:
    """Return the running mean of the squares of mean gradients, those of U over the rows."""
    return decay * v + (1 - decay) * (gradient / rows) ** 2


def metric(v: Operand, damping: Operand) -> Operand:
    """Return PSGLD's metric; that of momentum samplers is its square root."""
    return 1 / (damping + v**0.5)


@dataclass(frozen=True)
class RMSProp:
    """A metric that adapts while a chain is tuned.

    An algorithm that has it carries ``v``, and its update takes `decay`, `rows` and `damping`.

    Parameters
    ----------
    decay : float
        Of v, 0 < decay < 1. At first v is the plain mean of the squares and its start, at which the
        metric is 1.
    damping : float
        > 0, in the units of a mean gradient f / N: where these are smaller, the metric is
        1 / damping, and that of momentum samplers the root of it.
    rests : bool
        Whether the metric is at rest after tuning.
    tunes_step : bool
        Whether a step size is tuned, in coordinates in which gradients are about 1.
    """

    arguments: ClassVar = {"decay": Positive(below=1), "damping": Positive()}

    decay: float
    damping: float
    rests: bool = True
    tunes_step: bool = False

    def start(self, size: int) -> dict[str, Number]:
        """Return the v at which damping + sqrt(v), and every metric made of it, is 1."""
        return {"v": np.full(size, max(0.0, 1.0 - self.damping) ** 2)}

    def coefficients(self, n_rows: int) -> dict[str, Number]:
        """Return N, which is 1 where a step size is tuned, and the damping.

        `n_rows`: all rows of all minibatched likelihoods.
        """
        return {"rows": 1.0 if self.tunes_step else max(1, n_rows), "damping": self.damping}

    def longest_step(self, at_identity: float) -> float:
        """Return the longest stable step size, given that at the metric 1; infinite if unknown.

        Where a step size is tuned N is 1, gradients are about 1, and the metric is below 1.
        """
        return at_identity if self.tunes_step else np.inf

    def planned(self, steps: Counts, *, tuning: bool) -> dict[str, Vector]:
        """Return the decay at each step: at first a plain mean of squares and start; 1 at rest."""
        decay = np.minimum(self.decay, (steps + 1.0) / (steps + 2.0))
        return {"decay": decay if tuning or not self.rests else np.ones(len(steps))}

    def metric(self, v: Operand) -> Operand:
        """Return the metric at `v`, (d,)."""
        return metric(v, self.damping)

    def alarm(self, name: str, draw: int, *, tuning: bool) -> Alarm | None:
        """Return what to say of an algorithm called `name` that never adapts its metric."""
        if not self.rests or draw or tuning:
            return None
        return Alarm(
            "tune",
            f"{name}: tune=0 leaves no draw to adapt the metric in, and it is the identity. "
            "Let pm.sample tune for some hundred inner steps.",
        )
