"""What a chain sees of itself at a look."""

from dataclasses import dataclass

import numpy as np

from pymc_sgmcmc.chain.width import Width
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.tuning.tuned import Tuned

__all__ = ["MonitorInput"]


@dataclass(frozen=True)
class MonitorInput:
    """What there is to be seen at a look.

    Attributes
    ----------
    where : str
    target : Target
    tuned : Tuned
    width : Width
    noise : array, shape (d,)
        What gradient noise adds to W.
    tolerance : float
        Errors of a variance by noise that the user takes.
    temperature : float
    friction : float or None
        Where the thermostats should settle on average, if there are any.
    time : float
        That of the inner steps which the sums are of, in the sampler's units.
    plain : float or None
        The noise of plain gradients relative to that of the control variate, if there is one.
    energy : float
        The largest p.p before an inner step; 0 without momentum.
    dimension : int
        That of the space of q, in which p.p is a chi-square: d, or less on a manifold.
    stationary : bool
        Whether W says anything: step sizes constant, and batches independent.
    constant : bool
        Whether all draws are from one law.
    located : bool
        Whether tuning has found the posterior; else a chain may still be on its way.
    learned : bool
        Whether the sampler's coordinates are in posterior sds.
    mass : float
        The thermal mass; NaN without thermostats.
    """

    where: str
    target: Target
    tuned: Tuned
    width: Width
    noise: np.ndarray
    tolerance: float
    temperature: float
    friction: float | None
    time: float
    plain: float | None
    energy: float
    dimension: int
    stationary: bool
    constant: bool
    located: bool
    learned: bool
    mass: float
