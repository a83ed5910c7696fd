"""Plot of the kinetic temperature over draws, and of its expected value."""

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
"""Half-width of an interval that holds the mean in 95 % of all runs, in standard errors."""


@takes(idata=STATS_OF, temperature=Optional(Numbers(ndim=1)), window=Optional(Whole()), axes=AXES)
def plot_temperature(
    idata: Any,
    *,
    temperature: float | Sequence[float] | None = None,
    window: int | None = None,
    axes: Any = None,
) -> np.ndarray:
    """Plot the kinetic temperature p.p / d of each chain, over draws and as a mean.

    The left axes show means over windows of draws, and whether the chain has settled. Tuning is
    shaded if it was kept. The right axes show the mean of each chain with two Monte Carlo standard
    errors to either side, as in `kinetic_temperature`. The dashed line is the expected temperature.

    A mean above the line means that gradient noise heats the chain, that the step size is too long,
    or that the chain had not settled. A thermostat with one friction keeps its temperature even if
    the draws are wrong.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        The result of `pm.sample` with a step method that has a momentum.
    temperature : float or sequence of float, optional
        Expected temperature T > 0, of all step methods or of each. By default the temperature that
        `Santa` reports for each draw, or that `running_sums` holds, or 1, that of the posterior. No
        line is drawn by default if Santa anneals beside other step methods, because their stats
        cannot be told apart.
    window : int, optional
        Number of draws in a window, by default a fiftieth of the draws after tuning.
    axes : array of matplotlib axes, optional
        Axes to draw on, two for each step method that has a momentum. New axes by default.

    Returns
    -------
    array of matplotlib axes, shape (step methods, 2)
        Axes with the step methods in the order of `pm.sample`.

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
    """Return T of step method `number` among those with a momentum, or None if unknown.

    T is one number, or one for each draw.
    """
    anneals = sampler_stat(idata, "temperature") is not None
    if anneals:
        planned = stat_paths(idata, "temperature", "")
        if planned.values.shape == paths.values.shape:
            return planned.values[0, :, number]
    if samplers_in(idata) == paths.samplers:  # otherwise numbers do not match
        known = running_sums(idata, number)["temperature"].values
        known = known[np.isfinite(known) & (known > 0)]
        if len(known):
            return float(known.max())
    return None if anneals else 1.0
