"""Check of draws without knowing the posterior: mixing, Monte Carlo errors, sds and means."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from pymc import Model

from pymc_sgmcmc._utils.alarm import Alarm
from pymc_sgmcmc._utils.argument_rows import DRAWS_OF, FLAG, MODEL
from pymc_sgmcmc._utils.arguments import takes
from pymc_sgmcmc._utils.context import model_of
from pymc_sgmcmc._utils.text import aligned
from pymc_sgmcmc.model.sampled_data import refuse_other_data
from pymc_sgmcmc.model.unconstrain import FlatDraws, Unconstrain
from pymc_sgmcmc.results.exact_gradients import ExactGradients
from pymc_sgmcmc.results.gradient_check import check_gradients
from pymc_sgmcmc.results.gradient_regression import MEAN_TOLERANCE, VARIANCE_TOLERANCE
from pymc_sgmcmc.results.mixing import ESS, R_HAT, check_mixing
from pymc_sgmcmc.results.monte_carlo import MonteCarlo, monte_carlo_of
from pymc_sgmcmc.results.monte_carlo_check import check_monte_carlo, monte_carlo_table
from pymc_sgmcmc.results.section import Section, wrapped
from pymc_sgmcmc.results.width_check import check_width

__all__ = ["Check", "Checker", "check"]

ROWS = 10
"""Number of coordinates in the table of a report."""

_BLIND = (
    "What no check sees: a wrong total_size in a model that hides it, and a mode that no chain "
    "visited. Errors of the model itself (likelihood, prior, data): the same gradients judge it."
)
_UNMIXED = "What follows is not conclusive: it assumes that the chains have mixed."
_SCALE = (
    "Names that end in __ are on the unconstrained scale on which PyMC samples: x_log__ is log x."
)
_COLUMNS = ("coordinate", "R-hat", "ESS", "ESS of square", "sd ratio", "mean error (sds)")


@dataclass(frozen=True, eq=False)
class Check:
    """Report of `check`, to be printed.

    A frozen dataclass that only `check` makes.

    Attributes
    ----------
    dataset : xarray.Dataset
        One value for each coordinate, dimension ``coordinate``: ``mean`` and ``sd`` of the draws;
        ``r_hat``, ``ess`` and ``ess_of_square``; ``sd_ratio``, the reported sd divided by the sd
        that exact gradients imply; ``mean_error``, reported minus implied mean in posterior sds;
        the standard errors ``sd_ratio_error`` and ``mean_error_error``; ``width``, the variance
        ratio that chains of this package recorded, and ``width_error``. Values that were not
        computed are NaN. The attributes of the dataset hold detection limits.
    monte_carlo : xarray.Dataset
        One value for each entry of the model's continuous variables, dimension ``parameter``, on
        their own scale: ``mean``, ``sd``, and the 5 and 95 % quantiles ``q5`` and ``q95`` of the
        draws, with their Monte Carlo standard errors ``mean_error`` and so on; ``sd_bound``, half
        the relative width of a 95 % interval of the sd.
    findings : tuple of Section
        The sections of the report.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from pymc_sgmcmc import SGHMC, check
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", pm.Normal("mu"), observed=np.arange(10.0))
    ...     idata = pm.sample(step=SGHMC(), progressbar=False, random_seed=1)
    >>> found = check(idata, model)
    >>> found.conclusive
    True
    >>> found.dataset["sd_ratio"].round(1).values
    array([1.])
    """

    dataset: xr.Dataset
    findings: tuple[Section, ...]
    figures: MonteCarlo

    @property
    def monte_carlo(self) -> xr.Dataset:
        """Means, sds and quantiles with their Monte Carlo errors."""
        return self.figures.dataset()

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """Alarms of all findings; empty if nothing wrong was found."""
        return tuple(alarm for finding in self.findings for alarm in finding.alarms)

    @property
    def conclusive(self) -> bool:
        """Whether the chains have mixed. If not, the other findings prove nothing."""
        return not any(alarm.kind == "mixing" for alarm in self.alarms)

    def __str__(self) -> str:
        attributes, names = self.dataset.attrs, self.dataset.coordinate.values
        lines = [
            f"Check of {attributes['chains']} x {attributes['draws']} draws (chains x draws) of "
            f"{len(names)} coordinate{'s' * (len(names) > 1)}",
            "",
        ]
        title_width = max(len(finding.title) for finding in self.findings)
        for number, finding in enumerate(self.findings):
            if number == 1 and not self.conclusive:
                lines += ["", *wrapped(_UNMIXED), ""]
            lines += finding.lines(title_width, conclusive=self.conclusive or number == 0)
        lines += ["", *self._table(), "", *monte_carlo_table(self.figures, ROWS), ""]
        if any(str(name).split("[")[0].endswith("__") for name in names):
            lines += [*wrapped(_SCALE), ""]
        return "\n".join([*lines, *wrapped(_BLIND)])

    def _table(self) -> list[str]:
        data, names = self.dataset, self.dataset.coordinate.values
        # The ratio of each figure to its limit, above which there is an alarm.
        ways = [
            (data.r_hat - 1) / (R_HAT - 1),
            ESS / data.ess,
            ESS / data.ess_of_square,
            np.abs(data.sd_ratio**2 - 1) / VARIANCE_TOLERANCE,
            np.abs(data.mean_error) / MEAN_TOLERANCE,
        ]
        worst = np.argsort(-np.max([np.nan_to_num(way, nan=0.0) for way in ways], axis=0))[:ROWS]
        rows = [_COLUMNS]
        for i in np.sort(worst) if len(names) <= ROWS else worst:
            at = {name: float(values[i]) for name, values in data.data_vars.items()}
            rows.append((
                str(names[i]),
                _number(at["r_hat"], ".3f"),
                _number(at["ess"], ".0f"),
                _number(at["ess_of_square"], ".0f"),
                _with_error(at["sd_ratio"], at["sd_ratio_error"], ".3f"),
                _with_error(at["mean_error"], at["mean_error_error"], "+.3f"),
            ))  # fmt: skip
        lines = aligned(rows, left=1)
        if len(names) > ROWS:
            lines.append(f"The {ROWS} closest to an alarm, of {len(names)}; .dataset has all.")
        return lines


class Checker:
    """Reusable `check` of one model, for many sets of draws.

    Parameters
    ----------
    model : pymc.Model
    """

    def __init__(self, model: Model):
        self._model, self._unconstrain = model, Unconstrain(model)
        self._exact = ExactGradients(model)

    def __call__(self, idata: Any, *, progressbar: bool = True) -> Check:
        refuse_other_data(idata, self._model)
        draws = self._unconstrain(idata)
        figures = monte_carlo_of(idata, self._model)
        # Mixing comes first: the others assume it.
        findings = [check_mixing(draws), check_monte_carlo(figures)]
        # Errors of the draws below their Monte Carlo errors cannot be detected.
        blur = findings[1].numbers
        findings.append(check_width(idata, draws.names, draws.places, blur))
        findings += check_gradients(self._exact, draws, blur, progressbar=progressbar)
        return Check(_dataset(draws, findings), tuple(findings), figures)


@takes(idata=DRAWS_OF, model=MODEL, progressbar=FLAG)
def check(idata: Any, model: Model | None = None, *, progressbar: bool = True) -> Check:
    """Look for signs that draws are not those of the model's posterior.

    The check first tests whether the chains have mixed, and computes the Monte Carlo errors of
    means and sds. The check then computes the gradient of the log-posterior, on all rows, at 40 to
    400 of the draws, and derives the sds and means that the draws should have. The draws may come
    from any sampler, or from a variational approximation.

    Each part that passes states the size of the errors that it would miss. The check cannot detect
    a wrong ``total_size`` in a model that hides it, a mode that no chain visited, or an error of
    the model itself, because it uses the model's own gradients.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        The result of `pm.sample` or ``approx.sample``, with all free variables of the model.
    model : pymc.Model, optional
        The model, by default that of the ``with`` block.
    progressbar : bool
        Whether to show a progress bar if the gradients take more than two seconds.

    Returns
    -------
    Check
        The report, to be printed. Its ``alarms`` are empty if nothing wrong was found.

    Raises
    ------
    ValueError
        If a free variable is missing in the posterior, or the model has no gradient; the message
        names the variable and the remedy.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from pymc_sgmcmc import SGNHT, check
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", pm.Normal("mu"), observed=np.arange(10.0))
    ...     idata = pm.sample(step=SGNHT(), progressbar=False, random_seed=1)
    >>> found = check(idata, model)
    >>> found.alarms
    ()
    """
    return Checker(model_of(model))(idata, progressbar=progressbar)


def _dataset(draws: FlatDraws, findings: list[Section]) -> xr.Dataset:
    with np.errstate(invalid="ignore", over="ignore"):
        figures = {"mean": draws.flat().mean(axis=0), "sd": draws.flat().std(axis=0)}
    attributes = {"chains": draws.values.shape[0], "draws": draws.values.shape[1]}
    for finding in findings:
        figures |= finding.figures
        attributes |= finding.numbers
    return xr.Dataset(
        {name: ("coordinate", values) for name, values in figures.items()},
        coords={"coordinate": list(draws.names)},
        attrs=attributes,
    )


def _number(value: float, form: str) -> str:
    return "-" if np.isnan(value) else format(value, form)


def _with_error(value: float, error: float, form: str) -> str:
    shown = _number(value, form)
    return shown if np.isnan(error) or np.isnan(value) else f"{shown} ± {error:.3f}"
