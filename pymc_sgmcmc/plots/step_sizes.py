"""Plot of step sizes over draws."""

from typing import Any

import numpy as np

from pymc_sgmcmc._utils.argument_rows import AXES, STATS_OF
from pymc_sgmcmc._utils.arguments import takes
from pymc_sgmcmc._utils.inference_data import sampler_stat
from pymc_sgmcmc.plots.panels import panels
from pymc_sgmcmc.plots.paths import Paths, draw_lines, label_axes, shade_tuning, stat_paths
from pymc_sgmcmc.plots.style import ORANGE

__all__ = ["plot_step_sizes"]

DECADES = 1.0
"""Least range of step sizes, in decades, for a logarithmic scale."""


@takes(idata=STATS_OF, axes=AXES)
def plot_step_sizes(idata: Any, *, axes: Any = None) -> np.ndarray:
    """Plot the step size of each step method over draws.

    Draws of tuning are shown with a shade if they were kept (``discard_tuned_samples=False`` in
    `pm.sample`). Draws of the exploration stages of a `CyclicalCosine`, which are not from the
    posterior, are hatched. The scale is logarithmic if step sizes span a decade or more, except for
    cycles.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        The result of `pm.sample`. NUTS and HMC have step sizes, too.
    axes : array of matplotlib axes, optional
        Axes to draw on, one for each step method that has a step size. New axes by default.

    Returns
    -------
    array of matplotlib axes, shape (step methods,)
        Axes in the order of `pm.sample`.

    Raises
    ------
    ValueError
        If no step method has a step size.

    Examples
    --------
    >>> import numpy as np, xarray as xr
    >>> from types import SimpleNamespace
    >>> from pymc_sgmcmc import Polynomial, plot_step_sizes
    >>> h = Polynomial(a=0.1)(np.arange(0, 10_000, 10))
    >>> stats = xr.Dataset({"step_size": (("chain", "draw"), [h, h])})
    >>> (ax,) = plot_step_sizes(SimpleNamespace(sample_stats=stats))
    >>> ax.get_yscale()
    'log'
    """
    paths = stat_paths(
        idata, "step_size",
        "no step method of this run has a step size. Those of this package, NUTS and HMC do.",
    )  # fmt: skip
    axes, ours = panels(
        axes, paths.samplers, 1, size=(8, 2.4), sharex=True,
        what="one for each step method that has a step size",
    )  # fmt: skip
    stages = _stages(idata, paths)
    for number, ax in enumerate(axes[:, 0]):
        draw_lines(ax, paths.draw, paths.values[..., number], paths.chains, linewidth=1.2)
        shade_tuning(ax, paths)
        if number in stages:
            _hatch(ax, paths.draw, stages[number])
        if _is_logarithmic(paths.values[..., number], paths.kept[..., number]):
            ax.set_yscale("log")
        else:
            ax.set_ylim(bottom=0)
    label_axes(axes[:, 0], paths, "a step size", "step size h (time)", ours=ours)
    return axes[:, 0]


def _is_logarithmic(values: np.ndarray, kept: np.ndarray) -> bool:
    positive = values[np.isfinite(values) & (values > 0)]
    if not len(positive) or np.log10(positive.max() / positive.min()) < DECADES:
        return False
    return not (kept[:, 1:] > 2 * kept[:, :-1]).any()  # cycles fall to almost 0


def _stages(idata: Any, paths: Paths) -> dict[int, np.ndarray]:
    """Return masks of the draws that explore, (draws,), by the number of the step method.

    The stats of several step methods have no names. The step methods with stages are identified as
    those whose step sizes change after tuning.
    """
    if sampler_stat(idata, "sampling") is None:
        return {}
    sampling = stat_paths(idata, "sampling", "")
    number = range(paths.samplers)
    moving = [k for k in number if np.ptp(paths.kept[..., k], axis=1).any()]
    with_stages = list(number) if sampling.samplers == paths.samplers else moving
    if len(with_stages) != sampling.samplers or sampling.tuning != paths.tuning:
        return {}
    return {k: sampling.values[0, :, i] == 0 for i, k in enumerate(with_stages)}


def _hatch(ax: Any, draw: np.ndarray, explores: np.ndarray) -> None:
    """Hatch the consecutive draws of each exploration stage."""
    change = np.flatnonzero(np.diff(np.concatenate([[0], explores, [0]]).astype(int)))
    for start, stop in change.reshape(-1, 2):
        ax.axvspan(
            draw[start] - 0.5, draw[stop - 1] + 0.5, facecolor="none", edgecolor=ORANGE,
            hatch="////", linewidth=0, alpha=0.6, label="exploration stage", zorder=0,
        )  # fmt: skip
