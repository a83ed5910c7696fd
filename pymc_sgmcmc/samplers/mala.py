"""The Metropolis-adjusted Langevin algorithm (Roberts and Tweedie, 1996)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack, final

import pytensor.tensor as pt

from pymc_sgmcmc._utils.types import Graph, Keywords
from pymc_sgmcmc.dynamics.hyperparameters import hyperparameter
from pymc_sgmcmc.dynamics.inputs import Gradient, Normals
from pymc_sgmcmc.dynamics.metropolis import TARGET_ACCEPT, Metropolis, where_accepted
from pymc_sgmcmc.step.refusals import ON_ALL_ROWS, on_all_rows
from pymc_sgmcmc.step.step_method import SGMCMC

if TYPE_CHECKING:
    from pymc_sgmcmc.step.keywords import Common, StepSize

__all__ = ["MALA"]


@dataclass(frozen=True, kw_only=True, eq=False)
class MetropolisLangevin(Metropolis):
    """The algorithm of MALA."""

    name = "mala"

    target_accept: float | None = hyperparameter(TARGET_ACCEPT, default=0.574)

    def virial(
        self, q: Graph, *state: Graph, g: Graph, h: Graph, gain: Graph, temperature: Graph,
    ) -> Graph | None:  # fmt: skip
        return temperature + 0 * q

    def update(
        self, q: Graph, g: Graph, u: Graph, factor: Graph, acceptance: Graph, *, grad: Gradient,
        h: Graph, noise: Normals, gain: Graph, temperature: Graph,
    ) -> tuple[Graph, ...]:  # fmt: skip
        h, z = h * factor, noise()
        proposal = q - h * g + pt.sqrt(2 * h * temperature) * z
        there = [proposal, grad(proposal), grad.potential()]
        back = pt.sum((q - proposal + h * there[1]) ** 2) / (4 * h * temperature)
        log_ratio = (u - there[2]) / temperature + pt.sum(z**2) / 2 - back
        accepted, acceptance, factor = self.accept(log_ratio, noise()[0], factor, gain)
        q, g, u = where_accepted(accepted, there, [q, g, u])
        grad.keep(g)  # a proposal that is rejected may have none
        return q, g, u, factor, acceptance


@final
class MALA(SGMCMC):
    r"""Metropolis-adjusted Langevin algorithm of Roberts and Tweedie (1996): SGLD's exact sibling.

    With the gradient g(q) of U on all rows, step size h, temperature T, normals z and a uniform
    number u::

        q' = q - h g(q) + sqrt(2 h T) z
        q <- q' if log u < (U(q) - U(q')) / T + z.z / 2 - |q - q' + h g(q')|^2 / (4 h T)

    Leaves invariant: exp(-U(q) / T), at every h. While tuning, h is multiplied by a factor, the
    sample stat ``factor``, that makes the mean acceptance `target_accept` (Robbins and Monro, 1951)
    and is then kept. The stat ``acceptance`` is the probability at a draw's last inner step.

    One gradient on all rows an inner step, and the value of U, which float32 knows to one part in
    10^7 only: use float64 with many rows. The papers' epsilon is 2 h.

    Parameters
    ----------
    vars : list of variables, optional
        What to sample; default all continuous variables.
    step_size : float, Schedule or None
        h > 0. None: tuned, and so is the metric.
    target_accept : float
        From 0 to 1; 0.574 is best in many dimensions (Roberts and Rosenthal, 1998). None: h stays.
    **kwargs
        As for all samplers, but for minibatches: see :class:`~pymc_sgmcmc.SGMCMC`.

    Raises
    ------
    ValueError, TypeError
        If an argument is out of range or the model cannot be sampled; the message names it.

    References
    ----------
    - Roberts, G. O. and Tweedie, R. L. (1996). Exponential convergence of Langevin distributions
      and their discrete approximations. Bernoulli.
    - Roberts, G. O. and Rosenthal, J. S. (1998). Optimal scaling of discrete approximations to
      Langevin diffusions. JRSS B.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from pymc_sgmcmc import MALA
    >>> with pm.Model():
    ...     y = pm.Normal("y", pm.Normal("mu"), observed=np.arange(10.0))
    ...     idata = pm.sample(step=MALA(), progressbar=False, random_seed=1)
    >>> float(idata.posterior["mu"].mean().round(1))
    4.1
    """

    algorithm_class = MetropolisLangevin
    arguments = ON_ALL_ROWS

    if TYPE_CHECKING:

        def __init__(
            self, vars: Any = None, *, step_size: StepSize | None = None,
            target_accept: float | None = 0.574, **others: Unpack[Common],
        ) -> None: ...  # fmt: skip

    @classmethod
    def complete(cls, own: Keywords, shared: Keywords) -> tuple[Keywords, Keywords]:
        return own, on_all_rows(cls.__name__, shared)
