"""Expected levels of a figure, for each of several step methods."""

from collections.abc import Sequence

import numpy as np

__all__ = ["levels_for"]


def levels_for(
    name: str, given: float | Sequence[float] | None, samplers: int, *, zero: bool
) -> list[float | None]:
    """Return one number for each step method, or None for each if none is given.

    `zero` says whether a number may be 0. Raise a ValueError that names the argument if a number is
    out of range, or their number does not fit.
    """
    if given is None:
        return [None] * samplers
    levels = np.atleast_1d(np.asarray(given, dtype=float))
    right = np.isfinite(levels) & ((levels >= 0) if zero else (levels > 0))
    if levels.shape not in ((1,), (samplers,)) or not right.all():
        raise ValueError(
            f"{name}={given!r} must be one number {'of at least' if zero else 'above'} 0, or one "
            f"for each of the {samplers} step methods that are plotted."
        )
    return np.broadcast_to(levels, samplers).tolist()
