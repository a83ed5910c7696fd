"""Plot of the sds of the draws against those that exact gradients imply."""

from typing import Any

import numpy as np

from pymc_sgmcmc._utils.argument_rows import AX
from pymc_sgmcmc._utils.arguments import takes
from pymc_sgmcmc._utils.constraints import Instance
from pymc_sgmcmc._utils.significance import is_wrong
from pymc_sgmcmc.plots.forest import forest
from pymc_sgmcmc.results.check import Check
from pymc_sgmcmc.results.gradient_regression import VARIANCE_TOLERANCE

__all__ = ["plot_check"]


@takes(found=Instance(Check, "a Check: pass what check(idata) returned"), ax=AX)
def plot_check(found: Check, *, ax: Any = None) -> Any:
    """Plot the ratio of the sd of each coordinate to the sd that exact gradients imply.

    A point whose interval lies outside the grey band is an alarm.

    Parameters
    ----------
    found : Check
        The result of `check`.
    ax : matplotlib axes, optional
        Axes to draw on. New axes by default, with a height for the number of coordinates.

    Returns
    -------
    matplotlib axes
        One row for each coordinate, the first on top.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from pymc_sgmcmc import SGHMC, check, plot_check
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", pm.Normal("mu"), observed=np.arange(10.0))
    ...     idata = pm.sample(step=SGHMC(), progressbar=False, random_seed=1)
    >>> ax = plot_check(check(idata, model))
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['mu']
    """
    dataset = found.dataset
    ratio, error = dataset.sd_ratio.values, dataset.sd_ratio_error.values
    half = dataset.attrs.get("critical_value", np.nan) * 2 * ratio * error  # of the variance ratio
    with np.errstate(invalid="ignore"):
        low, high = np.sqrt(np.maximum(ratio**2 - half, 0)), np.sqrt(ratio**2 + half)
    wrong = is_wrong(ratio**2 - 1, half, VARIANCE_TOLERANCE, times=1)
    band = np.sqrt([1 - VARIANCE_TOLERANCE, 1 + VARIANCE_TOLERANCE])
    ax = forest(ax, dataset.coordinate.values, ratio, (low, high), wrong, band)
    ax.set_xlabel("sd of the draws / sd that exact gradients imply")
    return ax
