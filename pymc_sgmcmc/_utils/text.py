"""Tables and lists of text, for reports."""

from collections.abc import Sequence

__all__ = ["aligned", "first_of", "listed"]

MOST_NAMED = 3
"""Number of phrases of a list that are shown."""


def aligned(rows: Sequence[Sequence[str]], *, left: int = 0) -> list[str]:
    """Return the lines of a table; the first `left` columns align left, the others right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if k < left else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def first_of(names: Sequence[str], most: int = 8) -> str:
    """Return `names` with commas between them: at most so many, and how many more there are."""
    names = list(names)
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"


def listed(phrases: list[str]) -> str:
    """Return the first few phrases, and the number of the others; the worst come first."""
    left = len(phrases) - MOST_NAMED
    shown = "; ".join(phrases[:MOST_NAMED])
    if left <= 0:
        return shown
    return f"{shown}; and {left} other coordinate{'s' if left > 1 else ''}"
