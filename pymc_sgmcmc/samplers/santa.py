"""Stochastic annealing thermostats with adaptive momentum (Chen et al., 2016)."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Unpack, final

import numpy as np
import pytensor.tensor as pt

from pymc_sgmcmc._utils.alarm import Alarm
from pymc_sgmcmc._utils.constraints import Choice, Either, Numbers, Word
from pymc_sgmcmc._utils.types import Counts, Graph, Keywords, Number, Vector
from pymc_sgmcmc._utils.validation import is_word, per_coordinate
from pymc_sgmcmc._utils.warn_user import warn_user
from pymc_sgmcmc.dynamics.algorithm import Algorithm
from pymc_sgmcmc.dynamics.annealing import Annealing, Cooling
from pymc_sgmcmc.dynamics.hyperparameters import hyperparameter
from pymc_sgmcmc.dynamics.inputs import Gradient, Normals
from pymc_sgmcmc.dynamics.momentum import Thermostatted
from pymc_sgmcmc.dynamics.rmsprop import RMSProp, mean_square, metric
from pymc_sgmcmc.dynamics.setting import Context
from pymc_sgmcmc.dynamics.thermostats import Refined
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.step.arguments import Arguments
from pymc_sgmcmc.step.refusals import NO_ESTIMATE, without_noise_estimate
from pymc_sgmcmc.step.step_method import SGMCMC

if TYPE_CHECKING:
    from pymc_sgmcmc.step.keywords import OnBatches, PerCoordinate, StepSize

__all__ = ["Santa"]


@dataclass(frozen=True, kw_only=True, eq=False)
class AnnealedThermostat(Thermostatted):
    """The algorithm of Santa."""

    name = "santa"
    learned_state = ("v",)
    stats = (*Thermostatted.stats, "temperature")

    diffusion: Any = hyperparameter(Either(Word("metric"), Numbers()), default=1.0)
    integrator: str = hyperparameter(Choice(("euler", "symmetric")), default="symmetric")
    annealing: Annealing | None = hyperparameter(Cooling.arguments["annealing"], default=None)
    exploration: int | None = hyperparameter(Cooling.arguments["exploration"], default=None)
    decay: float = hyperparameter(RMSProp.arguments["decay"], default=0.99)
    damping: float = hyperparameter(RMSProp.arguments["damping"], default=1e-5)

    def __post_init__(self) -> None:
        Cooling(self.annealing, self.exploration)  # raises where these do not fit

    @property
    def by_metric(self) -> bool:
        """Whether the diffusion is the metric."""
        return is_word(self.diffusion, "metric")

    @property
    def rate(self) -> Any:
        return 1.0 if self.by_metric else self.diffusion

    @property
    def is_stationary(self) -> bool:
        return self.annealing is None

    @property
    def heat_bath(self) -> Refined:
        return Refined(self.size)

    @property
    def cooling(self) -> Cooling:
        """Its temperatures."""
        return Cooling(self.annealing, self.exploration)

    @property
    def rmsprop(self) -> RMSProp:
        """Its metric."""
        return RMSProp(self.decay, self.damping, self.is_stationary, self.setting.tunes_step)

    def initial_state(self, rng: np.random.Generator, context: Context) -> dict[str, Number]:
        return super().initial_state(rng, context) | self.rmsprop.start(self.size)

    def coefficients(self, context: Context) -> dict[str, Number]:
        diffusion = per_coordinate("diffusion", self.rate, self.size)
        mass = self.heat_bath.mass(self.thermal_mass, 1.0)
        scales = self.rmsprop.coefficients(context.n_rows)
        return scales | {"diffusion": diffusion, "mass": mass}

    def planned(self, steps: Counts, *, tuning: bool) -> dict[str, Vector]:
        decay = self.rmsprop.planned(steps, tuning=tuning)
        return decay | self.cooling.planned(steps, self.temperature)

    def longest_step(self, curvature: float) -> float:
        return self.rmsprop.longest_step(super().longest_step(curvature))

    def expected_friction(self, rate: Vector, context: Context) -> float:
        adapted = self.rmsprop.metric(context.state["v"])
        G = adapted**0.5 if self.by_metric else self.diffusion
        return float((G + adapted * rate / self.temperature).mean())

    def alarm(self, draw: int, inner_steps: int, steps: int, *, tuning: bool) -> Alarm | None:
        refines = self.cooling.alarm(self.name, draw, inner_steps, steps)
        return refines or self.rmsprop.alarm(self.name, draw, tuning=tuning)

    def update(
        self, q: Graph, p: Graph, xi: Graph, v: Graph, *, grad: Gradient, h: Graph, noise: Normals,
        decay: Graph, temperature: Graph, rows: Graph, damping: Graph, diffusion: Graph,
        mass: Graph,
    ) -> tuple[Graph, ...]:  # fmt: skip
        before = pt.sqrt(metric(v, damping))
        if self.integrator == "symmetric":
            q = q + h / 2 * before * p
        f = grad(q)
        v = mean_square(v, f, rows, decay)
        g = pt.sqrt(metric(v, damping))
        G = before if self.by_metric else diffusion
        if self.thermal_mass == "auto":
            mass = mass * self.heat_bath.cooling(temperature, G)
        heat = partial(self.heat_bath.heat, temperature=temperature, mass=mass)
        friction = partial(self.heat_bath.friction, temperature=temperature, least=diffusion)
        kick = -h * g * f + pt.sqrt(2 * G * temperature * h) * noise()
        kick = kick + pt.switch(pt.gt(temperature, 0), pt.maximum(1 - before / g, -1) * p, 0)
        if self.integrator == "euler":
            xi = heat(xi, p, h)
            p = p - h * friction(xi) * p + kick
            return q + h * g * p, p, xi, v
        xi = heat(xi, p, h / 2)
        half = pt.exp(-friction(xi) * h / 2)
        p = half * (half * p + kick)
        return q + h / 2 * g * p, p, heat(xi, p, h / 2), v


@final
class Santa(SGMCMC):
    r"""Stochastic annealing thermostats with adaptive momentum of Chen et al. (2016), algorithm 1.

    A thermostat for each coordinate, in RMSProp's metric, which rests after tuning. **With
    `annealing` it is an optimiser, and no draw is one from the posterior.** With f(q) the minibatch
    gradient of U on N rows, step size h, temperature T, diffusion G, thermal mass Q and normals z,
    ``integrator="euler"`` is the paper's, all by the coordinate::

        f  <- f(q),  v <- decay v + (1 - decay) (f / N)^2,  g <- 1 / sqrt(damping + sqrt(v))
        xi <- xi + h (p^2 - T) / Q
        p  <- p - h xi p - h g f + sqrt(2 G T h) z + max(1 - g_before / g, -1) p
        q  <- q + h g p

    Leaves invariant: exp(-(U(q) + p.p / 2 + sum Q (xi - G)^2 / 2) / T) as h -> 0 while the metric
    rests, with a bias of order h^2, Euler of h. Gradient noise of variance V, not correlated, moves
    xi's mean to G + h g^2 V / (2 T) and nothing else. The documentation has a page on thermostats.

    Parameters
    ----------
    vars : list of variables, optional
        What to sample; default all continuous variables.
    step_size : float, Schedule or None
        h > 0; stable for h^2 g^2 times the curvature of U below 4, Euler for less. None: tuned.
    diffusion : float, array of shape (d,), or "metric"
        A > 0, a rate (one over time): G = A, and where xi starts. "metric": G = g, xi starts at 1.
    thermal_mass : "auto" or float
        Q > 0. "auto": 10 T / max(1, G)^2. To optimise with noisy gradients, give 1.0.
    integrator : {"symmetric", "euler"}
        "symmetric": half a drift by the last g, half the thermostat, half the friction, kick, and
        back in halves (Chen, Ding and Carin, 2015). "euler": as above.
    annealing : Annealing, optional
        Inverse temperatures, :class:`~pymc_sgmcmc.PowerAnnealing` or
        :class:`~pymc_sgmcmc.GeometricAnnealing`: at the inner step t the temperature is
        `temperature` / annealing(t), the sample stat ``temperature``. Default None: it samples.
    exploration : int, optional
        Inner steps before refinement, where the temperature is 0 and chains settle in a mode,
        counted from the start of the chain, tuning included. Default None: no refinement.
    decay : float
        Of v, 0 < decay < 1. At first v is the mean of the squares and its start, where g = 1.
    damping : float
        > 0, in the units of a mean gradient f / N: where these are smaller, g is 1 / sqrt(damping).
    **kwargs
        Common to all samplers, but for `noise_estimate`: see :class:`~pymc_sgmcmc.SGMCMC`.

    Raises
    ------
    ValueError, TypeError
        If an argument is out of range or the model cannot be sampled; the message names it.

    References
    ----------
    - Chen, C., Carlson, D., Gan, Z., Li, C. and Carin, L. (2016). Bridging the gap between
      stochastic gradient MCMC and stochastic optimization. AISTATS.
    - Chen, C., Ding, N. and Carin, L. (2015). On the convergence of stochastic gradient MCMC
      algorithms with high-order integrators. NIPS.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from pymc_sgmcmc import Santa
    >>> with pm.Model():
    ...     y = pm.Normal("y", pm.Normal("mu"), observed=np.arange(10.0))
    ...     idata = pm.sample(step=Santa(), progressbar=False, random_seed=1)
    >>> float(idata.posterior["mu"].mean().round(1))
    4.1
    """

    algorithm_class = AnnealedThermostat
    arguments: ClassVar = {"noise_estimate": NO_ESTIMATE}

    if TYPE_CHECKING:

        def __init__(
            self, vars: Any = None, *, step_size: StepSize | None = None,
            diffusion: PerCoordinate | Literal["metric"] = 1.0,
            thermal_mass: float | Literal["auto"] = "auto",
            integrator: Literal["euler", "symmetric"] = "symmetric",
            annealing: Annealing | None = None, exploration: int | None = None, decay: float = 0.99,
            damping: float = 1e-5, **others: Unpack[OnBatches],
        ) -> None: ...  # fmt: skip

    @classmethod
    def complete(cls, own: Keywords, shared: Keywords) -> tuple[Keywords, Keywords]:
        return own, without_noise_estimate(cls.__name__, shared)

    @classmethod
    def refuse(cls, algorithm: Algorithm, arguments: Arguments, target: Target) -> None:
        super().refuse(algorithm, arguments, target)
        assert isinstance(algorithm, AnnealedThermostat)
        if algorithm.annealing is not None:
            warn_user(
                "Santa with annealing is an optimiser: it looks for the highest mode, and its "
                "draws are not from the posterior. annealing=None samples.",
            )
