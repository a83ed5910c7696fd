"""SGNHT among the step methods that `pm.sample` assigns by itself."""

import sys
from types import FrameType
from typing import Any, final

from pymc import Model
from pymc.step_methods import STEP_METHODS
from pymc.step_methods.compound import BlockedStep, Competence
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc._utils.warn_user import warn_user
from pymc_sgmcmc.model.full_data import minibatches
from pymc_sgmcmc.samplers.sgnht import SGNHT

__all__ = ["register"]


def register() -> None:
    """Let `pm.sample` give the continuous variables of a model with `pm.Minibatch` to `SGNHT`.

    It tunes itself; settings go into ``pm.sample(sgnht={...})``. Models without `pm.Minibatch` get
    the step methods that they had before. To call it again changes nothing.

    Warns
    -----
    UserWarning
        When step methods are assigned and the model of a variable cannot be found. That happens to
        callers other than `pm.sample`, outside the model's context; PyMC's choice then stands.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_sgmcmc
    >>> pymc_sgmcmc.register()
    >>> with pm.Model():
    ...     batch = pm.Minibatch(np.arange(100.0) / 50, batch_size=10)
    ...     y = pm.Normal("y", pm.Normal("mu"), observed=batch, total_size=100)
    ...     idata = pm.sample(sgnht={"bias_tolerance": 0.02}, progressbar=False, random_seed=1)
    >>> float(idata.posterior["mu"].mean().round(1))
    1.0
    """
    if AssignedSGNHT not in STEP_METHODS:
        STEP_METHODS.append(AssignedSGNHT)


@final
class AssignedSGNHT(BlockedStep):
    """What `pm.sample` sees of `SGNHT`: it asks for the competence and makes the step method."""

    name = "sgnht"

    def __new__(cls, vars: Any = None, **kwargs: Any) -> SGNHT:
        return SGNHT(vars, **kwargs)

    @staticmethod
    def competence(var: TensorVariable, has_grad: bool) -> int:
        """Above all others for a variable with a gradient in a model that has a `pm.Minibatch`."""
        model = _model_of(var)
        if model is None:
            warn_user(
                f"The model of {var.name!r} was not found, so SGNHT is not assigned to it. If the "
                "model has a pm.Minibatch, PyMC's own step methods sample a wrong posterior: pass "
                "step=SGNHT(...).",
            )
        if model is None or not has_grad or not minibatches(model):
            return Competence.INCOMPATIBLE
        return Competence.IDEAL + 1  # NUTS comes first among the ideal ones.


def _model_of(var: TensorVariable) -> Model | None:
    """Return the model whose variable is being assigned.

    PyMC does not say. The model's context may be absent (``pm.sample(model=model)``) or that of
    another model with the same variable (`full_data` of it), so ask the caller that assigns.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        model = frame.f_locals.get("model")
        if _holds(model, var):
            return model
        frame = frame.f_back
    model = Model.get_context(error_if_none=False)
    return model if _holds(model, var) else None


def _holds(model: Any, var: TensorVariable) -> bool:
    return any(var is free for free in getattr(model, "free_RVs", ()))
