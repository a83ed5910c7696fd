"""What algorithms without a momentum share: Langevin dynamics by Euler's steps."""

from abc import ABC
from dataclasses import dataclass

from pymc_sgmcmc.dynamics.algorithm import Algorithm

__all__ = ["Langevin"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Langevin(Algorithm, ABC):
    """An algorithm that steps against the gradient, and whose noise makes the temperature."""

    @property
    def can_optimize(self) -> bool:
        return True

    def step_bias(self, h: float, curvature: float) -> float:
        """Return none on a Gaussian of curvature 1, and one of first order elsewhere."""
        return h * max(curvature, 1.0) * 0.5

    def injected_noise(self) -> float:
        return self.temperature

    def longest_step(self, curvature: float) -> float:
        return 2 / curvature
