"""The kinetic temperature over draws, against what it is to be."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pymc_sgmcmc._utils.argument_rows import AXES, STATS_OF
from pymc_sgmcmc._utils.arguments import takes
from pymc_sgmcmc._utils.constraints import Numbers, Optional, Whole
from pymc_sgmcmc._utils.inference_data import sampler_stat
from pymc_sgmcmc.chain.stored_sums import running_sums, samplers_in
from pymc_sgmcmc.plots.levels import levels_for
from pymc_sgmcmc.plots.paths import (
    Paths,
    draw_lines,
    label_axes,
    shade_tuning,
    side_by_side,
    stat_paths,
)
from pymc_sgmcmc.plots.style import EXPECTED, line_style
from pymc_sgmcmc.results.temperature import kinetic_temperature

__all__ = ["plot_temperature"]

ERRORS = 2
"""Half an interval, in Monte Carlo standard errors: it holds the mean in 95 % of all runs."""


@takes(idata=STATS_OF, temperature=Optional(Numbers(ndim=1)), window=Optional(Whole()), axes=AXES)
def plot_temperature(
    idata: Any,
    *,
    temperature: float | Sequence[float] | None = None,
    window: int | None = None,
    axes: Any = None,
) -> np.ndarray:
    """Plot the kinetic temperature p.p / d of each chain: over draws, and its mean.

    On the left means over windows of draws, which show whether the chain has settled; tuning is
    shaded where it was kept. On the right the mean of each chain with two Monte Carlo standard
    errors to either side, as `kinetic_temperature` has them. The dashed line is what it is to be.

    A mean above it: gradient noise heats the chain, the step size is too long, or the chain had not
    settled. A thermostat with one friction is at its temperature whatever is wrong with the draws.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        What `pm.sample` returned, from a step method with a momentum.
    temperature : float or sequence of float, optional
        What it is to be, T > 0, of the step method or of each of them. Default what `Santa` says
        for each draw, or what `running_sums` says, or else 1: that of the posterior. Where Santa
        anneals beside others, whose stats are not told apart, no line is drawn by default.
    window : int, optional
        Draws in a window, default a fiftieth of them.
    axes : array of matplotlib axes, optional
        Two for each step method that has a momentum. Default new ones.

    Returns
    -------
    array of matplotlib axes, shape (step methods, 2)
        Step methods are in the order of `pm.sample`.

    Raises
    ------
    ValueError
        If no step method has a momentum, or an argument is out of range.

    Examples
    --------
    >>> import numpy as np, xarray as xr
    >>> from types import SimpleNamespace
    >>> from pymc_sgmcmc import plot_temperature
    >>> values = 1 + 0.1 * np.random.default_rng(1).normal(size=(2, 1000))
    >>> stats = xr.Dataset({"kinetic_temperature": (("chain", "draw"), values)})
    >>> axes = plot_temperature(SimpleNamespace(sample_stats=stats))
    >>> axes.shape, axes[0, 0].get_xlabel()
    ((1, 2), 'draw')
    """
    means = kinetic_temperature(idata)
    paths = stat_paths(idata, "kinetic_temperature", "")
    given = levels_for("temperature", temperature, paths.samplers, zero=False)
    window = paths.window(window)
    what = "over draws and means, for each step method that has a momentum"
    axes, ours = side_by_side(axes, paths, what)
    centres, smooth = paths.windows(window)
    for number, (left, right) in enumerate(axes):
        draw_lines(left, centres, smooth[..., number], paths.chains, linewidth=1)
        shade_tuning(left, paths)
        expected = _expected(idata, paths, number) if given[number] is None else given[number]
        if expected is not None:
            expected = np.broadcast_to(expected, len(paths.draw))
            left.plot(paths.draw, expected, label="expected", **EXPECTED)
            right.axhline(expected[-1], **EXPECTED)
        of = means.isel(sampler=number) if "sampler" in means.dims else means
        _draw_means(right, paths.chains, of["mean"].values, of["mcse"].values)
    many = f"mean of {window} draws" if window > 1 else "of each draw"
    label_axes(axes[:, 0], paths, "a momentum", f"kinetic temperature\n({many})", ours=ours)
    axes[-1, 1].set_xlabel(f"chain (mean ± {ERRORS} MCSE)")
    return axes


def _draw_means(ax: Any, labels: list[str], mean: np.ndarray, mcse: np.ndarray) -> None:
    for k in range(len(mean)):
        half = 0.0 if np.isnan(mcse[k]) else ERRORS * mcse[k]
        colour = line_style(k)["color"]
        ax.errorbar(k, mean[k], half, fmt="o", color=colour, markersize=4, capsize=2)
    step = -(-len(labels) // 8)
    numbers = [label.removeprefix("chain ") for label in labels]
    ax.set_xticks(range(0, len(labels), step), numbers[::step])
    ax.set_xlim(-0.6, len(labels) - 0.4)


def _expected(idata: Any, paths: Paths, number: int) -> Any:
    """T of the step method of that number among those with a momentum: one, or for each draw.

    None: it is not known.
    """
    anneals = sampler_stat(idata, "temperature") is not None
    if anneals:
        planned = stat_paths(idata, "temperature", "")
        if planned.values.shape == paths.values.shape:
            return planned.values[0, :, number]
    if samplers_in(idata) == paths.samplers:  # else it is not known which is which
        known = running_sums(idata, number)["temperature"].values
        known = known[np.isfinite(known) & (known > 0)]
        if len(known):
            return float(known.max())
    return None if anneals else 1.0
