"""Nosé-Hoover thermostats: frictions that keep the kinetic energy of p at its temperature.

Each is one kind of friction xi, a scalar, a vector or a matrix, driven by the energy that it sees.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

__all__ = ["Coordinate", "Matrix", "Refined", "Scalar", "Thermostat"]


@dataclass(frozen=True)
class Thermostat(ABC):
    """A friction for p of shape (d,).

    Parameters
    ----------
    dimension : int
        Of the space in which p moves: d, or less on a manifold.
    """

    dimension: int
    unit: ClassVar[Any] = 1.0
    """What the temperature is multiplied by to be the mean of `energy`."""

    @abstractmethod
    def start(self, friction: np.ndarray) -> np.ndarray:
        """The xi that has this `friction` in each coordinate, (d,)."""

    @abstractmethod
    def energy(self, p: TensorVariable) -> TensorVariable:
        """What drives xi: its mean is the temperature. `p`: (d,) or (steps, d)."""

    def check(self, diffusion: Any) -> None:
        """Raise if it cannot balance that `diffusion`."""
        if np.ndim(diffusion):
            raise ValueError(
                "diffusion has one value for each coordinate: that needs thermostat='coordinate', "
                "as one friction cannot balance several diffusions."
            )

    @property
    def shared_by(self) -> int:
        """How many coordinates one friction sees."""
        return 1

    def rub(self, xi: TensorVariable, p: TensorVariable) -> TensorVariable:
        """The friction times `p`."""
        return xi * p

    def heat(self, xi, p, h, *, temperature, mass) -> TensorVariable:
        """The flow of xi over a time h, of dxi = (energy - temperature) dt / mass."""
        return xi + h * (self.energy(p) - temperature * self.unit) / mass

    def mass(self, given: float | str, diffusion: Any) -> float:
        """The thermal mass Q; "auto": xi settles as fast as friction acts, and varies by a third.

        With a `diffusion` A its variance is T / (m Q), for m coordinates that share it.
        """
        if given != "auto":
            return given
        return max(1.0, 10.0 / self.shared_by) / max(1.0, np.mean(diffusion)) ** 2

    def widening(self, noise: np.ndarray) -> np.ndarray:
        """What gradient noise, relative to the injected, adds to variances, relatively, (d,)."""
        return 0 * noise

    def virial(self, integrator, q, p, xi, g, h, temperature, mass) -> TensorVariable | None:
        """The mean of q g by the balance of one step, as in `Sampler.virial`."""
        if integrator == "euler":
            return p**2 - xi * q * p
        if integrator not in ("BAOAB", "BADODAB"):
            return None
        kicked = p - h * g
        xi = self.heat(xi, kicked, h / 2, temperature=temperature, mass=mass)
        return (kicked**2 + p**2) / 2 + pt.expm1(-h * xi) / h * (q + h / 2 * kicked) * kicked


@final
class Scalar(Thermostat):
    """One friction for all coordinates, which sees the mean of p^2 (Ding et al., 2014)."""

    def start(self, friction):
        return np.mean(friction)

    def energy(self, p):
        return pt.sum(pt.sqr(p), axis=-1, keepdims=p.type.ndim > 1) / float(self.dimension)

    @property
    def shared_by(self):
        return self.dimension

    def widening(self, noise):
        return (noise - noise.mean()) / (1 + noise.mean())


class Coordinate(Thermostat):
    """A friction for each coordinate, which sees its p^2."""

    def check(self, diffusion):
        pass

    def start(self, friction):
        return np.array(friction)

    def energy(self, p):
        return p**2


@final
class Refined(Coordinate):
    """The same, at rest in refinement, where the temperature is 0 (Chen et al., 2016)."""

    def heat(self, xi, p, h, *, temperature, mass):
        heated = super().heat(xi, p, h, temperature=temperature, mass=mass)
        return pt.switch(pt.gt(temperature, 0), heated, xi)

    def friction(self, xi, *, temperature, least) -> TensorVariable:
        """What slows p down: in refinement at least `least`, so that nothing runs free."""
        return pt.switch(pt.gt(temperature, 0), xi, pt.maximum(xi, least))

    def cooling(self, temperature, diffusion) -> TensorVariable:
        """A factor of the thermal mass that is right where both are 1: xi then settles as fast."""
        cooled = pt.switch(pt.gt(temperature, 0), temperature, 1)
        return cooled / pt.maximum(diffusion, 1) ** 2


@final
class Matrix(Thermostat):
    """A symmetric matrix of frictions, which sees each product of p (Ding et al., section 4.2)."""

    @property
    def unit(self):
        return pt.eye(self.dimension)

    def start(self, friction):
        return np.diag(friction)

    def energy(self, p):
        return pt.outer(p, p)

    def rub(self, xi, p):
        return pt.dot(xi, p)

    def virial(self, integrator, q, p, xi, g, h, temperature, mass):
        return None
