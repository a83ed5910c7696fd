"""Plot of the width of the draws in each coordinate, judged by the gradients of the chains."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from pymc import Model

from pymc_sgmcmc._utils.argument_rows import AX, MODEL, NAMES, STATS_OF
from pymc_sgmcmc._utils.arguments import takes
from pymc_sgmcmc._utils.constraints import Choice
from pymc_sgmcmc._utils.significance import error_at_one
from pymc_sgmcmc._utils.validation import one_of
from pymc_sgmcmc.chain.stored_sums import samplers_in
from pymc_sgmcmc.chain.width import KINDS, TOLERANCE
from pymc_sgmcmc.model.unconstrain import Unconstrain
from pymc_sgmcmc.plots.forest import forest
from pymc_sgmcmc.results.width_check import NO_SUMS, CombinedWidth, sums_with_errors

__all__ = ["plot_width"]


@takes(idata=STATS_OF, model=MODEL, var_names=NAMES, kind=Choice(KINDS), ax=AX)
def plot_width(
    idata: Any,
    model: Model | None = None,
    *,
    var_names: str | Sequence[str] | None = None,
    kind: str = "direct",
    ax: Any = None,
) -> Any:
    """Plot the ratio of the variance of the draws to the one that gradients imply, by coordinate.

    `check` judges the same ratio. For draws of the posterior the mean of (q - mean) dU/dq is 1 in
    every coordinate. For other draws it is about the ratio of their variance to the right one. A
    point outside the grey band whose interval does not reach 1 is an alarm. The half-width of an
    interval is the number of standard errors that is significant for all coordinates together. With
    a dense metric coordinates are directions, each named after its main coordinate; a coordinate
    that is main in no direction has no row.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        The result of `pm.sample` with step methods of this package.
    model : pymc.Model, optional
        The model, by default that of the ``with`` block, for the names of the coordinates. Without
        a model the names are numbers.
    var_names : str or sequence of str, optional
        Names of free variables of the model, by default all.
    kind : {"direct", "implied"}
        Kind of the ratio. "direct" uses the gradients at the draws. "implied" uses the sampler's
        balance of momenta and gradients; it often has a smaller error, but does not exist for all
        samplers. `check` judges both.
    ax : matplotlib axes, optional
        Axes to draw on. New axes by default, with a height for the number of coordinates.

    Returns
    -------
    matplotlib axes
        One row for each coordinate, the first on top.

    Raises
    ------
    ValueError
        If the data hold no sums to judge the width by, no such variable, or no ratio of that kind;
        the message names the remedy.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from pymc_sgmcmc import SGHMC, plot_width
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", pm.Normal("mu"), observed=np.arange(10.0))
    ...     idata = pm.sample(step=SGHMC(), progressbar=False, random_seed=1)
    >>> ax = plot_width(idata, model)
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['mu']
    """
    one_of("kind", kind, KINDS)
    samplers = samplers_in(idata)
    if not samplers:
        raise ValueError(
            "There is no sample stat running_sums: no step method of this run is of this package. "
            "plot_check(check(idata, model)) judges the draws of any sampler, by exact gradients."
        )
    judged = [sums for k in range(samplers) if (sums := sums_with_errors(idata, k)).sizes["chain"]]
    if not judged:
        raise ValueError(NO_SUMS)
    widths = [CombinedWidth(sums, kind) for sums in judged]
    widths = [width for width in widths if np.isfinite(width.pooled)]
    if not widths:
        raise ValueError(
            f"kind={kind!r}: no step method of this run has it. Choose kind={_other(kind)!r}."
        )
    names = _names(idata, model, var_names)
    figures: list[tuple[Any, ...]] = []
    for width in widths:
        half = width.critical * error_at_one(width.ratio, width.error)
        figures += zip(width.places, width.ratio, half, width.excess > 0, strict=True)
    shown = sorted(figure for figure in figures if names is None or figure[0] in names)
    if not shown:
        raise ValueError(f"var_names={var_names!r}: {NO_SUMS}")
    places, ratio, half, wrong = map(np.array, zip(*shown, strict=True))
    labels = [f"coordinate {k}" if names is None else names[k] for k in places]
    band = 1 - TOLERANCE, 1 + TOLERANCE
    ax = forest(ax, labels, ratio, (ratio - half, ratio + half), wrong, band)
    ax.set_xlabel(f"variance of the draws / what gradients imply ({kind})")
    return ax


def _other(kind: str) -> str:
    return next(other for other in KINDS if other != kind)


def _names(idata: Any, model: Model | None, var_names: Any) -> dict[int, str] | None:
    """Return the names of the coordinates to show, by number; None without a model."""
    model = Model.get_context(error_if_none=False) if model is None else model
    if model is None:
        if var_names is not None:
            raise ValueError(
                f"var_names={var_names!r} needs the model, which names the coordinates: pass "
                "model=, or call it in the model's with block."
            )
        return None
    draws = Unconstrain(model)(idata)
    of = dict(zip(draws.places, draws.names, strict=True))
    if var_names is None:
        return of
    chosen = [var_names] if isinstance(var_names, str) else list(var_names)
    value_names = {rv.name: model.rvs_to_values[rv].name for rv in model.free_RVs}
    unknown = [name for name in chosen if name not in value_names]
    if unknown:
        raise ValueError(
            f"var_names={var_names!r}: the model has no free variables {unknown}. It has "
            f"{sorted(value_names)}."
        )
    wanted = {value_names[name] for name in chosen}
    return {place: name for place, name in of.items() if name.split("[")[0] in wanted}
