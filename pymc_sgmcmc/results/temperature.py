"""Kinetic temperature of chains with a momentum."""

from typing import Any

import numpy as np
import xarray as xr

from pymc_sgmcmc._utils.argument_rows import STATS_OF
from pymc_sgmcmc._utils.arguments import takes
from pymc_sgmcmc._utils.inference_data import sampler_stat
from pymc_sgmcmc.results.mixing import FEWEST_DRAWS

__all__ = ["kinetic_temperature"]


@takes(idata=STATS_OF)
def kinetic_temperature(idata: Any) -> xr.Dataset:
    r"""Compute the mean of p.p / d in each chain, with its Monte Carlo error.

    The momentum of a chain that samples the posterior has the temperature 1 (or the argument
    ``temperature``), up to an effect of the step size: with Euler's integrator the temperature is
    1 / (1 - h C / 2) for a step size h and a friction C. A higher temperature means that gradient
    noise heats the chain, that the step size is too long, or that the chain had not settled.

    A thermostat keeps the temperature at 1 even if the draws are wrong, so the temperature proves
    little for such samplers. `check` examines the draws themselves.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        The result of `pm.sample` with a step method that has a momentum.

    Returns
    -------
    xarray.Dataset
        ``mean`` and ``mcse``, the Monte Carlo standard error of the mean, with dimension ``chain``,
        and ``sampler`` if several step methods have a momentum, in the order of `pm.sample`. Draws
        at which a chain diverged are left out. The error is NaN for fewer than four draws.

    Raises
    ------
    ValueError
        If no step method has a momentum, so that the sample stat is missing.

    Examples
    --------
    >>> import numpy as np, xarray as xr
    >>> from types import SimpleNamespace
    >>> values = 1 + 0.1 * np.random.default_rng(1).normal(size=(2, 1000))
    >>> stats = xr.Dataset({"kinetic_temperature": (("chain", "draw"), values)})
    >>> found = kinetic_temperature(SimpleNamespace(sample_stats=stats))
    >>> found["mean"].values.round(2), found["mcse"].values.round(3)
    (array([0.99, 1.  ]), array([0.003, 0.003]))
    """
    values = sampler_stat(idata, "kinetic_temperature")
    if values is None:
        raise ValueError(
            "There is no sample stat kinetic_temperature: no step method of this run has a "
            "momentum. SGHMC, SGNHT, PSGHMC, Santa, SGGMC and gSGNHT have one."
        )
    figures = np.array([[_mean_and_error(path) for path in chain.T] for chain in values])
    chains = idata.sample_stats.coords.get("chain", np.arange(len(values)))
    result = xr.Dataset(
        {
            "mean": (("chain", "sampler"), figures[..., 0]),
            "mcse": (("chain", "sampler"), figures[..., 1]),
        },
        coords={"chain": np.asarray(chains)},
    )
    return result.squeeze("sampler") if values.shape[2] == 1 else result


def _mean_and_error(path: np.ndarray) -> tuple[float, float]:
    """Return the mean of the finite values of one chain, (draw,), and its Monte Carlo error."""
    import arviz as az  # imported here because importing it takes seconds

    finite = path[np.isfinite(path)]
    if len(finite) < FEWEST_DRAWS:
        return (float(finite.mean()) if len(finite) else np.nan), np.nan
    error = az.mcse(xr.Dataset({"t": (("chain", "draw"), finite[None])}), method="mean")["t"]
    return float(finite.mean()), float(error)
