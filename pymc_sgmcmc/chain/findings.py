"""What one part of a check has found, before it is put into a report."""

from dataclasses import dataclass, field

import numpy as np

__all__ = ["Alarm", "Finding"]


@dataclass(frozen=True)
class Alarm:
    """A reason not to use the draws.

    Attributes
    ----------
    kind : str
        "mixing", "error" (Monte Carlo), "width", "sd" or "mean"; while sampling, "width",
        "excursion", "thermostat", "centre", "noise", "bound", "metric" or "error".
    text : str
        What was seen, its cause and the remedy.
    """

    kind: str
    text: str


@dataclass(frozen=True, eq=False)
class Finding:
    """One section of a report.

    Attributes
    ----------
    title : str
        What was looked at.
    alarms : tuple of Alarm
        Empty where it passed.
    passed : str
        What was seen where there is no alarm, and which error would not have been seen. Empty:
        nothing can be said, and `notes` say why.
    notes : tuple of str
        What else a reader must know.
    figures : dict of str to array, shape (d,)
        One number for each coordinate; NaN where there is none.
    numbers : dict of str to float
        What holds for all coordinates.
    """

    title: str
    alarms: tuple[Alarm, ...] = ()
    passed: str = ""
    notes: tuple[str, ...] = ()
    figures: dict[str, np.ndarray] = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """ALARM, PASS, or NOT DONE."""
        return "ALARM" if self.alarms else "PASS" if self.passed else "NOT DONE"
