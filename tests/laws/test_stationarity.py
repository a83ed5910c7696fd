"""Exact stationary laws on Gaussians and a double well, against long runs of the bare kernel."""

import numpy as np
import pymc as pm
import pytest

from pymc_sgmcmc import PSGHMC, PSGLD, SGD, SGFS, SGHMC, SGLD, SGNHT, Santa
from tests.cases import sample
from tests.helpers import (
    UPDATES,
    change_setting,
    coordinate_thermostat_law,
    gaussian_law,
    initial_state,
    noisy_posterior,
    numbers,
    prior_only,
    score_mean,
    score_variance,
    simulate,
    start_at,
    subject,
    thermostat_law,
)

INTEGRATORS = ["BAOAB", "euler", "symmetric"]
SGHMC_WORDS = [*INTEGRATORS, "ABOBA", "OBABO", "UBU"]
SGNHT_WORDS = [*INTEGRATORS, "ABDODBA", "ODBABDO", "DUBUD"]
SANTA_WORDS = ["symmetric", "euler"]


def with_lengths(integrators, quick=False):
    """The first, the default, at the long length, the others at the short one.

    With `quick` the first at the short one too: outside of the tier of statistics.
    """
    first, *others = integrators
    cases = [pytest.param(first, 1, id=f"{first}-short")] if quick else []
    cases += [
        pytest.param(name, 1, id=f"{name}-short", marks=pytest.mark.statistics) for name in others
    ]
    cases.append(pytest.param(first, 2, id=f"{first}-long", marks=pytest.mark.statistics))
    return pytest.mark.parametrize(("integrator", "length"), cases)


ILL_CONDITIONED = np.geomspace(100.0, 0.1, 1600)
GROUPS = 4


def run(posterior, h, law, xi=None, *, v=None, length=1, draws=1500, inner=10):
    """Simulate from a start in the stationary law: `length` times more draws, as much rarer."""
    chain = subject(posterior.step)
    q, start = start_at(posterior, law, xi, v=v)
    state = tuple(start[name] for name in chain.state)
    return simulate(
        chain,
        q,
        state,
        h,
        draws=draws * length,
        inner=inner * length,
        seed=length,
        n_rows=posterior.n_rows,
        batch=posterior.batch,
    )


# The closed forms, against the covariance that each update's own matrix gives.


def sgld_variance(a, V, h, c):
    return (c.T + h * V / 2) / (a * (1 - h * a / 2))


def sghmc_variance(integrator, a, V, h, c):
    k, extra = h**2 * a, (h * V / 2 - c.B) / c.C
    if integrator == "euler":
        return (c.T + extra) / a / (1 - k / (2 * (2 - c.C * h)))
    if integrator == "symmetric":
        x = c.C * h / 2
        return (c.T + extra) / a * x / np.sinh(x)
    noise = h**2 * V / 4 / np.tanh(c.C * h / 2) / (1 - k / 4)
    if integrator == "BAOAB":
        return (c.T - c.B / c.C + noise) / a
    assert not np.any(V) and not np.any(c.B), "no closed form"
    return c.T / a / {"ABOBA": 1, "OBABO": 1 - k / 4}[integrator]


@pytest.mark.parametrize("V", [0.0, 3.0])
def test_closed_forms_of_sgld_and_sghmc(V):
    a, h = np.geomspace(0.1, 30.0, 7), 0.2
    c = numbers(C=1.7, B=0.1 * V, T=0.8)
    slow = h / 4
    exact = gaussian_law(UPDATES["SGLD", None], a, V, slow, c).q
    np.testing.assert_allclose(sgld_variance(a, V, slow, c), exact, rtol=1e-9)
    for integrator in INTEGRATORS + (["ABOBA", "OBABO"] if V == 0 else []):
        law = gaussian_law(UPDATES["SGHMC", integrator], a, V, h, c)
        closed = sghmc_variance(integrator, a, V, h, c)
        np.testing.assert_allclose(closed, law.q, rtol=1e-9, err_msg=integrator)
        if integrator == "BAOAB" and V == 0:
            np.testing.assert_allclose(law.p, c.T)
            np.testing.assert_allclose(law.kinetic, c.T)
        if integrator == "ABOBA":  # at its own end, where it is at rest nowhere else
            np.testing.assert_allclose(law.p, c.T / (1 - h**2 * a / 4))


def test_closed_form_of_the_explicit_euler_mistake():
    def mistake(q, p, xi, grad, h, z, c):
        kicked = (1 - h * c.C) * p - h * grad(q) + np.sqrt(2 * c.C * h) * z
        return q + h * p, kicked, xi, [kicked]

    a, V, h, c = np.array([0.5, 2.0]), 0.7, 0.1, numbers(C=1.7)
    al, k = c.C * h, h**2 * a
    closed = (1 + h * V / (2 * c.C)) / a * al / (al - k) * (2 - al + k) / (2 - al + k / 2)
    np.testing.assert_allclose(gaussian_law(mistake, a, V, h, c).q, closed)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_closed_forms_of_sgnht(integrator):
    """Up to O(h^2 a): halving h divides what is left by four."""
    a, V, T = np.array([0.5, 1.0, 2.0]), 3.0, 1.4
    c, left = numbers(A=1.2, T=T), []
    for h in (0.04, 0.02):
        xi, law = thermostat_law(UPDATES["SGNHT", integrator], a, V, h, c)
        friction, width = c.A + h * V / 2 / T, T / a
        if integrator == "euler":
            friction = (1 - np.sqrt(1 - 2 * h * friction)) / h
            width = width * (1 - h * xi / 2)
        left.append([xi / friction - 1, *(law.q / width - 1)])
        np.testing.assert_allclose(law.kinetic, T, rtol=1e-9)
    left = np.abs(left)
    assert np.all(left[0] < 2e-3)
    assert np.all(left[1] < 0.3 * left[0] + 1e-6)


# Simulation. The other integrators are simulated with minibatches alone: their updates are those of
# NumPy to rounding (tests/dynamics/test_updates.py), whose laws have the closed forms above.


@pytest.mark.statistics
def test_sgld_ill_conditioned():
    h, c = 0.01, numbers(T=2.0)  # h a from 0.001 to 1, half of the stability limit
    posterior = prior_only(SGLD, ILL_CONDITIONED, step_size=h, temperature=2.0)
    law = gaussian_law(UPDATES["SGLD", None], ILL_CONDITIONED, 0.0, h, c)
    draws = run(posterior, h, law, length=2, inner=20)
    score_variance(draws.q, 0.0, sgld_variance(posterior.a, 0, h, c), "q", 0.01, GROUPS)
    score_mean(draws.q * np.sqrt(posterior.a), 0.0, 0.02, "mean")


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("temperature", "length"),
    [(0.5, 1), *(pytest.param(T, 2, marks=pytest.mark.statistics) for T in (1.0, 0.5))],
)
def test_sgld_with_minibatches(temperature, length):
    h, c = 0.3, numbers(T=temperature)
    posterior = noisy_posterior(SGLD, noise=3.0, step_size=h, temperature=temperature)
    law = gaussian_law(UPDATES["SGLD", None], posterior.a, posterior.V, h, c)
    draws = run(posterior, h, law, length=length, draws=2000, inner=5)
    expected = sgld_variance(posterior.a, posterior.V, h, c)
    assert np.mean(expected) > 1.4 * temperature  # a wrong V would show
    score_variance(draws.q, posterior.mean, expected, "q", 0.003 / length)
    score_mean(draws.q - posterior.mean, 0.0, 0.003, "mean")


@pytest.mark.statistics
def test_sghmc_ill_conditioned():
    h, c = 0.14, numbers(C=1.5, T=0.5)  # h^2 a up to 2, half of the stability limit
    posterior = prior_only(SGHMC, ILL_CONDITIONED, step_size=h, friction=1.5, temperature=0.5)
    law = gaussian_law(UPDATES["SGHMC", "BAOAB"], posterior.a, 0.0, h, c)
    draws = run(posterior, h, law, length=2)
    expected = sghmc_variance("BAOAB", posterior.a, 0.0, h, c)
    score_variance(draws.q, 0.0, expected, "q", 0.003, GROUPS)
    score_variance(draws.p, 0.0, law.p, "p", 0.003, GROUPS)
    score_mean(draws.temperature, law.kinetic, 0.001, "kinetic temperature")
    assert law.kinetic == pytest.approx(0.5)


@pytest.mark.statistics
@with_lengths(SGHMC_WORDS)
def test_sghmc_with_minibatches(integrator, length):
    """Without a noise estimate, and with the right one: width by D = C T - B."""
    h, T, C = 0.4, 2.0, 1.5
    posterior = noisy_posterior(
        SGHMC,
        noise=3.0,
        step_size=h,
        friction=C,
        noise_estimate=np.zeros(1000),
        temperature=T,
        integrator=integrator,
    )
    step = posterior.step
    for share in (0.0, 1.0):
        # The estimate enters the diffusion alone, an input of the kernel.
        B = share * h * posterior.V / 2
        change_setting(step, noise_estimate=B)
        c = numbers(C=C, T=T, B=B)
        law = gaussian_law(UPDATES["SGHMC", integrator], posterior.a, posterior.V, h, c)
        draws = run(posterior, h, law, length=length, draws=2000, inner=5)
        expected = law.q
        if integrator in INTEGRATORS:
            expected = sghmc_variance(integrator, posterior.a, posterior.V, h, c)
        if not share:
            assert np.mean(expected) > 1.1 * T
        score_variance(
            draws.q, posterior.mean, expected, f"q, estimate {share} of the noise", 0.003 / length
        )
        score_variance(draws.p, 0.0, law.p, f"p, estimate {share} of the noise", 0.003 / length)
        score_mean(draws.temperature, law.kinetic, 0.003 * T, "kinetic temperature")


@pytest.mark.statistics
def test_sgnht_ill_conditioned():
    h, A, T = 0.14, 1.5, 2.0
    a = ILL_CONDITIONED
    c = numbers(A=A, T=T)
    posterior = prior_only(SGNHT, a, step_size=h, diffusion=A, temperature=T)
    xi, law = thermostat_law(UPDATES["SGNHT", "BAOAB"], a, 0.0, h, c)
    assert xi == pytest.approx(A)
    np.testing.assert_allclose(law.q, T / a)
    draws = run(posterior, h, law, xi, length=2)
    score_variance(draws.q, 0.0, law.q, "q", 0.003, GROUPS)
    score_variance(draws.p, 0.0, law.p, "p", 0.003, GROUPS)
    score_mean(draws.xi, xi, 0.01, "xi")
    score_mean(draws.temperature, T, 0.003 * T, "kinetic temperature")


@pytest.mark.statistics
@pytest.mark.compiled
@with_lengths(SGNHT_WORDS, quick=True)
def test_sgnht_with_minibatches(integrator, length):
    """The thermostat absorbs noise of unknown size: Var(q) as without it, but for Euler's bias."""
    h, A, T = 0.2, 1.0, 1.0
    c = numbers(A=A, T=T)
    posterior = noisy_posterior(SGNHT, noise=5.0, step_size=h, diffusion=A, integrator=integrator)
    xi, law = thermostat_law(UPDATES["SGNHT", integrator], posterior.a, posterior.V, h, c)
    draws = run(posterior, h, law, xi, length=length, draws=2000)
    score_variance(draws.q, posterior.mean, law.q, "q", 0.003 / length)
    score_variance(draws.p, 0.0, law.p, "p", 0.003 / length)
    score_mean(draws.xi, xi, 0.01, "xi")
    score_mean(draws.temperature, T, 0.003, "kinetic temperature")
    # What the docstring says, to the accuracy of its leading order, O(h^2).
    if integrator == "euler":
        assert np.mean(law.q) == pytest.approx(1 - h * xi / 2, abs=0.012)
        assert np.mean(draws.q.var(axis=0)) < 0.87
    else:
        split = integrator in ("ABDODBA", "ODBABDO")  # kicks, between which the thermostat reads
        wide = h**2 * np.mean(posterior.V) / 4 if split else 0.0
        assert np.mean(law.q) == pytest.approx(1.0 + wide, abs=0.015 if split else 0.012)
        rel = 0.05 if split else 0.03
        assert xi == pytest.approx(A + h * np.mean(posterior.V) / 2, rel=rel)


METRIC = np.geomspace(0.5, 2.0, 1600)


def santa_variance(integrator, a, h, g, xi, T):
    """With a heavy thermostat for each coordinate: the same with and without gradient noise."""
    if integrator == "euler":
        return T / a * (1 - h * xi / 2)
    return T / a * (np.cosh(h * xi / 2) - (h * g) ** 2 * a / 4)


def average_of(metric, damping=1e-5):
    """The average of squares at which Santa's metric is this."""
    return (metric**-2.0 - damping) ** 2


@pytest.mark.statistics
@pytest.mark.parametrize("diffusion", [1.5, "metric"])
def test_santa_ill_conditioned(diffusion):
    """The metric at rest, at values that halve the range of scales, as those that it learns do."""
    h, T, Q = 0.4, 2.0, 1000.0  # h^2 g^2 a up to 1.6
    a, g = ILL_CONDITIONED, ILL_CONDITIONED**-0.25
    settings = {"diffusion": diffusion, "thermal_mass": Q, "temperature": T}
    posterior = prior_only(Santa, a, step_size=h, **settings)
    v = average_of(g)
    c = numbers(A=1.5, T=T, Q=Q, metric=diffusion == "metric", v=v)
    xi, law = coordinate_thermostat_law(UPDATES["Santa", "symmetric"], a, 0.0, h, c)
    np.testing.assert_allclose(law.q, santa_variance("symmetric", a, h, g, xi, T), rtol=1e-9)
    draws = run(posterior, h, law, xi, v=v, length=2)
    score_variance(draws.q, 0.0, law.q, "q", 0.003, GROUPS)
    score_variance(draws.p, 0.0, law.p, "p", 0.003, GROUPS)
    score_mean(draws.temperature, T, 0.006 * T, "kinetic temperature")


@pytest.mark.statistics
@with_lengths(SANTA_WORDS)
@pytest.mark.parametrize("mass", [1000.0, "auto"])
def test_santa_with_minibatches(integrator, mass, length):
    """Each thermostat absorbs the noise of its own coordinate: from a tenth to three times A."""
    h, A, d = 0.05, 1.0, 1600
    v, V = average_of(METRIC), np.random.default_rng(1).permutation(np.geomspace(2.0, 40.0, d))
    settings = {"step_size": h, "diffusion": A, "thermal_mass": mass, "integrator": integrator}
    posterior = noisy_posterior(Santa, d=d, noise=V, **settings)
    V = posterior.V
    c = numbers(A=A, Q=mass, v=v, N=400)
    xi, law = coordinate_thermostat_law(UPDATES["Santa", integrator], posterior.a, V, h, c)
    exact = santa_variance(integrator, posterior.a, h, METRIC, xi, 1.0)
    np.testing.assert_allclose(law.q, exact, rtol=1e-9)
    draws = run(posterior, h, law, xi, v=v, length=length, inner=20)
    score_mean(draws.temperature, 1.0, 0.004, "kinetic temperature")
    added = h * METRIC**2 * V / 2
    assert np.quantile(added, 0.05) < 0.1 * A and np.quantile(added, 0.95) > 1.5 * A
    if mass != "auto":
        score_variance(draws.q, posterior.mean, law.q, "q", 0.006 / length, GROUPS)
        score_variance(draws.p, 0.0, law.p, "p", 0.006 / length, GROUPS)
    elif integrator == "symmetric":
        score_variance(draws.q, posterior.mean, 1.0, "q", 0.006 / length, GROUPS)
        np.testing.assert_allclose(xi, A + added, rtol=0.05)  # to leading order


@pytest.mark.statistics
@pytest.mark.parametrize(("h", "noise"), [(0.3, 3.0), (1.5, 0.0), ("largest", 3.0)])
def test_sgfs_is_exact_where_sgld_is_not(h, noise):
    """With its own error subtracted, at any step; at the largest it is SGD and nothing else."""
    T = 2.0
    posterior = noisy_posterior(SGFS, noise=max(noise, 1e-12), step_size=0.1, temperature=T,
                                metric=np.ones(1000), noise_estimate=0.0)  # fmt: skip
    step = posterior.step
    if h == "largest":
        h = 2 / (1 + posterior.V.max() / T)
    B = h * posterior.V / 2
    change_setting(step, noise_estimate=B)
    law = gaussian_law(UPDATES["SGFS", None], posterior.a, posterior.V, h,
                       numbers(T=T, B=B))  # fmt: skip
    np.testing.assert_allclose(law.q, T, rtol=1e-9)
    q, _ = start_at(posterior, law)
    chain = subject(step, update=step.algorithm.update)
    draws = simulate(chain, q, (), h, draws=2000, inner=5, n_rows=400, batch=2)
    score_variance(draws.q, posterior.mean, T, "q", 0.005)


@pytest.mark.statistics
@pytest.mark.parametrize(("T", "noise"), [(1.0, 3.0), (2.0, 40.0)])
def test_sgd_samples_by_the_noise_of_minibatches(T, noise):
    """Nothing is injected: at 2 / (1 + V / T) the variance is T, and h V / (2 - h) at any step."""
    posterior = noisy_posterior(SGD, noise=noise, step_size=0.1, temperature=T,
                                metric=np.ones(1000))  # fmt: skip
    V, step, update = posterior.V, posterior.step, UPDATES["SGD", None]
    right = gaussian_law(update, posterior.a, V, 2 / (1 + V / T), numbers(T=T))
    np.testing.assert_allclose(right.q, T, rtol=1e-9)
    h = 2 / (1 + V.mean() / T)
    law = gaussian_law(update, posterior.a, V, h, numbers(T=T))
    np.testing.assert_allclose(law.q, h * V / (2 - h), rtol=1e-9)
    widening = step.algorithm.variance_inflation(0.1 * V / 2, step.chain.context())
    np.testing.assert_allclose(widening, 0.1 * V / (1.9 * T) - 1, rtol=1e-9)
    q, _ = start_at(posterior, law)
    chain = subject(step, update=step.algorithm.update)
    inner = round(4 / h)
    draws = simulate(chain, q, (), h, draws=2000, inner=inner, n_rows=400, batch=2)
    score_variance(draws.q, posterior.mean, law.q, "q", 0.005)


@pytest.mark.statistics
def test_psgld_ill_conditioned():
    """The metric at rest, at values as those that it learns; with minibatches, below."""
    h, T, a = 0.1, 2.0, ILL_CONDITIONED
    G = a**-0.5
    posterior = prior_only(PSGLD, a, step_size=h, temperature=T)
    v = average_of(G**0.5)
    law = gaussian_law(UPDATES["PSGLD", None], a, 0.0, h, numbers(T=T, v=v))
    np.testing.assert_allclose(law.q, T / a / (1 - h * G * a / 2), rtol=1e-9)
    draws = run(posterior, h, law, v=v, inner=20)
    score_variance(draws.q, 0.0, law.q, "q", 0.02, GROUPS)


@pytest.mark.statistics
def test_psgld_with_minibatches():
    h, G = 0.3, np.geomspace(0.3, 2.0, 1000)
    posterior, v = noisy_posterior(PSGLD, noise=3.0, step_size=h), average_of(G**0.5)
    law = gaussian_law(UPDATES["PSGLD", None], posterior.a, posterior.V, h, numbers(v=v, N=400))
    np.testing.assert_allclose(law.q, (1 + h * G * posterior.V / 2) / (1 - h * G / 2), rtol=1e-9)
    draws = run(posterior, h, law, v=v, draws=2000, inner=5)
    score_variance(draws.q, posterior.mean, law.q, "q", 0.005, GROUPS)


@pytest.mark.statistics
@pytest.mark.parametrize("estimate", ["metric", "none"])
def test_psghmc_with_minibatches(estimate):
    """Where V^ is what the noise is, less the square of the exact gradient, the law is right."""
    h, C, T, g = 0.2, 1.5, 2.0, np.geomspace(0.7, 1.4, 1000)
    settings = {"step_size": h, "friction": C, "temperature": T, "noise_estimate": estimate}
    posterior, v = noisy_posterior(PSGHMC, noise=3.0, **settings), average_of(g)
    c, inner = numbers(C=C, T=T, v=v, N=400, metric=False), 5
    if estimate == "metric":
        v = posterior.V / 400**2
        g = (1e-5 + v**0.5) ** -0.5
        c = numbers(C=C, T=T, v=v, N=400, metric=True)
        h, inner = 1 / np.mean(g**2), 60
        change_setting(posterior.step)
    law = gaussian_law(UPDATES["PSGHMC", "BAOAB"], posterior.a, posterior.V, h, c)
    width = np.mean(law.q) / T
    assert abs(width - 1) < 0.02 if estimate == "metric" else width > 1.1
    draws = run(posterior, h, law, v=v, draws=2000, inner=inner)
    score_variance(draws.q, posterior.mean, law.q, "q", 0.006, GROUPS)
    score_variance(draws.p, 0.0, law.p, "p", 0.006, GROUPS)


@pytest.mark.planted
@pytest.mark.statistics
def test_a_light_thermostat_needs_its_default_mass():
    """A thermostat for each coordinate is a crowd of chains of d = 1 on a scalar thermostat."""
    h, c, a = 0.3, numbers(), np.ones(1500)
    settings = {"step_size": h, "diffusion": 1.0, "thermostat": "coordinate"}
    law = gaussian_law(UPDATES["SGNHT", "BAOAB"], a, 0.0, h, c, 1.0)
    posterior = prior_only(SGNHT, a, **settings)
    start = np.ones(len(a))

    def check():
        draws = run(posterior, h, law, start)
        score_mean(draws.q, 0.0, 0.003, "mean")
        score_mean(draws.temperature, 1.0, 0.003, "kinetic temperature")
        score_variance(draws.q, 0.0, 1.0, "q")
        # Not a matter of chance: its law has an error of O(h^2).
        assert np.mean(draws.xi) == pytest.approx(1.0, abs=0.02)

    check()
    frame = posterior.step.chain.frame
    frame.coefficients["mass"] = np.array(1.0)
    with pytest.raises(AssertionError):
        check()


@pytest.mark.planted
@pytest.mark.statistics
@pytest.mark.parametrize("mass", ["auto", 1.0])
def test_euler_with_a_light_thermostat_diverges(mass):
    h, c, a = 0.3, numbers(), np.ones(200)
    posterior = prior_only(
        SGNHT, a, step_size=h, thermostat="coordinate", thermal_mass=mass, integrator="euler"
    )
    law = gaussian_law(UPDATES["SGNHT", "euler"], a, 0.0, h, c, 1.0)
    if mass == "auto":
        run(posterior, h, law, np.ones(200))
    else:
        with pytest.raises(AssertionError, match="diverged"):
            run(posterior, h, law, np.ones(200))


@pytest.mark.statistics
def test_the_thermostat_settles_on_a_narrow_posterior():
    """Posterior sds of 0.007: a mass that ignores the scale leaves the noise in the posterior."""
    n_rows, batch, h = 20_000, 50, 1e-4
    y = np.random.default_rng(0).normal(size=(n_rows, 3))
    added = h * n_rows**2 / batch / 2
    with pm.Model():
        mu = pm.Normal("mu", 0, 10, shape=3)
        pm.Normal("y", mu, 1, observed=y)
        settings = {"step_size": h, "diffusion": added, "batch_size": batch, "steps_per_draw": 50,
                    "jitter": False}  # fmt: skip
        for mass, settled in (("auto", True), (10 / 3, False)):
            stats = sample(SGNHT(thermal_mass=mass, **settings), draws=400, tune=100).sample_stats
            temperature = stats.kinetic_temperature.values.mean()
            friction = stats.thermostat.values.mean()
            assert (abs(temperature - 1) < 0.01) == settled
            assert (abs(friction / (2 * added) - 1) < 0.05) == settled
            assert settled or temperature > 1.5


@pytest.mark.statistics
@pytest.mark.parametrize(
    ("integrator", "order", "steps"), [("euler", 1, (0.1, 0.2)), ("ODBABDO", 2, (0.3, 0.6))]
)
def test_order_of_accuracy(integrator, order, steps):
    """The bias of Var(q) as h doubles: SGNHT, as SGHMC's Euler is of second order in Var(q)."""
    a, biases, exact, errors = np.full(4000, 1.0), [], [], []
    for h in steps:
        c = numbers(A=1.0)
        posterior = prior_only(SGNHT, a, step_size=h, diffusion=1.0, integrator=integrator)
        xi, law = thermostat_law(UPDATES["SGNHT", integrator], a, 0.0, h, c)
        squares = run(posterior, h, law, xi, draws=1500).q ** 2
        biases.append(squares.mean() - 1)
        errors.append(squares.mean(axis=0).std(ddof=1) / np.sqrt(len(a)) / abs(biases[-1]))
        exact.append(law.q[0] - 1)
    slopes = [np.log2(pair[1] / pair[0]) for pair in (biases, exact)]
    error = np.hypot(*errors) / np.log(2)
    assert slopes[1] == pytest.approx(order, abs=0.15)
    assert abs(slopes[0] - slopes[1]) < 4 * error and error < 0.05


# A double well: not Gaussian, with a barrier.


def double_well_potential(x):
    return (x + 4) * (x + 1) * (x - 1) * (x - 3) / 14 + 0.5


GRID = np.linspace(-8.0, 7.0, 200_001)
DENSITY = np.exp(-double_well_potential(GRID))
DENSITY /= DENSITY.sum()


def test_double_well_by_quadrature():
    assert GRID @ DENSITY == pytest.approx(-2.147955, abs=1e-6)
    assert GRID**2 @ DENSITY == pytest.approx(7.475479, abs=1e-6)
    assert DENSITY[GRID < 0].sum() == pytest.approx(0.871224, abs=1e-5)


DOUBLE_WELL = {
    "SGHMC": (SGHMC, {"friction": 1.0}),
    "SGNHT": (SGNHT, {"diffusion": 1.0}),
    "SGNHT-coordinate": (SGNHT, {"diffusion": 1.0, "thermostat": "coordinate"}),
}


@pytest.mark.statistics
@pytest.mark.parametrize("name", DOUBLE_WELL)
def test_double_well(name):
    sampler, settings = DOUBLE_WELL[name]
    d, errors = 1500, np.array([0.02, 0.02, 0.004]) / np.sqrt(2)
    h, rng = 0.1, np.random.default_rng(4)
    with pm.Model():
        x = pm.Flat("x", shape=d)
        pm.Potential("wells", -pm.math.sum(double_well_potential(x)))
        step = sampler(step_size=h, initial_point={"x": np.full(d, -3.0)}, **settings)
    chain = subject(step)
    q = rng.choice(GRID, p=DENSITY, size=d)
    state = tuple(initial_state(step, rng).values())
    drawn = simulate(chain, q, state, h, draws=3000, inner=20, seed=2)
    score_mean(drawn.q, -2.147955, errors[0], "E x")
    score_mean(drawn.q**2, 7.475479, errors[1], "E x^2")
    score_mean(drawn.q < 0, 0.871224, errors[2], "P(x < 0)")
    score_mean(drawn.temperature, 1.0, 0.003, "kinetic temperature")
