"""Plot of the friction of a thermostat over draws, and of its distribution."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pymc_sgmcmc._utils.argument_rows import AXES, STATS_OF
from pymc_sgmcmc._utils.arguments import takes
from pymc_sgmcmc._utils.constraints import Numbers, Optional, Whole
from pymc_sgmcmc.plots.levels import levels_for
from pymc_sgmcmc.plots.paths import (
    draw_lines,
    label_axes,
    shade_tuning,
    side_by_side,
    stat_paths,
)
from pymc_sgmcmc.plots.style import EXPECTED, line_style

__all__ = ["plot_thermostat"]

BINS = 30


@takes(
    idata=STATS_OF,
    diffusion=Optional(Numbers(zero=True, ndim=1)),
    window=Optional(Whole()),
    axes=AXES,
)
def plot_thermostat(
    idata: Any,
    *,
    diffusion: float | Sequence[float] | None = None,
    window: int | None = None,
    axes: Any = None,
) -> np.ndarray:
    """Plot the friction xi of a thermostat, over draws and as a distribution.

    The left axes show each draw as a pale line, and means over windows of draws. The right axes
    show histograms of the draws after tuning. If there is a friction for each coordinate, or a
    matrix of frictions, the plot shows their mean.

    The friction should reach a level before tuning ends, the same in all chains; gradient noise is
    then balanced. The level is the injected diffusion A over the temperature T, plus h V / (2 T)
    for the noise of gradients of variance V.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        The result of `pm.sample` with a step method that has a thermostat. Draws of tuning are
        shown with a shade if they were kept.
    diffusion : float or sequence of float, optional
        Diffusion A of all step methods, or of each, drawn as a dashed line. The sample stats do not
        hold it; that of `SGNHT` is 1 by default.
    window : int, optional
        Number of draws in a window, by default a fiftieth of the draws after tuning.
    axes : array of matplotlib axes, optional
        Axes to draw on, two for each step method with a thermostat. New axes by default.

    Returns
    -------
    array of matplotlib axes, shape (step methods, 2)
        Axes with the step methods in the order of `pm.sample`.

    Raises
    ------
    ValueError
        If no step method has a thermostat, `diffusion` is negative or has a wrong number of values,
        or `window` is below 1.

    Examples
    --------
    >>> import numpy as np, xarray as xr
    >>> from types import SimpleNamespace
    >>> from pymc_sgmcmc import plot_thermostat
    >>> values = 1.2 + 0.1 * np.random.default_rng(1).normal(size=(2, 500))
    >>> stats = xr.Dataset({"thermostat": (("chain", "draw"), values)})
    >>> axes = plot_thermostat(SimpleNamespace(sample_stats=stats), diffusion=1.0)
    >>> axes.shape
    (1, 2)
    """
    paths = stat_paths(
        idata, "thermostat",
        "no step method of this run has a thermostat. SGNHT, gSGNHT and Santa have one.",
    )  # fmt: skip
    levels = levels_for("diffusion", diffusion, paths.samplers, zero=True)
    window = paths.window(window)
    centres, smooth = paths.windows(window)
    what = "over draws and distribution, for each step method with a thermostat"
    axes, ours = side_by_side(axes, paths, what)
    for number, ((left, right), level) in enumerate(zip(axes, levels, strict=True)):
        draw_lines(left, paths.draw, paths.values[..., number], None, linewidth=0.5, alpha=0.25)
        draw_lines(left, centres, smooth[..., number], paths.chains, linewidth=1.2)
        shade_tuning(left, paths)
        _draw_distributions(right, paths.kept[..., number])
        if level is not None:
            left.axhline(level, label="injected diffusion", **EXPECTED)
            right.axhline(level, **EXPECTED)
    ylabel = "thermostat's friction ξ\n(1 / time)"
    label_axes(axes[:, 0], paths, "a thermostat", ylabel, ours=ours)
    axes[-1, 1].set_xlabel("density")
    return axes


def _draw_distributions(ax: Any, values: np.ndarray) -> None:
    """Draw horizontal histograms of all chains, (chains, draws), with the same bins."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return
    bins = np.histogram_bin_edges(finite, BINS)
    for k, chain in enumerate(values):
        chain = chain[np.isfinite(chain)]
        if len(chain):
            density = np.histogram(chain, bins, density=True)[0]
            ax.stairs(density, bins, orientation="horizontal", **line_style(k))
    ax.set_xlim(left=0)
