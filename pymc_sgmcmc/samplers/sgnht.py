"""The stochastic gradient Nosé-Hoover thermostat (Ding et al., 2014)."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Unpack, final

import numpy as np
import pytensor.tensor as pt

from pymc_sgmcmc._utils.constraints import Choice, Numbers
from pymc_sgmcmc._utils.types import Graph
from pymc_sgmcmc.dynamics.hyperparameters import hyperparameter
from pymc_sgmcmc.dynamics.inputs import Gradient, Normals
from pymc_sgmcmc.dynamics.momentum import Thermostatted
from pymc_sgmcmc.dynamics.splittings import split
from pymc_sgmcmc.dynamics.thermostats import Coordinate, Matrix, Scalar, Thermostat
from pymc_sgmcmc.dynamics.words import spelled, splitting
from pymc_sgmcmc.step.step_method import SGMCMC

if TYPE_CHECKING:
    from pymc_sgmcmc.step.keywords import PerCoordinate, Shared, StepSize

__all__ = ["SGNHT"]

BATHS: dict[str, type[Thermostat]] = {"scalar": Scalar, "coordinate": Coordinate, "matrix": Matrix}


@dataclass(frozen=True, kw_only=True, eq=False)
class NoseHoover(Thermostatted):
    """The algorithm of SGNHT."""

    name = "sgnht"

    diffusion: Any = hyperparameter(Numbers(), default=1.0)
    thermostat: str = hyperparameter(Choice(tuple(BATHS)), default="scalar")
    integrator: str = hyperparameter(splitting(thermostat=True), default="BAOAB")

    def __post_init__(self) -> None:
        if self.thermostat == "matrix" and "U" in self.integrator:
            raise ValueError(
                f"integrator={self.integrator!r}: U is for thermostats that are no matrix."
            )

    @property
    def heat_bath(self) -> Thermostat:
        return BATHS[self.thermostat](self.size)

    def longest_step(self, curvature: float) -> float:
        longest = super().longest_step(curvature)
        return min(longest, 0.5 / np.max(self.rate)) if self.integrator == "euler" else longest

    def virial(
        self, q: Graph, p: Graph, xi: Graph, *, g: Graph, h: Graph, diffusion: Graph,
        temperature: Graph, mass: Graph,
    ) -> Graph | None:  # fmt: skip
        return self.heat_bath.virial(self.integrator, q, p, xi, g, h, temperature, mass)

    def update(
        self, q: Graph, p: Graph, xi: Graph, *, grad: Gradient, h: Graph, noise: Normals,
        diffusion: Graph, temperature: Graph, mass: Graph,
    ) -> tuple[Graph, ...]:  # fmt: skip
        heat = partial(self.heat_bath.heat, temperature=temperature, mass=mass)
        if self.integrator == "euler":
            p = (
                p
                - h * grad(q)
                - h * self.heat_bath.friction_force(xi, p)
                + pt.sqrt(2 * diffusion * h) * noise()
            )
            return q + h * p, p, heat(xi, p, h)
        word = spelled(self.integrator, thermostat=True)
        return split(word, q, p, xi, grad=grad, h=h, noise=noise, diffusion=diffusion, heat=heat)


@final
class SGNHT(SGMCMC):
    r"""Stochastic gradient Nosé-Hoover thermostat of Ding et al. (2014), algorithm 1.

    A friction xi that keeps the kinetic energy at its temperature absorbs noise of unknown size.
    With the minibatch gradient g(q) of U, step size h, diffusion A, temperature T, thermal mass Q,
    noise estimate B (0 in the paper) and normals z, ``integrator="euler"`` is the paper's::

        p  <- p - h g(q) - h xi p + sqrt(2 (A T - B) h) z
        q  <- q + h p
        xi <- xi + h (p.p / d - T) / Q

    Any other, but "symmetric", is a word of the flows of :class:`~pymc_sgmcmc.SGHMC`, with xi for
    the friction, and D, the thermostat. "BAOAB" is BADODAB (Leimkuhler and Shang, 2016): kick, half
    a drift, half the thermostat, friction and noise, half the thermostat, half a drift.

    Leaves invariant: exp(-(U(q) + p.p / 2 + d Q (xi - A)^2 / 2) / T) as h -> 0, with the sum of
    Q (xi_i - A_i)^2 / 2 for one xi a coordinate, and of ``Q |Xi - A|^2 / 2`` for a matrix. Gradient
    noise of one variance V in all coordinates moves xi's mean to A + h V / (2 T) and nothing else;
    noise that differs between coordinates leaves some too wide and others too narrow. The bias is
    of second order in h, with Euler of first. The documentation has a page on thermostats.

    One gradient an inner step. In the paper's algorithm 2, eta is h^2, alpha is xi h and a is A h.

    Parameters
    ----------
    vars : list of variables, optional
        What to sample; default all continuous variables.
    step_size : float, Schedule or None
        h > 0. None: tuned. Stable for h^2 times the curvature of U below 4; Euler asks for less.
    diffusion : float, or array of shape (d,) with ``thermostat="coordinate"``
        A > 0, a rate (one over time): the injected noise, and where xi starts.
    noise_estimate : float, array of shape (d,), or "auto"
        B >= 0, a rate, at most diffusion x temperature: subtracted from the injected noise. "auto"
        (the default if the step size is tuned): measured.
    thermostat : {"scalar", "coordinate", "matrix"}
        One xi for all coordinates, one for each, or a symmetric matrix, which takes up correlated
        noise too (section 4.2); for small d, as each step has to find its eigenvectors.
    thermal_mass : "auto" or float
        Q > 0, a time squared. "auto": max(1, 10 / m) / max(1, mean A)^2, m coordinates to a xi.
    integrator : str
        "BAOAB", "ABDODBA", "ODBABDO", "DUBUD" or another symmetric word; "symmetric", "euler".
    **kwargs
        Common to all samplers: see :class:`~pymc_sgmcmc.SGMCMC`.

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
    ...     y = pm.Normal("y", pm.Normal("mu"), observed=np.arange(10.0))
    ...     idata = pm.sample(step=SGNHT(), progressbar=False, random_seed=1)
    >>> float(idata.posterior["mu"].mean().round(1))
    4.1
    """

    algorithm_class = NoseHoover

    if TYPE_CHECKING:

        def __init__(
            self, vars: Any = None, *, step_size: StepSize | None = None,
            diffusion: PerCoordinate = 1.0, thermal_mass: float | Literal["auto"] = "auto",
            thermostat: Literal["scalar", "coordinate", "matrix"] = "scalar",
            integrator: str = "BAOAB", **others: Unpack[Shared],
        ) -> None: ...  # fmt: skip
