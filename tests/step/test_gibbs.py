"""Conditionals of the user beside other step methods, against exact posteriors."""

import arviz as az
import numpy as np
import pymc as pm
import pytest
from scipy.stats import invwishart

from pymc_sgmcmc import SGNHT, Gibbs, Resumable, resume, save
from tests.cases import draws, sample
from tests.helpers import score_mean

pytestmark = pytest.mark.statistics

Y = np.random.default_rng(3).normal(1.0, 2.0, size=30)
A, B, K = 2.0, 3.0, 0.5  # tau ~ Gamma(A, B), mu ~ N(0, 1 / (K tau))


def normal_gamma():
    with pm.Model() as model:
        tau = pm.Gamma("tau", alpha=A, beta=B)
        mu = pm.Normal("mu", 0.0, tau=K * tau)
        pm.Normal("y", mu, tau=tau, observed=Y)
    return model


def precision(point, rng):
    squares = np.sum((Y - point["mu"]) ** 2) + K * point["mu"] ** 2
    return rng.gamma(A + (len(Y) + 1) / 2) / (B + squares / 2)


def mean(point, rng):
    n = len(Y) + K
    return Y.sum() / n + rng.standard_normal() / np.sqrt(n * point["tau"])


def check_normal_gamma(idata):
    """Mean and variance of mu (a Student's t) and of tau (a Gamma)."""
    n = len(Y)
    centre, shape = Y.sum() / (n + K), A + n / 2
    rate = B + (np.sum(Y**2) - (n + K) * centre**2) / 2
    width = rate / (n + K) / (shape - 1)
    mu, tau = draws(idata, "mu").T, draws(idata, "tau").T
    score_mean((mu - centre) / np.sqrt(width), 0.0, 0.03, "E mu")
    score_mean((mu - centre) ** 2 / width, 1.0, 0.03, "Var mu")
    score_mean(tau * rate / shape, 1.0, 0.01, "E tau")
    score_mean((tau * rate / shape - 1) ** 2 * shape, 1.0, 0.04, "Var tau")


def test_both_conditionals_of_the_normal_gamma():
    with normal_gamma() as model:
        steps = [Gibbs(model["tau"], precision), Gibbs(model["mu"], mean)]
        check_normal_gamma(sample(steps, draws=8000, tune=50, chains=4))


@pytest.mark.planted
def test_a_wrong_conditional_shows():
    with normal_gamma() as model:
        wrong = Gibbs(model["tau"], lambda point, rng: 1.2 * precision(point, rng))
        idata = sample([wrong, Gibbs(model["mu"], mean)], draws=4000, tune=50)
    with pytest.raises(AssertionError, match="where the law says"):
        check_normal_gamma(idata)


def test_beside_a_step_method_of_this_package():
    """The precision by Gibbs, its conditional in the constrained value; the mean by SGNHT."""
    with normal_gamma() as model:
        step = SGNHT([model["mu"]], step_size=0.1, diffusion=1.0, steps_per_draw=20)
        idata = sample([step, Gibbs(model["tau"], precision)], draws=8000, tune=200, chains=4)
    check_normal_gamma(idata)


def mixture():
    """Two bivariate clusters: labels by PyMC's Gibbs, means by SGNHT, covariances by Gibbs."""
    rng = np.random.default_rng(9)
    y = np.concatenate([rng.multivariate_normal([-3, 0], [[1, 0.5], [0.5, 1]], 60),
                        rng.multivariate_normal([3, 1], [[0.5, 0], [0, 2]], 40)])  # fmt: skip
    with pm.Model() as model:
        z = pm.Categorical("z", [0.5, 0.5], shape=100, initval=(y[:, 0] > 0).astype(int))
        mu = pm.Normal("mu", 0.0, 5.0, shape=(2, 2), initval=np.array([[-3.0, 0.0], [3.0, 0.0]]))
        S = pm.Flat("S", shape=(2, 2, 2), initval=np.array([np.eye(2)] * 2))
        residual = y - mu[z]
        chosen = S[z]
        det = chosen[:, 0, 0] * chosen[:, 1, 1] - chosen[:, 0, 1] * chosen[:, 1, 0]
        quadratic = (
            chosen[:, 1, 1] * residual[:, 0] ** 2
            - 2 * chosen[:, 0, 1] * residual[:, 0] * residual[:, 1]
            + chosen[:, 0, 0] * residual[:, 1] ** 2
        ) / det
        pm.Potential("y", -0.5 * pm.math.sum(quadratic + pm.math.log(det)))

    def covariances(point, rng):
        return np.array([
            invwishart.rvs(5 + np.sum(point["z"] == k),
                           np.eye(2) + (r := y[point["z"] == k] - point["mu"][k]).T @ r,
                           random_state=rng)
            for k in range(2)
        ])  # fmt: skip

    return model, covariances


def test_inverse_wishart_in_a_mixture():
    model, covariances = mixture()
    with model:
        step = SGNHT([model["mu"]], step_size=0.05, diffusion=1.0, jitter=False)
        gibbs = pm.CategoricalGibbsMetropolis([model["z"]])
        idata = sample([step, gibbs, Gibbs(model["S"], covariances)], draws=400, tune=200)
    means = draws(idata, "mu").mean(axis=(0, 1))
    np.testing.assert_allclose(means, [[-3, 0], [3, 1]], atol=0.5)
    S = draws(idata, "S").mean(axis=(0, 1))
    np.testing.assert_allclose(S, [[[1, 0.5], [0.5, 1]], [[0.5, 0], [0, 2]]], atol=0.7)
    assert (np.linalg.eigvalsh(draws(idata, "S")) > 0).all()


def test_seeds_cores_and_a_vector_with_a_transform():
    """Shares on the simplex, whose value variable has one coordinate less."""
    with pm.Model() as model:
        pm.Dirichlet("shares", np.ones(3))
        pm.Multinomial("counts", 20, model["shares"], observed=[10, 6, 4])
        gibbs = Gibbs(model["shares"], lambda point, rng: rng.dirichlet([11.0, 7.0, 5.0]))
        one, two = sample(gibbs, draws=2000), sample(gibbs, draws=2000, cores=2)
    np.testing.assert_array_equal(draws(one, "shares"), draws(two, "shares"))
    drawn = draws(one, "shares")
    np.testing.assert_allclose(drawn.sum(axis=2), 1)
    for k, count in enumerate([11, 7, 5]):
        score_mean(drawn[..., k].T, count / 23, 0.005, f"share {k}")
    assert float(az.ess(one)["shares"].min()) > 3000


def test_a_run_with_it_can_be_resumed(tmp_path):
    with normal_gamma() as model:

        def steps():
            return Resumable([Gibbs(model["tau"], precision), Gibbs(model["mu"], mean)])

        whole = sample(steps(), draws=30, tune=5)
        step = steps()
        save(sample(step, draws=10, tune=5), step, tmp_path / "run")
        idata = resume(tmp_path / "run", step, draws=20, progressbar=False)
    np.testing.assert_array_equal(draws(idata, "tau"), draws(whole, "tau"))


@pytest.mark.parametrize(
    ("conditional", "match"),
    [
        (lambda point, rng: np.ones(2), r"'tau' returned shape \(2,\), and the variable has \(\)"),
        (
            lambda point, rng: -1.0,
            r"'tau' returned -1.0, which is not finite, or not in the support",
        ),
        (lambda point, rng: np.nan, "'tau' returned nan"),
    ],
)
def test_a_value_that_cannot_be(conditional, match):
    with normal_gamma() as model:
        step = Gibbs(model["tau"], conditional)
        with pytest.raises(ValueError, match=match):
            step.step(model.initial_point())


def test_a_discrete_variable_takes_whole_numbers():
    with pm.Model() as model:
        pm.Poisson("k", 3.0)
        with pytest.raises(ValueError, match=r"'k' returned 1.9, and the variable is discrete"):
            Gibbs(model["k"], lambda point, rng: 1.9).step(model.initial_point())
        point, _ = Gibbs(model["k"], lambda point, rng: 2.0).step(model.initial_point())
    assert point["k"] == 2


def test_refusals():
    with normal_gamma() as model:
        with pytest.raises(TypeError, match="conditional=3 is no function"):
            Gibbs(model["tau"], 3)
        with pytest.raises(ValueError, match=r"takes one variable, and has \['tau_log__', 'mu'\]"):
            Gibbs([model["tau"], model["mu"]], precision)
