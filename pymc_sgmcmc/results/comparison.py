"""Comparison of samplers: errors against a reference, effective draws, and cost."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from pymc_sgmcmc._utils.argument_rows import NAMES, ONE_OR_NAMED, SEVERAL
from pymc_sgmcmc._utils.arguments import takes
from pymc_sgmcmc._utils.constraints import Optional, Whole
from pymc_sgmcmc._utils.flat import entry_name
from pymc_sgmcmc._utils.inference_data import sampler_stat
from pymc_sgmcmc._utils.validation import natural
from pymc_sgmcmc.results.common_variables import all_named, common_variables
from pymc_sgmcmc.results.mixing import MOST

__all__ = ["compare"]


@takes(reference=ONE_OR_NAMED, others=SEVERAL, var_names=NAMES, rows=Optional(Whole()))
def compare(
    reference: Any,
    *others: Any,
    var_names: str | Sequence[str] | None = None,
    rows: int | None = None,
) -> pd.DataFrame:
    r"""Compare samplers in a table: the errors of their draws against a reference, and the cost.

    The samplers must be of one model. (`arviz.compare` compares models by their predictions.) The
    reference counts as right: a long run of NUTS, for instance, or exact draws. Its Monte Carlo
    error is included in the error of each difference.

    Parameters
    ----------
    reference, *others : arviz.InferenceData, xarray.DataTree, or dict of str to these
        Results of `pm.sample` for the same model. The keys of a dict are the names of the rows.
        Other data are named "reference", "1", "2", and so on.
    var_names : str or sequence of str, optional
        Names of variables, by default those that all data have. Entries that are constant in the
        reference are left out.
    rows : int, optional
        Number of rows of the data, from which a gradient of NUTS, or of ``batch_size=None``, is
        computed.

    Returns
    -------
    pandas.DataFrame
        A row for each sampler, the reference first, with the columns

        - ``mean_error``: mean minus the mean of the reference, in sds of the reference, in the
          entry ``mean_error_at`` with the largest error; ``mean_error_mcse``, its Monte Carlo
          standard error; ``mean_error_average``, the average absolute error over the entries;
        - ``sd_error``: sd divided by the sd of the reference, minus 1, in the entry ``sd_error_at``
          where it is farthest from 0; ``sd_error_mcse``; and ``sd_ratio_min`` and
          ``sd_ratio_max``, the range of the ratio;
        - ``ess``: the least effective number of draws (bulk, by ArviZ; of 1000 entries at most,
          spread evenly); ``ess_per_second``, by the time that `pm.sample` took with tuning and
          without compilation;
        - ``gradients_per_ess``: gradients for one effective draw, after tuning, and
          ``rows_per_ess``, the rows that they were computed from.

        Unknown values are NaN. NUTS, HMC and this package count steps; step methods that tune
        themselves count the rows in a batch. The largest of many errors exceeds its own Monte Carlo
        error even if nothing is wrong.

    Raises
    ------
    ValueError
        If there is no variable in common, if shapes or labels differ, or the reference is not
        finite; the message names the variable.

    Examples
    --------
    >>> import numpy as np, xarray as xr
    >>> from types import SimpleNamespace
    >>> def draws(sd, seed):
    ...     x = sd * np.random.default_rng(seed).normal(size=(4, 1000))
    ...     data = xr.Dataset({"x": (("chain", "draw"), x)}, attrs={"sampling_time": 2.0})
    ...     return SimpleNamespace(posterior=data)
    >>> table = compare(draws(1.0, 1), {"right": draws(1.0, 2), "wide": draws(1.1, 3)})
    >>> table.loc["wide", ["sd_error", "sd_error_mcse"]].astype(float).round(2).to_dict()
    {'sd_error': 0.1, 'sd_error_mcse': 0.02}
    """
    named = all_named(reference, others)
    if rows is not None:
        rows = natural("rows", rows)
    posteriors, common = common_variables(named, var_names)
    origin, *_ = posteriors
    entries, draws = _flat(posteriors[origin], common)
    finite = np.isfinite(draws).all(axis=(0, 1))
    if not finite.all():
        bad = entries[int(np.argmin(finite))]
        raise ValueError(f"{origin!r} is not finite in {bad}: it is no reference.")
    mean, sd = draws.mean(axis=(0, 1)), draws.std(axis=(0, 1))
    moving = sd > 0
    if not moving.any():
        raise ValueError(f"{origin!r} is constant in all of {common}: it is no reference.")
    entries, scale = entries[moving], (mean[moving], sd[moving])
    exact, table = _scaled(draws, moving, scale), {}
    for name, idata in named.items():
        posterior = posteriors[name]
        own = exact if name == origin else _scaled(_flat(posterior, common)[1], moving, scale)
        errors = {} if name == origin else _errors(own, exact, entries)
        table[name] = errors | _cost(idata, own, posterior.attrs.get("sampling_time"), rows)
    return pd.DataFrame([table[name] for name in named], index=list(named), columns=COLUMNS)


COLUMNS = [
    "mean_error", "mean_error_mcse", "mean_error_at", "mean_error_average",
    "sd_error", "sd_error_mcse", "sd_error_at", "sd_ratio_min", "sd_ratio_max",
    "ess", "ess_per_second", "gradients_per_ess", "rows_per_ess",
]  # fmt: skip


def _flat(posterior: xr.Dataset, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the names of all entries (k,), and their draws, (chain, draw, k)."""
    arrays = [posterior[name].values for name in names]
    shapes = [array.shape[2:] for array in arrays]
    entries = [
        entry_name(name, shape, index)
        for name, shape in zip(names, shapes, strict=True)
        for index in range(int(np.prod(shape)))
    ]
    flat = [array.reshape(*array.shape[:2], -1).astype(np.float64) for array in arrays]
    return np.array(entries), np.concatenate(flat, axis=2)


def _scaled(
    draws: np.ndarray, moving: np.ndarray, scale: tuple[np.ndarray, np.ndarray]
) -> np.ndarray:
    """Return draws as differences from the mean of the reference, in its sds."""
    mean, sd = scale
    return (draws[..., moving] - mean) / sd


def _errors(own: np.ndarray, exact: np.ndarray, entries: np.ndarray) -> dict[str, Any]:
    means, ratios = own.mean(axis=(0, 1)), own.std(axis=(0, 1))
    # argmax takes a NaN for the largest value, so NaN is reported.
    i, j = int(np.argmax(np.abs(means))), int(np.argmax(np.abs(ratios - 1)))
    return {
        "mean_error": means[i],
        "mean_error_mcse": np.hypot(_mean_mcse(own[..., i]), _mean_mcse(exact[..., i])),
        "mean_error_at": entries[i],
        "mean_error_average": np.abs(means).mean(),
        "sd_error": ratios[j] - 1,
        "sd_error_mcse": np.hypot(_sd_mcse(own[..., j]), ratios[j] * _sd_mcse(exact[..., j])),
        "sd_error_at": entries[j],
        "sd_ratio_min": ratios.min(),
        "sd_ratio_max": ratios.max(),
    }


def _mean_mcse(draws: np.ndarray) -> float:
    """Return the Monte Carlo error of the mean of one entry, (chain, draw)."""
    import arviz as az  # imported here because importing it takes seconds

    return float(az.mcse(_dataset(draws[..., None]), method="mean")["q"].values[0])


def _sd_mcse(draws: np.ndarray) -> float:
    """Return the Monte Carlo error of the sd of one entry, (chain, draw).

    The error is derived from that of the variance, because ArviZ's fails with NumPy 2.4.
    """
    sd = draws.std()
    return _mean_mcse(np.square(draws - draws.mean())) / (2 * sd) if sd != 0 else 0.0


def _cost(idata: Any, draws: np.ndarray, seconds: float | None, rows: int | None) -> Any:
    import arviz as az

    k = draws.shape[2]
    part = draws[..., np.linspace(0, k - 1, min(k, MOST)).astype(int)]
    # For a constant entry ArviZ reports that all draws are independent.
    stuck = np.ptp(part, axis=(0, 1)) == 0
    ess = float(np.where(stuck, 0.0, az.ess(_dataset(part))["q"].values).min())
    gradients, examined = _gradients(idata, rows)
    with np.errstate(divide="ignore"):
        return {
            "ess": ess,
            "ess_per_second": ess / seconds if seconds else np.nan,
            "gradients_per_ess": np.float64(gradients) / ess,
            "rows_per_ess": np.float64(examined) / ess,
        }


def _gradients(idata: Any, rows: int | None) -> tuple[float, float]:
    """Return the number of gradients of all draws, and of the rows in them; NaN if unknown."""
    steps = sampler_stat(idata, "n_steps")
    if steps is None:
        return np.nan, np.nan
    batches = sampler_stat(idata, "batch_size")
    if batches is None:
        # A step method of this package without tuning does not report its batch size.
        all_rows = sampler_stat(idata, "minibatch_logp") is None
        batches = np.zeros(steps.shape) if all_rows else np.full(steps.shape, np.nan)
    if batches.shape != steps.shape:  # Some step methods report no batch size.
        return float(steps.sum()), np.nan
    exact = np.nan if rows is None else rows
    return float(steps.sum()), float(np.sum(steps * np.where(batches == 0, exact, batches)))


def _dataset(values: np.ndarray) -> xr.Dataset:
    return xr.Dataset({"q": (("chain", "draw", "entry"), values)})
