"""The sampler that is checked, and the chains that checks run of it."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from pymc import Model

from pymc_sgmcmc._utils.arguments import rows_of
from pymc_sgmcmc._utils.constraints import NotTaken
from pymc_sgmcmc.chain.chain import Chain
from pymc_sgmcmc.conformance.models import regression
from pymc_sgmcmc.distributions.manifolds import FLAT
from pymc_sgmcmc.dynamics.algorithm import Algorithm
from pymc_sgmcmc.dynamics.schedules import Constant
from pymc_sgmcmc.dynamics.setting import Setting
from pymc_sgmcmc.dynamics.space import Space
from pymc_sgmcmc.step.pymc_versions import ChainStep
from pymc_sgmcmc.step.signature import split_arguments
from pymc_sgmcmc.step.step_method import SGMCMC

__all__ = ["Subject", "begin", "walk"]

BATCH_SIZE = 5
"""Rows of a batch, where the settings do not say."""


class Subject:
    """A sampler with its settings, on a model.

    Parameters
    ----------
    sampler : Algorithm, or subclass of SGMCMC
    settings : mapping
        Arguments of the step method.
    model : callable, optional
        Returns the model that chains sample; default a regression.
    """

    def __init__(
        self,
        sampler: Algorithm | type[SGMCMC],
        settings: Mapping[str, Any],
        model: Callable[[], Model] | None,
    ):
        self.sampler, self.settings = sampler, dict(settings)
        self.has_own_model, self.model = model is not None, model or regression

    @property
    def cls(self) -> type[SGMCMC]:
        """The class of its step methods."""
        return self.sampler if isinstance(self.sampler, type) else SGMCMC

    @property
    def name(self) -> str:
        """What a report calls it."""
        return self.sampler.__name__ if isinstance(self.sampler, type) else repr(self.sampler)

    def takes(self, argument: str) -> bool:
        """Return whether its step methods take that argument."""
        row = rows_of(self.cls).get(argument)
        return row is not None and not isinstance(row, NotTaken)

    def step(self, model: Model, **changes: Any) -> SGMCMC:
        """Return a step method for `model`, with some settings changed."""
        settings = self.settings | changes
        if not isinstance(self.sampler, type):
            settings |= {"algorithm": self.sampler}
        with model:
            return self.cls(**settings)

    @cached_property
    def built(self) -> tuple[Model, SGMCMC]:
        """The model, and a step method for it, which checks leave as it is."""
        model = self.model()
        return model, self.step(model, **self.batches)

    @property
    def batches(self) -> dict[str, int]:
        """The batch size, where the settings leave it out and our own model has rows."""
        if self.has_own_model or "batch_size" in self.settings or not self.takes("batch_size"):
            return {}
        return {"batch_size": BATCH_SIZE}

    @cached_property
    def bare(self) -> Algorithm:
        """The algorithm alone, in the setting of the model: nothing is built, or compiled."""
        algorithm, shared, model = self.sampler, self.settings, self.model()
        if isinstance(self.sampler, type):
            with model:  # some look whether it has a pm.Minibatch
                own, shared = self.cls.complete(*split_arguments(self.cls, self.settings))
            made = self.cls.algorithm_class
            assert made is not None  # SGMCMC itself is refused
            algorithm = made(**own)
        size = sum(np.size(value) for value in model.initial_point().values())
        temperature = shared.get("temperature", 1.0)
        return algorithm.in_setting(
            Setting(size=size, space=Space([FLAT], [(size,)]), temperature=temperature)
        )

    def path(self, step: SGMCMC, draws: int, seed: int = 5) -> np.ndarray:
        """Return the first draws of a chain from the model's initial point, (draws, d)."""
        begin(step, seed)
        return walk(step, self.built[0].initial_point(), draws)[1]

    def chain(self, **parts: Any) -> Chain:
        """Return a chain of the built step method, with other `parts`."""
        return Chain(replace(self.built[1].chain.parts, **parts))

    def with_step_size(self, h: float) -> SGMCMC:
        """Return a copy of the built step method, with a chain of its own, of that step size."""
        step = copy.copy(self.built[1])
        step.chain = self.chain(schedule=Constant(h))
        return step


def begin(step: SGMCMC, seed: int = 5) -> None:
    """Start a chain as `pm.sample` does, in either version of PyMC, and end its tuning."""
    rng = np.random.default_rng(seed)
    if hasattr(ChainStep, "setup_chain"):
        step.setup_chain(rng, 0, 100)
    else:
        step.set_rng(rng)
    step.stop_tuning()


def walk(step: SGMCMC, point: Mapping[str, np.ndarray], draws: int) -> tuple[Any, np.ndarray]:
    """Return where some draws from `point` end, and all of them, (draws, d)."""
    path = []
    for _ in range(draws):
        point, _ = step.step(point)
        path.append(np.concatenate([np.ravel(value) for value in point.values()]))
    return point, np.array(path)
