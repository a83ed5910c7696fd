"""Kernel Stein discrepancy: a test of draws against the posterior's exact gradients."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from pymc import Model

from pymc_sgmcmc._utils.argument_rows import DRAWS_OF, FLAG, MODEL, SEED
from pymc_sgmcmc._utils.arguments import takes
from pymc_sgmcmc._utils.constraints import Whole
from pymc_sgmcmc._utils.context import model_of
from pymc_sgmcmc._utils.inference_data import spread
from pymc_sgmcmc._utils.validation import natural
from pymc_sgmcmc.model.sampled_data import refuse_other_data
from pymc_sgmcmc.model.unconstrain import FlatDraws, Unconstrain
from pymc_sgmcmc.results.exact_gradients import ExactGradients
from pymc_sgmcmc.results.mixing import mixing
from pymc_sgmcmc.results.stein import signs, standardized, stein_sums

__all__ = ["SteinDiscrepancy", "independent", "ksd", "stein_test"]

FEWEST = 100
"""Least number of independent draws for a test."""


@dataclass(frozen=True)
class SteinDiscrepancy:
    """Result of `ksd`, to be printed.

    Attributes
    ----------
    statistic : float
        An unbiased estimate of the squared discrepancy. For independent draws from the posterior
        its mean is 0, and it is as often negative as positive.
    p_value : float
        The probability of a statistic as large for draws from the posterior.
    draws : int
        Number of draws that were compared, each with a gradient.
    of : int
        Number of draws in the data.
    by_covariance : bool
        Whether the draws were standardized by their covariance; if not, by their sds.

    Examples
    --------
    >>> found = SteinDiscrepancy(3.2e-5, 0.41, draws=2000, of=4000, by_covariance=True)
    >>> print(found)
    Squared kernel Stein discrepancy 3.2e-05 (0 for draws from the posterior), p = 0.41:
    the draws may be. From exact gradients at 2000 of 4000 draws, standardized by their covariance.
    """

    statistic: float
    p_value: float
    draws: int
    of: int
    by_covariance: bool

    def __str__(self) -> str:
        how = "covariance" if self.by_covariance else "sds"
        verdict = "are not those of the posterior" if self.p_value <= 0.05 else "may be"
        if not np.isfinite([self.statistic, self.p_value]).all():
            return (
                "Not conclusive: the squared kernel Stein discrepancy is not a number, as kernels "
                f"or gradients overflow at some of {self.draws} draws."
            )
        return (
            f"Squared kernel Stein discrepancy {self.statistic:.3g} (0 for draws from the "
            f"posterior), p = {self.p_value:.2g}:\nthe draws {verdict}. From exact gradients at "
            f"{self.draws} of {self.of} draws, standardized by their {how}."
        )


@takes(
    idata=DRAWS_OF,
    model=MODEL,
    draws=Whole(),
    repetitions=Whole(),
    random_seed=SEED,
    progressbar=FLAG,
)
def ksd(
    idata: Any,
    model: Model | None = None,
    *,
    draws: int = 2000,
    repetitions: int = 1000,
    random_seed: int = 0,
    progressbar: bool = True,
) -> SteinDiscrepancy:
    r"""Test draws against the posterior by the kernel Stein discrepancy.

    The kernel is the inverse multiquadric (1 + \|x - y\|^2)^(-1/2) (Gorham and Mackey, 2017), and
    the gradients are those of the log-posterior on all rows. Draws are taken on the unconstrained
    scale and standardized by their covariance, or by their sds if there are fewer than ten for each
    coordinate, so that the result does not depend on units. The number of compared draws is their
    effective number (the least of all coordinates and their squares); they are spread evenly over
    each chain. The p-value is that of a wild bootstrap (Chwialkowski, Strathmann and Gretton,
    2016), with one sign for each five consecutive compared draws of a chain.

    The discrepancy is one number for all errors of mean, width and shape; `check` tells them apart.
    The power at a level of 5 % was measured with 2000 independent draws from Gaussians. If all sds
    are off by 10 %, all runs are rejected in 5 dimensions, and 96 % in 20 dimensions. If one sd of
    five is off by 10 %, 38 % are rejected, and all if it is off by 20 %. Right draws are rejected
    in 6 %. `check` detects single wrong sds earlier. Neither detects a mode that no chain visited,
    or errors of discrete variables.

    The test takes memory for some millions of numbers. Beside the time of the gradients, it takes
    time that grows with the square of `draws`.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        The result of `pm.sample` with any sampler, with all free variables of the model.
    model : pymc.Model, optional
        The model, by default that of the ``with`` block. `pm.Minibatch` is replaced by all rows.
    draws : int
        Largest number of draws to compare, 100 or more.
    repetitions : int
        Number of bootstrap repetitions. The p-value is at least 1 / (repetitions + 1).
    random_seed : int
        Seed of the bootstrap's signs.
    progressbar : bool
        Whether to show a progress bar if gradients take more than two seconds.

    Returns
    -------
    SteinDiscrepancy
        With ``statistic``, ``p_value`` and ``draws``.

    Raises
    ------
    ValueError
        If the draws are worth fewer than 100 independent ones, a coordinate is constant or not
        finite, or a free variable is missing or on a manifold; the message names it.

    References
    ----------
    - Gorham, J. and Mackey, L. (2017). Measuring sample quality with kernels. ICML.
    - Chwialkowski, K., Strathmann, H. and Gretton, A. (2016). A kernel test of goodness of fit.
      ICML.
    - Liu, Q., Lee, J. D. and Jordan, M. I. (2016). A kernelized Stein discrepancy for
      goodness-of-fit tests. ICML.

    Examples
    --------
    >>> import numpy as np, pymc as pm, xarray as xr
    >>> from types import SimpleNamespace
    >>> with pm.Model() as model:
    ...     x = pm.Normal("x", 0, 1)
    >>> wide = 1.2 * np.random.default_rng(1).normal(size=(4, 500))
    >>> draws = xr.Dataset({"x": (("chain", "draw"), wide)})
    >>> found = ksd(SimpleNamespace(posterior=draws), model)
    >>> found.p_value < 0.01
    True
    """
    if (draws := natural("draws", draws)) < FEWEST:
        raise ValueError(f"draws={draws} must be at least {FEWEST}: fewer prove nothing.")
    repetitions = natural("repetitions", repetitions)
    model = model_of(model)
    refuse_other_data(idata, model)
    every = Unconstrain(model)(idata)
    if every.curved.any():
        name = every.names[int(np.argmax(every.curved))]
        raise ValueError(f"{name} is on a manifold, and the discrepancy is for variables in R^d.")
    chosen = independent(every, draws)
    index = np.concatenate([k * every.values.shape[1] + part for k, part in enumerate(chosen)])
    gradients = ExactGradients(model).gradients(every, index, progressbar=progressbar)
    if not np.isfinite(gradients).all():
        bad = int(np.sum(~np.isfinite(gradients).all(axis=1)))
        raise ValueError(
            f"The gradient of the log-posterior is not finite at {bad} of {len(index)} draws: they "
            "are at the edge of the support, or not of this model."
        )
    rng = np.random.default_rng(random_seed)
    statistic, p_value, by_covariance = stein_test(
        every.flat()[index], -gradients, [len(part) for part in chosen], repetitions, rng
    )
    return SteinDiscrepancy(statistic, p_value, len(index), len(every.flat()), by_covariance)


def stein_test(
    points: np.ndarray,
    scores: np.ndarray,
    lengths: list[int],
    repetitions: int,
    rng: np.random.Generator,
) -> tuple[float, float, bool]:
    """Compute the squared discrepancy of points (n, d) and its p-value.

    `lengths` are the numbers of points in each chain; chains follow each other. `scores` are the
    gradients of the log-density at the points. The last returned value says whether points were
    standardized by their covariance.
    """
    z, scores, by_covariance = standardized(points, scores)
    n = len(z)
    weights = np.column_stack([np.ones(n), signs(lengths, repetitions, rng)])
    seen, *others = stein_sums(z, scores, weights)
    p_value = (1 + np.sum(np.array(others) >= seen)) / (repetitions + 1)
    return float(seen / (n * (n - 1))), float(p_value), by_covariance


def independent(draws: FlatDraws, most: int) -> list[np.ndarray]:
    """Return indices of draws of each chain, at least an autocorrelation time apart.

    The total is at most `most`. Raise ValueError if a coordinate is constant or not finite, or if
    the draws are worth fewer than `FEWEST` independent ones.
    """
    chains, length = draws.values.shape[:2]
    figures = mixing(draws)
    for bad, what in ((figures.not_finite, "not finite"), (figures.constant, "constant")):
        if bad.any():
            name = draws.names[int(np.argmax(bad))]
            raise ValueError(f"{name} is {what} in a chain: look at check(idata, model).")
    least = np.fmin(figures.ess, figures.ess_of_square)
    worth = min(np.nanmin(least), chains * length) if np.isfinite(least).any() else 0
    number = int(min(worth, most)) // chains
    if worth < FEWEST:
        raise ValueError(
            f"The draws are worth {worth:.0f} independent ones, and the test needs {FEWEST}: run "
            "longer, and look at check(idata, model)."
        )
    return [spread(length, number)] * chains
