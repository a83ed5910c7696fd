"""Numbers from which the alarms of a chain are computed, at one inspection."""

from dataclasses import dataclass

import numpy as np

from pymc_sgmcmc.chain.width import Width
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.tuning.tuned import Tuned

__all__ = ["MonitorInput"]


@dataclass(frozen=True)
class MonitorInput:
    """Quantities of a chain from which its alarms are computed.

    Attributes
    ----------
    where : str
    target : Target
    tuned : Tuned
    width : Width
    noise : array, shape (d,)
        The part of W that gradient noise adds.
    tolerance : float
        Relative error of a variance from noise that the user accepts.
    temperature : float
    expected_friction : float or None
        The mean that the thermostats should settle at; None without thermostats.
    duration : float
        Duration of the summed inner steps, in the sampler's units.
    plain_noise : float or None
        Noise of plain gradients relative to that of the control variate; None without one.
    dimension : int
        Dimension of the space of q, the degrees of freedom of p.p: d, or less on a manifold.
    has_width : bool
        Whether W is meaningful: step sizes are constant, and batches independent.
    stationary : bool
        Whether all draws are from one law.
    located : bool
        Whether tuning has found the posterior. If not, the chain may still be on its way.
    learned_metric : bool
        Whether the sampler's coordinates are in posterior sds.
    thermal_mass : float
        The thermal mass; NaN without thermostats.
    """

    where: str
    target: Target
    tuned: Tuned
    width: Width
    noise: np.ndarray
    tolerance: float
    temperature: float
    expected_friction: float | None
    duration: float
    plain_noise: float | None
    dimension: int
    has_width: bool
    stationary: bool
    located: bool
    learned_metric: bool
    thermal_mass: float

    @property
    def heat(self) -> float:
        """The mean of p.p / dimension, which noise may raise above T; NaN without momentum."""
        return float(self.width.sums.mean("p2").sum()) / self.dimension
