"""The friction of a thermostat over draws, and its distribution."""

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
    """Plot the friction xi of a thermostat: over draws, and its distribution.

    On the left each draw, pale, and means over windows of draws; on the right histograms of the
    draws after tuning. Of a friction for each coordinate, or a matrix of them, it is the mean.

    It is to hover around one level before tuning ends, the same in all chains: then the gradient
    noise is balanced. That level is the injected diffusion A over the temperature, and above it by
    the noise h V / (2 T) of gradients of variance V.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        What `pm.sample` returned, from a step method with a thermostat. Draws of tuning are shown,
        shaded, where they were kept.
    diffusion : float or sequence of float, optional
        A of the step method, or of each of them: a dashed line. It is not among the sample stats;
        that of `SGNHT` is 1 by default.
    window : int, optional
        Draws in a window, default a fiftieth of them.
    axes : array of matplotlib axes, optional
        Two for each step method with a thermostat. Default new ones.

    Returns
    -------
    array of matplotlib axes, shape (step methods, 2)
        Step methods are in the order of `pm.sample`.

    Raises
    ------
    ValueError
        If no step method has a thermostat, `diffusion` is negative or not one for each of them, or
        `window` is below 1.

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
    """Histograms of all chains, (chains, draws), with the same bins; across."""
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
