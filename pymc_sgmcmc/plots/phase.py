"""Plot of draws on the density of a posterior in one or two dimensions."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from pymc import Model

from pymc_sgmcmc._utils.argument_rows import AX, DRAWS_OF, MODEL, NAMES, RANGES
from pymc_sgmcmc._utils.arguments import takes
from pymc_sgmcmc._utils.constraints import Optional, Whole
from pymc_sgmcmc._utils.context import model_of
from pymc_sgmcmc._utils.flat import shaped
from pymc_sgmcmc._utils.inference_data import posterior_of
from pymc_sgmcmc._utils.validation import natural
from pymc_sgmcmc.plots.exact_density import exact_log_density
from pymc_sgmcmc.plots.grids import grids_for, refined, support
from pymc_sgmcmc.plots.labels import entry_labels, wrapped
from pymc_sgmcmc.plots.on_density import draw_contours, draw_curve
from pymc_sgmcmc.plots.panels import single_panel
from pymc_sgmcmc.plots.style import add_legend

__all__ = ["plot_phase"]

GRID = {1: 300, 2: 80}
"""Number of points along an axis, by the number of axes."""


@takes(
    idata=DRAWS_OF,
    model=MODEL,
    var_names=NAMES,
    path=Whole(0),
    ranges=RANGES,
    resolution=Optional(Whole(2)),
    ax=AX,
)
def plot_phase(
    idata: Any,
    model: Model | None = None,
    *,
    var_names: str | Sequence[str] | None = None,
    path: int = 0,
    ranges: Sequence[tuple[float, float]] | None = None,
    resolution: int | None = None,
    ax: Any = None,
) -> Any:
    """Plot draws on the exact density of a posterior in one or two dimensions.

    In two dimensions the plot shows points on contours that contain 50, 80, 95 and 99 % of the
    probability within the axes. In one dimension it shows a histogram under the density. The
    density is that of the model on all rows, on the scale of its variables (not of their
    logarithms, for instance), and scaled to 1 within the axes.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        The result of `pm.sample`.
    model : pymc.Model, optional
        The model, by default that of the ``with`` block. Its free variables must be continuous and
        have one or two entries in all.
    var_names : sequence of str, optional
        Names of all free variables, with that of the horizontal axis first. By default in the order
        of the model.
    path : int
        Number of the first draws of the first chain to join by a line. In one dimension the line
        rises with the number of the draw, on an axis at the right.
    ranges : sequence of (float, float), optional
        Ends of the axes, for each entry. By default the axes cover the draws; a mode far from all
        draws is then not visible.
    resolution : int, optional
        Number of points along each axis at which the density is computed, at least 2. The default
        is 300 in one dimension, and 80 in two, with splines of the logarithm in between.
    ax : matplotlib axes, optional
        Axes to draw on. New axes by default.

    Returns
    -------
    matplotlib axes
        The axes with the density.

    Raises
    ------
    ValueError
        If the model has more than two entries or discrete variables, or another argument does not
        fit; the message names the remedy.

    Examples
    --------
    >>> import numpy as np, pymc as pm, xarray as xr
    >>> from types import SimpleNamespace
    >>> from pymc_sgmcmc import plot_phase
    >>> with pm.Model() as model:
    ...     x = pm.Normal("x")
    >>> draws = np.random.default_rng(1).normal(size=(2, 500))
    >>> idata = SimpleNamespace(posterior=xr.Dataset({"x": (("chain", "draw"), draws)}))
    >>> ax = plot_phase(idata, model)
    >>> ax.get_xlabel()
    'x'
    """
    model = model_of(model)
    names = _names(model, var_names)
    posterior = posterior_of(idata, names)
    arrays = [posterior[name].values for name in names]
    shapes = [array.shape[2:] for array in arrays]
    labels = [label for name in names for label in entry_labels(posterior[name])]
    if len(labels) not in GRID:
        raise ValueError(
            f"The free variables {names} have {len(labels)} entries in all, and a density can be "
            "drawn of one or two: plot marginals with arviz, or compare with plot_compare."
        )
    lead = arrays[0].shape[:2]
    draws = np.concatenate([array.reshape(*lead, -1) for array in arrays], axis=2, dtype=float)
    if isinstance(path, bool) or not 0 <= path <= lead[1]:
        raise ValueError(f"path={path!r} must be from 0 to {lead[1]}, the draws of a chain.")
    flat = draws.reshape(-1, len(labels))
    flat = flat[np.isfinite(flat).all(axis=1)]
    if not len(flat):
        raise ValueError("No draw is finite: there is nothing to show.")
    if resolution is not None and natural("resolution", resolution) < 2:
        raise ValueError(f"resolution={resolution!r} must be at least 2: points along an axis.")
    grids = grids_for(flat, ranges, resolution or GRID[len(labels)])
    points = np.stack([grid.ravel() for grid in np.meshgrid(*grids, indexing="ij")], axis=1)
    parts = shaped(np.concatenate([flat[:1], points]), shapes)
    by_name = dict(zip(names, parts, strict=True))
    log_density = exact_log_density(model, by_name)[1:].reshape([len(grid) for grid in grids])
    if not np.isfinite(log_density).any():
        raise ValueError(f"ranges={ranges!r}: the density is zero there.")
    ends = support(grids, log_density) if ranges is None else ranges
    if len(labels) == 2:
        grids, log_density = refined(grids, log_density)
    density = np.exp(log_density - log_density.max())
    draw = draw_curve if len(labels) == 1 else draw_contours
    ax, ours = single_panel(ax, (5, 3.4) if len(labels) == 1 else (5, 4.6))
    draw(ax, flat, grids, density, draws[0, :path])
    ax.set_xlim(ends[0])
    if len(ends) == 2:
        ax.set_ylim(ends[1])
    ax.set_xlabel(wrapped(labels[0], 60))
    ax.set_ylabel("density" if len(labels) == 1 else wrapped(labels[1], 50))
    add_legend([ax], ours=ours)
    return ax


def _names(model: Model, var_names: Any) -> list[str]:
    free = [rv.name for rv in model.free_RVs]
    if model.discrete_value_vars:
        raise ValueError(
            f"The model has discrete variables ({', '.join(map(str, model.discrete_value_vars))}): "
            "a density is drawn of continuous ones only."
        )
    if var_names is None:
        return free
    names = [var_names] if isinstance(var_names, str) else list(var_names)
    if sorted(names) != sorted(free):
        raise ValueError(
            f"var_names={var_names!r} must be all free variables of the model, {free}, in any "
            "order: a density of some of them would be a marginal, for which there is plot_compare."
        )
    return names
