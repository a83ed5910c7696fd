"""Expectations under decreasing step sizes, with draws weighted by their step sizes."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr

from pymc_sgmcmc._utils.argument_rows import DRAWS_OF, NAMES, PROBABILITIES
from pymc_sgmcmc._utils.arguments import takes
from pymc_sgmcmc._utils.constraints import Function, Optional, Whole
from pymc_sgmcmc._utils.inference_data import posterior_of, sampler_stat
from pymc_sgmcmc._utils.warn_user import warn_user

__all__ = ["weighted_mean", "weighted_quantile"]


@takes(
    idata=DRAWS_OF,
    function=Optional(Function("the posterior")),
    var_names=NAMES,
    sampler=Optional(Whole(0)),
)
def weighted_mean(
    idata: Any,
    function: Callable[[xr.Dataset], xr.Dataset] | None = None,
    *,
    var_names: Sequence[str] | None = None,
    sampler: int | None = None,
) -> xr.Dataset:
    r"""Compute the mean over all draws, weighted by their step sizes: sum h f(q) / sum h.

    With decreasing step sizes the plain mean gives too much weight to the many late draws, which
    are close to each other (Welling and Teh, 2011, eq. 9). With h falling as l^(-1 / (K + 1)) and
    an integrator of order K (1 for Euler, 2 for a splitting), the bias after L inner steps falls as
    L^(-K / (K + 1)) (Chen, Ding and Carin, 2015, theorem 5). With a constant step size the result
    is the plain mean. Draws of an exploration stage have no weight.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        The result of `pm.sample`.
    function : callable, optional
        Function f of the posterior, an xarray.Dataset, elementwise over (chain, draw). By default
        the variables themselves.
    var_names : sequence of str, optional
        Names of variables, by default all.
    sampler : int, optional
        Number of the step method whose step sizes are the weights, counted from 0 in the order of
        `pm.sample`. Needed if several step methods have a step size (NUTS has one).

    Returns
    -------
    xarray.Dataset
        The means, without the dimensions chain and draw.

    Raises
    ------
    ValueError
        If there is no such step size.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from pymc_sgmcmc import SGLD, Polynomial, weighted_mean
    >>> with pm.Model():
    ...     y = pm.Normal("y", pm.Normal("mu"), observed=np.arange(10.0))
    ...     step = SGLD(step_size=Polynomial(a=0.1, gamma=0.3))
    ...     idata = pm.sample(step=step, progressbar=False, random_seed=1)
    >>> weighted_mean(idata, lambda posterior: posterior > 4)["mu"].round(1).item()
    0.6
    """
    posterior, weights = _weighted(idata, var_names, sampler)
    values = posterior if function is None else function(posterior)
    return values.weighted(weights).mean(("chain", "draw"))


@takes(idata=DRAWS_OF, q=PROBABILITIES, var_names=NAMES, sampler=Optional(Whole(0)))
def weighted_quantile(
    idata: Any,
    q: float | Sequence[float],
    *,
    var_names: Sequence[str] | None = None,
    sampler: int | None = None,
) -> xr.Dataset:
    """Compute quantiles of the draws, weighted as by `weighted_mean`.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        The result of `pm.sample`.
    q : float or sequence of float
        Probabilities, from 0 to 1.
    var_names : sequence of str, optional
        Names of variables, by default all.
    sampler : int, optional
        Number of the step method whose step sizes are the weights, as for `weighted_mean`.

    Returns
    -------
    xarray.Dataset
        The quantiles, without the dimensions chain and draw, but with a dimension ``quantile`` if
        `q` is a sequence.

    Raises
    ------
    ValueError
        If `q` is out of range, or there is no such step size.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from pymc_sgmcmc import SGLD, Polynomial, weighted_quantile
    >>> with pm.Model():
    ...     y = pm.Normal("y", pm.Normal("mu"), observed=np.arange(10.0))
    ...     step = SGLD(step_size=Polynomial(a=0.1, gamma=0.3))
    ...     idata = pm.sample(step=step, progressbar=False, random_seed=1)
    >>> weighted_quantile(idata, [0.05, 0.5, 0.95])["mu"].round(1).values
    array([3.6, 4.1, 4.6])
    """
    if np.any((np.asarray(q) < 0) | (np.asarray(q) > 1)):
        raise ValueError(f"q={q!r} must be from 0 to 1: these are probabilities.")
    posterior, weights = _weighted(idata, var_names, sampler)
    return posterior.weighted(weights).quantile(q, dim=("chain", "draw"))


def _weighted(
    idata: Any, var_names: Sequence[str] | None, sampler: int | None
) -> tuple[xr.Dataset, xr.DataArray]:
    """Return the draws and their weights, (chain, draw): step sizes, 0 in an exploration stage."""
    posterior, found = posterior_of(idata, var_names), sampler_stat(idata, "step_size")
    _warn_of_missing(posterior)
    samplers = 0 if found is None else found.shape[2]
    if sampler is None and samplers == 1:
        sampler = 0
    if found is None or sampler is None or not 0 <= sampler < samplers:
        raise ValueError(
            f"sampler={sampler!r}: the sample stat step_size is that of {samplers} step methods. "
            "Say which one's are the weights, counted from 0 in the order of pm.sample."
        )
    weights = xr.DataArray(found[..., sampler], dims=("chain", "draw"))
    sampling = sampler_stat(idata, "sampling")
    if sampling is not None:  # draws of an exploration stage are not from the posterior
        weights = weights * sampling.reshape(weights.shape)
    if not (np.isfinite(weights).all() and (weights > 0).any() and (weights >= 0).all()):
        raise ValueError("The sample stat step_size is negative or not finite: it is no weight.")
    return posterior, weights


def _warn_of_missing(posterior: xr.Dataset) -> None:
    """Warn about draws that are NaN, which xarray leaves out."""
    for name, values in posterior.data_vars.items():
        if values.dtype.kind != "f":
            continue
        bad = np.isnan(values.values).reshape(*values.shape[:2], -1).any(axis=2)
        if bad.any():
            warn_user(
                f"{name} is NaN in {bad.sum()} of {bad.size} draws: these are left out, and the "
                "result is that of the others.",
            )
