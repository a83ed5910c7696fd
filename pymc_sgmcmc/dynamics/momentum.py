"""What samplers with a momentum share: how it starts, and what their friction allows."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from pymc_sgmcmc._utils.argument_rows import THERMAL_MASS
from pymc_sgmcmc._utils.validation import per_coordinate
from pymc_sgmcmc.dynamics.splittings import longest_step, step_bias
from pymc_sgmcmc.dynamics.thermostats import Thermostat
from pymc_sgmcmc.step.step_method import SGMCMC

__all__ = ["Momentum", "Thermostatted"]


class Momentum(SGMCMC, ABC):
    """A sampler with a momentum p, which friction slows down and noise kicks.

    `rate` is that friction, as the user gives it by the name `rate_name`: > 0, shape () or (d,).
    """

    extra_stats = ("kinetic_temperature",)
    rate_name: ClassVar[str] = "friction"

    @property
    def rate(self) -> Any:
        return getattr(self, self.rate_name)

    @property
    def scheme(self) -> str:
        """The splitting by whose bias and stability a step size is chosen."""
        return self.integrator

    def initial_state(self, rng):
        planned = self.sequences(np.array([self.inner_steps]))
        spread = np.sqrt(planned.get("temperature", self.temperature))
        return super().initial_state(rng) | {"p": spread * rng.standard_normal(self.target.size)}

    def coefficients(self):
        rate = per_coordinate(self.rate_name, self.rate, self.target.size)
        name = f"{self.rate_name} x temperature = {self.rate!r} x {self.temperature!r}"
        diffusion = self.injected(rate * self.temperature, name)
        return {self.rate_name: rate, "diffusion": diffusion}

    def step_bias(self, h, curvature):
        friction = np.mean(self.rate) if self.absorbs_noise else 0.0
        return step_bias(self.scheme, h, curvature, friction)

    def capacity(self):
        return float(np.min(self.rate)) * self.temperature

    def longest_step(self, curvature):
        return longest_step(self.scheme, curvature, float(np.max(self.rate)))


class Thermostatted(Momentum, ABC):
    """A sampler whose friction is a thermostat, `bath`, that settles where the noise asks for it.

    `rate` is where that is without gradient noise: the diffusion A.

    Parameters
    ----------
    vars : list of variables, optional
    thermal_mass : "auto" or float
        Q > 0.
    **kwargs
        As for all samplers.
    """

    descends = False
    absorbs_noise = True
    arguments: ClassVar = {
        "thermal_mass": THERMAL_MASS,
    }
    extra_stats = (*Momentum.extra_stats, "thermostat")
    rate_name = "diffusion"

    def __init__(self, vars: Any = None, *, thermal_mass: Any, **kwargs):
        self.thermal_mass = thermal_mass
        super().__init__(vars, **kwargs)

    @property
    @abstractmethod
    def bath(self) -> Thermostat:
        """What drives its friction."""

    def initial_state(self, rng):
        friction = self.rate + np.zeros(self.target.size)
        if not isinstance(self.noise_estimate, str):  # else the noise measured is subtracted
            friction = friction + self.measured() / self.temperature
        return super().initial_state(rng) | {"xi": self.bath.start(friction)}

    def coefficients(self):
        numbers = super().coefficients()
        self.bath.check(self.rate)
        warming = self.tuned.warming  # and then its friction is at rest
        mass = np.inf if warming else self.bath.mass(self.thermal_mass, self.rate)
        return numbers | {"temperature": self.temperature, "mass": mass}

    def widening(self, rate):
        return self.bath.widening(rate / self.capacity())

    def settled(self, rate):
        noise = rate.sum() / self.space.dimension
        return (float(np.mean(self._coefficients["diffusion"])) + noise) / self.temperature
