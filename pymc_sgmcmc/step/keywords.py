"""What type checkers and editors know of the arguments of samplers; nothing imports it to run.

`pymc_sgmcmc.step.arguments` has the arguments themselves, and a test compares the two.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict

import numpy as np
from numpy.typing import NDArray
from pymc import Model

from pymc_sgmcmc._utils.metric import Metric
from pymc_sgmcmc.dynamics.schedules import Schedule

__all__ = ["Batches", "Common", "OnBatches", "PerCoordinate", "Rows", "Shared", "StepSize"]

StepSize: TypeAlias = float | Schedule
"""A step size, or one for each inner step."""

PerCoordinate: TypeAlias = float | Sequence[float] | NDArray[Any]
"""One number, or one for each coordinate, (d,)."""

Rows: TypeAlias = int | Mapping[str, int | None] | Literal["auto"] | None
"""Rows in a minibatch."""

Batches: TypeAlias = Literal["random", "blocks", "epochs", "auto"]
"""Where batches come from."""


class Common(TypedDict, total=False):
    """The arguments of all samplers, but for the step size."""

    metric: Literal["dense", "diag", "auto"] | Metric | Sequence[Any] | NDArray[Any] | None
    bias_tolerance: float
    steps_per_draw: int
    temperature: float
    backend: Literal["c", "numba"]
    compile_kwargs: Mapping[str, Any] | None
    rows: Mapping[str, int | None] | None
    jitter: bool
    model: Model | None
    rng: int | np.random.Generator | np.random.SeedSequence | np.random.BitGenerator | None
    initial_point: Mapping[str, Any] | None
    blocked: bool


class OnBatches(Common, total=False):
    """The arguments of samplers on minibatches."""

    batch_size: Rows
    batches: Batches
    gradient: Literal["plain", "control_variate", "svrg", "auto"]


class Shared(OnBatches, total=False):
    """The arguments of samplers on minibatches that subtract the noise of their gradients."""

    noise_estimate: PerCoordinate | Literal["auto"]
