"""The stochastic gradient Nosé-Hoover thermostat (Ding et al., 2014)."""

from typing import Any, final

import numpy as np
import pytensor.tensor as pt

from pymc_sgmcmc.base import SGMCMC
from pymc_sgmcmc.checks import one_of, per_coordinate, positive_or_auto
from pymc_sgmcmc.integrators import (
    checked_word,
    longest_step,
    spelled,
    split,
    step_bias,
    thermal_mass,
    thermostat,
)

__all__ = ["SGNHT"]


@final
class SGNHT(SGMCMC):
    r"""Stochastic gradient Nosé-Hoover thermostat of Ding et al. (2014), algorithm 1.

    A friction xi that keeps the kinetic energy at its temperature, and so absorbs gradient noise of
    unknown size. With the minibatch gradient g(q) of U, step size h, diffusion A, temperature T,
    thermal mass Q, noise estimate B (0 in the paper) and normals z, ``integrator="euler"`` is the
    paper's::

        p  <- p - h g(q) - h xi p + sqrt(2 (A T - B) h) z
        q  <- q + h p
        xi <- xi + h (p.p / d - T) / Q

    "symmetric" is the splitting of Chen, Ding and Carin (2015). Any other is a word of flows, each
    solved exactly: those of :class:`~pymc_sgmcmc.SGHMC` with xi for the friction, and D, the
    thermostat. "BAOAB", the default, is BADODAB (Leimkuhler and Shang, 2016): kick at the q that
    the step before returned, half a drift, half the thermostat, friction and noise, half the
    thermostat, half a drift.

    Leaves invariant: exp(-(U(q) + p.p / 2 + d Q (xi - A)^2 / 2) / T) as h -> 0, with the sum of
    Q (xi_i - A_i)^2 / 2 for one xi a coordinate, and of ``Q |Xi - A|^2 / 2`` for a matrix. Gradient
    noise of one variance V in all coordinates moves xi's mean to A + h V / (2 T) and nothing else.
    Noise that differs between coordinates leaves some too wide and others too narrow: use another
    thermostat, a larger batch, or a diffusion well above h V / 2. The kinetic temperature is T
    whatever happens to q: it proves nothing about q.

    Euler has a bias of first order, Var(q) = s2 (1 - h <xi> / 2) on a Gaussian coordinate of
    variance s2, and is unstable unless 2 h (A + h V / 2) < 1, and sometimes then. Splittings have
    neither; but words in which the thermostat reads p between half kicks, as ABDODBA, leave
    variances too wide by about h^2 V / (4 T).

    One gradient an inner step. In the paper's algorithm 2, eta is h^2, alpha is xi h and a is A h.

    Parameters
    ----------
    vars : list of variables, optional
        What to sample; default all continuous variables.
    step_size : float, Schedule or None
        h > 0. None: tuned. On a Gaussian, splittings are stable for h^2 times the largest
        curvature of U below 4; Euler asks for less, and for h xi well below 2.
    diffusion : float, or array of shape (d,) with ``thermostat="coordinate"``
        A > 0, a rate (one over time): the injected noise, and where xi starts.
    noise_estimate : float, array of shape (d,), or "auto"
        B >= 0, a rate, at most diffusion x temperature: subtracted from the injected noise, so that
        xi has no more to take up. "auto" (the default if the step size is tuned): measured.
    thermostat : {"scalar", "coordinate", "matrix"}
        One xi for all coordinates, one for each, or a symmetric matrix, which takes up noise that
        is correlated between coordinates too (section 4.2); for small d, as each step has to find
        its eigenvectors.
    thermal_mass : "auto" or float
        Q > 0, a time squared: xi moves by h (p.p / d - T) / Q a step. "auto" is max(1, 10 / m) /
        max(1, A)^2, where m coordinates share a xi (d, or 1) and A is the mean diffusion: xi then
        settles as fast as the friction acts, whatever the scale of the posterior, and varies by
        no more than a third. A lighter thermostat is not stable; a heavier one may not settle
        within the run, and then the gradient noise stays in the posterior: the mean kinetic
        temperature tells, it must be T.
    integrator : str
        "BAOAB", "ABDODBA", "ODBABDO", "DUBUD" or another symmetric word; "symmetric", "euler".
    **kwargs
        Common to all samplers: see :class:`~pymc_sgmcmc.base.SGMCMC`.

    Raises
    ------
    ValueError, TypeError
        If an argument is out of range or the model cannot be sampled; the message names it.

    References
    ----------
    - Ding, N., Fang, Y., Babbush, R., Chen, C., Skeel, R. D. and Neven, H. (2014). Bayesian
      sampling using stochastic gradient thermostats. NIPS.
    - Leimkuhler, B. and Shang, X. (2016). Adaptive thermostats for noisy gradient systems. SIAM
      Journal on Scientific Computing.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from pymc_sgmcmc import SGNHT
    >>> with pm.Model():
    ...     mu = pm.Normal("mu")
    ...     y = pm.Normal("y", mu, observed=np.arange(10.0))
    ...     idata = pm.sample(step=SGNHT(), progressbar=False, random_seed=1)
    >>> float(idata.posterior["mu"].mean().round(1))
    4.1
    """

    name = "sgnht"
    descends = False
    extra_stats = ("kinetic_temperature", "thermostat")
    absorbs_noise = True

    def __init__(self, vars: Any = None, *, diffusion: Any = 1.0, thermostat: str = "scalar",
                 thermal_mass: Any = "auto", integrator: str = "BAOAB", **kwargs):  # fmt: skip
        self.diffusion = diffusion
        self.thermostat = one_of("thermostat", thermostat, ["scalar", "coordinate", "matrix"])
        self.thermal_mass = positive_or_auto("thermal_mass", thermal_mass)
        self.integrator = checked_word(integrator, thermostat=True)
        if self.thermostat == "matrix" and "U" in self.integrator:
            raise ValueError(f"integrator={integrator!r}: U is for thermostats that are no matrix.")
        super().__init__(vars, **kwargs)

    def initial_state(self, rng):
        friction = self._friction() * np.ones(self.target.size)
        start = {"scalar": np.mean, "coordinate": np.array, "matrix": np.diag}[self.thermostat]
        p = np.sqrt(self.temperature) * rng.standard_normal(self.target.size)
        return {"p": p, "xi": start(friction)}

    def _friction(self):
        """Where xi settles: at A, and above it by the measured noise that is not subtracted."""
        diffusion = per_coordinate("diffusion", self.diffusion, self.target.size)
        if isinstance(self.noise_estimate, str):
            return diffusion
        return diffusion + self.measured() / self.temperature

    def coefficients(self):
        d = self.target.size
        diffusion = per_coordinate("diffusion", self.diffusion, d)
        if self.thermostat != "coordinate" and diffusion.ndim:
            raise ValueError(
                "diffusion has one value for each coordinate: that needs thermostat='coordinate', "
                "as one friction cannot balance several diffusions."
            )
        coordinates = d if self.thermostat == "scalar" else 1
        mass = thermal_mass(self.thermal_mass, coordinates, diffusion)
        name = f"diffusion x temperature = {self.diffusion!r} x {self.temperature!r}"
        return {
            "diffusion": self.injected(self.temperature * diffusion, name),
            "temperature": self.temperature,
            "mass": np.inf if self.tuned.warming else mass,  # as SGHMC, until the chain is there
        }

    def step_bias(self, h, curvature):
        return step_bias(self.integrator, h, curvature, np.mean(self.diffusion))

    def capacity(self):
        return float(np.min(self.diffusion)) * self.temperature

    def longest_step(self, curvature):
        friction = float(np.max(self.diffusion))
        longest = longest_step(self.integrator, curvature, friction)
        return min(longest, 1 / (2 * friction)) if self.integrator == "euler" else longest

    def widening(self, rate):
        rate = rate / self.capacity()
        if self.thermostat != "scalar":
            return 0 * rate
        return (rate - rate.mean()) / (1 + rate.mean())

    def settled(self, rate):
        return float(np.mean(self._coefficients["diffusion"] + rate)) / self.temperature

    def virial(self, q, p, xi, *, g, h, diffusion, temperature, mass):
        if self.thermostat == "matrix":
            return None
        if self.integrator == "euler":
            return p**2 - xi * q * p
        if self.integrator not in ("BAOAB", "BADODAB"):
            return None
        kicked = p - h * g
        energy = kicked**2
        if self.thermostat == "scalar":
            energy = pt.mean(energy, axis=1, keepdims=True)
        xi = xi + h / 2 * (energy - temperature) / mass
        return (kicked**2 + p**2) / 2 + pt.expm1(-h * xi) / h * (q + h / 2 * kicked) * kicked

    def update(self, q, p, xi, *, grad, h, noise, diffusion, temperature, mass):
        if self.integrator == "euler":
            friction = pt.dot(xi, p) if self.thermostat == "matrix" else xi * p
            p = p - h * grad(q) - h * friction + pt.sqrt(2 * diffusion * h) * noise()
            return q + h * p, p, thermostat(xi, p, temperature, mass, h)
        return split(
            spelled(self.integrator, thermostat=True), q, p, xi,
            grad=grad, h=h, noise=noise, diffusion=diffusion,
            heat=lambda xi, p, h: thermostat(xi, p, temperature, mass, h),
        )  # fmt: skip
