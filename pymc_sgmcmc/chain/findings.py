"""Alarms, and the findings of one part of a check before they enter a report."""

from dataclasses import dataclass, field

import numpy as np

__all__ = ["Alarm", "Finding"]


@dataclass(frozen=True)
class Alarm:
    """A reason not to use the draws.

    Attributes
    ----------
    kind : str
        In a check "mixing", "error" (Monte Carlo), "width", "sd" or "mean"; while sampling "width",
        "excursion", "thermostat", "centre", "noise", "bound", "metric" or "error".
    text : str
        The observation, its cause and the remedy.
    """

    kind: str
    text: str


@dataclass(frozen=True, eq=False)
class Finding:
    """One section of a report.

    Attributes
    ----------
    title : str
        The subject of the check.
    alarms : tuple of Alarm
        Empty if the check passed or was not done.
    passed : str
        The observation if there is no alarm, and the errors that the check would miss. Empty if
        the check could not be done; `notes` then say why.
    notes : tuple of str
        Further facts for the reader.
    figures : dict of str to array, shape (d,)
        One number for each coordinate, NaN if missing.
    numbers : dict of str to float
        Numbers for all coordinates together.
    """

    title: str
    alarms: tuple[Alarm, ...] = ()
    passed: str = ""
    notes: tuple[str, ...] = ()
    figures: dict[str, np.ndarray] = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """Verdict of the finding: ALARM, PASS, or NOT DONE."""
        return "ALARM" if self.alarms else "PASS" if self.passed else "NOT DONE"
