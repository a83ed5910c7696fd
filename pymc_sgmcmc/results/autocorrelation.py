"""Integrated autocorrelation time of draws."""

from collections.abc import Sequence
from typing import Any

import xarray as xr

from pymc_sgmcmc._utils.argument_rows import DRAWS_OF, NAMES
from pymc_sgmcmc._utils.arguments import takes
from pymc_sgmcmc._utils.constraints import Instance
from pymc_sgmcmc._utils.inference_data import posterior_of

__all__ = ["autocorrelation_time"]


@takes(idata=DRAWS_OF, var_names=NAMES, method=Instance(str, "a method of arviz.ess"))
def autocorrelation_time(
    idata: Any, var_names: str | Sequence[str] | None = None, *, method: str = "mean"
) -> xr.Dataset:
    r"""Compute the integrated autocorrelation time of each entry of each variable, in draws.

    The time is 1 + 2 (rho_1 + rho_2 + ...), where rho_k is the correlation of draws k apart. The
    mean of that many draws has the variance of one independent draw. The time is computed from all
    chains, as the number of draws divided by their effective number by ArviZ, so chains that
    disagree make it longer. In inner steps the time is ``steps_per_draw`` times as long.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        The result of `pm.sample`.
    var_names : str or sequence of str, optional
        Names of variables, by default all.
    method : str
        Method of `arviz.ess`, which defines the quantity: "mean" for the values themselves, "sd"
        for their spread, "bulk" for their ranks, "tail", and others.

    Returns
    -------
    xarray.Dataset
        Times in the shape of one draw, as `arviz.ess` returns it. A time is below 1 if draws
        alternate, and NaN with fewer than four draws in a chain.

    Raises
    ------
    ValueError
        If there is no such variable.

    Examples
    --------
    >>> import numpy as np, xarray as xr
    >>> from types import SimpleNamespace
    >>> rng = np.random.default_rng(1)
    >>> draws = xr.Dataset({"x": (("chain", "draw"), rng.normal(size=(4, 1000)).repeat(3, axis=1))})
    >>> time = autocorrelation_time(SimpleNamespace(posterior=draws))
    >>> round(float(time.x))
    3
    """
    import arviz as az  # imported here because importing it takes seconds

    posterior = posterior_of(idata, var_names)
    draws = posterior.sizes["chain"] * posterior.sizes["draw"]
    effective = az.ess(posterior, method=method)
    return xr.Dataset({name: draws / effective[name] for name in posterior.data_vars})
