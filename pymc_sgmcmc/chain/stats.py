"""Sample stats that chains report: names, types and shapes."""

from typing import Any

import numpy as np
from pymc.stats.convergence import SamplerWarning

from pymc_sgmcmc.chain.parts import Parts
from pymc_sgmcmc.chain.stored_sums import SUMS_DTYPE

__all__ = ["STATS", "TUNED_STATS", "stats_of"]

STATS: dict[str, tuple[Any, Any]] = {
    "step_size": (np.float64, []),
    "grad_norm": (np.float64, []),
    "minibatch_logp": (np.float64, []),
    "n_steps": (np.int64, []),
    "diverging": (bool, []),
    # This dtype equals both int (NUTS) and np.int64 (HamiltonianMC): PyMC requires equal types
    # within one run.
    "divergences": (np.dtype(np.int64), []),
    "warning": (SamplerWarning, None),
    "running_sums": (SUMS_DTYPE, None),
}
"""Types and shapes of the stats of every sampler."""

TUNED_STATS: dict[str, tuple[Any, Any]] = {
    "batch_size": (np.int64, []),
    "control_variate": (bool, []),
    "second_order": (bool, []),
    "svrg": (bool, []),
    "noise_fraction": (np.float64, []),
    "metric_condition": (np.float64, []),
    "decrement": (np.float64, []),
    "predicted_bias": (np.float64, []),
    "tuning_gradients": (np.float64, []),
}
"""Additional stats of a step method that tunes itself, which `pymc_sgmcmc.report` shows."""

STAGES: dict[str, tuple[Any, Any]] = {"sampling": (bool, [])}
"""Additional stat of a schedule with exploration stages."""


def stats_of(parts: Parts) -> dict[str, tuple[Any, Any]]:
    """Return types and shapes of the stats of a chain of these parts, by name."""
    stats = STATS | {name: (np.float64, []) for name in parts.algorithm.stats}
    stats |= TUNED_STATS if parts.tuner is not None else {}
    return stats | (STAGES if parts.explores(np.zeros(1, dtype=int)) is not None else {})
