"""Checks of the law of a sampler, and of what its algorithm claims of it."""

from itertools import pairwise

import numpy as np

from pymc_sgmcmc.conformance.law import LEVELS, SHORTER, WIDTHS, Estimate, Experiment, Run, estimate
from pymc_sgmcmc.conformance.report import Failed, NotApplicable

__all__ = ["check_gradient_noise", "check_law", "check_step_bias", "check_thermostat",
           "check_virial"]  # fmt: skip

AT_ZERO = np.array([1 / 3, -2.0, 8 / 3])
"""Weights of values at h, h / 2 and h / 4 that give the parabola through them at h = 0."""
BLUR = 0.03
"""The largest Monte Carlo error of a variance at h = 0 with which it still says something."""
FIRST_ORDER = 0.25
"""What a claim to leading order may lack, relatively."""
BALANCE = 0.02
"""What the balance of a virial may lack, relatively: some hold to second order in h only."""
TITLES = ("1", "1.4", "2")
"""Sds of the coordinates, by the number of their width."""


def check_law(experiment: Experiment) -> str:
    """Check that means and variances are those of the posterior as h -> 0."""
    runs = experiment.exact
    means = [estimate(runs[-1].mean[:, WIDTHS == k]) for k in range(3)]
    limits = [
        sum(w * run.variance[:, WIDTHS == k] for w, run in zip(AT_ZERO, runs, strict=True))
        for k in range(3)
    ]
    limits = [estimate(each) for each in limits]
    found = _listed(limits)
    if max(one.error for one in limits) > BLUR:
        raise Failed(
            f"The chain moves too slowly to tell: as h -> 0 the variance is {found} of the "
            "posterior's. Give a longer step_size, or more steps_per_draw."
        )
    if any(one.off(1.0) for one in limits):
        raise Failed(
            f"As h -> 0 the variance is {found} of the posterior's at sd {', '.join(TITLES)}, and "
            "it should be 1: look at the factors of the noise, h and the friction."
        )
    if any(one.off(0.0) for one in means):
        raise Failed(
            f"The mean is {_listed(means)} sds off at h = {runs[-1].step_size:g}, at sd "
            f"{', '.join(TITLES)}: look at what moves q beside the gradient and the noise."
        )
    at = ", ".join(f"{run.variance.mean():.3f} at h = {run.step_size:g}" for run in runs)
    return f"The variance is {at}, of the posterior's, and {found} as h -> 0."


def check_step_bias(experiment: Experiment) -> str:
    """Check that errors of variances are no larger than `step_bias` says."""
    if experiment.algorithm.learned_state:
        raise NotApplicable("It learns scales of its own, and its step with them.")
    runs = experiment.exact
    claims = [experiment.algorithm.step_bias(run.step_size, 1.0) for run in runs]
    if np.isnan(claims).any():
        raise NotApplicable("step_bias is not given.")
    if not all(a >= b >= 0 for a, b in pairwise(claims)):
        raise Failed(f"step_bias is {claims} at h, h / 2 and h / 4: it must grow with h.")
    errors = [estimate(run.variance[:, WIDTHS == 0] - 1) for run in runs]
    seen = "; ".join(
        f"{error} at h = {run.step_size:g}, where step_bias is {claim:.3f}"
        for run, error, claim in zip(runs, errors, claims, strict=True)
    )
    # To leading order: the shorter the step, the more it must hold.
    for error, claim, shorter in zip(errors, claims, SHORTER, strict=True):
        if error.off(0.0, claim * (1 + 4 * FIRST_ORDER / shorter)):
            raise Failed(
                f"The relative error of the variance is {seen}: let step_bias return what a step "
                "may cause, or tuning takes steps that are too long."
            )
    return f"The relative error of the variance is {seen}."


def check_gradient_noise(experiment: Experiment) -> str:
    """Check that gradient noise widens the draws by what the algorithm says."""
    algorithm = experiment.algorithm
    if np.isnan(algorithm.injected_noise()) and not algorithm.has_accept_step:
        raise NotApplicable("injected_noise is not given.")
    noisy, exact = experiment.noisy, experiment.exact[-1]
    claim = np.zeros(len(WIDTHS))
    if not algorithm.has_accept_step:
        claim = claim + algorithm.variance_inflation(_rate(experiment, noisy), noisy.context)
    if np.isnan(claim).any():
        raise NotApplicable("variance_inflation is not known.")
    ratio = noisy.variance / exact.variance.mean(axis=0) - 1
    found = [estimate(ratio[:, LEVELS == k]) for k in range(3)]
    claims = [float(claim[LEVELS == k].mean()) for k in range(3)]
    told = ", ".join(f"{one:.3f}" for one in claims)
    for one, expected in zip(found, claims, strict=True):
        if one.off(expected, FIRST_ORDER * abs(expected) + BALANCE):
            raise Failed(
                f"Gradient noise of three levels adds {_listed(found)} to variances, relatively, "
                f"and variance_inflation says {told}: correct injected_noise, the noise that "
                "`update` injects as a rate, or give a variance_inflation."
            )
    return f"Gradient noise of three levels adds {_listed(found)} to variances; it says {told}."


def check_thermostat(experiment: Experiment) -> str:
    """Check that thermostats settle where `expected_friction` says."""
    run = experiment.noisy
    claim = experiment.algorithm.expected_friction(_rate(experiment, run), run.context)
    if claim is None:
        raise NotApplicable("expected_friction is not given.")
    found = estimate(run.thermostat)
    if found.off(claim, FIRST_ORDER / 2 * abs(claim)):
        raise Failed(
            f"The mean friction is {found}, and expected_friction says {claim:.3f}: carry the "
            "friction as xi, and return what it settles at with gradients of that noise."
        )
    return f"The mean friction is {found}; expected_friction says {claim:.3f}."


def check_virial(experiment: Experiment) -> str:
    """Compare what `virial` says of the mean of q g with what it is."""
    run = experiment.exact[0]
    if np.isnan(run.implied).any():
        raise NotApplicable("virial is not given.")
    found = estimate(run.implied - run.direct)
    if found.off(0.0, BALANCE):
        raise Failed(
            f"virial says {run.implied.mean():.3f} of the mean of q g, which is "
            f"{run.direct.mean():.3f}, {found} apart: the chain would warn of right draws."
        )
    return f"The mean of q g is {run.direct.mean():.3f}; virial says {run.implied.mean():.3f}."


def _rate(experiment: Experiment, run: Run) -> np.ndarray:
    """Return h V / 2, (d,)."""
    return run.step_size * experiment.gaussians.noise / 2


def _listed(estimates: list[Estimate]) -> str:
    return ", ".join(map(str, estimates))
