"""What the arguments that all samplers share mean together, and what of it is to be tuned."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from pymc import Model
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc._utils.argument_rows import (
    BATCH_SIZE,
    FLAG,
    METRIC,
    MODEL,
    POINT,
    RNG,
    ROWS,
)
from pymc_sgmcmc._utils.constraints import (
    Choice,
    Either,
    MappingOf,
    Numbers,
    Optional,
    Positive,
    Whole,
    Word,
)
from pymc_sgmcmc._utils.coordinates import Coordinates
from pymc_sgmcmc._utils.metric import Metric, identity, metric_of, square_root
from pymc_sgmcmc._utils.validation import DEFAULT, is_auto, is_default
from pymc_sgmcmc.compile.backend import BACKENDS, Backend
from pymc_sgmcmc.dynamics.hyperparameters import constraints_of, hyperparameter
from pymc_sgmcmc.dynamics.schedules import STEP_SIZE, Constant, Schedule, as_schedule
from pymc_sgmcmc.model.full_data import minibatches
from pymc_sgmcmc.posterior.batch_sources import SOURCES, BatchSource, remembers
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.tuning.batch_limits import largest_batch
from pymc_sgmcmc.tuning.sparse_metric import unit_factor
from pymc_sgmcmc.tuning.tuned import Plan

__all__ = ["GRADIENTS", "PLAIN", "SHARED", "Arguments", "needs_independence"]

_log = logging.getLogger("pymc.sgmcmc")

GRADIENTS = ("auto", "plain", "control_variate", "svrg")

DENSE = 200
"""The largest d with a dense metric, where it is chosen automatically."""

MANY_ROWS = 20_000
"""From here on shuffling the data once is cheaper than gathering rows at every inner step."""

PLAIN = {
    "batch_size": None,
    "batches": "random",
    "gradient": "plain",
    "metric": None,
    "noise_estimate": 0.0,
}
"""What "default" stands for where the step size is given."""

_NOT_SPARSE = (
    "metric='sparse' needs second derivatives of the log-posterior that are known to be sparse: "
    "minibatched likelihoods that depend on each row through linear predictors, at least 50 "
    "parameters, a gradient other than 'plain', and priors of independent variables. Use "
    "metric='auto', 'diag' or 'dense'."
)

_COMPILE_KWARGS = Optional(
    MappingOf("keyword arguments of pytensor.function, such as {'mode': 'FAST_COMPILE'}")
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Arguments:
    """The arguments that all samplers share, as `SGMCMC` documents them.

    "default" is the word for what is not given. An instance has what it stands for: "auto" with
    ``step_size=None``, else the choice in `PLAIN`.
    """

    step_size: Any = hyperparameter(Optional(STEP_SIZE), default=None)
    batch_size: Any = hyperparameter(BATCH_SIZE, default=DEFAULT)
    batches: str = hyperparameter(
        Either(Word(DEFAULT), Choice(("auto", *SOURCES))), default=DEFAULT
    )
    gradient: str = hyperparameter(Either(Word(DEFAULT), Choice(GRADIENTS)), default=DEFAULT)
    metric: Any = hyperparameter(METRIC, default=DEFAULT)
    noise_estimate: Any = hyperparameter(
        Either(Word(DEFAULT), Word("auto"), Numbers(zero=True)), default=DEFAULT
    )
    bias_tolerance: float = hyperparameter(Positive(below=1), default=0.05)
    steps_per_draw: int = hyperparameter(Whole(), default=10)
    temperature: float = hyperparameter(Positive(), default=1.0)
    backend: str = hyperparameter(Choice(tuple(BACKENDS)), default="c")
    compile_kwargs: Mapping[str, Any] | None = hyperparameter(_COMPILE_KWARGS, default=None)
    rows: Mapping[str, int | None] | None = hyperparameter(ROWS, default=None)
    jitter: bool = hyperparameter(FLAG, default=True)
    model: Model | None = hyperparameter(MODEL, default=None)
    rng: Any = hyperparameter(RNG, default=None)
    initial_point: Mapping[str, np.ndarray] | None = hyperparameter(POINT, default=None)
    blocked: bool = hyperparameter(FLAG, default=True)

    def __post_init__(self) -> None:
        meaning: dict[str, Any] = dict(PLAIN)
        if self.schedule is None:
            meaning = dict.fromkeys(PLAIN, "auto")
        if remembers(self.batches):  # the noise of such batches is not known
            meaning["noise_estimate"] = 0.0
        for name, value in meaning.items():
            if is_default(getattr(self, name)):
                object.__setattr__(self, name, value)
        if not is_auto(self.noise_estimate):
            return
        if remembers(self.batches):
            raise needs_independence(self.noise_estimate, self.batches)
        if self.schedule is not None and not isinstance(self.schedule, Constant):
            raise ValueError(
                f"noise_estimate='auto' with step_size={self.step_size!r}: what is to be "
                "subtracted follows the step size. Use a constant one, or step_size=None."
            )

    @cached_property
    def schedule(self) -> Schedule | None:
        """Step sizes; None: they are tuned."""
        return None if self.step_size is None else as_schedule(self.step_size)

    def tunes(self) -> bool:
        """Whether there is anything to be found while tuning."""
        return (
            self.schedule is None
            or self.gradient != "plain"
            or is_auto(self.batch_size)
            or is_auto(self.noise_estimate)
            or isinstance(self.metric, str)
        )

    def tunes_batches(self, model: Model) -> bool:
        """Whether batch sizes of `model` are tuned; that of a `pm.Minibatch` is kept."""
        return is_auto(self.batch_size) and not minibatches(model)

    def target(self, model: Model, vars: Sequence[TensorVariable]) -> Target:
        """Return the target, on minibatches where the batch size is automatic and rows separate."""
        own = is_auto(self.batch_size) and minibatches(model)  # a pm.Minibatch has its batch size
        return Target(
            model,
            vars,
            batch_size=None if own else self.batch_size,
            rows=self.rows,
            initial_point=self.initial_point,
            backend=Backend(self.backend, self.compile_kwargs),
            with_predictors=self.gradient != "plain",
            partial_centring=self.tunes_coordinates,
        )

    @property
    def tunes_coordinates(self) -> bool:
        """Whether tuning chooses the coordinates in which to sample."""
        return self.schedule is None and isinstance(self.metric, str)

    def source(self, model: Model, target: Target) -> BatchSource:
        """Return where batches of `target` come from, which is of `model`."""
        lengths, name, largest = target.check_lengths(), self.batches, target.batch_sizes
        if self.tunes_batches(model):
            largest = [largest_batch(n, target.size) for n in lengths]
        if name == "auto":
            in_memory = all(group.is_in_memory for group in target.groups)
            are_many = len(lengths) and min(lengths) >= MANY_ROWS and in_memory
            name = "blocks" if are_many else "random"
        return SOURCES[name](target.groups, largest, target.others)

    def coordinates(self, target: Target) -> Coordinates:
        """Return the coordinates before tuning."""
        return Coordinates(np.zeros(target.size), self._metric(target))

    def _metric(self, target: Target) -> Metric:
        metric, size = self.metric, target.size
        if metric is None:
            return identity(size)
        if isinstance(metric, str):
            return self._named_metric(metric, target)
        if isinstance(metric, Metric):
            if np.shape(metric.scales) != (size,):
                raise ValueError(
                    f"metric={metric!r} has scales of shape {np.shape(metric.scales)}: pass one of "
                    f"the {size} coordinates."
                )
            return metric
        G = np.asarray(metric, dtype=float)
        if G.shape not in ((size,), (size, size)):
            raise ValueError(
                f"metric has shape {G.shape}: pass the variances of the {size} coordinates, shape "
                f"({size},), or their covariance, shape ({size}, {size})."
            )
        try:
            return metric_of(square_root(G))
        except np.linalg.LinAlgError:
            raise ValueError("metric must be positive (definite) and finite.") from None

    def _named_metric(self, metric: str, target: Target) -> Metric:
        size = target.size
        if metric == "auto":
            is_small = size <= DENSE
            metric = "dense" if is_small else "sparse" if target.is_structured else "diag"
        if metric == "sparse":
            if not target.is_structured:
                raise ValueError(_NOT_SPARSE)
            return unit_factor(size)
        return identity(size, dense=metric == "dense")

    def plan(self, model: Model, target: Target) -> Plan:
        """Return what is to be tuned."""
        gradient, others = self.gradient, target.others_in_batches()
        if others:
            # They move between our draws, and the gradient on all rows at an anchor does not.
            if gradient not in ("auto", "plain"):
                raise ValueError(
                    f"gradient={gradient!r} needs a likelihood that other step methods leave "
                    f"alone, and {others} in it are theirs. Sample them with this step method too, "
                    "or use gradient='plain'."
                )
            if gradient == "auto":
                _log.info(f"Plain gradients: other step methods draw {others} of the likelihood.")
            gradient = "plain"
        return Plan(
            step_size=self.schedule is None,
            batch_size=self.tunes_batches(model),
            metric=isinstance(self.metric, str),
            noise=is_auto(self.noise_estimate),
            gradient=gradient,
            tolerance=self.bias_tolerance,
        )


SHARED = constraints_of(Arguments)
"""What each argument that all samplers share may be."""


def needs_independence(noise_estimate: str, batches: str) -> ValueError:
    """Return the error where noise would be subtracted that has no such formula."""
    return ValueError(
        f"noise_estimate={noise_estimate!r} is for batches drawn independently: the noise of "
        f"batches={batches!r} is not. Leave it out, or use batches='random'."
    )
