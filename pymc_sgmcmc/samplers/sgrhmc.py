"""Stochastic gradient Riemannian Hamiltonian Monte Carlo (Ma, Chen and Fox, 2015)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Unpack, final

import pytensor.tensor as pt

from pymc_sgmcmc._utils.constraints import Function, Positive
from pymc_sgmcmc._utils.types import Graph
from pymc_sgmcmc.dynamics.hyperparameters import hyperparameter
from pymc_sgmcmc.samplers.recipe import Decomposed, Start
from pymc_sgmcmc.step.step_method import SGMCMC

if TYPE_CHECKING:
    from pymc_sgmcmc.step.keywords import Shared, StepSize

__all__ = ["SGRHMC"]


@dataclass(frozen=True, kw_only=True, eq=False)
class RiemannianHamiltonian(Decomposed):
    """The algorithm of SGRHMC."""

    name = "sgrhmc"

    root: Callable[[Graph], Graph] = hyperparameter(Function("q, for G^(-1/2) there"))
    friction: float = hyperparameter(Positive(), default=1.0)

    def diffusion(self, **at: Graph) -> dict[str, Graph]:
        return {"p": self.friction * self.root(at["q"]) ** 2}

    def curl(self, **at: Graph) -> dict[tuple[str, str], Graph]:
        return {("q", "p"): -self.root(at["q"])}

    def auxiliary_energy(self, **at: Graph) -> Graph:
        return pt.sum(at["p"] ** 2) / 2

    def starts(self) -> dict[str, Start]:
        spread = self.temperature**0.5
        return {"p": lambda rng, d: spread * rng.standard_normal(d)}


@final
class SGRHMC(SGMCMC):
    r"""Stochastic gradient Riemannian HMC of Ma, Chen and Fox (2015), section 3.2.

    SGHMC whose pace and friction depend on the position. With the minibatch gradient g(q) of U, a
    diagonal metric G(q), r = G^(-1/2), step size h, friction C, temperature T and normals z, all by
    the coordinate::

        p <- p - h r(q) g(q) + h T dr/dq - h C r(q)^2 p + sqrt(2 h C T) r(q) z
        q <- q + h r(q) p

    That is the :class:`~pymc_sgmcmc.Recipe` with D = C r^2 for p and Q = -r between q and p. Where
    r in a coordinate depends on others too, dr/dq is its divergence.

    Leaves invariant: exp(-(U(q) + p.p / 2) / T) as h -> 0; the bias is of first order in h.
    Gradient noise of variance V adds h r^2 V / 2 to the rate C r^2 T of the noise that is injected,
    and is not subtracted: keep h V well below 2 C T (B of the paper is 0).

    One gradient an inner step. In the paper epsilon is h, and C is 1.

    Parameters
    ----------
    vars : list of variables, optional
        What to sample; default all continuous variables.
    step_size : float or Schedule
        h > 0. It is not tuned. Stable for h^2 r^2 times the curvature of U below 4 or less.
    root : callable
        ``root(q)``: r > 0 as a PyTensor graph, (d,), of the unconstrained q, (d,). For a positive
        variable theta, whose logarithm is q, G = 1 / theta of the paper is ``exp(-q / 2)``.
    friction : float
        C > 0.
    **kwargs
        Common to all samplers: see :class:`~pymc_sgmcmc.SGMCMC`.

    Raises
    ------
    ValueError, TypeError
        If an argument is out of range or the model cannot be sampled; the message names it.

    References
    ----------
    - Ma, Y.-A., Chen, T. and Fox, E. B. (2015). A complete recipe for stochastic gradient MCMC.
      NIPS.

    Examples
    --------
    >>> import pymc as pm, pytensor.tensor as pt
    >>> from pymc_sgmcmc import SGRHMC
    >>> with pm.Model():
    ...     rate = pm.Gamma("rate", alpha=2, beta=1)
    ...     y = pm.Poisson("y", rate, observed=[3, 5, 4, 6])
    ...     step = SGRHMC(step_size=0.05, root=lambda q: pt.exp(-q / 2))
    ...     idata = pm.sample(step=step, progressbar=False, random_seed=1)
    >>> float(idata.posterior["rate"].mean().round())
    4.0
    """

    algorithm_class = RiemannianHamiltonian
    required: ClassVar = ("step_size",)

    if TYPE_CHECKING:

        def __init__(
            self, vars: Any = None, *, step_size: StepSize, root: Callable[[Any], Any],
            friction: float = 1.0, **others: Unpack[Shared],
        ) -> None: ...  # fmt: skip
