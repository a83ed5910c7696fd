"""Geodesic stochastic gradient Nosé-Hoover thermostat (Liu, Zhu and Song, 2016)."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Unpack, final

from pymc_sgmcmc._utils.constraints import Positive
from pymc_sgmcmc._utils.types import Graph
from pymc_sgmcmc.dynamics.hyperparameters import hyperparameter
from pymc_sgmcmc.dynamics.inputs import Gradient, Normals
from pymc_sgmcmc.dynamics.momentum import Thermostatted
from pymc_sgmcmc.dynamics.splittings import split
from pymc_sgmcmc.dynamics.thermostats import Scalar
from pymc_sgmcmc.dynamics.words import spelled, splitting
from pymc_sgmcmc.step.step_method import SGMCMC

if TYPE_CHECKING:
    from pymc_sgmcmc.step.keywords import Shared, StepSize

__all__ = ["gSGNHT"]


@dataclass(frozen=True, kw_only=True, eq=False)
class GeodesicNoseHoover(Thermostatted):
    """The algorithm of gSGNHT."""

    name = "gsgnht"
    on_manifolds = True

    diffusion: float = hyperparameter(Positive(), default=1.0)
    integrator: str = hyperparameter(splitting(thermostat=True, curved=True), default="BAOAB")

    @property
    def heat_bath(self) -> Scalar:
        return Scalar(self.space.dimension)

    def update(
        self, q: Graph, p: Graph, xi: Graph, *, grad: Gradient, h: Graph, noise: Normals,
        diffusion: Graph, temperature: Graph, mass: Graph,
    ) -> tuple[Graph, ...]:  # fmt: skip
        return split(
            spelled(self.integrator, thermostat=True), q, self.space.tangent(q, p), xi,
            grad=grad, h=h, noise=noise, diffusion=diffusion, space=self.space,
            heat=partial(self.heat_bath.heat, temperature=temperature, mass=mass),
        )  # fmt: skip


@final
class gSGNHT(SGMCMC):
    r"""Geodesic stochastic gradient Nosé-Hoover thermostat of Liu et al. (2016), algorithm 2.

    :class:`~pymc_sgmcmc.SGGMC` with a friction xi that absorbs gradient noise of unknown size. With
    m the dimension of the manifolds, not of what they are embedded in, diffusion A, temperature T
    and thermal mass Q, the thermostat of :class:`~pymc_sgmcmc.SGNHT` is::

        xi <- xi + h (p.p / m - T) / Q

    "BAOAB", the default, is BADODAB with geodesics for its drifts. "symmetric" is the paper's
    scheme: half a geodesic and half the thermostat, half the friction, kick with noise, half the
    friction, half the thermostat and half a geodesic.

    Leaves invariant: exp(-(U(q) + p.p / 2 + m Q (xi - A)^2 / 2) / T) on the tangent bundle as
    h -> 0, with the density of q with respect to the surface. Gradient noise of one variance V in
    all tangent directions moves xi's mean to A + h V / (2 T) and nothing else.

    One gradient an inner step.

    Parameters
    ----------
    vars : list of variables, optional
        What to sample; default all continuous variables.
    step_size : float or Schedule
        h > 0, the time of an inner step; stable for h^2 times the largest curvature of U below 4.
    diffusion : float
        A > 0, a rate (one over time): the injected noise, and where xi starts.
    noise_estimate : float
        B >= 0, a rate, at most diffusion x temperature: subtracted from the injected noise.
    thermal_mass : "auto" or float
        Q > 0, a time squared; "auto": max(1, 10 / m) / max(1, A)^2.
    integrator : str
        "BAOAB", "ABDODBA", "ODBABDO", another symmetric word of A, B, O and D, or "symmetric".
    **kwargs
        As for all samplers, but that on manifolds nothing is tuned and there is no metric: see
        :class:`~pymc_sgmcmc.SGMCMC`.

    Raises
    ------
    ValueError, TypeError, NotImplementedError
        If an argument is out of range or the model cannot be sampled; the message names it.

    References
    ----------
    - Liu, C., Zhu, J. and Song, Y. (2016). Stochastic gradient geodesic MCMC methods. NIPS.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from pymc_sgmcmc import gSGNHT
    >>> from pymc_sgmcmc.distributions import UniformSphere, VonMisesFisher
    >>> with pm.Model():
    ...     mu = UniformSphere("mu", shape=3)
    ...     x = VonMisesFisher("x", mu, 5.0, observed=np.eye(3)[[0, 0, 1]])
    ...     idata = pm.sample(step=gSGNHT(step_size=0.1), progressbar=False, random_seed=1)
    >>> np.allclose((idata.posterior["mu"] ** 2).sum("mu_dim_0"), 1)
    True
    """

    algorithm_class = GeodesicNoseHoover
    required: ClassVar = ("step_size",)

    if TYPE_CHECKING:

        def __init__(
            self, vars: Any = None, *, step_size: StepSize, diffusion: float = 1.0,
            thermal_mass: float | Literal["auto"] = "auto", integrator: str = "BAOAB",
            **others: Unpack[Shared],
        ) -> None: ...  # fmt: skip
