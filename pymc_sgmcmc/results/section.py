"""A section of a report: what one part of a check found."""

import textwrap
from dataclasses import dataclass, field

import numpy as np

from pymc_sgmcmc._utils.alarm import Alarm

__all__ = ["Section", "wrapped"]

LINE = 96
"""Number of characters in a line of a report."""


@dataclass(frozen=True, eq=False)
class Section:
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
        """Verdict of the section: ALARM, PASS, or NOT DONE."""
        return "ALARM" if self.alarms else "PASS" if self.passed else "NOT DONE"

    def lines(self, title_width: int, *, conclusive: bool) -> list[str]:
        """Return the lines of a report; the verdict is in brackets if it is not `conclusive`."""
        verdict = self.verdict
        if not conclusive and verdict != "NOT DONE":
            verdict = f"({verdict})"
        head, lines = f"{self.title:<{title_width}}  {verdict:<8}  ", []
        texts = [alarm.text for alarm in self.alarms] + [self.passed, *self.notes]
        for text in filter(None, texts):
            lines += wrapped(text, head)
            head = " " * len(head)
        return lines


def wrapped(text: str, head: str = "") -> list[str]:
    """Return the lines of a text that begins with `head`, by which all lines are indented."""
    indent = " " * len(head)
    return textwrap.wrap(text, LINE, initial_indent=head, subsequent_indent=indent)
