"""What one chain carries from draw to draw, and what it reports of each."""

import numpy as np
from pymc.stats.convergence import SamplerWarning
from pymc.step_methods.compound import StepMethodState
from pymc.step_methods.state import dataclass_state

from pymc_sgmcmc.chain.evidence import Watched
from pymc_sgmcmc.chain.running_sums import RunningSums
from pymc_sgmcmc.chain.stored_sums import SUMS_DTYPE
from pymc_sgmcmc.tuning.tuned import Tuned

__all__ = ["STAGES", "STATS", "TUNED_STATS", "ChainState"]

STATS = {
    "step_size": (np.float64, []),
    "grad_norm": (np.float64, []),
    "minibatch_logp": (np.float64, []),
    "n_steps": (np.int64, []),
    "diverging": (bool, []),
    # Equal to both int (NUTS) and np.int64 (HamiltonianMC): in one run PyMC wants them the same.
    "divergences": (np.dtype(np.int64), []),
    "warning": (SamplerWarning, None),
    "running_sums": (SUMS_DTYPE, None),
}
"""Types and shapes of the stats of every sampler."""

TUNED_STATS = {
    "batch_size": (np.int64, []),
    "control_variate": (bool, []),
    "svrg": (bool, []),
    "noise_fraction": (np.float64, []),
    "metric_condition": (np.float64, []),
    "decrement": (np.float64, []),
    "predicted_bias": (np.float64, []),
    "tuning_gradients": (np.float64, []),
}
"""Those of a step method that tunes itself: what `pymc_sgmcmc.report` shows."""

STAGES = {"sampling": (bool, [])}
"""That of a schedule with exploration stages."""


@dataclass_state
class ChainState(StepMethodState):
    """All that one chain carries from draw to draw, beside its position."""

    tune: bool
    started: bool
    inner_steps: int
    draw: int
    divergences: int
    failures: int
    noise_key: int
    carried: tuple
    batch_states: tuple
    running_sums: RunningSums
    watching: bool
    watched: Watched
    tuned: Tuned
