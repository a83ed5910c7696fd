"""The one type for something that is wrong with draws, whoever finds it and however it is said."""

from dataclasses import dataclass
from typing import Literal

__all__ = ["Alarm"]


@dataclass(frozen=True)
class Alarm:
    """A reason not to use the draws.

    `chain.sampler_warning` says it while a chain samples, and a section of `results.check` after.

    Attributes
    ----------
    kind : str
        Tells alarms apart without reading them. In a check "mixing", "error" (Monte Carlo),
        "width", "sd" or "mean"; while sampling "divergence", "tuning divergence", "start",
        "width", "excursion", "thermostat", "centre", "noise", "bound", "metric" or "error", and
        what algorithms say: "tune" or "refinement".
    text : str
        The observation, its cause and the remedy.
    level : {"debug", "info", "warn"}
        How loudly it is said.
    """

    kind: str
    text: str
    level: Literal["debug", "info", "warn"] = "warn"
