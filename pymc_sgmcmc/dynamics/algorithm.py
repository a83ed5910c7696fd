"""The interface of an algorithm: its update, and what lets it be tuned and monitored."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from pymc_sgmcmc._utils.alarm import Alarm
from pymc_sgmcmc._utils.types import Array, Counts, Graph, Number, Vector
from pymc_sgmcmc.dynamics.noise_budget import noise_to_inject
from pymc_sgmcmc.dynamics.noise_rules import Heating, NoiseRule
from pymc_sgmcmc.dynamics.setting import Context, Setting
from pymc_sgmcmc.dynamics.space import Space
from pymc_sgmcmc.dynamics.splittings import kinetic_energy

__all__ = ["Algorithm"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Algorithm(ABC):
    """A stochastic-gradient MCMC algorithm: a value that knows no model, no data and no chain.

    Its fields are its hyper-parameters. Only `name`, `coefficients` and `update` must be given, and
    `initial_state` if it carries more than q. The rest lets it be tuned (`step_bias`,
    `injected_noise`, `longest_step`) and monitored (`virial`, `variance_inflation`,
    `expected_friction`).

    Examples
    --------
    Langevin dynamics with averaged noise (Leimkuhler and Matthews, 2013):

    >>> import pymc as pm
    >>> from pymc_sgmcmc import SGMCMC, Algorithm
    >>> class AveragedLangevin(Algorithm):
    ...     name = "averaged_langevin"
    ...     def initial_state(self, rng, context):
    ...         return {"z": rng.standard_normal(self.size)}
    ...     def coefficients(self, context):
    ...         return {"temperature": self.temperature}
    ...     def update(self, q, z_before, *, grad, h, noise, temperature):
    ...         z = noise()
    ...         return q - h * grad(q) + (h * temperature / 2) ** 0.5 * (z_before + z), z
    >>> with pm.Model():
    ...     x = pm.Normal("x", sigma=3.0, shape=10)
    ...     step = SGMCMC(algorithm=AveragedLangevin(), step_size=1.0)
    ...     idata = pm.sample(step=step, progressbar=False, random_seed=1)
    >>> float(idata.posterior["x"].std().round())
    3.0
    """

    name: ClassVar[str]
    """The name that PyMC shows and stores."""
    absorbs_noise: ClassVar[bool] = False
    """Whether gradient noise of unknown size is taken up by a thermostat."""
    on_manifolds: ClassVar[bool] = False
    """Whether it stays on the manifolds of its variables."""
    has_accept_step: ClassVar[bool] = False
    """Whether it accepts and rejects by U, and so is right wherever gradients lead."""
    rejects_trajectories: ClassVar[bool] = False
    """Whether only draws are from the law, and what is between them may be rejected."""
    accepts_draws: ClassVar[bool] = False
    """Whether the chain asks `accept_draw` at the end of each draw."""
    stats: ClassVar[tuple[str, ...]] = ()
    """Names of its own sample stats: those of `kinetic_temperature` and `thermostat` that it has,
    of `planned`, whose last value in a draw is the stat, and of carried scalars."""
    learned_state: ClassVar[tuple[str, ...]] = ()
    """Names of the carried variables that are learned: a divergence leaves them as they were."""
    kept_energy: ClassVar[tuple[str, ...]] = ()
    """Carried variables that are U ("u") and its gradient ("g") on all rows at q: they are taken
    anew where other step methods, or new data, have changed U since the last draw."""

    setting: Setting = field(default=Setting(), repr=False)

    def in_setting(self, setting: Setting) -> Self:
        """Return the algorithm for another setting."""
        return replace(self, setting=setting)

    @property
    def size(self) -> int:
        """d, the length of q."""
        return self.setting.size

    @property
    def space(self) -> Space:
        """Where q moves."""
        return self.setting.space

    @property
    def temperature(self) -> float:
        """T: the target is exp(-U / T)."""
        return self.setting.temperature

    @property
    def is_stationary(self) -> bool:
        """Whether all draws after tuning are from one distribution."""
        return True

    @property
    def can_optimize(self) -> bool:
        """Whether the update descends to a mode where no noise is injected."""
        return False

    def initial_state(self, rng: np.random.Generator, context: Context) -> Mapping[str, Number]:
        """Return fresh values of the variables that are carried beside q, by name; none here."""
        return {}

    @abstractmethod
    def coefficients(self, context: Context) -> Mapping[str, Number]:
        """Return numbers of the update that are inputs of the kernel, by name: shape () or (d,)."""

    def planned(self, steps: Counts, *, tuning: bool) -> Mapping[str, Vector]:
        """Return numbers of the update that change with the inner step, by name, at `steps`.

        `steps`: absolute counts (0, 1, ...) of the coming inner steps of the chain.
        """
        return {}

    @abstractmethod
    def update(self, q: Graph, *state: Any, **inputs: Any) -> tuple[Graph, ...]:
        """Return the new ``(q, *state)`` after one inner step, with one call of ``grad(q)``.

        `inputs`, by name: ``grad(q)``: the minibatch gradient of U, (d,), and then
        ``grad.potential()``: U there, and ``grad.keep(g)``: what counts as the step's gradient in
        its place. ``h``: the step size; ``noise()``: fresh standard normals, (d,). The numbers of
        `planned` at this step, and the coefficients.
        """

    def step_bias(self, h: float, curvature: float) -> float:
        """Return the relative error of a posterior variance that a step size h > 0 may cause.

        `curvature`: the largest one of U. Grows with h: a step size is chosen by it. NaN: unknown.
        """
        return np.nan

    def injected_noise(self) -> float:
        """Return the noise that is injected, as a rate: gradients of variance V add h V / 2."""
        return np.nan

    def longest_step(self, curvature: float) -> float:
        """Return the step size that is stable at a `curvature` > 0 of U; longer ones are not."""
        return np.inf

    def noise_rule(self, room: float, count: int) -> NoiseRule:
        """Return what noise its gradients may have, where a rate h V / 2 of `room` is tolerable.

        `count`: of the batches that V is known from.
        """
        return Heating(room)

    def virial(self, q: Graph, *state: Any, **inputs: Any) -> Graph | None:
        """Return the mean of q g by the sampler's balance, (steps, d), whatever U is; or None.

        `q`, `state`: before each step, (steps, d) or (steps, 1). `inputs`, by name: ``g``: the
        gradient of the step; ``h``: (steps, 1); numbers, as those of `update`.
        """
        return None

    def variance_inflation(self, rate: Vector, context: Context) -> Vector:
        """Return what gradient noise adds to posterior variances, relatively, (d,).

        `rate`: its h V / 2, less the noise estimate, (d,).
        """
        return rate / self.injected_noise()

    def expected_friction(self, rate: Vector, context: Context) -> float | None:
        """Return the friction that thermostats settle at, on average over the coordinates.

        `rate`: h V / 2, (d,).
        """
        return None

    def alarm(self, draw: int, inner_steps: int, steps: int, *, tuning: bool) -> Alarm | None:
        """Return what the user should be told at a draw of `steps` steps after `inner_steps`."""
        return None

    def accept_draw(
        self,
        start: Mapping[str, Number],
        end: Mapping[str, Number],
        normal: float,
        draw: int,
        *,
        tuning: bool,
    ) -> tuple[bool, Mapping[str, Number]]:
        """Return whether the end of a draw is accepted, and the carried variables after that.

        `start`, `end`: the carried variables, with "u", U on all rows. `normal`: a standard normal.
        """
        raise NotImplementedError

    def kinetic(self, p_before: Graph, p_after: Graph, g: Graph, h: Graph) -> Graph:
        """Return p.p / d, added over the inner steps, for algorithms with a momentum."""
        energy = kinetic_energy(self.reads_momentum_by, p_before, p_after, g, h)
        return energy / self.space.dimension

    @property
    def reads_momentum_by(self) -> str | None:
        """The word of flows, or the name, of the integrator, by which `kinetic` reads p."""
        return None

    def noise_to_inject(self, total: Number, name: str, context: Context) -> Array:
        """Return what is left of the noise `total`, a rate called `name`, less the estimate."""
        estimate = self.setting.noise_estimate
        return noise_to_inject(total, name, estimate, context.measured, context.batched)

    def estimated_noise(self, context: Context) -> Array:
        """Return the noise estimate as a rate, (d,) or ()."""
        if isinstance(self.setting.noise_estimate, str):
            return np.minimum(context.measured, self.injected_noise())
        return np.asarray(self.setting.noise_estimate, dtype=float)
