"""Stochastic gradient Hamiltonian Monte Carlo with scale adaptation (Springenberg et al., 2016)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Unpack, final

import numpy as np
import pytensor.tensor as pt

from pymc_sgmcmc._utils.alarm import Alarm
from pymc_sgmcmc._utils.constraints import Choice, Numbers
from pymc_sgmcmc._utils.types import Counts, Graph, Keywords, Number, Vector
from pymc_sgmcmc._utils.validation import DEFAULT
from pymc_sgmcmc.dynamics.hyperparameters import hyperparameter
from pymc_sgmcmc.dynamics.inputs import Gradient, Normals
from pymc_sgmcmc.dynamics.momentum import Momentum
from pymc_sgmcmc.dynamics.rmsprop import RMSProp, mean_square, metric
from pymc_sgmcmc.dynamics.setting import Context
from pymc_sgmcmc.dynamics.splittings import ornstein_uhlenbeck, virial
from pymc_sgmcmc.posterior.batch_sources import remembers
from pymc_sgmcmc.step.arguments import needs_independence
from pymc_sgmcmc.step.step_method import SGMCMC

if TYPE_CHECKING:
    from pymc_sgmcmc.step.keywords import OnBatches, PerCoordinate, StepSize

__all__ = ["PSGHMC"]


@dataclass(frozen=True, kw_only=True, eq=False)
class ScaleAdapted(Momentum):
    """The algorithm of PSGHMC.

    `subtracts`: whether V^ counts as the variance of the gradients' noise, which is subtracted.
    """

    name = "psghmc"
    learned_state = ("v",)
    scheme = "BAOAB"

    friction: Any = hyperparameter(Numbers(), default=1.0)
    decay: float = hyperparameter(RMSProp.arguments["decay"], default=0.99)
    damping: float = hyperparameter(RMSProp.arguments["damping"], default=1e-5)
    subtracts: bool = False

    @property
    def rmsprop(self) -> RMSProp:
        """Its metric."""
        return RMSProp(self.decay, self.damping, tunes_step=self.setting.tunes_step)

    def initial_state(self, rng: np.random.Generator, context: Context) -> dict[str, Number]:
        return super().initial_state(rng, context) | self.rmsprop.start(self.size)

    def coefficients(self, context: Context) -> dict[str, Number]:
        scales = self.rmsprop.coefficients(context.n_rows)
        share = float(self.subtracts and context.batched) * scales["rows"] ** 2
        return super().coefficients(context) | scales | {"share": share}

    def planned(self, steps: Counts, *, tuning: bool) -> dict[str, Vector]:
        return self.rmsprop.planned(steps, tuning=tuning)

    def longest_step(self, curvature: float) -> float:
        return self.rmsprop.longest_step(super().longest_step(curvature))

    def variance_inflation(self, rate: Vector, context: Context) -> Vector:
        v = context.state["v"]
        subtracted = context.coefficients["share"] * v * context.step_size
        adapted = self.rmsprop.metric(v)
        rate, subtracted = adapted * rate, adapted * subtracted / 2
        return (rate - np.minimum(subtracted, self.injected_noise())) / self.injected_noise()

    def alarm(self, draw: int, inner_steps: int, steps: int, *, tuning: bool) -> Alarm | None:
        return self.rmsprop.alarm(self.name, draw, tuning=tuning)

    def virial(
        self, q: Graph, p: Graph, v: Graph, *, g: Graph, h: Graph, damping: Graph, friction: Graph,
        **numbers: Graph,
    ) -> Graph | None:  # fmt: skip
        return virial(self.scheme, p, pt.sqrt(metric(v, damping)) * g, h, friction)

    def update(
        self, q: Graph, p: Graph, v: Graph, *, grad: Gradient, h: Graph, noise: Normals,
        decay: Graph, rows: Graph, damping: Graph, friction: Graph, diffusion: Graph, share: Graph,
    ) -> tuple[Graph, ...]:  # fmt: skip
        g = pt.sqrt(metric(v, damping))
        f = grad(q)
        p = p - h * g * f
        q = q + h / 2 * g * p
        left = pt.maximum(diffusion - share * h / 2 * g**2 * v, 0.0)
        p = ornstein_uhlenbeck(p, friction, left, h, noise())
        return q + h / 2 * g * p, p, mean_square(v, f, rows, decay)


@final
class PSGHMC(SGMCMC):
    r"""Preconditioned, scale-adapted SGHMC of Springenberg et al. (2016), equation 8.

    SGHMC with a mass for each coordinate from a running mean V^ of squared gradients, which also
    stands for the variance of their noise. With the minibatch gradient f(q) of U on N rows, step
    size h, friction C, temperature T and normals z, all by the coordinate::

        f  <- f(q)
        p  <- p - h g f
        q  <- q + h / 2 g p
        p  <- exp(-C h) p + sqrt((1 - exp(-2 C h)) (T - B / C)) z
        q  <- q + h / 2 g p
        v  <- decay v + (1 - decay) (f / N)^2
        g  <- 1 / sqrt(damping + sqrt(v)),  B = h g^2 V^ / 2 with V^ = N^2 v, at most C T

    which is the paper's with M^-1 = g^2, but for the integrator, BAOAB. V^ and g rest after tuning.

    Leaves invariant: exp(-(U(q) + p.p / 2) / T) as h -> 0 with g at rest, if B is the noise
    h g^2 V / 2 that gradients of variance V add. V^ is the mean of f^2, V and the mean square of
    the exact gradient: on a Gaussian coordinate of precision a the variance is too small by about
    h g^2 a / (2 C), relatively, where with B = 0 it is too large by h g^2 V / (2 C T).

    One gradient an inner step. The paper's epsilon^2 is h^2 N, its C is V^ g^2 C / epsilon.

    Parameters
    ----------
    vars : list of variables, optional
        What to sample; default all continuous variables.
    step_size : float, Schedule or None
        h > 0. On a Gaussian stable for h^2 g^2 times the curvature of U below 4. None: tuned, and N
        is 1, in coordinates in which gradients are about 1.
    friction : float or array of shape (d,)
        C > 0, a rate (one over time).
    noise_estimate : {"metric", "none"}
        "metric": B as above; 0 where gradients are exact. "none": B = 0. Default "metric" with a
        step size and plain gradients, whose noise V^ mostly is, else "none".
    decay : float
        Of v, 0 < decay < 1. At first v is the plain mean of the squares and its start, where g = 1.
    damping : float
        > 0, in the units of a mean gradient f / N: where these are smaller, g is 1 / sqrt(damping).
    **kwargs
        Common to all samplers: see :class:`~pymc_sgmcmc.SGMCMC`.

    Raises
    ------
    ValueError, TypeError
        If an argument is out of range or the model cannot be sampled; the message names it.

    References
    ----------
    - Springenberg, J. T., Klein, A., Falkner, S. and Hutter, F. (2016). Bayesian optimization with
      robust Bayesian neural networks. NIPS.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from pymc_sgmcmc import PSGHMC
    >>> with pm.Model():
    ...     y = pm.Normal("y", pm.Normal("mu"), observed=np.arange(10.0))
    ...     idata = pm.sample(step=PSGHMC(), progressbar=False, random_seed=1)
    >>> float(idata.posterior["mu"].mean().round(1))
    4.1
    """

    algorithm_class = ScaleAdapted
    arguments: ClassVar = {"noise_estimate": Choice(("metric", "none", DEFAULT))}

    if TYPE_CHECKING:

        def __init__(
            self, vars: Any = None, *, step_size: StepSize | None = None,
            friction: PerCoordinate = 1.0, decay: float = 0.99, damping: float = 1e-5,
            noise_estimate: Literal["metric", "none"] = ..., **others: Unpack[OnBatches],
        ) -> None: ...  # fmt: skip

    @classmethod
    def complete(cls, own: Keywords, shared: Keywords) -> tuple[Keywords, Keywords]:
        estimate = shared.pop("noise_estimate", DEFAULT)
        if estimate == "metric" and remembers(shared.get("batches", DEFAULT)):
            raise needs_independence(estimate, shared["batches"])
        has_step = shared.get("step_size") is not None
        plain = has_step and shared.get("gradient", "plain") == "plain"
        subtracts = estimate == "metric" or (estimate == DEFAULT and plain)
        return own | {"subtracts": subtracts}, shared | {"noise_estimate": 0.0}
