"""What a sampler must say of itself, and what it may say."""

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from pymc.stats.convergence import SamplerWarning
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.distributions.manifolds import FLAT
from pymc_sgmcmc.dynamics.noise_budget import injected
from pymc_sgmcmc.dynamics.noise_rules import Heating, NoiseRule
from pymc_sgmcmc.dynamics.splittings import kinetic_energy
from pymc_sgmcmc.step.settings import Settings

__all__ = ["Sampler"]


class Sampler:
    """One file of `samplers` each: an algorithm, and what is known of it.

    Only `name`, `coefficients` and `update` must be given, and `initial_state` if it carries more
    than q. The rest lets it be tuned (`step_bias`, `capacity`) and watched (`virial`, `widening`,
    `settled`, `longest_step`).
    A sampler derives from :class:`~pymc_sgmcmc.SGMCMC`, which derives from this.

    Examples
    --------
    >>> import pymc as pm
    >>> from pymc_sgmcmc.step.step_method import SGMCMC
    >>> class AveragedLangevin(SGMCMC):
    ...     name = "averaged_langevin"
    ...     def initial_state(self, rng):
    ...         return {"z": rng.standard_normal(self.target.size)}
    ...     def coefficients(self):
    ...         return {"temperature": self.temperature}
    ...     def update(self, q, z_before, *, grad, h, noise, temperature):
    ...         z = noise()
    ...         return q - h * grad(q) + (h * temperature / 2) ** 0.5 * (z_before + z), z
    >>> with pm.Model():
    ...     x = pm.Normal("x", sigma=3.0, shape=10)
    ...     step = AveragedLangevin(step_size=1.0)
    ...     idata = pm.sample(step=step, progressbar=False, random_seed=1)
    >>> float(idata.posterior["x"].std().round())
    3.0
    """

    name: ClassVar[str]
    """What PyMC shows and stores it as."""
    integrator: str | None = None
    """The word of flows, or the name, of its integrator; for `kinetic` only."""
    absorbs_noise: ClassVar[bool] = False
    """Whether gradient noise of unknown size is taken up by a thermostat."""
    keeps_its_law: bool = True
    """Whether all draws after tuning are from one distribution."""
    descends: ClassVar[bool] = True
    """Whether it goes downhill, to a mode, where no noise is injected."""
    curves: ClassVar[bool] = False
    """Whether it stays on the manifolds of its variables."""
    corrects: ClassVar[bool] = False
    """Whether it accepts and rejects by U, and so is right wherever gradients lead."""
    trajectories: ClassVar[bool] = False
    """Whether only draws are from the law, and what is between them may be rejected."""
    default_tune_steps = 1000
    """Draws of tuning where `pm.sample` is not told."""
    extra_stats: ClassVar[tuple[str, ...]] = ()
    """Names of this sampler's own stats: those of `kinetic_temperature` and `thermostat` that it
    has, of `sequences`, whose last value in a draw is the stat, and of carried scalars."""
    learned: ClassVar[tuple[str, ...]] = ()
    """Names of the carried variables that are learned: a divergence leaves them as they were."""

    def initial_state(self, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Fresh values of the variables that the update carries beside q, by name; none here."""
        return {}

    @abstractmethod
    def coefficients(self) -> dict[str, np.ndarray]:
        """Numbers of the update that are inputs of the kernel, by name: shape () or (d,)."""

    def step_bias(self, h: float, curvature: float) -> float:
        """The relative error of a posterior variance that a step size h > 0 alone may cause.

        `curvature`: the largest one of U. Grows with h: a step size is chosen by it. NaN: unknown.
        """
        return np.nan

    def capacity(self) -> float:
        """The noise that is injected, as a rate: gradients of variance V add h V / 2 to it."""
        return np.nan

    def longest_step(self, curvature: float) -> float:
        """The step size that is stable where U has a `curvature` > 0, and longer ones are not."""
        return np.inf

    def noise_rule(self, room: float, count: int) -> NoiseRule:
        """What noise its gradients may have, where a rate h V / 2 of `room` is tolerable.

        `count`: of the batches that V is known from.
        """
        return Heating(room)

    def virial(self, q, *state, g, h, **numbers) -> TensorVariable | None:
        """What the mean of q g is by the sampler's balance, (steps, d), whatever U is; or None.

        `q`, `state`: before each step, (steps, d) or (steps, 1); ``g``: the gradient of the step;
        ``h``: (steps, 1). `numbers`: as those of `update`.
        """
        return None

    def widening(self, rate: np.ndarray) -> np.ndarray:
        """What gradient noise adds to posterior variances, relatively, (d,).

        `rate`: its h V / 2, less the noise estimate, (d,).
        """
        return rate / self.capacity()

    def settled(self, rate: np.ndarray) -> float | None:
        """The friction that thermostats settle at, on average over the coordinates.

        `rate`: h V / 2, (d,).
        """
        return None

    def sequences(self, steps: np.ndarray) -> dict[str, np.ndarray]:
        """Numbers of the update that change with the inner step, by name, at each of `steps`.

        `steps`: absolute counts (0, 1, ...) of the coming inner steps of the chain; `self.tune`
        says whether it is tuning. All else must be a pure function of the hyper-parameters.
        """
        return {}

    def notice(self) -> SamplerWarning | None:
        """What the user should be told at the coming draw, which follows `self.inner_steps`."""
        return None

    @abstractmethod
    def update(self, q: TensorVariable, *state: TensorVariable, grad, h, noise, **numbers):
        """One inner step: the new ``(q, *state)``, with one call of ``grad(q)``.

        ``grad(q)``: the minibatch gradient of U, (d,), and then ``grad.potential()``: U there, and
        ``grad.keep(g)``: what counts as the step's gradient in its place. ``h``: the step size;
        ``noise()``: fresh standard normals, (d,). `numbers`: those of `sequences` at this step, and
        the coefficients.
        """

    def _check_tunable(self) -> None:
        """Raise where the sampler does not say what tuning needs to know."""
        if np.isnan(self.capacity()) or (self.step_size is None and np.isnan(self.step_bias(1, 1))):
            raise NotImplementedError(
                f"{self.name} cannot be tuned: it does not say its bias and what noise it injects. "
                "Give it a step_size, and leave out what else is automatic."
            )

    def _check_target(self, settings: Settings) -> None:
        """Raise where variables are on manifolds and the sampler would leave them."""
        if not self.space.curved:
            return
        names = [
            f"{var.name!r} ({manifold.name})"
            for var, manifold in zip(self.target.vars, self.space.manifolds, strict=True)
            if manifold is not FLAT
        ]
        if not self.curves:
            raise ValueError(
                f"{self.name} would leave the manifolds of {', '.join(names)}: use SGGMC, gSGNHT "
                "or GMC, which follow them."
            )
        if settings.tunes() or settings.metric is not None:
            raise NotImplementedError(
                f"On the manifolds of {', '.join(names)} nothing is tuned, and there is no metric: "
                f"give {self.name} a step_size, and leave out metric, gradient and what is 'auto'."
            )

    def _check_exploration(self) -> None:
        """Raise where the schedule has steps without noise, and they would lead to no mode."""
        if not self.descends and self._explores(np.zeros(1)) is not None:
            raise ValueError(
                f"step_size={self.step_size!r} has an exploration stage, without noise, in which "
                f"{self.name} finds no mode: use SGLD, SGHMC, PSGLD or PSGHMC, or exploration=0."
            )

    def kinetic(self, p_before, p_after, g, h):
        """p.p / d, added over the inner steps, for samplers with a momentum."""
        energy = kinetic_energy(self.integrator, p_before, p_after, g, h)
        return energy / self.space.dimension

    def injected(self, total: np.ndarray, name: str) -> np.ndarray:
        """What is left of the noise `total`, a rate called `name`, less the noise estimate."""
        return injected(total, name, self.noise_estimate, self.measured(), self._is_batched())

    def subtracted(self) -> np.ndarray:
        """The noise estimate as a rate, (d,) or ()."""
        if isinstance(self.noise_estimate, str):
            return np.minimum(self.measured(), self.capacity())
        return np.asarray(self.noise_estimate, dtype=float)

    def measured(self) -> np.ndarray:
        """The h V / 2 that tuning has measured, (d,)."""
        if not self.tuned.noise.any():
            return self.tuned.noise  # also before there is a step size
        return self._coming_step_size() * self.tuned.noise / 2

    def _is_batched(self) -> bool:
        """Whether batches are drawn independently, and are not all rows."""
        return self._is_noisy() and self._source.independent

    def _is_noisy(self) -> bool:
        """Whether batches are not all rows."""
        batches = zip(self._lengths, self.tuned.batch_sizes, strict=True)
        return any(self._source.share(int(n), size) > 0 for n, size in batches)
