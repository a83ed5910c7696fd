"""Geodesic Monte Carlo (Byrne and Girolami, 2013), and in R^d Hamiltonian Monte Carlo."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Unpack, final

import numpy as np
import pytensor.tensor as pt

from pymc_sgmcmc._utils.constraints import Optional, Whole
from pymc_sgmcmc._utils.types import Counts, Graph, Keywords, Number, Vector
from pymc_sgmcmc.dynamics.hyperparameters import hyperparameter
from pymc_sgmcmc.dynamics.inputs import Gradient, Normals
from pymc_sgmcmc.dynamics.metropolis import TARGET_ACCEPT, Metropolis, where_accepted
from pymc_sgmcmc.dynamics.setting import Context
from pymc_sgmcmc.step.refusals import ON_ALL_ROWS, on_all_rows
from pymc_sgmcmc.step.step_method import SGMCMC

if TYPE_CHECKING:
    from pymc_sgmcmc.step.keywords import Common, StepSize

__all__ = ["GMC"]


@dataclass(frozen=True, kw_only=True, eq=False)
class GeodesicMonteCarlo(Metropolis):
    """The algorithm of GMC."""

    name = "gmc"
    on_manifolds = True
    rejects_trajectories = True

    leapfrog_steps: int = hyperparameter(Whole(), default=10)
    target_accept: float | None = hyperparameter(TARGET_ACCEPT, default=0.65)

    def initial_state(self, rng: np.random.Generator, context: Context) -> dict[str, Number]:
        state, nothing = super().initial_state(rng, context), np.zeros(self.size)
        start = {"start_q": nothing, "start_g": nothing, "start_u": state["u"], "energy": 0.0}
        return {"momentum": nothing} | state | start

    def planned(self, steps: Counts, *, tuning: bool) -> dict[str, Vector]:
        place, last = np.mod(steps, self.leapfrog_steps), self.leapfrog_steps - 1
        ends = {"first": (place == 0) * 1.0, "last": (place == last) * 1.0}
        return super().planned(steps, tuning=tuning) | ends

    def update(
        self, q: Graph, p: Graph, g: Graph, u: Graph, factor: Graph, acceptance: Graph,
        start_q: Graph, start_g: Graph, start_u: Graph, energy: Graph, *, grad: Gradient, h: Graph,
        noise: Normals, gain: Graph, first: Graph, last: Graph, temperature: Graph,
    ) -> tuple[Graph, ...]:  # fmt: skip
        h, space = h * factor, self.space
        begins, ends = pt.gt(first, 0.5), pt.gt(last, 0.5)
        fresh = pt.sqrt(temperature) * space.tangent(q, noise())
        p, start_q, start_g, start_u = where_accepted(
            begins, [fresh, q, g, u], [p, start_q, start_g, start_u]
        )
        energy = pt.switch(begins, u + pt.sum(p**2) / 2, energy)

        p = p - h / 2 * space.tangent(q, g)
        q, p = space.flow(q, p, h)
        g, u = grad(q), grad.potential()
        p = p - h / 2 * space.tangent(q, g)

        log_ratio = (energy - u - pt.sum(p**2) / 2) / temperature
        accepted, probability, factor = self.accept(log_ratio, noise()[0], factor, last * gain)
        acceptance = pt.switch(ends, probability, acceptance)
        kept = pt.or_(accepted, pt.invert(ends))
        q, g, u = where_accepted(kept, [q, g, u], [start_q, start_g, start_u])
        grad.keep(space.tangent(q, g))  # a proposal that is rejected may have none
        return q, p, g, u, factor, acceptance, start_q, start_g, start_u, energy


@final
class GMC(SGMCMC):
    r"""Geodesic Monte Carlo of Byrne and Girolami (2013), algorithm 1: exact, on manifolds.

    The exact sibling of :class:`~pymc_sgmcmc.SGGMC`. With the gradient g(q) of U on all rows, step
    size h, temperature T, and P the projection on the tangent space at q, a trajectory is L times::

        p <- p - h / 2 P g(q)
        (q, p) <- geodesic from q with velocity p, for h
        p <- p - h / 2 P g(q)

    from p ~ P N(0, T I), and its end is accepted with probability min(1, exp(-(change of U + p.p /
    2) / T)). In R^d this is Hamiltonian Monte Carlo (Duane et al., 1987).

    Leaves invariant: exp(-U(q) / T), with respect to the surface of the manifolds, at every h.
    While tuning, h is multiplied by a factor, the sample stat ``factor``, that makes the mean
    acceptance `target_accept`. The stat ``acceptance`` is that of the last trajectory. One gradient
    on all rows an inner step.

    Parameters
    ----------
    vars : list of variables, optional
        What to sample; default all continuous variables.
    step_size : float, Schedule or None
        h > 0. None: tuned, and so is the metric; not on manifolds.
    leapfrog_steps : int
        L, the inner steps of a trajectory.
    target_accept : float
        From 0 to 1; 0.65 is best in many dimensions (Beskos et al., 2013). None: h stays.
    steps_per_draw : int
        A multiple of L, which is the default: draws are the ends of trajectories.
    **kwargs
        As for all samplers, but for minibatches: see :class:`~pymc_sgmcmc.SGMCMC`.

    Raises
    ------
    ValueError, TypeError, NotImplementedError
        If an argument is out of range or the model cannot be sampled; the message names it.

    References
    ----------
    - Byrne, S. and Girolami, M. (2013). Geodesic Monte Carlo on embedded manifolds. Scand. J. Stat.
    - Beskos, A., Pillai, N., Roberts, G., Sanz-Serna, J.-M. and Stuart, A. (2013). Optimal tuning
      of the hybrid Monte Carlo algorithm. Bernoulli.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from pymc_sgmcmc import GMC
    >>> from pymc_sgmcmc.distributions import UniformSphere, VonMisesFisher
    >>> with pm.Model():
    ...     mu = UniformSphere("mu", shape=3)
    ...     x = VonMisesFisher("x", mu, 5.0, observed=np.eye(3)[[0, 0, 1]])
    ...     idata = pm.sample(step=GMC(step_size=0.1), progressbar=False, random_seed=1)
    >>> np.allclose((idata.posterior["mu"] ** 2).sum("mu_dim_0"), 1)
    True
    """

    algorithm_class = GeodesicMonteCarlo
    arguments: ClassVar = ON_ALL_ROWS | {"steps_per_draw": Optional(Whole())}

    if TYPE_CHECKING:

        def __init__(
            self, vars: Any = None, *, step_size: StepSize | None = None, leapfrog_steps: int = 10,
            target_accept: float | None = 0.65, **others: Unpack[Common],
        ) -> None: ...  # fmt: skip

    @classmethod
    def complete(cls, own: Keywords, shared: Keywords) -> tuple[Keywords, Keywords]:
        length = own.get("leapfrog_steps", cls.algorithm_class.leapfrog_steps)
        inner = shared.get("steps_per_draw")
        inner = length if inner is None else inner
        if inner % length:
            raise ValueError(
                f"steps_per_draw={inner} is not a multiple of leapfrog_steps={length}: "
                "only the ends of trajectories are draws."
            )
        return own, on_all_rows(cls.__name__, shared) | {"steps_per_draw": inner}
