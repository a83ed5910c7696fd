"""What a figure is to be, for each of several step methods."""

from collections.abc import Sequence

import numpy as np

__all__ = ["levels_for"]


def levels_for(
    name: str, given: float | Sequence[float] | None, samplers: int, *, zero: bool
) -> list[float | None]:
    """One number for each step method, or None where none was given.

    `zero`: whether it may be 0. Raises a ValueError that names the argument.
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
