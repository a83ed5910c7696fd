"""`check`: alarms where draws are wrong by construction, and none where they are exact."""

import matplotlib
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_sgmcmc import plot_check
from pymc_sgmcmc._utils.significance import ALPHA, critical
from pymc_sgmcmc.model.unconstrain import FlatDraws, Unconstrain
from pymc_sgmcmc.posterior import evaluation
from pymc_sgmcmc.results.check import Checker, check
from pymc_sgmcmc.results.exact_gradients import ExactGradients, thinned
from pymc_sgmcmc.results.gradient_regression import BLOCKS, regress_gradients
from pymc_sgmcmc.results.mixing import MOST, check_mixing, mixing
from tests.drawn import posterior_of
from tests.helpers import INTERPRETED, PYTHON

matplotlib.use("agg")

D, ROWS, PRIOR_SD = 6, 400, 10.0


class Regression:
    """y ~ N(X beta, 1), beta ~ N(0, 10^2): the posterior is a Gaussian that is known."""

    def __init__(self):
        rng = np.random.default_rng(1)
        # Scales 1 to 100 and correlations: the posterior's condition number is 1e4 and more.
        X = rng.normal(size=(ROWS, D)) @ np.linalg.qr(rng.normal(size=(D, D)))[0]
        X = X * np.geomspace(1, 100, D) @ np.linalg.qr(rng.normal(size=(D, D)))[0]
        y = X @ rng.normal(size=D) + rng.normal(size=ROWS)
        precision = X.T @ X + np.eye(D) / PRIOR_SD**2
        self.precision, self.covariance = precision, np.linalg.inv(precision)
        self.mean = self.covariance @ X.T @ y
        with pm.Model() as self.model:
            beta = pm.Normal("beta", 0, PRIOR_SD, shape=D)
            pm.Normal("y", X @ beta, 1, observed=y)
        self.checker = Checker(self.model)

    def draws(self, chains=4, length=1000, seed=0):
        noise = np.random.default_rng(seed).normal(size=(chains, length, D))
        return self.mean + noise @ np.linalg.cholesky(self.covariance).T

    def check(self, beta):
        return self.checker(posterior_of(beta=beta), progressbar=False)


@pytest.fixture(scope="module")
def regression():
    return Regression()


def kinds(found):
    return {alarm.kind for alarm in found.alarms}


@pytest.mark.compiled
def test_exact_draws_pass(regression):
    assert np.linalg.cond(regression.covariance) > 1e4
    found = regression.check(regression.draws())
    assert not found.alarms and found.conclusive
    assert list(found.dataset.coordinate.values) == [f"beta[{i}]" for i in range(D)]
    np.testing.assert_allclose(found.dataset.sd_ratio, 1, atol=0.06)
    np.testing.assert_allclose(found.dataset.mean_error, 0, atol=0.08)
    # For a Gaussian the gradients tell the error of these very draws, without an error of its own.
    draws = regression.draws().reshape(-1, D)
    ratio = draws.std(axis=0) / np.sqrt(np.diag(regression.covariance))
    error = (draws.mean(axis=0) - regression.mean) / np.sqrt(np.diag(regression.covariance))
    np.testing.assert_allclose(found.dataset.sd_ratio, ratio, rtol=1e-5)
    np.testing.assert_allclose(found.dataset.mean_error, error, atol=1e-5)
    text = str(found)
    assert text.count("PASS") == 4 and "would not have been seen" in text
    assert "Sd errors below 10 %" in text and "What no check sees" in text
    assert max(map(len, text.splitlines())) <= 96


@pytest.fixture(scope="module")
def of_many_runs(regression):
    return [regression.check(regression.draws(seed=s)) for s in range(100, 140)]


@pytest.mark.compiled
@pytest.mark.statistics
def test_false_alarms_are_rare(of_many_runs):
    assert sum(bool(found.alarms) for found in of_many_runs) <= 1


@pytest.mark.compiled
@pytest.mark.statistics
def test_standard_errors_are_those_of_many_runs(of_many_runs):
    for figure in ("sd_ratio", "mean_error"):
        spread = np.std([found.dataset[figure] for found in of_many_runs])
        errors = [found.dataset[f"{figure}_error"] for found in of_many_runs]
        assert 0.8 < spread / np.sqrt(np.mean(np.square(errors))) < 1.25


@pytest.mark.compiled
@pytest.mark.parametrize(("factor", "said"), [(1.2, "too wide"), (1 / 1.2, "too narrow")])
def test_wrong_sd_is_named(regression, factor, said):
    beta = regression.draws()
    beta[..., 3] = regression.mean[3] + factor * (beta[..., 3] - regression.mean[3])
    # The other coordinates were drawn with the old beta[3]: seen from the gradients, only the law
    # of beta[3] changed.
    found = regression.check(beta)
    (alarm,) = [alarm for alarm in found.alarms if alarm.kind == "sd"]
    assert "beta[3]" in alarm.text and said in alarm.text and found.conclusive
    np.testing.assert_allclose(found.dataset.sd_ratio[3], factor, rtol=0.05)
    others = found.dataset.sd_ratio.values[np.arange(D) != 3]
    np.testing.assert_allclose(others, 1, atol=0.06)


@pytest.mark.compiled
def test_wrong_temperature_is_seen_in_all_coordinates(regression):
    beta = regression.mean + 1.15 * (regression.draws() - regression.mean)
    found = regression.check(beta)
    assert kinds(found) == {"sd"} and "3 other coordinates" in found.alarms[0].text
    assert "batch_size" in found.alarms[0].text


@pytest.mark.compiled
def test_wrong_mean_is_named(regression):
    beta = regression.draws()
    beta[..., 2] += 0.4 * np.sqrt(regression.covariance[2, 2])
    found = regression.check(beta)
    assert kinds(found) == {"mean"} and "beta[2] by +0." in found.alarms[0].text
    np.testing.assert_allclose(found.dataset.mean_error[2], 0.4, atol=0.06)
    assert "ALARM" in str(found) and "biased" in str(found)


@pytest.mark.compiled
def test_separated_chains_are_not_conclusive(regression):
    beta = regression.draws()
    beta[0] += 5 * np.sqrt(np.diag(regression.covariance))
    found = regression.check(beta)
    assert "mixing" in kinds(found) and not found.conclusive
    assert "not conclusive" in str(found) and "R-hat" in found.alarms[0].text
    assert "This proves little" in str(found)


@pytest.mark.compiled
def test_slow_chain_is_an_alarm(regression):
    rng = np.random.default_rng(3)
    walk = np.cumsum(rng.normal(size=(4, 1000, D)), axis=1)
    assert "mixing" in kinds(regression.check(regression.mean + 0.1 * walk))


@pytest.mark.compiled
@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf], ids=["constant", "nan", "infinite"])
def test_unusable_coordinate_is_no_pass(regression, bad):
    beta = regression.draws()
    beta[..., 4] = bad
    found = regression.check(beta)
    assert not found.conclusive and "beta[4]" in found.alarms[0].text
    assert "NOT DONE" in str(found)
    plot_check(found)


@pytest.mark.compiled
def test_one_chain_is_checked_by_its_halves(regression):
    found = regression.check(regression.draws(chains=1, length=4000))
    assert not found.alarms and "one chain" in str(found)
    drifting = regression.draws(chains=1, length=4000)
    drifting[0, 2000:, 0] += np.sqrt(regression.covariance[0, 0])
    assert regression.check(drifting).dataset.r_hat[0] > 1.05


@pytest.mark.compiled
def test_few_draws(regression):
    found = regression.check(regression.draws(chains=2, length=3))
    assert not found.conclusive and "too few draws" in str(found) and "NOT DONE" in str(found)


@pytest.mark.compiled
def test_plot(regression):
    ax = plot_check(regression.check(regression.draws()))
    assert [label.get_text() for label in ax.get_yticklabels()] == [f"beta[{i}]" for i in range(D)]
    assert "sd" in ax.get_xlabel()
    matplotlib.pyplot.close("all")


def test_mixing_of_many_coordinates():
    q = np.random.default_rng(0).normal(size=(2, 50, 2 * MOST))
    draws = FlatDraws((), (), tuple(map(str, range(2 * MOST))), (), q,
                      np.zeros(2 * MOST, dtype=bool), {})  # fmt: skip
    figures = mixing(draws)
    assert figures.examined.sum() == MOST and np.isfinite(figures.ess).sum() == MOST


def gaussian(d, condition=1.0, n=4000, seed=0):
    """Draws of a Gaussian with correlated coordinates, their gradients, and the covariance."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(d, d)))[0]
    values = np.geomspace(1, condition, d)
    covariance, precision = (basis * values) @ basis.T, (basis / values) @ basis.T
    q = rng.normal(size=(n, d)) * np.sqrt(values) @ basis.T
    index = thinned(n, d)
    return q, index, q[index] @ precision, np.diag(covariance)


@pytest.mark.parametrize("condition", [1e8, 1e11])
def test_ill_conditioned_posterior(condition):
    q, index, gradients, variance = gaussian(10, condition)
    result = regress_gradients(q, index, gradients)
    np.testing.assert_allclose(result.variance_ratio, q.var(axis=0) / variance, rtol=1e-4)
    error = q.mean(axis=0) / np.sqrt(variance)
    np.testing.assert_allclose(result.mean_error, error, atol=1e-3)


def test_more_coordinates_than_gradients_allow():
    q, index, gradients, _ = gaussian(300)
    result = regress_gradients(q, index, gradients)
    assert not result.joint and np.isnan(result.mean_error).all()
    z = (result.variance_ratio - 1) / result.variance_ratio_error
    assert abs(z).max() < critical(ALPHA, BLOCKS - 1, 300) and 0.8 < z.std() < 1.25
    wide = regress_gradients(1.5 * q, index, 1.5 * gradients)
    np.testing.assert_allclose(wide.variance_ratio, 2.25 * result.variance_ratio)


def mixed_model():
    """Transforms of all kinds, bounds that are variables, and a discrete variable."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=ROWS)
    with pm.Model() as model:
        sigma = pm.HalfNormal("sigma")
        low = pm.Normal("low")
        u = pm.Uniform("u", low, low + sigma, shape=2)
        w = pm.Dirichlet("w", np.ones(3))
        k = pm.Poisson("k", 3)
        pm.Normal("y", k + u[0] * w[0] * x + u[1] * w[1], sigma, observed=rng.normal(size=ROWS))
    return model


def draw_mixed(chains=2, length=30):
    rng, lead = np.random.default_rng(6), (chains, length)
    sigma, low = rng.gamma(5, 0.2, size=lead), rng.normal(size=lead)
    u = low[..., None] + sigma[..., None] * rng.uniform(0.1, 0.9, size=(*lead, 2))
    w, k = rng.dirichlet(np.ones(3), size=lead), rng.poisson(3, size=lead)
    return {"sigma": sigma, "low": low, "u": u, "w": w, "k": k}


@pytest.fixture(scope="module")
def mixed():
    return mixed_model()


def test_unconstrained_values(mixed):
    given = draw_mixed()
    draws = Unconstrain(mixed)(posterior_of(**given))
    assert draws.names == (
        "sigma_log__", "low", "u_interval__[0]", "u_interval__[1]", "w_simplex__[0]",
        "w_simplex__[1]",
    )  # fmt: skip
    low, sigma, u = given["low"], given["sigma"], given["u"][..., 0]
    np.testing.assert_allclose(draws.values[..., 0], np.log(sigma))
    np.testing.assert_allclose(draws.values[..., 1], low)
    np.testing.assert_allclose(draws.values[..., 2], np.log((u - low) / (low + sigma - u)))
    logs = np.log(given["w"])
    np.testing.assert_allclose(
        draws.values[..., 4:], (logs - logs.mean(-1, keepdims=True))[..., :2]
    )
    ((var, values),) = draws.others.items()
    assert var.name == "k" and np.array_equal(values, given["k"])


@pytest.mark.statistics
def test_gradients_are_those_of_pymc(mixed, monkeypatch):
    monkeypatch.setattr(evaluation, "CHUNK", 150)  # several chunks, the last one short
    draws = Unconstrain(mixed)(posterior_of(**draw_mixed()))
    index = [0, 7, 31, 59]
    gradients = ExactGradients(mixed, backend=INTERPRETED).gradients(draws, index)
    dlogp = mixed.compile_dlogp(mode=PYTHON)
    expected = [-dlogp(draws.point(i)) for i in index]
    np.testing.assert_allclose(gradients, expected, rtol=1e-8)


@pytest.mark.compiled
def test_dependent_rows_are_taken_at_once():
    with pm.Model() as model:
        rho = pm.Normal("rho", 0, 1)
        pm.AR("y", rho=rho[None], sigma=1.0, init_dist=pm.Normal.dist(),
              observed=np.random.default_rng(7).normal(size=300))  # fmt: skip
    draws = Unconstrain(model)(posterior_of(rho=np.random.default_rng(8).normal(size=(2, 10))))
    gradients = ExactGradients(model).gradients(draws, [0, 15])
    y = np.asarray(model.rvs_to_values[model["y"]].data)
    rho = draws.flat()[[0, 15], 0]
    expected = [r - np.sum((y[1:] - r * y[:-1]) * y[:-1]) for r in rho]
    np.testing.assert_allclose(gradients[:, 0], expected, rtol=1e-8)


@pytest.mark.compiled
def test_minibatch_model_is_checked_on_all_rows():
    values = np.random.default_rng(9).normal(1.0, 1.0, size=500)
    with pm.Model() as model:
        batch = pm.Minibatch(values, batch_size=10)
        pm.Normal("y", pm.Normal("mu", 0, 10), 1.0, observed=batch, total_size=500)
    sd = (500 + 0.01) ** -0.5
    mu = values.sum() * sd**2 + sd * np.random.default_rng(10).normal(size=(4, 500))
    found = check(posterior_of(mu=mu), model)
    assert not found.alarms
    np.testing.assert_allclose(found.dataset.sd_ratio, mu.std() / sd, rtol=1e-6)


def test_wrong_total_size_is_refused():
    with pm.Model() as model:
        batch = pm.Minibatch(np.zeros(500), batch_size=10)
        pm.Normal("y", pm.Normal("mu", 0, 10), 1.0, observed=batch, total_size=5000)
    with pytest.raises(ValueError, match="total_size=5000 of 'y'"):
        check(posterior_of(mu=np.zeros((2, 100))), model)


@pytest.mark.compiled
def test_missing_and_mismatched_variables(regression, mixed):
    given = draw_mixed()
    del given["sigma"], given["k"]
    with pytest.raises(ValueError, match=r"lacks the free variables \['sigma', 'k'\].*var_names"):
        Unconstrain(mixed)(posterior_of(**given))
    with pytest.raises(ValueError, match=r"'beta' has shape \(5,\) in the posterior, and \(6,\)"):
        Unconstrain(regression.model)(posterior_of(beta=np.zeros((2, 10, 5))))
    with pytest.raises(ValueError, match="without a posterior"):
        Unconstrain(regression.model)({})


@pytest.fixture(scope="module")
def change_point():
    with pm.Model() as model:
        k = pm.Categorical("k", np.full(20, 0.05))
        pm.Bernoulli("z", 0.5, shape=3)
        mu = pm.Normal("mu", shape=2)
        pm.Normal("y", pt.switch(np.arange(20) < k, mu[0], mu[1]), 1.0, observed=np.arange(20.0))
    return Unconstrain(model)


@pytest.mark.parametrize("stuck", [False, True])
def test_discrete_variables_that_have_not_mixed(change_point, stuck):
    r = np.random.default_rng(1)
    k, z = r.integers(4, 9, size=(4, 500)), r.integers(2, size=(4, 500, 3))
    z[..., 2] = 1  # the same throughout: that is no fault
    if stuck:
        k = np.broadcast_to(np.array([[5], [5], [8], [5]]), (4, 500))
        z[..., 1] = np.cumsum(r.random((4, 500)) < 0.01, axis=1) % 2
    draws = change_point(posterior_of(k=k, z=z, mu=r.normal(size=(4, 500, 2))))
    found = check_mixing(draws)
    assert len(found.alarms) == stuck
    if stuck:
        (alarm,) = found.alarms
        assert alarm.kind == "mixing" and "k has R-hat" in alarm.text and "z[1] has" in alarm.text
        assert "z[0]" not in alarm.text and "z[2]" not in alarm.text


def test_discrete_model_has_nothing_to_check():
    with pm.Model() as model:
        pm.Poisson("k", 3)
    with pytest.raises(ValueError, match="no free continuous variable"):
        check(posterior_of(k=np.ones((2, 10), dtype=int)), model)


@pytest.mark.compiled
def test_a_chain_that_never_moves_is_no_pass(regression):
    beta = regression.draws()
    beta[2, :, 1] = beta[2, 0, 1]
    found = regression.check(beta)
    assert not found.conclusive and "beta[1] is constant" in found.alarms[0].text
