"""What algorithms with a momentum share: how it starts, and what their friction allows."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pymc_sgmcmc._utils.argument_rows import THERMAL_MASS
from pymc_sgmcmc._utils.types import Number, Vector
from pymc_sgmcmc._utils.validation import per_coordinate
from pymc_sgmcmc.dynamics.algorithm import Algorithm
from pymc_sgmcmc.dynamics.hyperparameters import hyperparameter
from pymc_sgmcmc.dynamics.setting import Context
from pymc_sgmcmc.dynamics.splittings import longest_step, step_bias
from pymc_sgmcmc.dynamics.thermostats import Thermostat

__all__ = ["Momentum", "Thermostatted"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Momentum(Algorithm, ABC):
    """An algorithm with a momentum p, which friction slows down and noise kicks."""

    stats: ClassVar[tuple[str, ...]] = ("kinetic_temperature",)
    rate_name: ClassVar[str] = "friction"
    """The hyper-parameter that is the `rate`."""

    @property
    def can_optimize(self) -> bool:
        return True

    @property
    def integrator(self) -> str | None:
        """The word of flows, or the name, of the integrator; a field where users choose it."""
        return None

    @property
    def rate(self) -> Any:
        """The friction as the user gives it: > 0, shape () or (d,)."""
        return getattr(self, self.rate_name)

    @property
    def scheme(self) -> str | None:
        """The splitting by whose bias and stability a step size is chosen."""
        return self.integrator

    @property
    def reads_momentum_by(self) -> str | None:
        return self.integrator

    def initial_state(self, rng: np.random.Generator, context: Context) -> dict[str, Number]:
        planned = self.planned(np.array([context.inner_steps]), tuning=context.tuning)
        spread = np.sqrt(planned.get("temperature", self.temperature))
        return {"p": spread * rng.standard_normal(self.size)}

    def coefficients(self, context: Context) -> dict[str, Number]:
        rate = per_coordinate(self.rate_name, self.rate, self.size)
        name = f"{self.rate_name} x temperature = {self.rate!r} x {self.temperature!r}"
        diffusion = self.noise_to_inject(rate * self.temperature, name, context)
        return {self.rate_name: rate, "diffusion": diffusion}

    def step_bias(self, h: float, curvature: float) -> float:
        friction = np.mean(self.rate) if self.absorbs_noise else 0.0
        return step_bias(self.scheme, h, curvature, friction)

    def injected_noise(self) -> float:
        return float(np.min(self.rate)) * self.temperature

    def longest_step(self, curvature: float) -> float:
        return longest_step(self.scheme, curvature, float(np.max(self.rate)))


@dataclass(frozen=True, kw_only=True, eq=False)
class Thermostatted(Momentum, ABC):
    """An algorithm whose friction is a thermostat, that settles where the noise asks for it.

    `rate` is where that is without gradient noise: the diffusion A.

    Parameters
    ----------
    diffusion : float or array of shape (d,)
        A > 0.
    thermal_mass : "auto" or float
        Q > 0.
    """

    absorbs_noise = True
    stats: ClassVar[tuple[str, ...]] = (*Momentum.stats, "thermostat")
    rate_name = "diffusion"

    diffusion: Any = 1.0
    thermal_mass: Any = hyperparameter(THERMAL_MASS, default="auto")

    @property
    def can_optimize(self) -> bool:
        return False

    @property
    @abstractmethod
    def heat_bath(self) -> Thermostat:
        """What drives its friction."""

    def initial_state(self, rng: np.random.Generator, context: Context) -> dict[str, Number]:
        friction = self.rate + np.zeros(self.size)
        if not isinstance(self.setting.noise_estimate, str):  # else what is measured is subtracted
            friction = friction + context.measured / self.temperature
        return super().initial_state(rng, context) | {"xi": self.heat_bath.start(friction)}

    def coefficients(self, context: Context) -> dict[str, Number]:
        numbers = super().coefficients(context)
        self.heat_bath.check(self.rate)
        # Its friction rests while nothing has been learned.
        mass = (
            np.inf if context.in_first_window else self.heat_bath.mass(self.thermal_mass, self.rate)
        )
        return numbers | {"temperature": self.temperature, "mass": mass}

    def variance_inflation(self, rate: Vector, context: Context) -> Vector:
        return self.heat_bath.variance_inflation(rate / self.injected_noise())

    def expected_friction(self, rate: Vector, context: Context) -> float | None:
        noise = rate.sum() / self.space.dimension
        return (float(np.mean(context.coefficients["diffusion"])) + noise) / self.temperature
