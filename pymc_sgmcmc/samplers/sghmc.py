"""Stochastic gradient Hamiltonian Monte Carlo (Chen, Fox and Guestrin, 2014)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack, final

import pytensor.tensor as pt

from pymc_sgmcmc._utils.constraints import Numbers
from pymc_sgmcmc._utils.types import Graph
from pymc_sgmcmc.dynamics.hyperparameters import hyperparameter
from pymc_sgmcmc.dynamics.inputs import Gradient, Normals
from pymc_sgmcmc.dynamics.momentum import Momentum
from pymc_sgmcmc.dynamics.splittings import split, virial
from pymc_sgmcmc.dynamics.words import spelled, splitting
from pymc_sgmcmc.step.step_method import SGMCMC

if TYPE_CHECKING:
    from pymc_sgmcmc.step.keywords import PerCoordinate, Shared, StepSize

__all__ = ["SGHMC"]


@dataclass(frozen=True, kw_only=True, eq=False)
class UnderdampedLangevin(Momentum):
    """The algorithm of SGHMC."""

    name = "sghmc"

    friction: Any = hyperparameter(Numbers(), default=1.0)
    integrator: str = hyperparameter(splitting(thermostat=False), default="BAOAB")

    def virial(
        self, q: Graph, p: Graph, *, g: Graph, h: Graph, friction: Graph, diffusion: Graph,
    ) -> Graph | None:  # fmt: skip
        return virial(self.integrator, p, g, h, friction)

    def update(
        self, q: Graph, p: Graph, *, grad: Gradient, h: Graph, noise: Normals, friction: Graph,
        diffusion: Graph,
    ) -> tuple[Graph, ...]:  # fmt: skip
        if self.integrator == "euler":
            p = p - h * grad(q) - h * friction * p + pt.sqrt(2 * diffusion * h) * noise()
            return q + h * p, p
        word = spelled(self.integrator, thermostat=False)
        return split(word, q, p, friction, grad=grad, h=h, noise=noise, diffusion=diffusion)[:2]


@final
class SGHMC(SGMCMC):
    r"""Stochastic gradient Hamiltonian Monte Carlo of Chen, Fox and Guestrin (2014), equation 13.

    With the minibatch gradient g(q) of U, step size h, friction C, noise estimate B,
    temperature T, D = C T - B and normals z, ``integrator="euler"`` is the paper's::

        p <- p - h g(q) - h C p + sqrt(2 D h) z
        q <- q + h p

    "symmetric" is the splitting of Chen, Ding and Carin (2015): half a drift, half the friction,
    kick with noise, half the friction, half a drift. Any other is a word of flows, each solved
    exactly: A drift, B kick, O friction and noise, U drift, friction and noise. "BAOAB" (Leimkuhler
    and Matthews, 2013), the default, kicks by a whole step at the q that the step before returned,
    drifts by half, solves dp = -C p dt + sqrt(2 D) dW, and drifts by half.

    Leaves invariant: exp(-(U(q) + p.p / 2) / T) as h -> 0 if B is the noise h V / 2 that gradients
    of variance V add. On a Gaussian coordinate of precision a with V = 0, the laws of q of BAOAB
    and ABOBA are exact at every stable h, and OBABO's variance is 1 / (1 - h^2 a / 4) of the right
    one; with noise and B = 0 variances are too wide by about h V / (2 C T).

    One gradient an inner step. The paper's eta is h^2 and its alpha is C h.

    Parameters
    ----------
    vars : list of variables, optional
        What to sample; default all continuous variables.
    step_size : float, Schedule or None
        h > 0. None: tuned. On a Gaussian, splittings are stable for h^2 times the largest
        curvature of U below 4; Euler asks for less, and for h C well below 2.
    friction : float or array of shape (d,)
        C > 0, a rate (one over time).
    noise_estimate : float, array of shape (d,), or "auto"
        B >= 0, a rate, at most friction x temperature: subtracted from the injected noise. "auto"
        (the default if the step size is tuned): measured.
    integrator : str
        "BAOAB", "ABOBA", "OBABO", "UBU", another symmetric word, "symmetric" or "euler".
    **kwargs
        Common to all samplers: see :class:`~pymc_sgmcmc.SGMCMC`.

    Raises
    ------
    ValueError, TypeError
        If an argument is out of range or the model cannot be sampled; the message names it.

    References
    ----------
    - Chen, T., Fox, E. B. and Guestrin, C. (2014). Stochastic gradient Hamiltonian Monte Carlo.
      ICML.
    - Chen, C., Ding, N. and Carin, L. (2015). On the convergence of stochastic gradient MCMC
      algorithms with high-order integrators. NIPS.
    - Leimkuhler, B. and Matthews, C. (2013). Rational construction of stochastic numerical methods
      for molecular sampling. Applied Mathematics Research eXpress.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from pymc_sgmcmc import SGHMC
    >>> with pm.Model():
    ...     mu = pm.Normal("mu")
    ...     y = pm.Normal("y", mu, observed=np.arange(10.0))
    ...     idata = pm.sample(step=SGHMC(), progressbar=False, random_seed=1)
    >>> float(idata.posterior["mu"].mean().round(1))
    4.1
    """

    algorithm_class = UnderdampedLangevin

    if TYPE_CHECKING:

        def __init__(
            self, vars: Any = None, *, step_size: StepSize | None = None,
            friction: PerCoordinate = 1.0, integrator: str = "BAOAB", **others: Unpack[Shared],
        ) -> None: ...  # fmt: skip
