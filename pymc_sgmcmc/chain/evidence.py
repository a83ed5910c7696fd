"""Observations of a chain since tuning ended."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from pymc.stats.convergence import SamplerWarning, WarningType

from pymc_sgmcmc.chain.divergences import UNBOUNDED, Bounds
from pymc_sgmcmc.chain.findings import Alarm

__all__ = ["POOLED", "SEEN", "Watched"]

SEEN = ("direct_spread", "implied_spread", "noise")
POOLED = ("pooled_direct", "pooled_implied", "pooled_direct_spread", "pooled_implied_spread",
          "freedom", "temperature")  # fmt: skip


@dataclass(frozen=True)
class Watched:
    """Observations of a chain at its last look, and its queue of alarms.

    Attributes
    ----------
    spread : array, shape (2, d)
        Asymptotic standard deviations of W per inner step, direct and implied.
    pooled : array, shape (2, 2)
        Mean W over all coordinates, direct and implied, and its spreads.
    freedom : int
        Degrees of freedom of the spreads.
    temperature : float
        Temperature T of the draws.
    noise : array, shape (d,)
        The part of W that gradient noise adds.
    main : array of int, shape (d,)
        The index in q of each metric coordinate, or of its main component.
    energy : float
        The largest p.p before an inner step.
    bounds : Bounds
        Bounds beyond which a draw is a divergence.
    said : tuple of str
        Kinds of the alarms that were reported or are queued.
    pending : tuple of (str, str)
        Kind and text of the queued alarms: PyMC takes one warning per draw.
    """

    spread: np.ndarray
    pooled: np.ndarray
    noise: np.ndarray
    main: np.ndarray
    freedom: int = 0
    temperature: float = np.nan
    energy: float = 0.0
    bounds: Bounds = UNBOUNDED
    said: tuple[str, ...] = ()
    pending: tuple[tuple[str, str], ...] = ()

    @classmethod
    def nothing(cls, size: int) -> "Watched":
        unknown = np.full((2, size), np.nan)
        return cls(unknown, np.full((2, 2), np.nan), unknown[0], np.arange(size))

    def heard(self, alarms: Sequence[Alarm | None]) -> "Watched":
        """Return a copy that queues each alarm whose kind has not been reported yet."""
        new = [alarm for alarm in alarms if alarm is not None and alarm.kind not in self.said]
        return replace(
            self,
            said=self.said + tuple(alarm.kind for alarm in new),
            pending=self.pending + tuple((alarm.kind, alarm.text) for alarm in new),
        )

    def told(self) -> "Watched":
        """Return a copy without the first queued alarm."""
        return replace(self, pending=self.pending[1:])

    def warning(self, draw: int) -> SamplerWarning:
        """Return the first queued alarm as PyMC's warning."""
        kind, text = self.pending[0]
        # `extra` tells warnings apart without reading them.
        return SamplerWarning(WarningType.CONVERGENCE, text, "warn", step=draw, extra=kind)
