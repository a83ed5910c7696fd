"""Evidence that a chain has given about its own draws since tuning ended."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pymc_sgmcmc._utils.alarm import Alarm
from pymc_sgmcmc.chain.divergences import UNBOUNDED, Bounds

__all__ = ["Evidence"]


@dataclass(frozen=True)
class Evidence:
    """Results of the last inspection of a chain, and its queue of alarms.

    Attributes
    ----------
    spread : array, shape (2, d)
        Asymptotic standard deviations of W per inner step, direct and implied.
    correction : array, shape (d,)
        Correction of the direct W for the chain's own means, times the inner steps.
    pooled : array, shape (2, 2)
        Mean W over all coordinates, direct and implied, and its spreads.
    noise : array, shape (d,)
        The part of W that gradient noise adds.
    main_coordinates : array of int, shape (d,)
        The index in q of each metric coordinate, or of its main component.
    freedom : int
        Degrees of freedom of the spreads.
    temperature : float
        Temperature T of the draws.
    largest_energy : float
        The largest p.p before an inner step.
    bounds : Bounds
        Bounds beyond which a draw is a divergence.
    reported_kinds : tuple of str
        Kinds of the alarms that were reported or are queued.
    queue : tuple of Alarm
        Alarms to report: PyMC takes one warning per draw.
    """

    spread: np.ndarray
    correction: np.ndarray
    pooled: np.ndarray
    noise: np.ndarray
    main_coordinates: np.ndarray
    freedom: int = 0
    temperature: float = np.nan
    largest_energy: float = 0.0
    bounds: Bounds = UNBOUNDED
    reported_kinds: tuple[str, ...] = ()
    queue: tuple[Alarm, ...] = ()

    @classmethod
    def empty(cls, size: int) -> "Evidence":
        """Return the evidence on a chain of `size` coordinates before any inspection."""
        unknown = np.full((2, size), np.nan)
        pooled = np.full((2, 2), np.nan)
        return cls(unknown, unknown[0], pooled, unknown[0], np.arange(size))

    def with_alarms(self, alarms: Sequence[Alarm | None]) -> "Evidence":
        """Return a copy that queues each alarm whose kind has not been reported yet."""
        new = tuple(
            alarm for alarm in alarms if alarm is not None and alarm.kind not in self.reported_kinds
        )
        kinds = tuple(alarm.kind for alarm in new)
        return replace(self, reported_kinds=self.reported_kinds + kinds, queue=self.queue + new)

    def without_first(self) -> "Evidence":
        """Return a copy without the first queued alarm."""
        return replace(self, queue=self.queue[1:])
