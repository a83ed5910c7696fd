"""W of a chain: right for every sampler, and with errors that hold."""

from functools import partial

import numpy as np
import pytest

from pymc_sgmcmc import SGHMC, SGLD, SGNHT, Santa
from pymc_sgmcmc.chain.moments import MOMENTS
from pymc_sgmcmc.chain.running_sums import BATCHES, RunningSums
from pymc_sgmcmc.chain.width import Width
from tests.helpers import (
    N_ROWS,
    PLAIN,
    UPDATES,
    gaussian_law,
    initial_state,
    noisy_posterior,
    numbers,
    poisson_step,
    score,
    start_at,
    subject,
    thermostat_law,
)

QG, VIRIAL = MOMENTS.index("qg"), MOMENTS.index("virial")

SYMMETRIC = {"friction": 1.7, "integrator": "symmetric"}
CASES = [
    (SGLD, {"noise": "fresh", "temperature": 0.8}, 0.3),
    (SGLD, {"noise": "averaged", "temperature": 0.8}, 0.3),
    (SGHMC, {"friction": 1.7, "temperature": 0.8}, 0.6),
    (SGHMC, {"friction": 1.7, "integrator": "euler"}, 0.4),
    (SGHMC, SYMMETRIC, 0.6),
    (SGHMC, {"friction": 1.7, "integrator": "OBABO"}, 0.6),
    (SGHMC, {"friction": 1.7, "integrator": "ABOBA"}, 0.6),
    (SGNHT, {"temperature": 0.8}, 0.4),
    (SGNHT, {"integrator": "euler"}, 0.2),
    (SGNHT, {"integrator": "symmetric"}, 0.4),
    (SGNHT, {"thermostat": "coordinate"}, 0.4),
    (Santa, {}, 0.4),
]
SILENT = ("symmetric", "ABOBA")
"""Integrators that take their gradient elsewhere than at q: theirs is no exact identity."""
EXACT = [case for case in CASES if case[1].get("integrator") not in SILENT and case[0] is not Santa]
UNKNOWN = [case for case in CASES if case not in EXACT and case[:2] != (SGHMC, SYMMETRIC)]
"""Where nothing is implied: for SGHMC it is, to second order in h."""
ASKED_FAR = {"euler", "OBABO", "coordinate"}
"""Their laws on a Gaussian are those of tests/laws, and what is implied is asked far from one."""
ON_A_GAUSSIAN = [
    case for case in CASES if case not in UNKNOWN and not ASKED_FAR & set(case[1].values())
]


def named(cases):
    """A parameter for each of them, without its step size, and their names."""
    ids = [" ".join([cls.__name__, *map(str, settings.values())]) for cls, settings, _ in cases]
    return {"argvalues": cases, "ids": ids}


def moments_of(chain, q, state, h, *, calls, steps=50, n_rows, batch, seed=4):
    """Mean moments of each call, (calls, 9, d), after a burn-in."""
    rng, means = np.random.default_rng(seed), []
    for call in range(calls + 20):
        rows = [rng.integers(n_rows, size=(steps, batch))]
        normals = rng.standard_normal((steps, chain.kernel.n_noise, len(q)))
        output = chain(q, state, np.full(steps, h), rows, normals)
        q, state = output.q, output.state
        if call >= 20:
            means.append(output.sums / steps)
    return np.array(means)


@pytest.mark.statistics
@pytest.mark.parametrize(("cls", "settings", "h"), **named(ON_A_GAUSSIAN))
def test_both_are_the_variance_times_the_precision(cls, settings, h):
    """On a Gaussian with gradient noise, where the step makes every variance wrong."""
    build = partial(cls, step_size=0.01, **settings)
    posterior = noisy_posterior(build, d=400, noise=3.0)
    chain = subject(posterior.step)
    state = initial_state(posterior.step, np.random.default_rng(1))
    q, _ = start_at(posterior, _law(cls, settings, posterior, h), None)
    means = moments_of(
        chain, q, tuple(state.values()), h, calls=120, n_rows=posterior.n_rows,
        batch=posterior.batch,
    )  # fmt: skip
    # E[(q - mean) g], with the mean known: exact, whatever the step size.
    direct = means[:, QG].mean(axis=0) - posterior.mean * means[:, QG - 1].mean(axis=0)
    expected = _wanted(cls, settings, posterior, h)
    error = direct.std(ddof=1) / np.sqrt(len(direct))
    if expected is not None:
        score(direct.mean(), expected, error, 0.02, "direct")
    implied = means[:, VIRIAL].mean(axis=0)
    if cls is SGNHT:
        implied = implied - posterior.mean * means[:, QG - 1].mean(axis=0)
    error = np.std(implied - direct, ddof=1) / np.sqrt(len(direct))
    score(implied.mean() - direct.mean(), 0.0, error, 0.02, "implied less direct")


def _c(settings):
    return numbers(C=settings.get("friction", 1.0), T=settings.get("temperature", 1.0))


def _law(cls, settings, posterior, h):
    update = UPDATES["SGLD", None]
    if cls is SGHMC:
        update = UPDATES["SGHMC", settings.get("integrator", "BAOAB")]
    return gaussian_law(update, posterior.a, posterior.V, h if cls is not SGNHT else 0.01,
                        _c(settings))  # fmt: skip


def _wanted(cls, settings, posterior, h):
    """The mean of a Var(q) by the exact law, where there is a simple one."""
    a, V, T = posterior.a, posterior.V, settings.get("temperature", 1.0)
    if settings.get("noise") == "averaged":
        return np.mean(T + h * V / (2 - h * a))
    if cls in (SGLD, SGHMC):
        return np.mean(a * _law(cls, settings, posterior, h).q)
    if cls is SGNHT and settings.get("thermostat") is None:
        update = UPDATES["SGNHT", settings.get("integrator", "BAOAB")]
        return np.mean(a * thermostat_law(update, a, V, h, _c(settings))[1].q)
    return None


@pytest.mark.parametrize(("cls", "settings", "h"), **named(UNKNOWN))
def test_nothing_is_implied_where_no_identity_is_exact(cls, settings, h):
    """What is summed there is that of NumPy: tests/dynamics/test_updates.py."""
    chain = subject(poisson_step(cls, **settings, **PLAIN))
    rows, normals = [np.zeros((2, 3), dtype=int)], np.zeros((2, chain.kernel.n_noise, 4))
    output = chain(np.ones(4), tuple(chain.state.values()), np.full(2, 0.01), rows, normals)
    assert np.isnan(output.sums[VIRIAL]).all() and np.isfinite(output.sums[QG]).all()


@pytest.mark.statistics
@pytest.mark.parametrize(("cls", "settings", "_"), **named(EXACT))
def test_both_agree_far_from_a_gaussian(cls, settings, _):
    """Poisson counts with a long step: what is implied holds for any U, and any noise."""
    if settings.get("thermostat") == "coordinate" or cls is SGNHT:
        settings = settings | {"diffusion": 3.0}
    step = poisson_step(cls, **settings)
    h = 0.002 if cls is SGLD else 0.03  # prior precisions go up to 100
    chain, rng = subject(step), np.random.default_rng(2)
    q = np.array([0.5, 0.0, 1.0, 2.0])
    state = tuple(initial_state(step, rng).values())
    means = moments_of(chain, q, state, h, calls=800, steps=200, n_rows=N_ROWS, batch=3)
    difference = means[:, VIRIAL] - means[:, QG]
    parts = np.array([part.mean(axis=0) for part in np.array_split(difference, 20)])
    error = parts.std(axis=0, ddof=1) / np.sqrt(20)
    print(means[:, QG].mean(axis=0), difference.mean(axis=0), error)
    assert (np.abs(difference.mean(axis=0)) < 4.5 * error).all()
    # In the stiff direction of the strong prior the noise is small enough to see a mistake.
    assert error.min() < 0.01


def sums_of(series):
    """Running sums of a series (draws, d) of q and g, ten steps a draw."""
    sums = RunningSums.start(np.zeros(series.shape[2]))
    for q, g in series:
        moments = np.zeros((len(MOMENTS), len(q)))
        moments[MOMENTS.index("q") :] = q, g, q * g, 1 + q, q**2
        sums = sums.add(10 * moments, 10)
    return sums


@pytest.mark.parametrize("draws", [1, 7, 39, 40, 41, 250, 1000, 1234])
def test_batches_are_those_of_the_whole_series(draws):
    rng = np.random.default_rng(draws)
    series = rng.normal(size=(draws, 2, 3)) + 5.0
    sums = sums_of(series)
    length, number = sums.length, len(sums.ends)
    assert sums.draws == draws and sums.steps == 10 * draws
    assert number == draws // length and (draws < BATCHES or BATCHES <= number < 2 * BATCHES)
    q, g = series[:, 0], series[:, 1]
    parts = np.split(q[: number * length], number)
    np.testing.assert_allclose(sums.batch_means()[0], [part.mean(axis=0) for part in parts])
    width = Width(sums)
    covariance = np.mean((q - q.mean(axis=0)) * (g - g.mean(axis=0)), axis=0)
    if number > 1:  # what the mean's own error takes away
        means = [[p.mean(axis=0) for p in np.split(x[: number * length], number)] for x in (q, g)]
        centred = np.array(means) - np.mean(means, axis=1, keepdims=True)
        covariance += np.prod(centred, axis=0).sum(axis=0) / (number * (number - 1))
    np.testing.assert_allclose(width.ratio("direct"), covariance, atol=1e-12)
    np.testing.assert_allclose(width.ratio("implied"), 1 + q.mean(axis=0))


def test_errors_are_those_of_a_dependent_series():
    """W of an autoregression: z-scores over many coordinates are standard."""
    rng, d, rho = np.random.default_rng(1), 2000, 0.7
    q, series = rng.normal(size=d), []
    for _ in range(1000):
        q = rho * q + np.sqrt(1 - rho**2) * rng.normal(size=d)
        series.append((q, q + 0.3 * rng.normal(size=d)))
    width = Width(sums_of(np.array(series)))
    z = (width.ratio("direct") - 1) / width.error("direct")
    # W and its error are correlated, as a variance and its own: z is a little skewed.
    assert abs(z.mean()) < 0.4 and 0.95 < z.std() < 1.2
    ratio, error = width.pooled("direct")
    assert abs(ratio - 1) < 4 * error and 0.5 < error / (width.error("direct").mean() / d**0.5) < 2


def test_memory_of_the_batches_is_bounded():
    sums = RunningSums.start(np.zeros(200_000))
    for _ in range(20):
        sums = sums.add(np.ones((len(MOMENTS), 200_000)), 10)
    assert sum(end.nbytes for end in sums.ends) <= 64e6
