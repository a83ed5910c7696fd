"""What a chain says when its state became non-finite, or the posterior is not where it is."""

import numpy as np
from pymc.exceptions import SamplingError
from pymc.stats.convergence import SamplerWarning, WarningType

from pymc_sgmcmc.target import Target

__all__ = ["MAX_FAILURES", "divergence", "gave_up", "not_located"]

MAX_FAILURES = 10
"""Diverging draws in a row after which a chain gives up."""

_WHAT = "the state became non-finite at step_size {:.3g}"
_REMEDY = "Choose a smaller step_size, more friction or diffusion, or a larger batch_size"
_REMEDY_TUNED = "Lower bias_tolerance, tune longer, or give the model another parametrisation"


def divergence(
    where: str, step_size: float, draw: int, tune: bool, *, first: bool, tuned: bool
) -> SamplerWarning:
    """The warning that goes with a diverging draw; PyMC prints that of the first after tuning."""
    return SamplerWarning(
        WarningType.TUNING_DIVERGENCE if tune else WarningType.DIVERGENCE,
        f"{where}: {_WHAT.format(step_size)}. It repeats the draw before and is flagged "
        f"`diverging`, as later ones will be without a message. {_remedy(tuned)}.",
        "warn" if first and not tune else "debug",
        step=draw,
    )


def gave_up(
    where: str, step_size: float, target: Target, q: np.ndarray, *, tuned: bool
) -> SamplingError:
    """The error that ends a chain whose last finite position is `q`."""
    _, gradient = target.value_and_gradient(q)
    steepest = int(np.argmax(np.nan_to_num(np.abs(gradient), nan=np.inf)))
    return SamplingError(
        f"{where}: {_WHAT.format(step_size)}, {MAX_FAILURES} draws in a row. The gradient is "
        f"largest in {target.coordinate(steepest)}. {_remedy(tuned)}, or start closer "
        "to the posterior with initvals=."
    )


def _remedy(tuned: bool) -> str:
    """What to try: `tuned` says whether the step size is."""
    return _REMEDY_TUNED if tuned else _REMEDY


def not_located(where: str, decrement: float, size: int) -> SamplerWarning:
    """The warning where tuning starts at a point that is no typical one."""
    return SamplerWarning(
        WarningType.BAD_PARAMS,
        f"{where}: the region of high posterior density was not found. The gradient at the point "
        f"where tuning starts is too steep (decrement {decrement:.3g}, where {size} is typical). "
        "Start closer to it with initvals=, tune longer, or look at R-hat with suspicion.",
        "warn",
        step=0,
    )
