"""What a self-tuned step method has found, for a person to read."""

from typing import Any

import numpy as np

from pymc_sgmcmc._utils.argument_rows import STATS_OF
from pymc_sgmcmc._utils.arguments import takes
from pymc_sgmcmc._utils.text import aligned
from pymc_sgmcmc.chain.state import TUNED_STATS

__all__ = ["report"]


@takes(idata=STATS_OF)
def report(idata: Any) -> str:
    """A short table of what each chain was tuned to, one row a chain.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        What `pm.sample` returned, from a step method with something left to tune.

    Returns
    -------
    str
        Step size h (of the metric's coordinates), rows in a minibatch (0: exact gradients), the
        gradient, the part of the injected noise that gradient noise makes up at most, the condition
        number of the metric with its scales taken out, g' G g at the centre that was located
        (about d or less), the predicted relative error of a posterior variance, and the gradients
        of single rows (of U, where they are exact) that tuning took. All are of the last draw; a
        dash is what is not known.

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
    rows = [header]
    last = stats.isel(draw=-1)
    columns = {name: last[name].values for name in ("step_size", *TUNED_STATS)}
    columns = {name: values.reshape(len(values), -1) for name, values in columns.items()}
    samplers = columns["batch_size"].shape[1]
    if columns["step_size"].shape[1] != samplers:  # those of other step methods are among them
        columns["step_size"] = np.full_like(columns["batch_size"], np.nan, dtype=float)
    for sampler in range(samplers):
        for k, chain in enumerate(last.chain.values):
            rows.append(_row(int(chain), {n: v[k, sampler] for n, v in columns.items()}))
    return "\n".join(aligned(rows))


def _row(chain: int, stats: dict[str, Any]) -> tuple[str, ...]:
    kinds = {"exact": stats["batch_size"] == 0, "SVRG": stats["svrg"],
             "control variate": stats["control_variate"], "plain": True}  # fmt: skip
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
