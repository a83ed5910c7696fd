"""The term that is owed while PSGLD's metric moves."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_sgmcmc import PSGLD
from tests.helpers import (
    FEATURES,
    PRIOR_SD,
    poisson_gradient,
    poisson_step,
    score_mean,
    simulate,
    subject,
)

pytestmark = pytest.mark.statistics

D = 2000


def gaussian_step(**kwargs):
    with pm.Model():
        pm.Normal("q", 0.0, 1.0, shape=D)
        return PSGLD(step_size=0.005, decay=0.0, damping=1.0, **kwargs)


def check_width(update=None, draws=1500):
    """N(0, 1) with the metric 1 / (1 + |q|), which moves with every step."""
    step = gaussian_step(gamma=True)
    chain = subject(step, update=update)
    q = np.random.default_rng(0).standard_normal(D)
    draws = simulate(chain, q, (chain.state["v"],), 0.005, draws=draws, inner=60, burn_in=200)
    score_mean(draws.q**2, 1.0, 0.004, "q^2")


def without_gamma(q, v, *, grad, h, noise, decay, rows, damping, temperature):
    g = grad(q)
    G = 1 / (damping + pt.abs(g))
    return q - h * G * g + pt.sqrt(2 * h * G) * noise(), v


@pytest.mark.planted
def test_a_moving_metric_samples_the_posterior_by_its_term():
    check_width()
    # Its law is (1 + |q|) exp(-q^2 / 2): a variance of 1.44.
    with pytest.raises(AssertionError, match="where the law says"):
        check_width(without_gamma, draws=200)


def test_the_term_is_the_diagonal_of_the_derivative():
    """On average over the signs, for a posterior whose coordinates depend on each other."""
    step = poisson_step(PSGLD, gamma=True, decay=0.6, damping=0.3)
    chain = subject(step)
    rows, q, h, v = np.array([[1, 4, 7]]), np.array([0.3, -0.1, 0.5, 0.2]), 0.01, np.ones(4)
    seen, decay = [], {"decay": np.array([0.6])}
    for signs in np.stack(np.meshgrid(*[[-1.0, 1.0]] * 4), axis=-1).reshape(-1, 4):
        normals = np.stack([np.zeros(4), signs])[None]
        seen.append(chain(q, (v,), np.array([h]), [rows], normals, decay).q)

    def metric(q):
        mean = poisson_gradient(q, rows[0]) / len(FEATURES)
        return 1 / (0.3 + np.sqrt(0.6 * v + 0.4 * mean**2))

    eps = 1e-6
    diagonal = [
        (metric(q + eps * e) - metric(q - eps * e))[k] / (2 * eps) for k, e in enumerate(np.eye(4))
    ]
    expected = q - h * metric(q) * poisson_gradient(q, rows[0]) + h * np.array(diagonal)
    np.testing.assert_allclose(np.mean(seen, axis=0), expected, rtol=1e-7)
    assert len(PRIOR_SD) == 4 and np.abs(diagonal).min() > 1e-4


def test_it_says_that_it_cannot_adapt_and_takes_no_estimate():
    with pm.Model():
        pm.Normal("q")
        with pytest.raises(TypeError, match="PSGLD subtracts no noise_estimate"):
            PSGLD(step_size=0.1, noise_estimate=0.1)
        with pytest.raises(NotImplementedError, match=r"cannot be tuned.*Give it a step_size"):
            PSGLD(gamma=True)
        with pytest.raises(ValueError, match=r"decay=1.5 must be below 1"):
            PSGLD(step_size=0.1, decay=1.5)
