"""Axes to draw on: new ones, or those that were given."""

import warnings
from typing import Any

import numpy as np

__all__ = ["most_panels", "panels", "single_panel"]


def panels(
    axes: Any, rows: int, columns: int, *, size: tuple[float, float], what: str, **options: Any
) -> tuple[np.ndarray, bool]:
    """An array of axes (rows, columns), and whether they are new.

    Parameters
    ----------
    axes : matplotlib axes or array of them, or None
        None: new ones.
    rows, columns : int
    size : tuple of float
        Inches of a row: width, height.
    what : str
        What there is an axes for, in errors.
    **options
        Of `matplotlib.pyplot.subplots`.

    Raises
    ------
    ValueError
        If there are too few or too many of them.
    """
    if axes is None:
        import matplotlib.pyplot as plt  # here, as importing the package must not import it

        width, height = size
        figsize = (width, height * rows + 0.4)
        _, axes = plt.subplots(
            rows, columns, figsize=figsize, layout="constrained", squeeze=False, **options
        )
        return axes, True
    given = np.atleast_1d(np.asarray(axes, dtype=object))
    if given.size != rows * columns:
        raise ValueError(
            f"axes= holds {given.size} axes, and {rows * columns} are needed: {what}. Leave it "
            "out, or make so many."
        )
    return given.reshape(rows, columns), False


def single_panel(ax: Any, size: tuple[float, float]) -> tuple[Any, bool]:
    """The axes that were given, or new ones; and whether they are new."""
    if ax is None:
        import matplotlib.pyplot as plt

        return plt.subplots(figsize=size, layout="constrained")[1], True
    if not hasattr(ax, "get_xlim"):
        raise ValueError(f"ax={ax!r} is not one matplotlib axes: pass one, or leave it out.")
    return ax, False


def most_panels(number: int) -> int:
    """How many entries are drawn."""
    import arviz as az  # here, as it takes seconds

    most = az.rcParams["plot.max_subplots"]
    if most is None or number <= most:
        return number
    warnings.warn(
        f"There are {number} entries and {most} of them are drawn, the first: that is "
        'arviz.rcParams["plot.max_subplots"]. Choose fewer by var_names=, or raise it.',
        UserWarning,
        stacklevel=3,
    )
    return int(most)
