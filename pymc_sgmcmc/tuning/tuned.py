"""The plan of tuning, and the results so far."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pymc_sgmcmc._utils.coordinates import Coordinates
from pymc_sgmcmc._utils.types import Vector
from pymc_sgmcmc.tuning.windows import Window

__all__ = ["Plan", "Tuned"]


@dataclass(frozen=True)
class Tuned:
    """Results of tuning a chain.

    Attributes
    ----------
    step_size : float
        Step size h; NaN where the user gives it.
    batch_sizes : tuple of int
    coordinates : Coordinates
    order : int
        Order of the control variate: 0 without, 1, or 2.
    is_svrg : bool
        Whether the centre of the control variate follows the chain (SVRG).
    anchor : array, shape (d,)
        Centre of the control variate.
    anchor_gradient : array, shape (D,)
        The gradient of the minibatched part of U there, on all rows: see `Target.anchor_gradient`.
    noise : array, shape (d,)
        V, the variance of the gradient in each coordinate z.
    pace : array, shape (d,)
        Length of the columns of L relative to the metric's: below 1 in coordinates with much noise.
    residual_noise : float
        Part of the noise that may remain after subtraction, or after a thermostat absorbs it.
    curvature : float
        The largest eigenvalue of the Hessian of U in z, at typical points.
    steepness : float
        The same at the steepest of these points.
    decrement : float
        g' L L' g at the located centre: about d or less.
    located : array, shape (d,)
        Where the last search for the posterior ended.
    searches : int
        Number of these searches.
    row_gradients : float
        Cost of tuning, in gradients of rows; in gradients of U where gradients are exact.
    injected_noise : float
        The noise that the sampler injects, as a rate: gradients add h V / 2 to it.
    step_factor : float
        Factor on h because draws diverged in tuning.
    jumps : bool
        Whether gradients jump, as those of quantile regression do.
    in_first_window : bool
        Whether the chain is in its first window.
    window : Window
        The draws since the last window was over.
    """

    step_size: float
    batch_sizes: tuple[int, ...]
    coordinates: Coordinates
    order: int
    anchor: Vector
    anchor_gradient: Vector
    noise: Vector
    pace: Vector
    window: Window
    located: Vector
    searches: int = 0
    is_svrg: bool = False
    residual_noise: float = 0.0
    curvature: float = np.nan
    steepness: float = np.nan
    decrement: float = np.nan
    row_gradients: float = 0.0
    injected_noise: float = np.nan
    step_factor: float = 1.0
    jumps: bool = False
    in_first_window: bool = False

    @classmethod
    def untuned(cls, batch_sizes: Sequence[int], coordinates: Coordinates) -> "Tuned":
        """Return the state before tuning, or of a chain that is not tuned."""
        size = len(coordinates.centre)
        zeros, ones = np.zeros(size), np.ones(size)
        window = Window.start(0, size, dense=coordinates.metric.dense)
        sizes = tuple(batch_sizes)
        return cls(np.nan, sizes, coordinates, 0, zeros, zeros, zeros, ones, window, located=zeros)


@dataclass(frozen=True)
class Plan:
    """Choice of the quantities that are tuned; the others are given.

    Attributes
    ----------
    step_size, batch_size, metric, noise : bool
        Whether each is tuned.
    gradient : str
        "auto", "plain", "control_variate" or "svrg".
    tolerance : float
        Tolerance of the relative error of a posterior variance.
    """

    step_size: bool
    batch_size: bool
    metric: bool
    noise: bool
    gradient: str
    tolerance: float
