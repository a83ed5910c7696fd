"""Readable report on the result of tuning."""

from typing import Any

import numpy as np

from pymc_sgmcmc._utils.argument_rows import STATS_OF
from pymc_sgmcmc._utils.arguments import takes
from pymc_sgmcmc._utils.text import aligned
from pymc_sgmcmc.chain.stats import TUNED_STATS

__all__ = ["report"]


@takes(idata=STATS_OF)
def report(idata: Any) -> str:
    """Return a short table of the tuned settings, with one row per chain.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        The result of `pm.sample` with a step method that tuned some of its settings.

    Returns
    -------
    str
        A table with these columns: step size h (in the metric's coordinates); number of rows in a
        minibatch (0 for exact gradients); kind of gradient; largest ratio of gradient noise to
        injected noise; condition number of the metric without its scales; decrement g' G g at the
        located centre (about d or less); predicted relative error of a posterior variance; number
        of gradients of single rows that tuning took (of U, if gradients are exact). All values are
        those of the last draw. A dash marks an unknown value.

    Raises
    ------
    ValueError
        If no step method was tuned.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from pymc_sgmcmc import SGNHT, report
    >>> with pm.Model():
    ...     y = pm.Normal("y", pm.Normal("mu"), observed=np.arange(10.0))
    ...     idata = pm.sample(step=SGNHT(), chains=2, progressbar=False, random_seed=1)
    >>> print(report(idata))
    chain    h  batch  gradient  noise  condition  decrement   bias   tuning
        0  0.3      0     exact  0.0 %          1  ...
        1  0.3      0     exact  0.0 %          1  ...
    """
    stats = getattr(idata, "sample_stats", None)
    if stats is None:
        raise ValueError(
            f"A {type(idata).__name__} without sample_stats has nothing to report: pass what "
            "pm.sample returned, from a step method of this package."
        )
    missing = [name for name in TUNED_STATS if name not in stats]
    if missing:
        raise ValueError(
            "There is nothing to report: no step method of this run was tuned by itself "
            f"(sample stats {missing} are missing). Leave out step_size=."
        )
    if 0 in (stats.sizes.get("chain", 0), stats.sizes.get("draw", 0)):
        raise ValueError("There is nothing to report: the sample stats have no draws.")
    header = ("chain", "h", "batch", "gradient", "noise", "condition", "decrement", "bias",
              "tuning")  # fmt: skip
    rows: list[tuple[str, ...]] = [header]
    last = stats.isel(draw=-1)
    columns = {name: last[name].values for name in ("step_size", *TUNED_STATS)}
    columns = {name: values.reshape(len(values), -1) for name, values in columns.items()}
    samplers = columns["batch_size"].shape[1]
    if columns["step_size"].shape[1] != samplers:  # other step methods have step sizes, too
        columns["step_size"] = np.full_like(columns["batch_size"], np.nan, dtype=float)
    for sampler in range(samplers):
        for k, chain in enumerate(last.chain.values):
            rows.append(_row(int(chain), {n: v[k, sampler] for n, v in columns.items()}))
    return "\n".join(aligned(rows))


def _row(chain: int, stats: dict[str, Any]) -> tuple[str, ...]:
    kinds = {"exact": stats["batch_size"] == 0, "SVRG": stats["svrg"],
             "second order": stats["second_order"], "control variate": stats["control_variate"],
             "plain": True}  # fmt: skip
    gradient = next(kind for kind, holds in kinds.items() if holds)
    return (
        str(chain),
        _number(stats["step_size"], ".3g"),
        _number(stats["batch_size"], ".0f"),
        gradient,
        _number(100 * stats["noise_fraction"], ".1f", " %"),
        _number(stats["metric_condition"], ".3g"),
        _number(stats["decrement"], ".2g"),
        _number(100 * stats["predicted_bias"], ".1f", " %"),
        _number(stats["tuning_gradients"], ".2g"),
    )


def _number(value: float, form: str, unit: str = "") -> str:
    return f"{value:{form}}{unit}" if np.isfinite(value) else "-"
