"""Stochastic gradient geodesic Monte Carlo (Liu, Zhu and Song, 2016)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Unpack, final

from pymc_sgmcmc._utils.constraints import Positive
from pymc_sgmcmc._utils.types import Graph
from pymc_sgmcmc.dynamics.hyperparameters import hyperparameter
from pymc_sgmcmc.dynamics.inputs import Gradient, Normals
from pymc_sgmcmc.dynamics.momentum import Momentum
from pymc_sgmcmc.dynamics.splittings import split
from pymc_sgmcmc.dynamics.words import spelled, splitting
from pymc_sgmcmc.step.step_method import SGMCMC

if TYPE_CHECKING:
    from pymc_sgmcmc.step.keywords import Shared, StepSize

__all__ = ["SGGMC"]


@dataclass(frozen=True, kw_only=True, eq=False)
class GeodesicLangevin(Momentum):
    """The algorithm of SGGMC."""

    name = "sggmc"
    on_manifolds = True

    friction: float = hyperparameter(Positive(), default=1.0)
    integrator: str = hyperparameter(splitting(thermostat=False, curved=True), default="BAOAB")

    def update(
        self, q: Graph, p: Graph, *, grad: Gradient, h: Graph, noise: Normals, friction: Graph,
        diffusion: Graph,
    ) -> tuple[Graph, ...]:  # fmt: skip
        return split(
            spelled(self.integrator, thermostat=False), q, self.space.tangent(q, p), friction,
            grad=grad, h=h, noise=noise, diffusion=diffusion, space=self.space,
        )[:2]  # fmt: skip


@final
class SGGMC(SGMCMC):
    r"""Stochastic gradient geodesic Monte Carlo of Liu, Zhu and Song (2016), algorithm 1.

    :class:`~pymc_sgmcmc.SGHMC` on manifolds: spheres, the simplex through square roots, matrices
    with orthonormal columns (see `pymc_sgmcmc.distributions`), beside variables in R^d. With the
    minibatch gradient g(q) of U in the embedding, step size h, friction C, noise estimate B,
    temperature T, D = C T - B, normals z, and P the projection on the tangent space at q, an inner
    step of ``integrator="BAOAB"`` is::

        p <- p - h P g(q)
        (q, p) <- geodesic from q with velocity p, for h / 2
        p <- exp(-h C) p + sqrt((1 - exp(-2 h C)) D / C) P z
        (q, p) <- geodesic, for h / 2

    "symmetric" is the paper's scheme: half a geodesic, half the friction, kick with noise, half the
    friction, half a geodesic.

    Leaves invariant: exp(-(U(q) + p.p / 2) / T) on the tangent bundle as h -> 0, if B is the noise
    h V / 2 that gradients of variance V add; its q has the density exp(-U / T) with respect to the
    surface. Errors are of order h^2, and of order h V / (2 C T) by noise that is not subtracted.
    Where U is constant the uniform law is exact at any h.

    One gradient an inner step.

    Parameters
    ----------
    vars : list of variables, optional
        What to sample; default all continuous variables.
    step_size : float or Schedule
        h > 0, the time of an inner step. A unit of time takes p about as far as its length, sqrt of
        the dimension; the step is stable for h^2 times the largest curvature of U below 4.
    friction : float
        C > 0, a rate (one over time).
    noise_estimate : float
        B >= 0, a rate, at most friction x temperature: subtracted from the injected noise.
    integrator : str
        "BAOAB", "ABOBA", "OBABO", another symmetric word of A, B and O, or "symmetric".
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
    - Byrne, S. and Girolami, M. (2013). Geodesic Monte Carlo on embedded manifolds. Scandinavian
      Journal of Statistics.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from pymc_sgmcmc import SGGMC
    >>> from pymc_sgmcmc.distributions import UniformSphere, VonMisesFisher
    >>> with pm.Model():
    ...     mu = UniformSphere("mu", shape=3)
    ...     x = VonMisesFisher("x", mu, 5.0, observed=np.eye(3)[[0, 0, 1]])
    ...     idata = pm.sample(step=SGGMC(step_size=0.1), progressbar=False, random_seed=1)
    >>> np.allclose((idata.posterior["mu"] ** 2).sum("mu_dim_0"), 1)
    True
    """

    algorithm_class = GeodesicLangevin
    required: ClassVar = ("step_size",)

    if TYPE_CHECKING:

        def __init__(
            self, vars: Any = None, *, step_size: StepSize, friction: float = 1.0,
            integrator: str = "BAOAB", **others: Unpack[Shared],
        ) -> None: ...  # fmt: skip
