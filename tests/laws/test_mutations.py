"""Known mistakes, planted one by one: each must fail the check that its right version passes."""

from functools import cache

import numpy as np
import pytensor.tensor as pt
import pytest

from pymc_sgmcmc import SGHMC, SGNHT, Santa
from tests.helpers import (
    INTERPRETED,
    N_ROWS,
    PLAIN,
    UPDATES,
    check_steps,
    coordinate_thermostat_law,
    gaussian_law,
    noisy_posterior,
    numbers,
    poisson_step,
    prior_only,
    score_mean,
    score_variance,
    simulate,
    start_at,
    subject,
    thermostat_law,
)
from tests.mistakes import OF_SGHMC, OF_SGNHT, TEMPERATURE, resampled_momentum, sghmc, sgnht

pytestmark = pytest.mark.statistics

FRICTION, STEP_SIZE = 1.7, 0.2


class Mistaken:
    """A target whose estimates of U and its gradient are made wrongly."""

    def __init__(self, target, mistake):
        self._target, self._mistake = target, mistake
        self.energy, self.predictors = self, None

    def __getattr__(self, name):
        return getattr(self._target, name)

    def estimator(self):
        estimate = self._target.energy.estimator()
        return lambda q, slices, weights: self._mistake(estimate, q, slices, weights)


def right_target(estimate, q, slices, weights):
    return estimate(q, slices, weights)


def rows_not_scaled(estimate, q, slices, weights):
    return estimate(q, slices, [pt.ones(())])


def prior_scaled(estimate, q, slices, weights):
    return [weights[0] * part for part in estimate(q, slices, [pt.ones(())])]


def prior_missing(estimate, q, slices, weights):
    prior = estimate(q, slices, [pt.zeros(())])
    return [full - part for full, part in zip(estimate(q, slices, weights), prior, strict=True)]


# The two nets. Steps are few, and interpreted; a law takes thousands, which are compiled. A chain
# that hardly moves cannot be told from its law by chance alone: its Monte Carlo error is then too
# large, and that fails the check.

SEEN = "where the law says|diverged|says nothing"


@cache
def poisson(sampler):
    own = {"friction": FRICTION} if sampler is SGHMC else {"diffusion": FRICTION}
    return poisson_step(sampler, integrator="euler", temperature=TEMPERATURE, **own, **PLAIN)


def check_sampler_steps(sampler, update=None, mistake=right_target):
    step = poisson(sampler)
    target = Mistaken(step.target, mistake)
    chain = subject(step, update=update, target=target, backend=INTERPRETED)
    c = numbers(C=FRICTION, A=FRICTION, T=TEMPERATURE, Q=10 / 4 / FRICTION**2)
    check_steps(chain, UPDATES[sampler.__name__, "euler"], c)


@cache
def posterior(sampler, minibatches):
    settings = {"step_size": STEP_SIZE, "integrator": "euler", "temperature": TEMPERATURE}
    settings |= {"friction": FRICTION} if sampler is SGHMC else {"diffusion": FRICTION / 2}
    if minibatches:
        return noisy_posterior(sampler, d=400, n_rows=200, noise=4.0, **settings)
    return prior_only(sampler, np.ones(400), **settings)


def check_sampler_law(
    sampler, update=None, mistake=right_target, minibatches=True, same_rows=False, state=None
):
    truth = posterior(sampler, minibatches)
    oracle = UPDATES[sampler.__name__, "euler"]
    c, xi = numbers(C=FRICTION, A=FRICTION / 2, T=TEMPERATURE), None
    if sampler is SGHMC:
        law = gaussian_law(oracle, truth.a, truth.V, STEP_SIZE, c)
    else:
        xi, law = thermostat_law(oracle, truth.a, truth.V, STEP_SIZE, c)
    step = truth.step
    target = Mistaken(step.target, mistake)
    chain = subject(step, update=update, target=target, state=state)
    q, start = start_at(truth, law, xi)
    draws = simulate(
        chain,
        q,
        tuple(start.get(name, 0.0) for name in chain.state),
        STEP_SIZE,
        draws=1000,
        inner=5,
        n_rows=truth.n_rows,
        batch=truth.batch,
        same_rows=same_rows,
    )
    score_variance(draws.q, truth.mean, law.q, "q", 0.01)
    score_mean(draws.q - truth.mean, 0.0, 0.03, "mean")
    score_variance(draws.p, 0.0, law.p, "p", 0.01)
    score_mean(draws.temperature, law.kinetic, 0.01, "kinetic temperature")


TARGET_MISTAKES = [rows_not_scaled, prior_scaled, prior_missing]
RIGHT = [(SGHMC, None), (SGHMC, sghmc), (SGNHT, None), (SGNHT, sgnht)]
MISTAKES = [(SGHMC, mistake) for mistake in OF_SGHMC]
MISTAKES += [(SGNHT, mistake) for mistake in OF_SGNHT]


def name(value):
    return getattr(value, "__name__", "own")


@pytest.mark.parametrize(("sampler", "update"), RIGHT, ids=name)
def test_right_updates_pass(sampler, update):
    check_sampler_steps(sampler, update)
    check_sampler_law(sampler, update)


@pytest.mark.planted
@pytest.mark.parametrize(("sampler", "update"), MISTAKES, ids=name)
def test_steps_show_the_mistake(sampler, update):
    with pytest.raises(AssertionError):
        check_sampler_steps(sampler, update)


@pytest.mark.planted
@pytest.mark.parametrize(("sampler", "update"), MISTAKES, ids=name)
def test_laws_show_the_mistake(sampler, update):
    with pytest.raises(AssertionError, match=SEEN):
        check_sampler_law(sampler, update)


@pytest.mark.planted
@pytest.mark.parametrize("mistake", TARGET_MISTAKES, ids=name)
def test_steps_show_a_wrong_target(mistake):
    with pytest.raises(AssertionError):
        check_sampler_steps(SGHMC, mistake=mistake)


@pytest.mark.planted
@pytest.mark.parametrize("mistake", TARGET_MISTAKES, ids=name)
def test_laws_show_a_wrong_target(mistake):
    with pytest.raises(AssertionError, match=SEEN):
        check_sampler_law(SGHMC, mistake=mistake)


@pytest.mark.planted
def test_law_shows_resampled_momentum():
    state = {"p": np.zeros(400), "count": np.zeros(())}
    with pytest.raises(AssertionError, match="where the law says"):
        check_sampler_law(SGHMC, resampled_momentum, minibatches=False, state=state)
    check_sampler_law(SGHMC, minibatches=False)


@pytest.mark.planted
@pytest.mark.parametrize("sampler", [SGHMC, SGNHT], ids=name)
def test_law_shows_one_minibatch_for_a_trajectory(sampler):
    with pytest.raises(AssertionError, match="where the law says"):
        check_sampler_law(sampler, same_rows=True)


# Santa, in the words of its paper for u = h p, eta = h^2, alpha = h xi, beta = 1 / T.


def santa(q, p, xi, v, *, grad, h, noise, decay, temperature, rows, damping, diffusion, mass,
          metric=lambda v, damping: 1 / pt.sqrt(damping + pt.sqrt(v)), scale=1.0, keep=None,
          variance=lambda eta, g, T: 2 * g * eta**1.5 * T, heat=lambda u, eta, T: u**2 - eta * T,
          moving=lambda before, g, u: pt.maximum(1 - before / g, -1) * u,
          drifts=True, kicks=True):  # fmt: skip
    """The paper's algorithm with its misprints corrected; each argument more is a mistake."""
    eta, u, alpha = h**2, h * p, h * xi
    f = grad(q)
    before = metric(v, damping)
    decay = decay if keep is None else pt.constant(keep)
    v = decay * v + (1 - decay) * (f / (rows * scale)) ** 2
    g = metric(v, damping)
    explores = pt.gt(temperature, 0)
    alpha = alpha + pt.switch(explores, heat(u, eta, temperature) / mass, 0)
    fresh = pt.switch(explores, moving(before, g, u), 0)
    fresh = fresh + pt.sqrt(variance(eta, before, temperature)) * noise()
    frozen = pt.maximum(alpha, h * diffusion)
    alpha_used = pt.switch(explores, alpha, frozen)
    u = fresh + (1 - alpha_used) * u - eta * (g if kicks else 1) * f
    return q + (g if drifts else 1) * u, u / h, alpha / h, v


SANTA_MISTAKES = {
    "noise_without_the_power_of_eta": {"variance": lambda eta, g, T: 2 * eta * g * T},
    "thermostat_of_the_wrong_energy": {"heat": lambda u, eta, T: u**2 - T},
    "thermostat_without_the_temperature": {"heat": lambda u, eta, T: u**2 - eta},
    "metric_in_the_drift_alone": {"kicks": False},
    "metric_in_the_kick_alone": {"drifts": False},
    "metric_never_at_rest": {"keep": 0.8},
}
"""Those that a law shows, with the metric at rest."""

MISTAKES_OF_THE_STEP = {
    "noise_without_the_metric": {"variance": lambda eta, g, T: 2 * eta**1.5 * T},
    "noise_of_the_squared_metric": {"variance": lambda eta, g, T: 2 * g**2 * eta**1.5 * T},
    "gradient_without_the_rows": {"scale": 1 / 11},
    "metric_at_rest_always": {"keep": 1.0},
    "metric_without_the_second_root": {"metric": lambda v, damping: 1 / (damping + pt.sqrt(v))},
    "damping_outside_the_root": {"metric": lambda v, damping: 1 / (damping + pt.sqrt(pt.sqrt(v)))},
    "misprinted_products": {"moving": lambda before, g, u: (1 - before * g) * u},
    "difference_without_bound": {"moving": lambda before, g, u: (1 - before / g) * u},
    "difference_left_out": {"moving": lambda before, g, u: 0 * u},
}
"""Those that matter while it moves, and those that make another valid diffusion or metric."""

SANTA_DIMENSION = 400


def santa_update(mistake):
    def update(q, p, xi, v, **given):
        return santa(q, p, xi, v, **given, **mistake)

    return update


@cache
def santa_poisson():
    return poisson_step(Santa, integrator="euler", diffusion="metric", thermal_mass=3.7, **PLAIN)


def check_santa_steps(**mistake):
    """With a metric that moves, at changing temperatures, into refinement."""
    chain = subject(santa_poisson(), update=santa_update(mistake), backend=INTERPRETED)
    plan = {"decay": np.array([0.9, 0.5, 0.9, 1.0, 0.3, 0.99, 0.8]),
            "temperature": np.array([2.0, 0.3, 0.3, 0.1, 0.1, 0.0, 0.0])}  # fmt: skip
    for v in (1.0, 1e-6):
        c = numbers(Q=3.7, N=N_ROWS, metric=True, v=np.full(4, v))
        check_steps(chain, UPDATES["Santa", "euler"], c, xi=np.ones(4), plan=plan)


@cache
def santa_posterior():
    V = np.geomspace(0.5, 20.0, SANTA_DIMENSION)
    settings = {"integrator": "euler", "diffusion": "metric", "thermal_mass": 100.0}
    return noisy_posterior(Santa, d=SANTA_DIMENSION, n_rows=200, noise=V, step_size=0.1,
                           temperature=TEMPERATURE, **settings)  # fmt: skip


def check_santa_law(**mistake):
    truth, h = santa_posterior(), 0.1
    v = np.geomspace(0.2, 5.0, SANTA_DIMENSION)[::-1]
    c = numbers(T=TEMPERATURE, Q=100.0, metric=True, v=v, N=200)
    xi, law = coordinate_thermostat_law(UPDATES["Santa", "euler"], truth.a, truth.V, h, c)
    q, start = start_at(truth, law, xi, v=v)
    chain = subject(truth.step, update=santa_update(mistake))
    state = tuple(start[name] for name in chain.state)
    draws = simulate(chain, q, state, h, draws=1500, inner=10, n_rows=200, batch=2)
    score_variance(draws.q, truth.mean, law.q, "q", 0.02, groups=2)
    score_variance(draws.p, 0.0, law.p, "p", 0.02, groups=2)
    score_mean(draws.temperature, TEMPERATURE, 0.02, "kinetic temperature")


def test_right_santa_passes():
    check_santa_steps()
    check_santa_law()


@pytest.mark.planted
@pytest.mark.parametrize("mistake", SANTA_MISTAKES | MISTAKES_OF_THE_STEP)
def test_steps_show_a_mistake_of_santa(mistake):
    with pytest.raises(AssertionError):
        check_santa_steps(**(SANTA_MISTAKES | MISTAKES_OF_THE_STEP)[mistake])


@pytest.mark.planted
@pytest.mark.parametrize("mistake", SANTA_MISTAKES)
def test_laws_show_a_mistake_of_santa(mistake):
    with pytest.raises(AssertionError, match=SEEN):
        check_santa_law(**SANTA_MISTAKES[mistake])
