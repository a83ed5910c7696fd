"""Monte Carlo errors of the means, sds and quantiles of the draws.

The errors are on the scale of the model's own variables, which users report. A variable with a long
tail there may be harmless on the unconstrained scale, on which the sampler moves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from pymc import Model

from pymc_sgmcmc._utils.flat import entry_name
from pymc_sgmcmc._utils.inference_data import posterior_of, spread
from pymc_sgmcmc.chain.promises import TIMES

__all__ = ["MonteCarlo", "monte_carlo", "monte_carlo_of"]

QUANTILES = (0.05, 0.95)

SEEN = 1000
"""Least effective number of squares for which the tail counts as seen: ten of them are then beyond
the 99 % quantile."""

MOST = 1000
"""Largest number of entries of variables to examine. More entries are represented by so many,
spread evenly."""

FEWEST_DRAWS = 4
"""Least number of draws in a chain that ArviZ accepts."""


@dataclass(frozen=True, eq=False)
class MonteCarlo:
    """Figures of the entries of the continuous free variables, each of shape (k,).

    The figures of an entry that is constant or not finite are NaN.

    Attributes
    ----------
    names : tuple of str
        Names of the entries, such as ``beta[3]``.
    mean, sd, q5, q95 : array
        Mean, sd, and 5 and 95 % quantiles of the draws of all chains.
    mean_error, sd_error, q5_error, q95_error : array
        Their Monte Carlo standard errors.
    sd_bound : array
        Upper half-width of a 95 % interval of the sd, relative to the sd. If the chains have hardly
        seen the tail, the sd is less certain than ``sd_error`` says: see `sd_bounds`.
    draws : int
        Number of draws in a chain.
    """

    names: tuple[str, ...]
    mean: np.ndarray
    sd: np.ndarray
    q5: np.ndarray
    q95: np.ndarray
    mean_error: np.ndarray
    sd_error: np.ndarray
    q5_error: np.ndarray
    q95_error: np.ndarray
    sd_bound: np.ndarray
    draws: int

    @property
    def mean_bound(self) -> np.ndarray:
        """Half-width of a 95 % interval of the mean, in posterior sds, (k,)."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return TIMES * self.mean_error / self.sd

    def dataset(self) -> xr.Dataset:
        """Return the figures by name, with the dimension ``parameter``."""
        names = ("mean", "sd", "q5", "q95")
        columns = [column for name in names for column in (name, f"{name}_error")]
        return xr.Dataset(
            {name: ("parameter", getattr(self, name)) for name in [*columns, "sd_bound"]},
            coords={"parameter": list(self.names)},
        )


def monte_carlo_of(idata: Any, model: Model) -> MonteCarlo:
    """Compute the figures of the continuous free variables of `model` in the draws of `idata`."""
    posterior, columns, names = posterior_of(idata), [], []
    for rv in model.free_RVs:
        if rv.name in posterior and np.dtype(rv.dtype).kind == "f":
            values = posterior[rv.name].values
            shape = values.shape[2:]
            columns.append(values.reshape(*values.shape[:2], -1))
            names += [entry_name(rv.name, shape, i) for i in range(int(np.prod(shape)))]
    if not columns:
        return monte_carlo(np.zeros((1, 0, 0)), ())
    kept = np.arange(len(names)) if len(names) <= MOST else spread(len(names), MOST)
    values = np.concatenate(columns, axis=2)[:, :, kept].astype(np.float64)
    return monte_carlo(values, [names[i] for i in kept])


def monte_carlo(values: np.ndarray, names: Sequence[str]) -> MonteCarlo:
    """Compute the figures of draws `values`, (chains, draws, k)."""
    import arviz as az  # imported here because importing it takes seconds

    _, draws, k = values.shape
    figures = {name: np.full(k, np.nan) for name in MonteCarlo.__dataclass_fields__}
    with np.errstate(invalid="ignore", over="ignore"):
        lowest, highest = values.min(axis=1, initial=np.inf), values.max(axis=1, initial=-np.inf)
    moves = np.isfinite(lowest) & np.isfinite(highest) & (lowest < highest)
    usable = np.flatnonzero(moves.all(axis=0))
    if len(usable) and draws >= FEWEST_DRAWS:
        part = values[:, :, usable]
        mean, sd = part.mean(axis=(0, 1)), part.std(axis=(0, 1))
        z = (part - mean) / sd  # ArviZ treats a range below 1e-15 as constant
        square = z**2
        ess, ess_of_square = (_by_arviz(az.ess, x, method="mean") for x in (z, square))
        found = {"mean": mean, "sd": sd, "mean_error": sd / np.sqrt(ess)}
        relative, found["sd_bound"] = sd_bounds(square, ess, ess_of_square)
        found["sd_error"] = sd * relative
        for name, q in zip(("q5", "q95"), QUANTILES, strict=True):
            found[name] = np.quantile(part, q, axis=(0, 1))
            found[f"{name}_error"] = sd * _by_arviz(az.mcse, z, method="quantile", prob=q)
        for name, numbers in found.items():
            figures[name][usable] = numbers
    fields: dict[str, Any] = figures | {"names": tuple(names), "draws": draws}
    return MonteCarlo(**fields)


def sd_bounds(
    square: np.ndarray, ess: np.ndarray, ess_of_square: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Compute the Monte Carlo errors of sds and their 95 % bounds, both relative to the sds, (k,).

    The variance is the mean of the squares of the centred draws. For any law, its error follows
    from the variance of the squares (the kurtosis of the draws) and their effective number. If
    fewer than `SEEN` squares are effective, two corrections account for a long tail that the chains
    have hardly seen:

    - The squares are skewed to the right, so most samples have too small a mean of squares,
      together with too small a variance. The upper end of the interval is that of Johnson's (1978)
      modified t, with the skewness of the squares and their effective number.
    - The unseen tail is assumed to mix as slowly as the tail that was seen. For a process that is
      equally fast everywhere, the squares have the larger effective number (for an autoregression,
      because rho^2 < rho). If they have the smaller one, chains are slower farther out, and the
      error is multiplied by the ratio of the two numbers.

    Parameters
    ----------
    square : array, shape (chains, draws, k)
        Squares of the standardised draws.
    ess, ess_of_square : array, shape (k,)
        Effective number of draws for the means of the draws and of `square`.

    References
    ----------
    - Johnson, N. J. (1978). Modified t tests and confidence intervals for asymmetrical populations.
      Journal of the American Statistical Association.
    """
    centred = square - square.mean(axis=(0, 1))
    variance = np.mean(centred**2, axis=(0, 1))
    with np.errstate(invalid="ignore", divide="ignore"):
        skewness = np.mean(centred**3, axis=(0, 1)) / variance**1.5
        error = np.sqrt(variance / ess_of_square) / 2
        lopsided = skewness / np.sqrt(ess_of_square) * (1 + 2 * TIMES**2) / 6
        slower = np.maximum(1.0, ess / ess_of_square)
        unseen = slower * (TIMES + np.maximum(lopsided, 0.0))
    return error, error * np.where(ess_of_square < SEEN, unseen, TIMES)


def _by_arviz(function: Any, values: np.ndarray, **settings: Any) -> np.ndarray:
    data = xr.Dataset({"q": (("chain", "draw", "parameter"), values)})
    return function(data, **settings)["q"].values
