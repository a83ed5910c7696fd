"""Stochastic annealing thermostats with adaptive momentum (Chen et al., 2016)."""

from functools import partial
from typing import Any, final

import numpy as np
import pytensor.tensor as pt

from pymc_sgmcmc.annealed import Annealed
from pymc_sgmcmc.annealing import Annealing
from pymc_sgmcmc.checks import fraction, is_word, one_of, per_coordinate, positive_or_auto
from pymc_sgmcmc.momentum import Thermostatted
from pymc_sgmcmc.rmsprop import RMSProp, mean_square, metric
from pymc_sgmcmc.thermostats import Coordinate

__all__ = ["Santa"]


@final
class Santa(Annealed, RMSProp, Thermostatted):
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
    directions too narrow: keep G well above h g^2 V / 2. The bias is of second order in h, with
    Euler of first. The documentation has a page on thermostats, with the last term of p.

    One gradient an inner step. The paper's u is h p, eta h^2, alpha h xi, sigma `decay`, lambda
    `damping`, burnin `exploration`, beta 1 / T, G g, thermal mass 1, and C is A.

    Parameters
    ----------
    vars : list of variables, optional
        What to sample; default all continuous variables.
    step_size : float, Schedule or None
        h > 0. None: tuned, and N is 1, in coordinates in which gradients are about 1. h^2 N is
        RMSProp's learning rate, about how far q moves a step. Stable for h^2 g^2 times the
        curvature of U below 4; Euler asks for less.
    diffusion : float, array of shape (d,), or "metric"
        A > 0, a rate (one over time): G = A, and where xi starts. "metric": G = g, xi starts at 1.
    thermal_mass : "auto" or float
        Q > 0. "auto": 10 T / max(1, G)^2. To optimise with noisy gradients, give 1.0, as the
        authors do: else xi rises to what would cool their noise to the falling T.
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

    name = "santa"
    extra_stats = (*Thermostatted.extra_stats, *Annealed.extra_stats)

    def __init__(self, vars: Any = None, *, diffusion: Any = 1.0, thermal_mass: Any = "auto",
                 decay: float = 0.99, damping: float = 1e-5, annealing: Annealing | None = None,
                 exploration: int | None = None, integrator: str = "symmetric",
                 **kwargs):  # fmt: skip
        self.diffusion, self.by_metric = diffusion, is_word(diffusion, "metric")
        self.thermal_mass = positive_or_auto("thermal_mass", thermal_mass)
        self.integrator = one_of("integrator", integrator, ["euler", "symmetric"])
        self.restless = annealing is not None
        super().__init__(
            vars, decay=fraction("decay", decay), damping=damping, annealing=annealing,
            exploration=exploration, **kwargs,
        )  # fmt: skip

    @property
    def bath(self):
        return Coordinate(self.target.size)

    @property
    def rate(self):
        return 1.0 if self.by_metric else self.diffusion

    def initial_state(self, rng):
        now = self.sequences(np.array([self.inner_steps]))["temperature"]
        p = np.sqrt(now) * rng.standard_normal(self.target.size)
        return {"p": p, "xi": self.rate + 0 * p, "v": self.unadapted()}

    def coefficients(self):
        diffusion = per_coordinate("diffusion", self.rate, self.target.size)
        mass = 10.0 if self.thermal_mass == "auto" else self.thermal_mass
        return self.scales() | {"diffusion": diffusion, "mass": mass}

    def settled(self, rate):
        if not self.keeps_its_law:
            return None
        g2 = self.adapted()
        spread = np.sqrt(g2) if self.by_metric else self.diffusion
        return float(np.mean(spread + g2 * rate / self.temperature))

    def update(self, q, p, xi, v, *, grad, h, noise, decay, temperature, rows, damping, diffusion,
               mass):  # fmt: skip
        explores = pt.gt(temperature, 0)
        before = pt.sqrt(metric(v, damping))
        if self.integrator == "symmetric":
            q = q + h / 2 * before * p
        f = grad(q)
        v = mean_square(v, f, rows, decay)
        g = pt.sqrt(metric(v, damping))
        spread = before if self.by_metric else diffusion
        if self.thermal_mass == "auto":
            mass = mass * pt.switch(explores, temperature, 1) / pt.maximum(spread, 1) ** 2
        kick = -h * g * f + pt.sqrt(2 * spread * temperature * h) * noise()
        kick = kick + pt.switch(explores, pt.maximum(1 - before / g, -1) * p, 0)

        bath = partial(self.bath.heat, temperature=temperature, mass=mass)

        def heat(xi, p, h):
            return pt.switch(explores, bath(xi, p, h), xi)

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
