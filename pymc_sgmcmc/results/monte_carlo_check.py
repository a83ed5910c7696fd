"""Section of a report on Monte Carlo errors, and its table."""

import numpy as np

from pymc_sgmcmc._utils.alarm import Alarm
from pymc_sgmcmc._utils.text import aligned, listed
from pymc_sgmcmc.chain.promises import MEAN_PROMISE, SD_PROMISE, TIMES, rounded_up
from pymc_sgmcmc.results.monte_carlo import MonteCarlo
from pymc_sgmcmc.results.section import Section

__all__ = ["check_monte_carlo", "monte_carlo_table"]


def check_monte_carlo(figures: MonteCarlo) -> Section:
    """Return the finding on Monte Carlo errors, with an alarm if the promises may be broken."""
    title, known = "Monte Carlo", np.isfinite(figures.mean_bound + figures.sd_bound)
    if not known.any():
        return Section(title, notes=("There are too few draws, or none of them moves.",))
    mean, sd = figures.mean_bound / MEAN_PROMISE, figures.sd_bound / SD_PROMISE
    worst = np.where(known, np.fmax(mean, sd), 0.0)
    alarms, passed = [], ""
    if (worst > 1).any():
        order = sorted(np.flatnonzero(worst > 1), key=lambda i: -worst[i])
        phrases = [_phrase(figures, int(i)) for i in order]
        needed = rounded_up(figures.draws * _times_longer(figures))
        alarms.append(
            Alarm(
                "error",
                f"There are too few draws for means within {MEAN_PROMISE:g} sd and sds within "
                f"{SD_PROMISE:.0%}, by their Monte Carlo errors at 95 %: {listed(phrases)}. Take "
                f"about {needed:,} draws a chain (now {figures.draws:,}), or more chains; "
                "quantiles may be known better than sds.",
            )
        )
    else:
        i, j = int(np.nanargmax(mean)), int(np.nanargmax(sd))
        passed = (
            f"At 95 %, means are known within {figures.mean_bound[i]:.3f} sd ({figures.names[i]}) "
            f"or better, sds within {100 * figures.sd_bound[j]:.1f} % ({figures.names[j]})."
        )
    numbers = {
        "mean_monte_carlo_sds": float(np.nanmax(figures.mean_bound)),
        "sd_monte_carlo_percent": 100 * float(np.nanmax(figures.sd_bound)),
    }
    return Section(title, tuple(alarms), passed, numbers=numbers)


def monte_carlo_table(figures: MonteCarlo, rows: int) -> list[str]:
    """Return the lines of a table with the `rows` least accurate entries, in the model's order."""
    names = ("mean", "sd", "q5", "q95")
    worst = np.fmax(figures.mean_bound / MEAN_PROMISE, figures.sd_bound / SD_PROMISE)
    chosen = np.argsort(-np.nan_to_num(worst, nan=np.inf), kind="stable")[:rows]
    table = [("variable", "mean", "sd", "5 %", "95 %")]
    for i in np.sort(chosen):
        at = {name: float(values[i]) for name, values in figures.dataset().data_vars.items()}
        cells = [_with_error(at[name], at[f"{name}_error"]) for name in names]
        table.append((figures.names[i], *cells))
    lines = aligned(table, left=1) if len(table) > 1 else []
    if len(figures.names) > rows:
        more = f"The {rows} known worst, of {len(figures.names)}; .monte_carlo has all."
        lines.append(more)
    return lines


def _with_error(value: float, error: float) -> str:
    """Format a value and its error, with as many digits as the error allows."""
    if not (np.isfinite(value) and np.isfinite(error)):
        return "-"
    digits = 3 if error <= 0 else 1 - int(np.floor(np.log10(error)))
    if 0 <= digits <= 8:
        return f"{value:.{digits}f} ± {error:.{digits}f}"
    return f"{value:.4g} ± {error:.2g}"


def _phrase(figures: MonteCarlo, i: int) -> str:
    name, parts = figures.names[i], []
    if figures.mean_bound[i] > MEAN_PROMISE:
        parts.append(f"the mean of {name} is known within {figures.mean_bound[i]:.2f} sd")
    if figures.sd_bound[i] > SD_PROMISE:
        far = figures.sd_bound[i] > 1
        within = "not even within 100 %" if far else f"within {figures.sd_bound[i]:.0%}"
        parts.append(f"the sd of {name} {within}")
    return ", ".join(parts)


def _times_longer(figures: MonteCarlo) -> float:
    """Return the factor by which the number of draws must grow to keep the promises.

    The factor, at least 2, follows from the Monte Carlo errors, which fall as the root of the
    number of draws. The part that `sd_bounds` adds for an unseen tail falls faster and is ignored.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        of_sd = TIMES * figures.sd_error / figures.sd / SD_PROMISE
    return max(2.0, np.nanmax(np.fmax(of_sd, figures.mean_bound / MEAN_PROMISE)) ** 2)
