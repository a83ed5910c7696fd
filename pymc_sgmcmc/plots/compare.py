"""Plot of the marginals of several samplers and of a reference."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pymc_sgmcmc._utils.argument_rows import AXES, NAMES, ONE_OR_NAMED, SEVERAL
from pymc_sgmcmc._utils.arguments import takes
from pymc_sgmcmc.plots.labels import entry_labels, wrapped
from pymc_sgmcmc.plots.panels import most_panels, panels
from pymc_sgmcmc.plots.style import add_legend, line_style
from pymc_sgmcmc.results.common_variables import all_named, common_variables

__all__ = ["plot_compare"]

REFERENCE = "0.75"

MARGIN = 0.001
"""Fraction of the draws of a sampler, at either end, that may be outside the panel."""


@takes(reference=ONE_OR_NAMED, others=SEVERAL, var_names=NAMES, axes=AXES)
def plot_compare(
    reference: Any,
    *others: Any,
    var_names: str | Sequence[str] | None = None,
    axes: Any = None,
) -> np.ndarray:
    """Plot marginal densities of samplers of one model over those of a reference.

    The reference, which counts as right, is filled with grey, and the others are lines. Densities
    are kernel estimates by ArviZ from all chains. For integers the plot shows the fractions of the
    draws. `compare` returns the numbers.

    Parameters
    ----------
    reference, *others : arviz.InferenceData, xarray.DataTree, or dict of str to these
        Results of `pm.sample` for the same model. The keys of a dict are their names. Other data
        are named "reference", "1", "2", and so on. Draws that are NaN are left out, such as those
        of ``where(idata.sample_stats.sampling)`` for the exploration stages of `CyclicalCosine`.
    var_names : str or sequence of str, optional
        Names of variables, by default those that all data have.
    axes : array of matplotlib axes, optional
        Axes to draw on, one for each entry of each variable. New axes by default.

    Returns
    -------
    array of matplotlib axes, shape (entries,)
        Axes in the order of the variables of the reference.

    Raises
    ------
    ValueError
        If there is no variable in common, or shapes or labels differ; the message names the
        variable.

    Warns
    -----
    UserWarning
        If there are more entries than ``arviz.rcParams["plot.max_subplots"]``. Only the first
        entries are then drawn.

    Examples
    --------
    >>> import numpy as np, xarray as xr
    >>> from types import SimpleNamespace
    >>> from pymc_sgmcmc import plot_compare
    >>> def draws(sd, seed):
    ...     x = sd * np.random.default_rng(seed).normal(size=(4, 500, 2))
    ...     return SimpleNamespace(posterior=xr.Dataset({"x": (("chain", "draw", "k"), x)}))
    >>> others = {"right": draws(1.0, 2), "wide": draws(2.0, 3)}
    >>> axes = plot_compare({"NUTS": draws(1.0, 1)}, others)
    >>> [ax.get_title() for ax in axes]
    ['x[0]', 'x[1]']
    """
    named = all_named(reference, others)
    posteriors, common = common_variables(named, var_names)
    origin, *_ = posteriors
    entries = [
        (variable, index, label)
        for variable in common
        for index, label in enumerate(entry_labels(posteriors[origin][variable]))
    ]
    entries = entries[: most_panels(len(entries))]
    columns = min(len(entries), 4) if axes is None else len(entries)
    rows = -(-len(entries) // columns)
    given, ours = panels(
        axes, rows, columns, size=(max(2.4 * columns, 4), 2.1),
        what="one for each entry: " + ", ".join(label for *_, label in entries[:5]),
    )  # fmt: skip
    for ax in given.flat[len(entries) :]:
        ax.remove()
    used = given.ravel()[: len(entries)]
    for ax, (variable, index, label) in zip(used, entries, strict=True):
        ends = []
        for number, (name, posterior) in enumerate(posteriors.items()):
            array = posterior[variable].values
            values = array.reshape(*array.shape[:2], -1)[..., index].ravel()
            values = values[np.isfinite(values)]
            if not len(values):
                raise ValueError(f"{name!r} has no finite draw of {label}: leave it out.")
            _draw(ax, values, name, number - 1)
            ends.append(np.quantile(values, [MARGIN, 1 - MARGIN]))
        low, high = np.min(ends), np.max(ends)
        margin = 0.1 * (high - low) or 0.5
        ax.set_xlim(low - margin, high + margin)
        ax.set_ylim(bottom=0)
        ax.set_yticks([])
        ax.tick_params(labelsize=8)
        ax.locator_params(axis="x", nbins=4)
        ax.set_title(wrapped(label), fontsize=9)
    for ax, (variable, *_) in zip(used[::columns], entries[::columns], strict=True):
        counted = posteriors[origin][variable].dtype.kind in "biu"
        ax.set_ylabel("probability" if counted else "density", fontsize=8)
    add_legend(used[:1], ours=ours)
    return used


def _draw(ax: Any, values: np.ndarray, name: str, number: int) -> None:
    """Draw the marginal of one sampler; the reference has the number -1."""
    import arviz as az

    style = {"color": REFERENCE} if number < 0 else line_style(number)
    if values.dtype.kind in "biu":
        points, counts = np.unique(values.astype(int), return_counts=True)
        height = counts / len(values)
        if number < 0:
            ax.bar(points, height, width=0.9, label=name, **style)
        else:
            ax.plot(points, height, "o", markersize=4, label=name, fillstyle="none", **style)
    elif np.ptp(values) == 0:
        ax.axvline(values[0], label=f"{name}", linewidth=2 if number < 0 else 1.5, **style)
    else:
        grid, density = az.kde(values)[:2]
        if number < 0:
            ax.fill_between(grid, density, label=name, linewidth=0, **style)
        else:
            ax.plot(grid, density, label=name, linewidth=1.4, **style)
