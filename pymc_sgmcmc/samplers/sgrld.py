"""Stochastic gradient Riemannian Langevin dynamics (Patterson and Teh, 2013)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Unpack, final

import numpy as np
import pytensor.tensor as pt
from pymc.logprob.transforms import LogTransform
from pytensor.graph.basic import Constant

from pymc_sgmcmc._utils.types import Graph, Keywords, Number
from pymc_sgmcmc._utils.warn_user import warn_user
from pymc_sgmcmc.dynamics.algorithm import Algorithm
from pymc_sgmcmc.dynamics.inputs import Gradient, Normals
from pymc_sgmcmc.dynamics.setting import Context
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.step.arguments import Arguments
from pymc_sgmcmc.step.step_method import SGMCMC

if TYPE_CHECKING:
    from pymc_sgmcmc.step.keywords import Shared, StepSize

__all__ = ["SGRLD"]


@dataclass(frozen=True, kw_only=True, eq=False)
class MirroredLangevin(Algorithm):
    """The algorithm of SGRLD."""

    name = "sgrld"

    @property
    def can_optimize(self) -> bool:
        return True

    def coefficients(self, context: Context) -> dict[str, Number]:
        return {"temperature": self.temperature}

    def update(
        self, q: Graph, *, grad: Gradient, h: Graph, noise: Normals, temperature: Graph,
    ) -> tuple[Graph, ...]:  # fmt: skip
        theta = pt.exp(q)
        return (
            pt.log(pt.abs(theta - h * grad(q) + pt.sqrt(2 * h * temperature * theta) * noise())),
        )


@final
class SGRLD(SGMCMC):
    r"""Stochastic gradient Riemannian Langevin dynamics of Patterson and Teh (2013), section 3.

    For positive variables theta, with the metric G = diag(theta), so that small ones take small
    steps. PyMC's value variable of a positive variable is q = log(theta); with the minibatch
    gradient g(q) of U (the Jacobian included), step size h, temperature T and normals z::

        theta <- | theta - h g(q) + sqrt(2 h T theta) z |,  q = log(theta)

    which is the paper's mirrored step: theta times the gradient in theta, and the term that the
    metric owes, make g(q). A probability vector is sampled by its expanded mean: independent
    Gamma(alpha_i, 1) for theta and pi = theta / sum(theta), which is Dirichlet(alpha).

    Leaves invariant: exp(-U(q) / T) as h -> 0. For a Gamma(alpha, 1) without the mirror the mean is
    exact, and the variance alpha / (1 - h / 2). The mirror adds a bias that vanishes with h only
    for alpha >= 2 or so: at h = 0.05 the mean is 1.03 times the right one for alpha = 1, and 3.2
    times for alpha = 0.1. A warning says so for priors with alpha < 1.

    One gradient an inner step. The paper's epsilon is 2 h.

    Parameters
    ----------
    vars : list of variables, optional
        Positive ones, with PyMC's default transform. Default all continuous variables.
    step_size : float or Schedule
        h > 0, of the order of 0.01 to 0.1: theta moves by about sqrt(2 h theta). It is not tuned.
    **kwargs
        Common to all samplers, but for the metric: see :class:`~pymc_sgmcmc.SGMCMC`.

    Raises
    ------
    ValueError, TypeError, NotImplementedError
        If an argument is out of range or the model cannot be sampled; the message names it.

    References
    ----------
    - Patterson, S. and Teh, Y. W. (2013). Stochastic gradient Riemannian Langevin dynamics on the
      probability simplex. NIPS.

    Examples
    --------
    >>> import pymc as pm
    >>> from pymc_sgmcmc import SGRLD
    >>> with pm.Model():
    ...     theta = pm.Gamma("theta", alpha=1, beta=1, shape=3)
    ...     y = pm.Categorical("y", theta / theta.sum(), observed=[0, 1, 1, 2])
    ...     idata = pm.sample(step=SGRLD(step_size=0.05), progressbar=False, random_seed=1)
    >>> idata.posterior["theta"].dims
    ('chain', 'draw', 'theta_dim_0')
    """

    algorithm_class = MirroredLangevin
    required: ClassVar = ("step_size",)

    if TYPE_CHECKING:

        def __init__(
            self, vars: Any = None, *, step_size: StepSize, **others: Unpack[Shared],
        ) -> None: ...  # fmt: skip

    @classmethod
    def complete(cls, own: Keywords, shared: Keywords) -> tuple[Keywords, Keywords]:
        if shared["step_size"] is None or shared.get("metric") is not None:
            raise NotImplementedError(
                "SGRLD has a metric of its own and is not tuned: give it a step_size, such as "
                "0.05, and no metric."
            )
        return own, shared

    @classmethod
    def refuse(cls, algorithm: Algorithm, arguments: Arguments, target: Target) -> None:
        super().refuse(algorithm, arguments, target)
        _check_positive(target.model, target.vars)


def _check_positive(model: Any, vars: Any) -> None:
    """Raise unless PyMC samples the logarithm of each variable; warn of poles at zero."""
    for value in vars:
        rv = model.values_to_rvs[value]
        if not isinstance(model.rvs_to_transforms[rv], LogTransform):
            raise ValueError(
                f"SGRLD is for positive variables, which PyMC samples as their logarithm, and "
                f"{rv.name!r} is not one of these. Give it the others by vars=, or write a "
                "probability vector as theta / theta.sum() with theta = pm.Gamma(..., beta=1)."
            )
        if rv.owner.op.name == "gamma":
            alpha = rv.owner.op.dist_params(rv.owner)[0]
            if isinstance(alpha, Constant) and (least := np.min(alpha.data)) < 1:
                warn_user(
                    f"{rv.name!r} has alpha={least:.2g}: the mirror at zero makes "
                    "entries too large whose posterior has a pole there too. Entries with data of "
                    "their own are not affected; for the others use NUTS, or alpha >= 1.",
                )
