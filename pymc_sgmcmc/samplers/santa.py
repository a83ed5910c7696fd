"""Stochastic annealing thermostats with adaptive momentum (Chen et al., 2016)."""

import warnings
from typing import Any, final

import numpy as np
import pytensor.tensor as pt
from pymc.stats.convergence import SamplerWarning, WarningType

from pymc_sgmcmc.base import SGMCMC
from pymc_sgmcmc.checks import fraction, natural, one_of, per_coordinate, positive
from pymc_sgmcmc.integrators import longest_step, step_bias, thermostat
from pymc_sgmcmc.rmsprop import at_one, decays, mean_square, metric, rows_of, unadapted
from pymc_sgmcmc.schedules import Annealing

__all__ = ["Santa"]


@final
class Santa(SGMCMC):
    r"""Stochastic annealing thermostats with adaptive momentum of Chen et al. (2016), algorithm 1.

    Momentum with a thermostat for each coordinate and the metric of RMSProp. ``annealing=None``
    samples the posterior: the metric adapts while tuning and rests afterwards. **With `annealing`
    it is an optimiser**: the temperature falls (exploration), then there is no noise at all
    (refinement), chains settle in a mode, and no draw is one from the posterior. With the minibatch
    gradient f(q) of U on N rows, step size h, temperature T, diffusion G, thermal mass Q and
    normals z, all by the coordinate, ``integrator="euler"`` is the paper's::

        f  <- f(q)
        v  <- decay v + (1 - decay) (f / N)^2
        g  <- 1 / sqrt(damping + sqrt(v))
        xi <- xi + h (p^2 - T) / Q
        p  <- p - h xi p - h g f + sqrt(2 G T h) z + max(1 - g_before / g, -1) p
        q  <- q + h g p

    Refinement has T = 0, xi at rest (and the friction max(xi, A), where A is xi's start), and no
    last term. "symmetric", the default, is the splitting of Chen, Ding and Carin (2015): half a
    drift by the last g, half the thermostat, half the friction, kick, and back in halves.

    Leaves invariant: exp(-(U(q) + p.p / 2 + sum Q (xi - G)^2 / 2) / T) as h -> 0 while the metric
    rests; gradient noise of variance V in a coordinate moves the mean of its xi to
    G + h g^2 V / (2 T) and nothing else. Noise that is correlated between coordinates leaves wide
    directions too narrow: keep G well above h g^2 V / 2. With a heavy thermostat, the variance of a
    Gaussian coordinate of precision a is T / a times cosh(h xi / 2) - h^2 g^2 a / 4 ("symmetric")
    or 1 - h xi / 2 ("euler": for optimisation), whatever the noise.

    The last term of p is the diffusion's T dg/dq, owed while the metric moves. The paper's quotient
    T (1 - g_before / g) / p has no finite variance, as p passes through zero, and overflows in the
    end; with p^2 for its mean T, and a bound, it is the same on average. What G = "metric" would
    owe besides is left out, as in the paper.

    One gradient an inner step. The paper's u is h p, eta h^2, alpha h xi, sigma `decay`, lambda
    `damping`, burnin `exploration`, beta 1 / T, G g, thermal mass 1, and C is A. Its noise in u has
    the variance 2 g eta^(3/2) / beta.

    Parameters
    ----------
    vars : list of variables, optional
        What to sample; default all continuous variables.
    step_size : float, Schedule or None
        h > 0. None: tuned, and N is 1, in coordinates in which gradients are about 1. h^2 N is
        RMSProp's learning rate, about how far q moves a step. On a Gaussian, "symmetric" is stable
        for h^2 g^2 times the curvature of U below 4; Euler asks for less, and for h xi below 2.
    diffusion : float, array of shape (d,), or "metric"
        A > 0, a rate (one over time): G = A, and where xi starts. "metric": G = g, xi starts at 1.
    thermal_mass : "auto" or float
        Q > 0. "auto" is 10 T / max(1, G)^2: xi then settles as fast as the friction acts, and
        varies by no more than a third, at every temperature. A lighter thermostat is not stable.
        To optimise with noisy gradients, give 1.0, as the authors' code does: with "auto" xi rises
        to what would cool their noise to the falling T, and q hardly moves.
    decay : float
        Of v, 0 < decay < 1. At first v is the plain mean of the squares and its start, where g = 1.
    damping : float
        > 0, in the units of a mean gradient f / N: where these are smaller, g is 1 / sqrt(damping).
    annealing : Annealing or None
        Inverse temperatures, `PowerAnnealing` (the paper's) or `GeometricAnnealing`: T is
        `temperature` / annealing(t) at the inner step t, and the metric never rests.
    exploration : int or None
        Inner steps before refinement, counted from the start of the chain, tuning included; with
        `annealing` only. None: no refinement.
    integrator : {"symmetric", "euler"}
        As above.
    **kwargs
        Common to all samplers: see :class:`~pymc_sgmcmc.base.SGMCMC`.

    Raises
    ------
    ValueError, TypeError
        If an argument is out of range or the model cannot be sampled; the message names it.

    Warns
    -----
    UserWarning
        With `annealing`. The sample stat ``temperature`` says it of each draw: 0 in refinement.

    Notes
    -----
    With ``tune=0`` and no annealing g stays 1, and a message says so. N counts the rows of all
    minibatched variables; it is 1 where there are none. Identities of the running sums that mix
    q or its gradient with p hold for q / g and for the gradient times g.

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
    ...     mu = pm.Normal("mu")
    ...     y = pm.Normal("y", mu, observed=np.arange(10.0))
    ...     idata = pm.sample(step=Santa(), progressbar=False, random_seed=1)
    >>> float(idata.posterior["mu"].mean().round(1))
    4.1
    """

    name = "santa"
    descends = False
    extra_stats = ("kinetic_temperature", "thermostat", "temperature")
    learned = ("v",)
    absorbs_noise = True

    def __init__(self, vars: Any = None, *, diffusion: Any = 1.0, thermal_mass: Any = "auto",
                 decay: float = 0.99, damping: float = 1e-5, annealing: Annealing | None = None,
                 exploration: int | None = None, integrator: str = "symmetric",
                 **kwargs):  # fmt: skip
        self.diffusion, self.thermal_mass = diffusion, thermal_mass
        self._by_metric = isinstance(diffusion, str) and diffusion == "metric"
        self._friction = 1.0 if self._by_metric else diffusion  # where xi starts
        if not (isinstance(thermal_mass, str) and thermal_mass == "auto"):
            positive("thermal_mass", thermal_mass)
        self.decay, self.damping = fraction("decay", decay), positive("damping", damping)
        self.annealing, self.exploration = annealing, exploration
        self.keeps_its_law = annealing is None
        self.integrator = one_of("integrator", integrator, ["euler", "symmetric"])
        if annealing is not None and not isinstance(annealing, Annealing):
            raise TypeError(
                f"annealing={annealing!r} is no schedule of inverse temperatures: pass "
                "PowerAnnealing(...), GeometricAnnealing(...), or None to sample."
            )
        if exploration is not None:
            natural("exploration", exploration)
            if annealing is None:
                raise ValueError(
                    f"exploration={exploration!r} says when refinement begins, and without "
                    "annealing there is none: pass annealing=PowerAnnealing(...), or leave it out."
                )
        if "noise_estimate" in kwargs:
            raise TypeError("Santa's thermostats take up all gradient noise: omit noise_estimate.")
        super().__init__(vars, noise_estimate=0.0, **kwargs)
        if annealing is not None:
            warnings.warn(
                "Santa with annealing is an optimiser: it looks for the highest mode, and its "
                "draws are not from the posterior. annealing=None samples.",
                stacklevel=2,
            )

    def initial_state(self, rng):
        d = self.target.size
        temperature = self.sequences(np.array([self.inner_steps]))["temperature"]
        return {
            "p": np.sqrt(temperature) * rng.standard_normal(d),
            "xi": np.zeros(d) + self.coefficients()["diffusion"],
            "v": at_one(d, self.damping),
        }

    def coefficients(self):
        return {
            "rows": rows_of(self),
            "damping": self.damping,
            "diffusion": per_coordinate("diffusion", self._friction, self.target.size),
            "mass": 10.0 if self.thermal_mass == "auto" else self.thermal_mass,
        }

    def step_bias(self, h, curvature):
        return step_bias(self.integrator, h, curvature, np.mean(self._friction))

    def capacity(self):
        return self.temperature * float(np.min(self._friction))

    def longest_step(self, curvature):
        if self.step_size is not None:
            return np.inf  # its g is not known beforehand; where a step is tuned, it is below 1
        return longest_step(self.integrator, curvature, float(np.max(self._friction)))

    def widening(self, rate):
        return 0 * rate

    def settled(self, rate):
        if not self.keeps_its_law:
            return None
        g = np.sqrt(metric(self._carried()["v"], self.damping))
        spread = g if self._by_metric else self.diffusion
        return float(np.mean(spread + g**2 * rate / self.temperature))

    def sequences(self, steps):
        adapts = self.tune or self.annealing is not None
        temperature = np.full(len(steps), self.temperature)
        if self.annealing is not None:
            temperature = temperature / self.annealing(steps)
        if self.exploration is not None:
            temperature = np.where(steps < self.exploration, temperature, 0.0)
        return {"decay": decays(steps, self.decay, adapts=adapts), "temperature": temperature}

    def notice(self):
        refines = self.exploration
        if refines is not None and 0 <= refines - self.inner_steps < self.steps_per_draw:
            return SamplerWarning(
                WarningType.CONVERGENCE,
                f"santa, draw {self.draw}: refinement begins. What follows is descent to a mode.",
                "info",
                step=self.draw,
            )
        return unadapted(self) if self.annealing is None else None

    def update(self, q, p, xi, v, *, grad, h, noise, decay, temperature, rows, damping, diffusion,
               mass):  # fmt: skip
        explores = pt.gt(temperature, 0)
        before = pt.sqrt(metric(v, damping))
        if self.integrator == "symmetric":
            q = q + h / 2 * before * p
        f = grad(q)
        v = mean_square(v, f, rows, decay)
        g = pt.sqrt(metric(v, damping))
        spread = before if self._by_metric else diffusion
        if self.thermal_mass == "auto":
            mass = mass * pt.switch(explores, temperature, 1) / pt.maximum(spread, 1) ** 2
        kick = -h * g * f + pt.sqrt(2 * spread * temperature * h) * noise()
        kick = kick + pt.switch(explores, pt.maximum(1 - before / g, -1) * p, 0)

        def heat(xi, p, h):
            return pt.switch(explores, thermostat(xi, p, temperature, mass, h), xi)

        def friction(xi):
            return pt.switch(explores, xi, pt.maximum(xi, diffusion))

        if self.integrator == "euler":
            xi = heat(xi, p, h)
            p = p - h * friction(xi) * p + kick
            return q + h * g * p, p, xi, v
        xi = heat(xi, p, h / 2)
        p = pt.exp(-friction(xi) * h / 2) * p + kick
        p = pt.exp(-friction(xi) * h / 2) * p
        return q + h / 2 * g * p, p, heat(xi, p, h / 2), v
