"""SGRLD: the mirrored step against quadrature, Dirichlet moments, and what it refuses."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy.stats import norm

from pymc_sgmcmc import SGRLD
from tests.cases import begin, draws, sample, walk
from tests.helpers import score_mean, simulate, subject

pytestmark = pytest.mark.statistics

D = 2000


def gamma_step(alpha, **kwargs):
    with pm.Model():
        pm.Gamma("theta", alpha=alpha, beta=1.0, shape=D)
        return SGRLD(**kwargs)


def one_step_law(alpha, h, top=60.0, n=1500):
    """Mean and variance of the mirrored chain on a Gamma(alpha, 1), by its transition matrix."""
    edges = np.linspace(0.0, np.sqrt(top), n + 1) ** 2
    theta = (edges[1:] + edges[:-1]) / 2
    mean, sd = theta + h * (alpha - theta), np.sqrt(2 * h * theta)
    above = norm.cdf((edges - mean[:, None]) / sd[:, None])
    below = norm.cdf((-edges - mean[:, None]) / sd[:, None])
    step = np.diff(above, axis=1) - np.diff(below, axis=1)
    step[:, -1] += 1 - step.sum(axis=1)
    p = np.full(n, 1 / n)
    for _ in range(int(20 / h)):
        p = p @ step
    mean = p @ theta
    return mean, p @ (theta - mean) ** 2


def check_gamma(alpha, h, update=None):
    step = gamma_step(alpha, step_size=h)
    chain = subject(step, update=update)
    start = np.log(np.random.default_rng(1).gamma(alpha, size=D))
    drawn = np.exp(simulate(chain, start, (), h, draws=1000, inner=40, burn_in=100).q)
    mean, variance = one_step_law(alpha, h)
    score_mean(drawn / mean, 1.0, 0.004, "mean")
    score_mean((drawn - mean) ** 2 / variance, 1.0, 0.015, "variance")
    return mean, variance


def without_the_metric_in_the_noise(q, *, grad, h, noise, temperature):
    return (pt.log(pt.abs(pt.exp(q) - h * grad(q) + pt.sqrt(2 * h) * noise())),)


def without_the_term_of_the_metric(q, *, grad, h, noise, temperature):
    theta = pt.exp(q)
    return (pt.log(pt.abs(theta - h * (grad(q) + 1) + pt.sqrt(2 * h * theta) * noise())),)


@pytest.mark.parametrize(("alpha", "h"), [(1.0, 0.05), (1.7, 0.1), (5.0, 0.2)])
def test_the_law_is_that_of_the_mirrored_step(alpha, h):
    mean, variance = check_gamma(alpha, h)
    if alpha == 1:
        assert mean == pytest.approx(1.03, abs=0.01)
    if alpha == 5:  # the mirror is far away
        assert mean == pytest.approx(5, rel=1e-3)
        assert variance == pytest.approx(5 / (1 - h / 2), rel=0.01)


@pytest.mark.planted
@pytest.mark.parametrize(
    "update", [without_the_metric_in_the_noise, without_the_term_of_the_metric]
)
def test_the_law_shows_a_mistake(update):
    with pytest.raises(AssertionError, match=r"where the law says|diverged"):
        check_gamma(1.7, 0.1, update=update)


def test_dirichlet_moments_by_the_expanded_mean():
    """500 probability vectors at once, each with data of its own.

    Steps of h make variances 1.8 h too large: half of the Monte Carlo error with this one.
    """
    alpha, counts, copies = np.array([1.0, 2.0, 3.0]), np.array([4, 0, 7]), 500
    with pm.Model():
        theta = pm.Gamma("theta", alpha=np.tile(alpha, (copies, 1)), beta=1.0)
        pi = theta / theta.sum(axis=1, keepdims=True)
        pm.Potential("counts", pm.math.sum(counts * pm.math.log(pi)))
        step = SGRLD(step_size=0.001, steps_per_draw=1000)
        idata = sample(step, draws=300, tune=20, chains=2)
    drawn = draws(idata, "theta").reshape(-1, copies, 3)
    pi = drawn / drawn.sum(axis=2, keepdims=True)
    posterior = alpha + counts
    share = posterior / posterior.sum()
    variance = share * (1 - share) / (posterior.sum() + 1)
    for k in range(3):
        score_mean(pi[..., k], share[k], 0.005 * share[k], f"mean {k}")
        score_mean((pi[..., k] - share[k]) ** 2 / variance[k], 1.0, 0.02, f"variance {k}")


def test_conformance():
    rng = np.random.default_rng(0)
    with pm.Model() as model:
        pm.Exponential("beta", 1.0, shape=2)
        pm.Poisson("y", model["beta"][pm.Data("of", rng.integers(2, size=40))],
                   observed=pm.Data("y_data", rng.poisson(2.0, size=40)))  # fmt: skip
        step = SGRLD(step_size=0.02, batch_size=10)
        one, two = sample(step), sample(step, cores=2)
    np.testing.assert_array_equal(draws(one), draws(two))
    begin(step)
    point, _ = walk(step, model.initial_point(), 3)
    assert (point["beta_log__"] != 0).all()


def test_refusals():
    with pm.Model():
        pm.Normal("mu")
        pm.HalfNormal("sd")
        pm.Gamma("rate", alpha=0.3, beta=1.0)
        with pytest.raises(ValueError, match=r"positive variables.*'mu' is not one of these"):
            SGRLD(step_size=0.1)
        with pytest.raises(NotImplementedError, match="give it a step_size"):
            SGRLD(step_size=None)
        with pytest.raises(NotImplementedError, match="and no metric"):
            SGRLD(step_size=0.1, metric="diag")
        with pytest.warns(UserWarning, match=r"'rate' has alpha=0.3: the mirror at zero"):
            SGRLD([pm.modelcontext(None)["rate"]], step_size=0.1)
