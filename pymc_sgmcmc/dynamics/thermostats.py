"""Nosé-Hoover thermostats: frictions that keep the kinetic energy of p at its temperature.

Each thermostat has one kind of friction xi, a scalar, a vector or a matrix, driven by an energy.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
import pytensor.tensor as pt

from pymc_sgmcmc._utils.types import Graph, Number, Vector

__all__ = ["Coordinate", "Matrix", "Refined", "Scalar", "Thermostat"]


@dataclass(frozen=True)
class Thermostat(ABC):
    """A thermostat with a friction xi for p of shape (d,).

    Parameters
    ----------
    dimension : int
        Dimension of the space of p: d, or less on a manifold.
    """

    dimension: int
    unit: ClassVar[Any] = 1.0
    """Factor of the temperature in the mean of `energy`."""

    @abstractmethod
    def start(self, friction: Vector) -> Number:
        """Return the xi with this `friction` in each coordinate, (d,)."""

    @abstractmethod
    def energy(self, p: Graph) -> Graph:
        """Return the energy of `p`, (d,) or (steps, d), that drives xi.

        Its mean is the temperature times `unit`.
        """

    def check(self, diffusion: Any) -> None:
        """Raise ValueError if the thermostat cannot balance that `diffusion`."""
        if np.ndim(diffusion):
            raise ValueError(
                "diffusion has one value for each coordinate: that needs thermostat='coordinate', "
                "as one friction cannot balance several diffusions."
            )

    @property
    def shared_by(self) -> int:
        """Number of coordinates that share one friction."""
        return 1

    def friction_force(self, xi: Graph, p: Graph) -> Graph:
        """Return the friction times `p`."""
        return xi * p

    def heat(self, xi: Graph, p: Graph, h: Graph, *, temperature: Graph, mass: Graph) -> Graph:
        """Solve dxi = (energy - temperature * unit) dt / mass over a time h, for fixed p."""
        return xi + h * (self.energy(p) - temperature * self.unit) / mass

    def mass(self, given: float | str, diffusion: Any) -> float:
        """Return the thermal mass Q, which is `given` or "auto".

        With a `diffusion` A the variance of xi is T / (m Q) if m coordinates share one friction.
        With "auto", xi settles as fast as the friction acts, and its sd is about a third of A or
        less.
        """
        if not isinstance(given, str):
            return given
        return max(1.0, 10.0 / self.shared_by) / max(1.0, np.mean(diffusion)) ** 2

    def variance_inflation(self, noise: Vector) -> Vector:
        """Return the relative increase of variances by gradient noise, (d,).

        `noise` is relative to the injected noise.
        """
        return 0 * noise

    def virial(
        self, integrator: str, q: Graph, p: Graph, xi: Graph, g: Graph, h: Graph,
        temperature: Graph, mass: Graph,
    ) -> Graph | None:  # fmt: skip
        """Return the mean of q g implied by the balance of one step, or None if unknown."""
        if integrator == "euler":
            return p**2 - xi * q * p
        if integrator not in ("BAOAB", "BADODAB"):
            return None
        kicked = p - h * g
        xi = self.heat(xi, kicked, h / 2, temperature=temperature, mass=mass)
        return (kicked**2 + p**2) / 2 + pt.expm1(-h * xi) / h * (q + h / 2 * kicked) * kicked


@final
class Scalar(Thermostat):
    """One friction for all coordinates, driven by the mean of p^2 (Ding et al., 2014)."""

    def start(self, friction: Vector) -> Number:
        return np.mean(friction)

    def energy(self, p: Graph) -> Graph:
        return pt.sum(pt.sqr(p), axis=-1, keepdims=p.type.ndim > 1) / float(self.dimension)

    @property
    def shared_by(self) -> int:
        return self.dimension

    def variance_inflation(self, noise: Vector) -> Vector:
        return (noise - noise.mean()) / (1 + noise.mean())


class Coordinate(Thermostat):
    """A friction for each coordinate, driven by its p^2."""

    def check(self, diffusion: Any) -> None:
        pass

    def start(self, friction: Vector) -> Number:
        return np.array(friction)

    def energy(self, p: Graph) -> Graph:
        return p**2


@final
class Refined(Coordinate):
    """A friction for each coordinate that is constant in refinement (Chen et al., 2016).

    The temperature is 0 in refinement.
    """

    def heat(self, xi: Graph, p: Graph, h: Graph, *, temperature: Graph, mass: Graph) -> Graph:
        heated = super().heat(xi, p, h, temperature=temperature, mass=mass)
        return pt.switch(pt.gt(temperature, 0), heated, xi)

    def friction(self, xi: Graph, *, temperature: Graph, least: Graph) -> Graph:
        """Return the friction of p: xi, but at least `least` in refinement, to slow p down."""
        return pt.switch(pt.gt(temperature, 0), xi, pt.maximum(xi, least))

    def cooling(self, temperature: Graph, diffusion: Graph) -> Graph:
        """Return the factor of the thermal mass that keeps the time in which xi settles.

        The thermal mass without the factor is for `temperature` and `diffusion` of 1.
        """
        cooled = pt.switch(pt.gt(temperature, 0), temperature, 1)
        return cooled / pt.maximum(diffusion, 1) ** 2


@final
class Matrix(Thermostat):
    """A symmetric matrix of frictions, driven by the products p p' (Ding et al., section 4.2)."""

    @property
    def unit(self) -> Graph:
        return pt.eye(self.dimension)

    def start(self, friction: Vector) -> Number:
        return np.diag(friction)

    def energy(self, p: Graph) -> Graph:
        return pt.outer(p, p)

    def friction_force(self, xi: Graph, p: Graph) -> Graph:
        return pt.dot(xi, p)

    def virial(
        self, integrator: str, q: Graph, p: Graph, xi: Graph, g: Graph, h: Graph,
        temperature: Graph, mass: Graph,
    ) -> Graph | None:  # fmt: skip
        return None
