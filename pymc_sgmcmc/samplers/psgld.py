"""Preconditioned stochastic gradient Langevin dynamics (Li et al., 2016)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Unpack, final

import numpy as np
import pytensor.tensor as pt

from pymc_sgmcmc._utils.alarm import Alarm
from pymc_sgmcmc._utils.argument_rows import FLAG
from pymc_sgmcmc._utils.constraints import Either, Positive, Zero
from pymc_sgmcmc._utils.types import Counts, Graph, Keywords, Number, Vector
from pymc_sgmcmc.dynamics.hyperparameters import hyperparameter
from pymc_sgmcmc.dynamics.inputs import Gradient, Normals
from pymc_sgmcmc.dynamics.langevin import Langevin
from pymc_sgmcmc.dynamics.rmsprop import RMSProp, mean_square, metric
from pymc_sgmcmc.dynamics.setting import Context
from pymc_sgmcmc.step.refusals import NO_ESTIMATE, without_noise_estimate
from pymc_sgmcmc.step.step_method import SGMCMC

if TYPE_CHECKING:
    from pymc_sgmcmc.step.keywords import OnBatches, StepSize

__all__ = ["PSGLD"]


@dataclass(frozen=True, kw_only=True, eq=False)
class PreconditionedLangevin(Langevin):
    """The algorithm of PSGLD."""

    name = "psgld"
    learned_state = ("v",)

    decay: float = hyperparameter(Either(Zero(), Positive(below=1)), default=0.99)
    damping: float = hyperparameter(RMSProp.arguments["damping"], default=1e-5)
    gamma: bool = hyperparameter(FLAG, default=False)

    @property
    def rmsprop(self) -> RMSProp:
        """Its metric."""
        return RMSProp(self.decay, self.damping, not self.gamma, self.setting.tunes_step)

    @property
    def can_optimize(self) -> bool:
        return not self.gamma

    def initial_state(self, rng: np.random.Generator, context: Context) -> dict[str, Number]:
        return self.rmsprop.start(self.size)

    def coefficients(self, context: Context) -> dict[str, Number]:
        scales = self.rmsprop.coefficients(context.n_rows)
        return scales | {"temperature": self.temperature}

    def planned(self, steps: Counts, *, tuning: bool) -> dict[str, Vector]:
        return self.rmsprop.planned(steps, tuning=tuning)

    def step_bias(self, h: float, curvature: float) -> float:
        return np.nan if self.gamma else super().step_bias(h, curvature)

    def longest_step(self, curvature: float) -> float:
        return self.rmsprop.longest_step(super().longest_step(curvature))

    def variance_inflation(self, rate: Vector, context: Context) -> Vector:
        return rate * self.rmsprop.metric(context.state["v"]) / self.temperature

    def alarm(self, draw: int, inner_steps: int, steps: int, *, tuning: bool) -> Alarm | None:
        return self.rmsprop.alarm(self.name, draw, tuning=tuning)

    def virial(
        self, q: Graph, v: Graph, *, g: Graph, h: Graph, decay: Graph, rows: Graph, damping: Graph,
        temperature: Graph,
    ) -> Graph | None:  # fmt: skip
        return None if self.gamma else temperature + h / 2 * g**2 * metric(v, damping)

    def update(
        self, q: Graph, v: Graph, *, grad: Gradient, h: Graph, noise: Normals, decay: Graph,
        rows: Graph, damping: Graph, temperature: Graph,
    ) -> tuple[Graph, ...]:  # fmt: skip
        g = grad(q)
        v = mean_square(v, g, rows, decay)
        G = metric(v, damping)
        new = q - h * G * g + pt.sqrt(2 * h * temperature * G) * noise()
        if self.gamma:
            signs = pt.switch(pt.lt(noise(), 0), -1.0, 1.0)
            new = new + h * temperature * signs * pt.grad(pt.sum(signs * G), q)
        return new, v


@final
class PSGLD(SGMCMC):
    r"""Preconditioned SGLD of Li, Chen, Carlson and Carin (2016), algorithm 1.

    Langevin dynamics with the metric of RMSProp. With the minibatch gradient g(q) of U on N rows,
    step size h, temperature T and normals z, all by the coordinate::

        v <- decay v + (1 - decay) (g / N)^2
        G  = 1 / (damping + sqrt(v))
        q <- q - h G g + h T dG/dq + sqrt(2 h T G) z

    The metric adapts while tuning, then rests: dG/dq is 0. With ``gamma=True`` it never rests, and
    dG/dq is the derivative of this step's G; the paper leaves it out, which samples another law.

    Leaves invariant: exp(-U(q) / T) as h -> 0, with the metric at rest. A Gaussian coordinate of
    precision a has the variance (T + h G V / 2) / (a (1 - h G a / 2)), where V is the variance of
    the gradient. With ``gamma=True`` it is exact (as h -> 0) for decay = 0 and gradients on all
    rows; else the memory of v and the noise of gradients leave a bias.

    One gradient an inner step, and with ``gamma=True`` its derivative along one random vector of
    signs (Hutchinson, 1989). The paper's epsilon is 2 h N, alpha `decay`, and lambda `damping`.

    Parameters
    ----------
    vars : list of variables, optional
        What to sample; default all continuous variables.
    step_size : float, Schedule or None
        h > 0. Stable for h G times the curvature of U below 2. None: tuned, with N = 1.
    decay : float
        Of v, 0 <= decay < 1. At first v is the mean of the squares and its start, where G = 1.
    damping : float
        > 0, in the units of a mean gradient g / N: where these are smaller, G is 1 / damping.
    gamma : bool
        Whether the metric moves with the chain, with the term that is then owed; needs a step_size.
    **kwargs
        Common to all samplers: see :class:`~pymc_sgmcmc.SGMCMC`.

    Raises
    ------
    ValueError, TypeError
        If an argument is out of range or the model cannot be sampled; the message names it.

    References
    ----------
    - Li, C., Chen, C., Carlson, D. and Carin, L. (2016). Preconditioned stochastic gradient
      Langevin dynamics for deep neural networks. AAAI.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from pymc_sgmcmc import PSGLD
    >>> with pm.Model():
    ...     y = pm.Normal("y", pm.Normal("mu"), observed=np.arange(10.0))
    ...     idata = pm.sample(step=PSGLD(), progressbar=False, random_seed=1)
    >>> float(idata.posterior["mu"].mean().round(1))
    4.1
    """

    algorithm_class = PreconditionedLangevin
    arguments: ClassVar = {"noise_estimate": NO_ESTIMATE}

    if TYPE_CHECKING:

        def __init__(
            self, vars: Any = None, *, step_size: StepSize | None = None, decay: float = 0.99,
            damping: float = 1e-5, gamma: bool = False, **others: Unpack[OnBatches],
        ) -> None: ...  # fmt: skip

    @classmethod
    def complete(cls, own: Keywords, shared: Keywords) -> tuple[Keywords, Keywords]:
        return own, without_noise_estimate(cls.__name__, shared)
