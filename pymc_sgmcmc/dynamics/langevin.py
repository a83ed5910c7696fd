"""What samplers without a momentum share: Langevin dynamics by Euler's steps."""

from abc import ABC

from pymc_sgmcmc.step.step_method import SGMCMC

__all__ = ["Langevin"]


class Langevin(SGMCMC, ABC):
    """A sampler that steps against the gradient, and whose noise makes the temperature."""

    def step_bias(self, h, curvature):
        """None on a Gaussian of curvature 1, and of first order elsewhere."""
        return h * max(curvature, 1.0) * 0.5

    def capacity(self):
        return self.temperature

    def longest_step(self, curvature):
        return 2 / curvature
