"""What a chain says when its state became non-finite, or the posterior is not where it is."""

import numpy as np
from pymc.exceptions import SamplingError
from pymc.stats.convergence import SamplerWarning, WarningType

from pymc_sgmcmc.nonfinite import REMEDY, culprit, is_transformed, without_derivative
from pymc_sgmcmc.target import Target
from pymc_sgmcmc.tuned import Tuned

__all__ = ["MAX_FAILURES", "divergence", "gave_up", "not_located",
           "refuse_without_derivative"]  # fmt: skip

FAR = 15.0
"""A logarithm of a scale that is hardly one of real data: a factor of 3e6."""

MAX_FAILURES = 10
"""Diverging draws in a row after which a chain gives up."""

_WHAT = "the state became non-finite at step_size {:.3g}"
_REMEDY = "Choose a smaller step_size, more friction or diffusion, or a larger batch_size"
_REMEDY_TUNED = "Lower bias_tolerance, tune longer, or give the model another parametrisation"


def divergence(
    where: str, step_size: float, draw: int, tune: bool, *, first: bool, tuned: bool, left: str = ""
) -> SamplerWarning:
    """The warning that goes with a diverging draw; PyMC prints that of the first after tuning.

    `left`: where the end of the draw is finite and its density zero, what of the model says so.
    """
    what, remedy = _WHAT.format(step_size), _remedy(tuned)
    if left:
        what = f"the chain left the support. {left}"
        remedy = (
            "Gradients do not see an edge, and draws near it are not to be trusted. Transform the "
            "variable, write the model without the edge, or sample it with NUTS"
        )
    return SamplerWarning(
        WarningType.TUNING_DIVERGENCE if tune else WarningType.DIVERGENCE,
        f"{where}: {what.rstrip('.')}. It repeats the draw before and is flagged `diverging`, as "
        f"later ones will be without a message. {remedy}.",
        "warn" if first and not tune else "debug",
        step=draw,
    )


def gave_up(
    where: str, step_size: float, target: Target, q: np.ndarray, *, tuned: bool
) -> SamplingError:
    """The error that ends a chain whose last finite position is `q`."""
    value, gradient = target.value_and_gradient(q)
    steepest = target.coordinate(int(np.argmax(np.nan_to_num(np.abs(gradient), nan=np.inf))))
    seen = f"The gradient is largest in {steepest}."
    if not (np.isfinite(value) and np.isfinite(gradient).all()):
        seen = culprit(target, q) or seen
    return SamplingError(
        f"{where}: {_WHAT.format(step_size)}, {MAX_FAILURES} draws in a row. "
        f"{seen} {_remedy(tuned)}, or start closer "
        "to the posterior with initvals=."
    )


def refuse_without_derivative(where: str, target: Target, q: np.ndarray) -> None:
    """Raise SamplingError if some rows have a value at `q`, and no finite gradient."""
    found = without_derivative(target, q)
    if found:
        raise SamplingError(f"{where}: the state became non-finite. {found} {REMEDY}")


def _remedy(tuned: bool) -> str:
    """What to try: `tuned` says whether the step size is."""
    return _REMEDY_TUNED if tuned else _REMEDY


def not_located(where: str, tuned: Tuned, target: Target) -> SamplerWarning:
    """The warning where tuning starts at a point that is no typical one."""
    centre, factor = tuned.coordinates.centre, tuned.coordinates.factor
    _, gradient = target.value_and_gradient(centre)
    scales = np.linalg.norm(factor, axis=1) if factor.ndim == 2 else factor
    steepest = int(np.argmax(np.nan_to_num(np.abs(scales * gradient), nan=np.inf)))
    scale = ""
    if abs(centre[steepest]) > FAR and is_transformed(target)[steepest]:
        scale = (
            f" It is {centre[steepest]:.3g} there, a scale that vanishes or a bound that is "
            "touched: data without any spread do this, or a hierarchy whose joint density is "
            "infinite where its scale is zero."
        )
    return SamplerWarning(
        WarningType.BAD_PARAMS,
        f"{where}: the region of high posterior density was not found. The gradient at the point "
        f"where tuning starts is too steep (decrement {tuned.decrement:.3g}, where {target.size} "
        f"is typical), most so along {target.coordinate(steepest)}.{scale} "
        "Start closer to it with initvals=, tune longer, or look at R-hat with suspicion.",
        "warn",
        step=0,
    )
