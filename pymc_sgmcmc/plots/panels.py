"""Axes to draw on, new or given."""

from typing import Any

import numpy as np

from pymc_sgmcmc._utils.warn_user import warn_user

__all__ = ["most_panels", "panels", "single_panel"]


def panels(
    axes: Any, rows: int, columns: int, *, size: tuple[float, float], what: str, **options: Any
) -> tuple[np.ndarray, bool]:
    """Return an array of axes (rows, columns), and whether they are new.

    Parameters
    ----------
    axes : matplotlib axes or array of them, or None
        Given axes. None means new axes.
    rows, columns : int
    size : tuple of float
        Width and height of a row, in inches.
    what : str
        Description of the axes that are needed, for errors.
    **options
        Options of `matplotlib.pyplot.subplots`.

    Raises
    ------
    ValueError
        If the number of given axes does not fit.
    """
    if axes is None:
        import matplotlib.pyplot as plt  # importing the package must not import it

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
    """Return the given axes or new ones, and whether they are new."""
    if ax is None:
        import matplotlib.pyplot as plt

        return plt.subplots(figsize=size, layout="constrained")[1], True
    if not hasattr(ax, "get_xlim"):
        raise ValueError(f"ax={ax!r} is not one matplotlib axes: pass one, or leave it out.")
    return ax, False


def most_panels(number: int) -> int:
    """Return how many of `number` entries are drawn; warn if not all."""
    import arviz as az  # imported here because importing it takes seconds

    most = az.rcParams["plot.max_subplots"]
    if most is None or number <= most:
        return number
    warn_user(
        f"There are {number} entries and {most} of them are drawn, the first: that is "
        'arviz.rcParams["plot.max_subplots"]. Choose fewer by var_names=, or raise it.',
    )
    return int(most)
