"""RMSProp's running mean of squared gradients, from which samplers make a metric."""

from typing import Any

import numpy as np
from pymc.stats.convergence import SamplerWarning, WarningType

__all__ = ["at_one", "decays", "mean_square", "metric", "rows_of", "unadapted"]


def mean_square(v, gradient, rows, decay):
    """The running mean of the squares of mean gradients, those of U over the rows."""
    return decay * v + (1 - decay) * (gradient / rows) ** 2


def metric(v, damping):
    """PSGLD's metric; that of momentum samplers is its square root."""
    return 1 / (damping + v**0.5)


def at_one(size: int, damping: float) -> np.ndarray:
    """The running mean at which damping + sqrt(v), and every metric made of it, is 1."""
    return np.full(size, max(0.0, 1.0 - damping) ** 2)


def decays(steps: np.ndarray, decay: float, *, adapts: bool) -> np.ndarray:
    """The decay at each step: at first a plain mean of the squares and the start; 1 at rest."""
    return np.minimum(decay, (steps + 1.0) / (steps + 2.0)) if adapts else np.ones(len(steps))


def rows_of(step: Any) -> float:
    """N: 1 where the step size is tuned, in coordinates in which gradients are about 1."""
    return 1.0 if step.step_size is None else max(1, step._lengths.sum())


def unadapted(step: Any) -> SamplerWarning | None:
    """What is to be said at the first draw of a chain that has no tuning to adapt in."""
    if step.draw or step.tune:
        return None
    return SamplerWarning(
        WarningType.BAD_PARAMS,
        f"{step.name}: tune=0 leaves no draw to adapt the metric in, and it is the identity. Let "
        "pm.sample tune for some hundred inner steps.",
        "warn",
        step=0,
    )
