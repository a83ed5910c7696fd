"""The parts of a chain, which stay as they are while it runs."""

from dataclasses import dataclass

import numpy as np

from pymc_sgmcmc._utils.coordinates import Coordinates
from pymc_sgmcmc.chain.kernel import Kernel
from pymc_sgmcmc.chain.state import ChainState
from pymc_sgmcmc.compile.normal_stream import Noise
from pymc_sgmcmc.dynamics.algorithm import Algorithm
from pymc_sgmcmc.dynamics.schedules import Schedule, repeated
from pymc_sgmcmc.model.initial_points import Starts
from pymc_sgmcmc.posterior.batch_sources import BatchSource
from pymc_sgmcmc.posterior.gradient_estimator import Estimator
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.tuning.tuned import Plan, Tuned
from pymc_sgmcmc.tuning.tuner import Tuner

__all__ = ["Parts"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Parts:
    """The parts of a chain.

    Attributes
    ----------
    name : str
        What messages call it.
    target : Target
    algorithm : Algorithm
    source : BatchSource
    estimator : Estimator
    kernel : Kernel
    normals : Noise
        Makes the normals of a draw.
    starts : Starts
    plan : Plan
    tuner : Tuner or None
    schedule : Schedule or None
        Step sizes; None: they are tuned.
    untuned : Coordinates
        The sampler's coordinates before tuning.
    places : array of int, shape (d,)
        The number of each coordinate of q among all value variables of the model.
    steps : int
        Inner steps of a draw.
    every : int
        One of so many inner steps is summed.
    """

    name: str
    target: Target
    algorithm: Algorithm
    source: BatchSource
    estimator: Estimator
    kernel: Kernel
    normals: Noise
    starts: Starts
    plan: Plan
    tuner: Tuner | None
    schedule: Schedule | None
    untuned: Coordinates
    places: np.ndarray
    steps: int
    every: int

    def step_sizes(self, tuned: Tuned, counts: np.ndarray) -> np.ndarray:
        """Return the step size at absolute counts of inner steps."""
        if self.schedule is not None:
            return self.schedule(counts)
        return repeated(tuned.step_size, counts.shape)

    def coming_step_size(self, state: ChainState) -> float:
        """Return the step size of the coming inner step."""
        return float(self.step_sizes(state.tuned, np.array([state.inner_steps]))[0])

    def explores(self, counts: np.ndarray) -> np.ndarray | None:
        """Return whether these inner steps are without noise; None: none ever is."""
        return None if self.schedule is None else self.schedule.explores(counts)

    def numbers_in_a_step(self, tuned: Tuned) -> int:
        """Return the length of the longest input of an inner step: its normals, or a batch."""
        sizes = zip(self.target.groups, tuned.batch_sizes, strict=True)
        batches = [group.numbers_in_a_row * size for group, size in sizes]
        return max(1, self.kernel.n_noise * self.target.size, *batches)

    def to_coordinates(self, q: np.ndarray, tuned: Tuned) -> np.ndarray:
        """Return the sampler's coordinates z of the position `q`."""
        return q if self.estimator.metric is None else tuned.coordinates.of(q)

    def to_position(self, z: np.ndarray, tuned: Tuned) -> np.ndarray:
        """Return the position q of the sampler's coordinates `z`."""
        metric = self.estimator.metric
        return z if metric is None else tuned.coordinates.position(z).astype(z.dtype)

    def carried(self, state: ChainState) -> dict[str, np.ndarray]:
        """Return the carried variables by name."""
        return dict(zip(self.kernel.carried, state.carried, strict=True)) if state.carried else {}
