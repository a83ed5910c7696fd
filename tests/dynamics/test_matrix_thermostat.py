"""SGNHT with a matrix of frictions: against NumPy, and where gradient noise is correlated."""

import numpy as np
import pymc as pm
import pytest
from scipy.linalg import expm, solve_continuous_lyapunov, sqrtm

from pymc_sgmcmc import SGNHT
from tests.cases import draws, sample
from tests.helpers import initial_state, score_mean, simulate, subject

pytestmark = pytest.mark.statistics

D, ROWS, BATCH = 3, 200, 2


def step_on(**kwargs):
    """y_i ~ N(q, S) with data whose mean and covariance make a = 1 and correlated noise."""
    rng = np.random.default_rng(0)
    mixing = np.array([[1.0, 0.0, 0.0], [0.9, 0.5, 0.0], [0.0, 0.3, 0.1]])
    y = rng.exponential(size=(ROWS, D)) @ mixing.T * np.sqrt(ROWS)
    with pm.Model():
        q = pm.Normal("q", 0.0, np.sqrt(2.0), shape=D)
        pm.Normal("y", q, np.sqrt(2.0 * ROWS), observed=pm.Data("data", y))
        step = SGNHT(batch_size=BATCH, **kwargs)
    return step, y.mean(axis=0) / 2, y


def check_width(thermostat, draws=5000):
    """Precision 1 in each coordinate, and correlated gradient noise: the law is N(mean, 1)."""
    step, mean, y = step_on(step_size=0.1, diffusion=1.0, thermostat=thermostat)
    V = ROWS**2 / BATCH * np.cov(y.T, bias=True) / (2.0 * ROWS) ** 2
    assert 0.1 * V[0, 0] / 2 > 1 and abs(V[0, 1]) > 0.5 * np.sqrt(V[0, 0] * V[1, 1])
    chain, rng, seen = subject(step), np.random.default_rng(2), []
    for seed in range(3):
        state = tuple(initial_state(step, rng).values())
        seen.append(simulate(chain, mean, state, 0.1, draws=draws, inner=40, burn_in=300,
                             n_rows=ROWS, batch=BATCH, seed=seed).q)  # fmt: skip
    relative = np.concatenate(seen) - mean
    directions = np.linalg.eigh(V)[1]
    for k, direction in enumerate(directions.T):
        score_mean((relative @ direction) ** 2, 1.0, 0.03, f"variance along {k}")


@pytest.mark.planted
def test_correlated_noise_needs_a_matrix():
    check_width("matrix")
    for thermostat in ("scalar", "coordinate"):
        with pytest.raises(AssertionError, match="where the law says"):
            check_width(thermostat, draws=1000)


@pytest.mark.parametrize("integrator", ["BAOAB", "euler", "symmetric", "ODBABDO"])
def test_one_step_in_numpy(integrator):
    """With any symmetric Xi; the law of its O by the Lyapunov equation."""
    A, T, Q, h = 1.3, 0.7, 2.9, 0.11
    step, _, y = step_on(
        step_size=h, diffusion=A, thermostat="matrix", thermal_mass=Q, temperature=T,
        integrator=integrator,
    )  # fmt: skip
    rng = np.random.default_rng(1)
    q, p, z = rng.standard_normal((3, D))
    xi = rng.normal(size=(D, D))
    xi, rows = xi + xi.T + 3 * np.eye(D), np.array([[3, 8]])

    def gradient(q):
        return q / 2 + ROWS * (q - y[rows[0]].mean(axis=0)) / (2.0 * ROWS)

    def heated(xi, p, h):
        return xi + h * (np.outer(p, p) - T * np.eye(D)) / Q

    def cooled(xi, p):
        stationary = solve_continuous_lyapunov(xi, 2 * A * T * np.eye(D))
        cover = stationary - expm(-h * xi) @ stationary @ expm(-h * xi)
        return expm(-h * xi) @ p + sqrtm(cover) @ z

    output = subject(step)(q, (p, xi), np.array([h]), [rows], z[None, None])
    if integrator == "euler":
        p = p - h * gradient(q) - h * xi @ p + np.sqrt(2 * A * T * h) * z
        q, xi = q + h * p, heated(xi, p, h)
    elif integrator == "symmetric":
        q = q + h / 2 * p
        xi = heated(xi, p, h / 2)
        p = expm(-xi * h / 2) @ p - h * gradient(q) + np.sqrt(2 * A * T * h) * z
        p = expm(-xi * h / 2) @ p
        q, xi = q + h / 2 * p, heated(xi, p, h / 2)
    else:
        first, drift = {"BAOAB": (1.0, h / 2), "ODBABDO": (0.5, 0.0)}[integrator]
        g = gradient(q)
        p = p - first * h * g
        q = q + drift * p
        xi = heated(xi, p, h / 2)
        p = cooled(xi, p)
        xi = heated(xi, p, h / 2)
        p = p - (1 - first) * h * g
        q = q + (h - drift) * p
    for actual, expected in zip((output.q, *output.state), (q, p, xi), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-12)


def test_it_samples_through_pymc_and_refuses_what_it_cannot():
    with pm.Model():
        pm.Normal("q", shape=2)
        idata = sample(SGNHT(step_size=0.3, thermostat="matrix"), draws=2000, tune=200)
        with pytest.raises(ValueError, match=r"diffusion has one value for each coordinate"):
            SGNHT(step_size=0.3, thermostat="matrix", diffusion=np.ones(2))
        with pytest.raises(ValueError, match="integrator='DUBUD': U is for"):
            SGNHT(step_size=0.3, thermostat="matrix", integrator="DUBUD")
    score_mean(draws(idata, "q").transpose(1, 0, 2) ** 2, 1.0, 0.1, "q^2")
