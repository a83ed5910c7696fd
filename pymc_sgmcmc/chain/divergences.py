"""Criteria for divergences, and the messages about them.

A draw diverges if its state is not finite, or beyond the bounds of any stationary chain.
"""

from math import inf, sqrt
from typing import NamedTuple

import numpy as np
from pymc.exceptions import SamplingError

from pymc_sgmcmc._utils.alarm import Alarm
from pymc_sgmcmc._utils.significance import largest_energy
from pymc_sgmcmc.chain.kernel_output import KernelOutput
from pymc_sgmcmc.chain.monitor_input import MonitorInput
from pymc_sgmcmc.posterior.nonfinite import REMEDY, culprit, is_transformed, without_derivative
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.tuning.tuned import Tuned

__all__ = [
    "FARTHEST",
    "MAX_FAILURES",
    "UNBOUNDED",
    "Bounds",
    "divergence_alarm",
    "explain_divergence",
    "last_divergence",
    "refuse_without_derivative",
    "start_alarm",
]

FAR = 15.0
"""Absolute log scale that hardly occurs in real data: a factor of 3e6."""

MAX_FAILURES = 10
"""Number of diverging draws in a row after which a chain gives up."""

FARTHEST = 1e12
"""|z|^2 / d beyond which a draw has left the posterior, for z in the posterior sds that tuning
learned. One in 10^18 independent draws from a Student t with 3 degrees of freedom is farther away,
and one in 10^6 from a Cauchy law. No other step method moves a posterior by a million sds."""

ENERGY_CHANCE = 1e-12
"""Chance that p.p exceeds its quantile at an inner step. At stationarity p.p is chi-square with d
degrees of freedom for every posterior."""

ENERGY_ROOM = 4.0
"""Ratio of the bound on p.p to that quantile. The step size, and gradient noise with rare large
rows, make p longer: up to twice as long is allowed."""

FRICTION_SDS = 10.0
"""Sds of the mean friction xi within the bounds. With thermostats xi is normal around A plus the
noise, with variance T / (d Q); ten sds are exceeded with a chance of 10^-23."""

FRICTION_ROOM = 100.0
"""Ratio of the bound, before those sds are added, to the friction expected at the end of tuning.
Gradient noise may be larger elsewhere in the posterior."""
_REMEDY = "Choose a smaller step_size, more friction or diffusion, or a larger batch_size"
_REMEDY_TUNED = "Lower bias_tolerance, tune longer, or give the model another parametrisation"


class Bounds(NamedTuple):
    """Bounds that no stationary chain exceeds, infinite if unknown.

    Attributes
    ----------
    reach : float
        Bound on |z|^2; infinite unless a metric was learned, because z has no scale then.
    energy : float
        Bound on p.p before an inner step.
    least_friction, most_friction : float
        Bounds on the mean of xi over a draw and the coordinates.
    """

    reach: float = inf
    energy: float = inf
    least_friction: float = -inf
    most_friction: float = inf

    @classmethod
    def of_chain(cls, inputs: MonitorInput) -> "Bounds":
        """Return the bounds of a chain with a constant step size."""
        heat, friction, mass = inputs.heat, inputs.expected_friction, inputs.thermal_mass
        reach = FARTHEST * len(inputs.noise) if inputs.learned_metric else inf
        energy = inf
        if np.isfinite(heat):
            quantile = largest_energy(inputs.dimension, ENERGY_CHANCE)
            energy = ENERGY_ROOM * max(heat, inputs.temperature) * quantile
        if friction is None or not (np.isfinite(friction) and mass > 0):
            return cls(reach, energy)
        spread = FRICTION_SDS * sqrt(inputs.temperature / (inputs.dimension * mass))
        return cls(reach, energy, -friction - spread, FRICTION_ROOM * friction + spread)

    def exceeded(self, output: KernelOutput) -> bool:
        """Return whether a draw exceeds the bounds; NaN, for a missing quantity, does not."""
        friction = output.thermostat
        return (
            output.reach > self.reach
            or output.largest_energy > self.energy
            or friction > self.most_friction
            or friction < self.least_friction
        )


UNBOUNDED = Bounds()


def explain_divergence(output: KernelOutput, bounds: Bounds, size: int) -> str:
    """Return a text that says why a draw with this `output` is a divergence."""
    if not output.is_finite:
        return "the state became non-finite"
    if output.reach > bounds.reach:
        away = sqrt(output.reach / size)
        return f"the chain was thrown {away:.2g} posterior sds away from its centre"
    if output.largest_energy > bounds.energy:
        times = ENERGY_ROOM * output.largest_energy / bounds.energy
        return (
            f"the chain was thrown off: its kinetic energy was {times:.3g} times the largest of "
            f"10^{-np.log10(ENERGY_CHANCE):.0f} steps of a stationary chain"
        )
    return f"the thermostat's friction was {output.thermostat:.3g}, which no stationary chain has"


def divergence_alarm(
    where: str,
    what: str,
    step_size: float,
    *,
    tune: bool,
    first: bool,
    tuned: bool,
    left: str = "",
) -> Alarm:
    """Return the alarm at a diverging draw; PyMC prints that of the first one after tuning.

    `left` names the part of the model that gives density zero, if the end of the draw is finite and
    outside the support.
    """
    what, remedy = f"{what} at step_size {step_size:.3g}", _remedy(tuned)
    if left:
        what = f"the chain left the support. {left}"
        remedy = (
            "Gradients do not see an edge, and draws near it are not to be trusted. Transform the "
            "variable, write the model without the edge, or sample it with NUTS"
        )
    return Alarm(
        "tuning divergence" if tune else "divergence",
        f"{where}: {what.rstrip('.')}. It repeats the draw before and is flagged `diverging`, as "
        f"later ones will be without a message. {remedy}.",
        "warn" if first and not tune else "debug",
    )


def last_divergence(
    where: str, what: str, step_size: float, target: Target, q: np.ndarray, *, tuned: bool
) -> SamplingError:
    """Return the error that ends a chain whose last finite position is `q`."""
    value, gradient = target.value_and_gradient(q)
    steepest = target.coordinate(int(np.argmax(np.nan_to_num(np.abs(gradient), nan=np.inf))))
    seen = f"The gradient is largest in {steepest}."
    if not (np.isfinite(value) and np.isfinite(gradient).all()):
        seen = culprit(target, q) or seen
    return SamplingError(
        f"{where}: {what} at step_size {step_size:.3g}, {MAX_FAILURES} draws in a row. "
        f"{seen} {_remedy(tuned)}, or start closer "
        "to the posterior with initvals=."
    )


def refuse_without_derivative(where: str, target: Target, q: np.ndarray) -> None:
    """Raise SamplingError if some rows have a value at `q` but no finite gradient."""
    found = without_derivative(target, q)
    if found:
        raise SamplingError(f"{where}: the state became non-finite. {found} {REMEDY}")


def _remedy(tuned: bool) -> str:
    """Return advice for the user; `tuned` says whether the step size is tuned."""
    return _REMEDY_TUNED if tuned else _REMEDY


def start_alarm(where: str, tuned: Tuned, target: Target) -> Alarm:
    """Return the alarm about tuning that starts at an untypical point of the posterior."""
    centre, scales = tuned.coordinates.centre, tuned.coordinates.metric.scales
    _, gradient = target.value_and_gradient(centre)
    steepest = int(np.argmax(np.nan_to_num(np.abs(scales * gradient), nan=np.inf)))
    scale = ""
    if abs(centre[steepest]) > FAR and is_transformed(target)[steepest]:
        scale = (
            f" It is {centre[steepest]:.3g} there, a scale that vanishes or a bound that is "
            "touched: data without any spread do this, or a hierarchy whose joint density is "
            "infinite where its scale is zero."
        )
    return Alarm(
        "start",
        f"{where}: the region of high posterior density was not found. The gradient at the point "
        f"where tuning starts is too steep (decrement {tuned.decrement:.3g}, where {target.size} "
        f"is typical), most so along {target.coordinate(steepest)}.{scale} "
        "Start closer to it with initvals=, tune longer, or look at R-hat with suspicion.",
    )
