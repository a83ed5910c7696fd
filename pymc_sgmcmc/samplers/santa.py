"""Stochastic annealing thermostats with adaptive momentum (Chen et al., 2016)."""

from functools import partial
from typing import Any, ClassVar, final

import pytensor.tensor as pt

from pymc_sgmcmc._utils.constraints import Choice, Either, Numbers, Word
from pymc_sgmcmc._utils.validation import is_word, per_coordinate
from pymc_sgmcmc.dynamics.annealed import Annealed
from pymc_sgmcmc.dynamics.momentum import Thermostatted
from pymc_sgmcmc.dynamics.rmsprop import RMSProp, mean_square, metric
from pymc_sgmcmc.dynamics.thermostats import Refined

__all__ = ["Santa"]


@final
class Santa(Annealed, RMSProp, Thermostatted):
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
    **kwargs
        `annealing`, `exploration`: see :class:`~pymc_sgmcmc.dynamics.annealed.Annealed`; `decay`,
        `damping`: :class:`~pymc_sgmcmc.dynamics.rmsprop.RMSProp`; common to all:
        :class:`~pymc_sgmcmc.SGMCMC`.

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

    name = "santa"
    arguments: ClassVar = {
        "diffusion": Either(Word("metric"), Numbers()),
        "integrator": Choice(("euler", "symmetric")),
    }
    extra_stats = (*Thermostatted.extra_stats, *Annealed.extra_stats)

    def __init__(self, vars: Any = None, *, diffusion: Any = 1.0, thermal_mass: Any = "auto",
                 integrator: str = "symmetric", **kwargs):  # fmt: skip
        self.by_metric = is_word(diffusion, "metric")
        self.diffusion = 1.0 if self.by_metric else diffusion
        self.integrator = integrator
        super().__init__(vars, thermal_mass=thermal_mass, **kwargs)

    @property
    def bath(self):
        return Refined(self.target.size)

    def coefficients(self):
        diffusion = per_coordinate("diffusion", self.diffusion, self.target.size)
        mass = self.bath.mass(self.thermal_mass, 1.0)
        return self.scales() | {"diffusion": diffusion, "mass": mass}

    def settled(self, rate):
        G = self.adapted() ** 0.5 if self.by_metric else self.diffusion
        return float((G + self.adapted() * rate / self.temperature).mean())

    def update(self, q, p, xi, v, *, grad, h, noise, decay, temperature, rows, damping, diffusion,
               mass):  # fmt: skip
        before = pt.sqrt(metric(v, damping))
        if self.integrator == "symmetric":
            q = q + h / 2 * before * p
        f = grad(q)
        v = mean_square(v, f, rows, decay)
        g = pt.sqrt(metric(v, damping))
        G = before if self.by_metric else diffusion
        if self.thermal_mass == "auto":
            mass = mass * self.bath.cooling(temperature, G)
        heat = partial(self.bath.heat, temperature=temperature, mass=mass)
        friction = partial(self.bath.friction, temperature=temperature, least=diffusion)
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
