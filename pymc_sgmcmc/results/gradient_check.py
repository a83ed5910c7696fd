"""Findings on the reported sds and means, compared with those that exact gradients imply."""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from pymc_sgmcmc._utils.alarm import Alarm
from pymc_sgmcmc._utils.text import listed
from pymc_sgmcmc.model.unconstrain import FlatDraws
from pymc_sgmcmc.results.exact_gradients import ExactGradients, obstacle
from pymc_sgmcmc.results.gradient_regression import (
    MEAN_TOLERANCE,
    VARIANCE_TOLERANCE,
    GradientRegression,
)
from pymc_sgmcmc.results.section import Section

__all__ = ["check_gradients"]

_WEAK = (
    "This proves little: the draws are worth too few independent ones, or the posterior is far "
    "from normal."
)
_TOO_WIDE = (
    "What makes sds too wide in a stochastic-gradient sampler: gradient noise (use control "
    "variates or a larger batch_size) or too large a step (halve step_size); in a variational "
    "approximation, a fit that has not converged."
)
_TOO_NARROW = (
    "What makes them too narrow: too large a step (halve step_size), a temperature below 1, too "
    "large a noise_estimate; in a variational approximation, correlations that it leaves out."
)


def check_gradients(
    exact: ExactGradients,
    draws: FlatDraws,
    blur: Mapping[str, float] = MappingProxyType({}),
    *,
    progressbar: bool = True,
) -> list[Section]:
    """Return two findings: on the sds, and on the means.

    `blur` holds the largest Monte Carlo errors, as in the numbers of `check_monte_carlo`. No
    detection limit is below them.
    """
    why = obstacle(draws)
    if why:
        nothing = np.full(draws.size, np.nan)
        result = GradientRegression(nothing, nothing, nothing, nothing, joint=True, gradients=0)
    else:
        result = exact.at(draws, progressbar=progressbar)
        if result.wrong_sd.any() or result.wrong_mean.any():
            # Few gradients are enough near a Gaussian. Elsewhere they may be wrong with a small
            # standard error, so confirm an alarm with more.
            result = exact.at(draws, most=True, progressbar=progressbar)
        if np.isnan(result.variance_ratio).all():
            why = (
                f"The gradients at {result.gradients} draws imply no sd of any coordinate: they "
                "are not finite, or two coordinates are the same."
            )
    of_sd, of_mean = (
        blur.get(key, 0.0) for key in ("sd_monte_carlo_percent", "mean_monte_carlo_sds")
    )
    return [_sds(draws.names, result, why, of_sd), _means(draws.names, result, why, of_mean)]


def _sds(names: tuple[str, ...], result: GradientRegression, why: str, blur: float) -> Section:
    m, wrong = result.gradients, result.wrong_sd
    t, ratio, error = result.critical, result.variance_ratio, result.variance_ratio_error
    with np.errstate(invalid="ignore", divide="ignore"):
        sd_ratio = np.sqrt(ratio)
        sd_ratio_error = error / (2 * sd_ratio)
    figures = {"sd_ratio": sd_ratio, "sd_ratio_error": sd_ratio_error}
    title = "Sds"
    if why:
        return Section(title, notes=(why,), figures=figures)
    measured = np.isfinite(ratio) & np.isfinite(error) & (ratio > 0)  # no variance is below zero
    largest = np.max(error, where=measured, initial=0.0)
    limit = max(50 * t * largest, 50 * VARIANCE_TOLERANCE, blur) if measured.any() else np.nan
    alarms, passed, notes = [], "", []
    if wrong.any():
        order = sorted(
            np.flatnonzero(wrong), key=lambda i: -abs(np.log(max(float(ratio[i]), 1e-300)))
        )
        phrases = [
            f"{names[i]} has {sd_ratio[i]:.2f} ± {sd_ratio_error[i]:.2f} times that sd, too "
            f"{'wide' if ratio[i] > 1 else 'narrow'}"
            if ratio[i] > 0
            else f"{names[i]} moves downhill with its gradient, as in no posterior"
            for i in order
        ]
        causes = [_TOO_WIDE] * bool((wrong & (ratio > 1)).any())
        causes += [_TOO_NARROW] * bool((wrong & (ratio < 1)).any())
        alarms.append(
            Alarm(
                "sd",
                f"The sds of the draws are not those that exact gradients at {m} draws imply: "
                f"{listed(phrases)}. {' '.join(causes)}",
            )
        )
    elif measured.any():
        low, high = sd_ratio[measured].min(), sd_ratio[measured].max()
        passed = (
            f"The sds are {low:.2f} to {high:.2f} times what exact gradients at {m} draws imply "
            f"(1 is right). Sd errors below {limit:.0f} % would not have been seen."
        )
        notes += [_WEAK] if limit > 50 else []
    if not result.joint:
        notes.append(
            f"With {len(names)} coordinates and {m} gradients, each sd is judged for itself, as "
            "the mean of q times gradient: errors of correlations would not have been seen."
        )
    if not measured.all():
        who = listed([names[i] for i in np.flatnonzero(~measured)])
        notes.append(
            f"Not conclusive for {who}, of which no sd is implied: the posterior is far from "
            "normal there (or a manifold), or the draws are far from the posterior."
        )
    numbers = {"gradient_draws": m, "critical_value": t, "sd_detection_limit_percent": limit}
    return Section(title, tuple(alarms), passed, tuple(notes), figures, numbers)


def _means(names: tuple[str, ...], result: GradientRegression, why: str, blur: float) -> Section:
    m, wrong = result.gradients, result.wrong_mean
    t, delta, error = result.critical, result.mean_error, result.mean_error_error
    figures = {"mean_error": delta, "mean_error_error": error}
    title = "Means"
    if not (why or result.joint):
        why = f"An error of a mean needs two gradients for each coordinate: {m} are too few."
    if why:
        return Section(title, notes=(why,), figures=figures)
    measured = np.isfinite(delta) & np.isfinite(error)
    largest = np.max(error, where=measured, initial=0.0)
    limit = max(t * largest, MEAN_TOLERANCE, blur) if measured.any() else np.nan
    alarms, passed, notes = [], "", []
    if wrong.any():
        order = sorted(np.flatnonzero(wrong), key=lambda i: -abs(delta[i]))
        phrases = [f"that of {names[i]} by {delta[i]:+.2f} ± {error[i]:.2f} sd" for i in order]
        alarms.append(
            Alarm(
                "mean",
                f"Posterior means are off, says the exact gradient: {listed(phrases)}. Either the "
                "minibatch gradient is biased (sorted data without shuffling? a stale full "
                "gradient in the control variate?), or the chain has not converged (run longer), "
                "or an approximation was used that is wrong by this much.",
            )
        )
    elif measured.any():
        worst = int(np.nanargmax(np.where(measured, np.abs(delta), np.nan)))
        passed = (
            f"The largest error of a mean is {delta[worst]:+.2f} sd ({names[worst]}). Errors below "
            f"{limit:.2f} sd would not have been seen."
        )
        notes += [_WEAK] if limit > 1 else []
    if not measured.all():
        who = listed([names[i] for i in np.flatnonzero(~measured)])
        notes.append(f"Not conclusive for {who}: no mean is implied, as no sd is.")
    numbers = {"mean_detection_limit_sds": limit}
    return Section(title, tuple(alarms), passed, tuple(notes), figures, numbers)
