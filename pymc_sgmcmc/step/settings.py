"""What the arguments that all samplers share mean together, and what of it is to be tuned."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pymc import Model
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc._utils.coordinates import Coordinates
from pymc_sgmcmc.compile.backend import Backend
from pymc_sgmcmc.dynamics.schedules import Constant, as_schedule
from pymc_sgmcmc.model.full_data import minibatches
from pymc_sgmcmc.posterior.batch_sources import SOURCES
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.rows.requests import AUTO
from pymc_sgmcmc.tuning.tuned import Plan
from pymc_sgmcmc.tuning.tuner import largest_batch

__all__ = ["DEFAULT", "Settings", "not_for_epochs"]

_log = logging.getLogger("pymc.sgmcmc")

DEFAULT = "default"
"""An argument that was not given: automatic with ``step_size=None``, else the plain one."""

GRADIENTS = ("auto", "plain", "control_variate", "svrg")

DENSE = 200
"""The largest d with a dense metric, where it is chosen automatically."""

MANY_ROWS = 20_000
"""From here on shuffling the data once is cheaper than gathering rows at every inner step."""


def is_default(value: Any) -> bool:
    return isinstance(value, str) and value == DEFAULT


def is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def not_for_epochs(noise_estimate: str) -> ValueError:
    """What is raised where noise would be subtracted that has no such formula."""
    return ValueError(
        f"noise_estimate={noise_estimate!r} is for batches drawn independently: the noise of "
        "batches='epochs' is not. Leave it out, or use batches='random'."
    )


class Settings:
    """The arguments of a step method, with their defaults filled in.

    Attributes
    ----------
    schedule : Schedule or None
        None: the step size is tuned.
    batch_size, batches, gradient, metric, noise_estimate
        The arguments, none of them "default".
    """

    def __init__(self, *, step_size, batch_size, batches, gradient, metric, noise_estimate):
        automatic = step_size is None
        self.schedule = None if automatic else as_schedule(step_size)

        def filled(value, otherwise):
            return ("auto" if automatic else otherwise) if is_default(value) else value

        self.batch_size = filled(batch_size, None)
        self.batches, self.gradient = filled(batches, "random"), filled(gradient, "plain")
        self.metric = filled(metric, None)
        self.noise_estimate = filled(noise_estimate, 0.0)
        if is_default(noise_estimate) and self.batches == "epochs":
            self.noise_estimate = 0.0
        if is_auto(self.noise_estimate):
            if self.batches == "epochs":
                raise not_for_epochs(self.noise_estimate)
            if self.schedule is not None and not isinstance(self.schedule, Constant):
                raise ValueError(
                    f"noise_estimate='auto' with step_size={step_size!r}: what is to be subtracted "
                    "follows the step size. Use a constant one, or step_size=None."
                )

    def tunes(self) -> bool:
        """Whether there is anything to be found while tuning."""
        return (
            self.schedule is None
            or self.gradient != "plain"
            or is_auto(self.batch_size)
            or is_auto(self.noise_estimate)
            or isinstance(self.metric, str)
        )

    def target(
        self,
        model: Model,
        vars: Sequence[TensorVariable],
        rows: Mapping[str, int | None] | None,
        initial_point: Mapping[str, np.ndarray],
        backend: Backend,
    ) -> Target:
        """The target, on minibatches where the batch size is automatic and rows separate."""
        settings = {
            "rows": rows,
            "initial_point": initial_point,
            "backend": backend,
            "keeps_slopes": self.gradient != "plain",
        }
        if not is_auto(self.batch_size):
            return Target(model, vars, batch_size=self.batch_size, **settings)
        if minibatches(model):
            self.batch_size = None  # it has a batch size, which is kept
            return Target(model, vars, **settings)
        return Target(model, vars, batch_size=AUTO, **settings)

    def source(self, target: Target):
        """Where batches come from."""
        lengths, name, largest = target.check_lengths(), self.batches, target.batch_sizes
        if is_auto(self.batch_size):
            largest = [largest_batch(n) for n in lengths]
        if name == "auto":
            name = "blocks" if len(lengths) and min(lengths) >= MANY_ROWS else "random"
        return SOURCES[name](target.groups, largest, target.others)

    def coordinates(self, size: int) -> Coordinates:
        """The coordinates before tuning."""
        if self.metric is None:
            return Coordinates.identity(size)
        if isinstance(self.metric, str):
            dense = self.metric == "dense" or (self.metric == "auto" and size <= DENSE)
            return Coordinates.identity(size, 2 if dense else 1)
        G = np.asarray(self.metric, dtype=float)
        if G.shape not in ((size,), (size, size)):
            raise ValueError(
                f"metric has shape {G.shape}: pass the variances of the {size} coordinates, shape "
                f"({size},), or their covariance, shape ({size}, {size})."
            )
        try:
            factor = np.linalg.cholesky(G) if G.ndim == 2 else np.sqrt(G)
        except np.linalg.LinAlgError:
            factor = np.full(size, np.nan)
        if not (np.isfinite(factor).all() and (factor.ndim == 2 or (factor > 0).all())):
            raise ValueError("metric must be positive (definite) and finite.")
        return Coordinates(np.zeros(size), factor)

    def plan(self, target: Target, tolerance: float, absorbs: bool) -> Plan:
        """What is to be tuned."""
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
            batch_size=is_auto(self.batch_size),
            metric=isinstance(self.metric, str),
            noise=is_auto(self.noise_estimate),
            gradient=gradient,
            tolerance=tolerance,
            absorbs=absorbs,
        )
