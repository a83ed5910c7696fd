"""What some samplers cannot take of the arguments that all share, and cannot sample."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pymc_sgmcmc._utils.constraints import NotTaken
from pymc_sgmcmc._utils.context import model_of
from pymc_sgmcmc.distributions.manifolds import FLAT
from pymc_sgmcmc.dynamics.algorithm import Algorithm
from pymc_sgmcmc.model.full_data import minibatches
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.step.arguments import Arguments

__all__ = [
    "NO_ESTIMATE",
    "ON_ALL_ROWS",
    "on_all_rows",
    "refuse_exploration",
    "refuse_target",
    "refuse_untunable",
    "without_noise_estimate",
]

NO_ESTIMATE = NotTaken("no noise is subtracted")

_EXACT = {"batch_size": None, "batches": "random", "gradient": "plain", "noise_estimate": 0.0}

ON_ALL_ROWS = {name: NotTaken("gradients are taken on all rows") for name in _EXACT}


def on_all_rows(name: str, shared: Mapping[str, Any]) -> dict[str, Any]:
    """Return the shared arguments of a sampler that takes gradients on all rows, or raise."""
    for argument in _EXACT:
        if shared.get(argument) is not None:
            raise TypeError(f"{name} takes gradients on all rows: leave out {argument}.")
    if minibatches(model_of(shared.get("model"))):
        raise ValueError(
            f"{name} takes gradients on all rows, and the model has a pm.Minibatch: sample "
            "full_data(model), from pymc_sgmcmc, which is the same model on all rows."
        )
    return dict(shared) | _EXACT


def without_noise_estimate(name: str, shared: Mapping[str, Any]) -> dict[str, Any]:
    """Return the shared arguments of a sampler that subtracts no noise, or raise."""
    if "noise_estimate" in shared:
        raise TypeError(
            f"{name} subtracts no noise_estimate: take a larger batch or a control variate."
        )
    return dict(shared) | {"noise_estimate": 0.0}


def refuse_exploration(algorithm: Algorithm, arguments: Arguments) -> None:
    """Raise where the schedule has steps without noise, and they would lead to no mode."""
    schedule = arguments.schedule
    explores = schedule is not None and schedule.explores(np.zeros(1, dtype=int)) is not None
    if explores and not algorithm.can_optimize:
        raise ValueError(
            f"step_size={arguments.step_size!r} has an exploration stage, without noise, in which "
            f"{algorithm.name} finds no mode: use SGLD, SGHMC, PSGLD or PSGHMC, or exploration=0. "
            "An Algorithm of your own that goes downhill without noise says so by `can_optimize`."
        )


def refuse_target(algorithm: Algorithm, arguments: Arguments, target: Target) -> None:
    """Raise where variables are on manifolds and the algorithm would leave them."""
    space = algorithm.space
    if not space.curved:
        return
    names = [
        f"{var.name!r} ({manifold.name})"
        for var, manifold in zip(target.vars, space.manifolds, strict=True)
        if manifold is not FLAT
    ]
    if not algorithm.on_manifolds:
        raise ValueError(
            f"{algorithm.name} would leave the manifolds of {', '.join(names)}: use SGGMC, gSGNHT "
            "or GMC, which follow them."
        )
    if arguments.tunes() or arguments.metric is not None:
        raise NotImplementedError(
            f"On the manifolds of {', '.join(names)} nothing is tuned, and there is no metric: "
            f"give {algorithm.name} a step_size, and leave out metric, gradient and what is "
            "'auto'."
        )


def refuse_untunable(algorithm: Algorithm, arguments: Arguments) -> None:
    """Raise where the algorithm does not say what tuning needs to know."""
    unknown_bias = arguments.step_size is None and np.isnan(algorithm.step_bias(1, 1))
    if np.isnan(algorithm.injected_noise()) or unknown_bias:
        raise NotImplementedError(
            f"{algorithm.name} cannot be tuned: it does not say its bias and what noise it "
            "injects. Give it a step_size, and leave out what else is automatic."
        )
