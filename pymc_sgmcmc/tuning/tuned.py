"""What is to be found while tuning, and what has been found so far."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pymc_sgmcmc._utils.coordinates import Coordinates
from pymc_sgmcmc.tuning.windows import Window

__all__ = ["Plan", "Tuned"]


@dataclass(frozen=True)
class Tuned:
    """What a chain has found.

    Attributes
    ----------
    step_size : float
        NaN where it is given.
    batch_sizes : tuple of int
    coordinates : Coordinates
    control, follows : bool
        Whether the gradient has a control variate, and whether its centre follows the chain (SVRG).
    anchor, anchor_gradient : array, shape (d,)
        Its centre, and the gradient of the minibatched part of U there, on all rows.
    noise : array, shape (d,)
        V, the variance of the gradient in each coordinate z.
    slow : array, shape (d,)
        How much shorter the columns of L are than the metric's, in coordinates with much noise.
    left : float
        The part of the noise that may remain when it is subtracted, or taken up by a thermostat.
    curvature : float
        The largest eigenvalue of the Hessian of U in z, at typical points.
    decrement : float
        g' L L' g at the centre that was located: about d or less.
    row_gradients : float
        What tuning has cost: gradients of rows; where gradients are exact, of U.
    capacity : float
        The noise that the sampler injects, as a rate: gradients add h V / 2 to it.
    shrink : float
        By how much h was cut because chains diverged in tuning.
    warming : bool
        In the first window.
    window : Window
        The draws since the last one was over.
    """

    step_size: float
    batch_sizes: tuple[int, ...]
    coordinates: Coordinates
    control: bool
    anchor: np.ndarray
    anchor_gradient: np.ndarray
    noise: np.ndarray
    slow: np.ndarray
    window: Window
    follows: bool = False
    left: float = 0.0
    curvature: float = np.nan
    decrement: float = np.nan
    row_gradients: float = 0.0
    capacity: float = np.nan
    shrink: float = 1.0
    warming: bool = False

    @classmethod
    def untuned(cls, batch_sizes: Sequence[int], coordinates: Coordinates) -> "Tuned":
        """Before anything is known, and where nothing is to be found."""
        size, ndim = len(coordinates.centre), coordinates.factor.ndim
        zeros, ones, window = np.zeros(size), np.ones(size), Window.start(0, size, ndim)
        sizes = tuple(batch_sizes)
        return cls(np.nan, sizes, coordinates, False, zeros, zeros, zeros, ones, window)


@dataclass(frozen=True)
class Plan:
    """What is to be found; the rest is given.

    Attributes
    ----------
    step_size, batch_size, metric, noise : bool
    gradient : str
        "auto", "plain", "control_variate" or "svrg".
    tolerance : float
        Of the relative error of a posterior variance.
    absorbs : bool
        Whether the sampler takes up noise that is not subtracted.
    """

    step_size: bool
    batch_size: bool
    metric: bool
    noise: bool
    gradient: str
    tolerance: float
    absorbs: bool
