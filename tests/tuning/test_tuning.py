"""Self-tuning end to end: with no argument the posterior is right, and what was found is said."""

import logging
from dataclasses import replace
from functools import cache

import arviz as az
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pymc.exceptions import SamplingError

import pymc_sgmcmc.posterior.target
from pymc_sgmcmc import (
    PSGHMC,
    PSGLD,
    SGFS,
    SGHMC,
    SGLD,
    SGNHT,
    Polynomial,
    Resumable,
    Santa,
    report,
    resume,
    running_sums,
    save,
)
from pymc_sgmcmc._utils.coordinates import Coordinates
from pymc_sgmcmc._utils.metric import metric_of
from pymc_sgmcmc.chain.stats import TUNED_STATS
from pymc_sgmcmc.posterior import near_anchor
from pymc_sgmcmc.step.arguments import MANY_ROWS
from pymc_sgmcmc.tuning.choice import STEP_SHARE
from pymc_sgmcmc.tuning.locate import Located
from pymc_sgmcmc.tuning.sparse_metric import SparseFactor
from pymc_sgmcmc.tuning.windows import window_length
from tests.benchmarks.trust_models import eight_schools
from tests.cases import draws, regression, sample
from tests.helpers import PLAIN, coefficients_of, initial_state
from tests.tiers import statistics_but

SAMPLERS = [SGLD, SGHMC, SGNHT, Santa, PSGLD, PSGHMC]
SHORT = {"tune": 110, "draws": 10, "chains": 2}


@cache
def correlated():
    """A linear regression whose scales differ by 1e4 and whose coefficients correlate at 0.99."""
    rng = np.random.default_rng(11)
    x = rng.normal(size=(2000, 4))
    x[:, 1] = x[:, 0] + 0.1 * x[:, 1]
    x *= [100.0, 100.0, 1.0, 0.01]
    y = x @ [0.01, 0.0, 1.0, 30.0] + rng.normal(size=2000)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 100.0, shape=4)
        pm.Normal("y", pm.Data("x", x) @ beta, 1.0, observed=y)
    precision = x.T @ x + np.eye(4) / 1e4
    return model, np.linalg.solve(precision, x.T @ y), np.sqrt(np.diag(np.linalg.inv(precision)))


@cache
def untold():
    """That model, and a step method on it without an argument."""
    model, *_ = correlated()
    with model:
        return model, SGNHT()


def tuned(step, **kwargs):
    settings = {"draws": 1000, "tune": 600, "chains": 4, "random_seed": 1}
    return sample(step, **(settings | kwargs))


def check_posterior(beta, mean, sd, slack=0.0):
    """Means and sds within four Monte Carlo errors, from the spread between chains, and `slack`."""
    chains = beta.shape[0]
    of_means = (beta.mean(axis=1) - mean) / sd
    of_sds = beta.std(axis=1) / sd - 1
    for values in (of_means, of_sds):
        error = np.sqrt(values.var(axis=0, ddof=1).mean() / chains)
        assert error < 0.03, f"a Monte Carlo error of {error:.3f} says nothing"
        assert (np.abs(values.mean(axis=0)) < 4 * error + slack).all(), values.mean(axis=0)


@pytest.mark.compiled
@pytest.mark.parametrize("sampler", statistics_but([SGNHT], [*SAMPLERS, SGFS]))
def test_no_argument_is_needed(sampler):
    model, mean, sd = correlated()
    with model:
        step = untold()[1] if sampler is SGNHT else sampler()
        idata = tuned(step, draws=3000 if sampler in (SGLD, PSGLD, SGFS) else 1000)
    check_posterior(draws(idata), mean, sd, slack=0.01)
    stats = idata.sample_stats
    assert (stats.predicted_bias <= 0.05).all() and (stats.decrement < 4).all()
    assert stats.control_variate.all() and (stats.batch_size == 64).all()
    assert (stats.metric_condition > 100).all()  # 1 - 0.99^2 and its inverse
    assert not stats.diverging.any()


@pytest.mark.statistics
@pytest.mark.parametrize("settings", [
    {"gradient": "plain", "integrator": "symmetric"},
    {"gradient": "svrg", "batches": "blocks"},
    {"batches": "epochs", "integrator": "euler"},
    {"metric": "diag", "steps_per_draw": 100},
    {"friction": 2.0, "bias_tolerance": 0.02},
    {"batch_size": 100, "steps_per_draw": 5},
], ids=str)  # fmt: skip
def test_what_is_given_is_kept_and_the_rest_is_found(settings):
    model, mean, sd = correlated()
    with model:
        idata = tuned(SGHMC(**settings))
    check_posterior(draws(idata), mean, sd, slack=0.02)
    stats = idata.sample_stats
    assert (stats.predicted_bias <= settings.get("bias_tolerance", 0.05)).all()
    if "batch_size" in settings:
        assert (stats.batch_size == 100).all()
    if settings.get("gradient") == "plain":
        assert not stats.control_variate.any() and (stats.batch_size > 500).all()


@pytest.mark.statistics
def test_a_far_start_ends_in_the_same_place():
    model, mean, sd = correlated()
    direction = np.array([1.0, -1.0, 1.0, 1.0])
    with model:
        step = SGNHT()
        idata = tuned(step, initvals=[{"beta": mean + 1000 * s * direction * sd} for s in
                                      (1, -1, 3, -3)])  # fmt: skip
    check_posterior(draws(idata), mean, sd, slack=0.01)


@pytest.mark.statistics
@pytest.mark.parametrize("sampler", [SGHMC, SGNHT, Santa])
def test_the_step_is_stable_in_the_tails(sampler):
    """Where tau is large, the curvature of this posterior is up to 40 times that of the bulk."""
    problem = eight_schools()
    with problem.model:
        idata = tuned(sampler(), tune=1000, chains=6, keep_warning_stat=True)
    sds = problem.coordinates(idata.posterior).std(axis=1) / problem.sd
    error = sds.std(axis=0, ddof=1) / np.sqrt(len(sds))
    assert (np.abs(sds.mean(axis=0) - 1) < 4 * error + 0.03).all()
    kinds = [w.extra for w in idata.sample_stats["warning"].values.ravel() if w is not None]
    assert not {"excursion", "width"} & set(kinds), kinds


@pytest.mark.statistics
@pytest.mark.compiled
@pytest.mark.parametrize("tune", [1, 99, 100, 349, 351])
def test_tuning_may_stop_at_any_draw(tune):
    model, mean, sd = correlated()
    with model:
        idata = tuned(SGNHT(), tune=tune, draws=1500)
    check_posterior(draws(idata), mean, sd, slack=0.02)


@pytest.mark.compiled
def test_windows_are_learned_from_when_they_are_over():
    model, step = untold()
    with model:
        idata = tuned(step, tune=400, draws=2, chains=1, discard_tuned_samples=False)
    costs = np.diff(idata.warmup_sample_stats.tuning_gradients.values[0])
    ends = np.flatnonzero(costs > 10 * np.median(costs)) + 1
    assert list(ends) == [window_length(0), window_length(0) + window_length(1)]


@pytest.mark.statistics
@pytest.mark.parametrize("metric", ["dense", "diag"])
def test_metric_and_centre_are_those_of_the_draws(metric):
    scales, mean = np.array([0.2, 1.0, 5.0]), np.array([1.0, -2.0, 30.0])
    covariance = np.outer(scales, scales) * (0.8 + 0.2 * np.eye(3))
    rng = np.random.default_rng(12)
    with pm.Model():
        pm.MvNormal("q", np.zeros(3), np.eye(3))  # another law: only draws can tell
        step = SGHMC(metric=metric)
    chain = replace(step.state.tuned, injected_noise=1.0)
    for q in rng.multivariate_normal(mean, covariance, sum(map(window_length, range(3)))):
        chain = step.chain.parts.tuner.learn(chain, q, rng)
    assert chain.window.index == 3
    L, centre = chain.coordinates.metric.factor, chain.coordinates.centre
    if metric == "dense":
        ratios = np.linalg.eigvals(np.linalg.solve(L @ L.T, covariance))
    else:
        ratios = scales**2 / L**2
    np.testing.assert_allclose(ratios, 1.0, atol=0.3)  # 4 errors of a variance from 360 draws
    assert (np.abs(centre - mean) < 4 * scales / np.sqrt(360)).all()


@pytest.mark.compiled
def test_a_divergence_halves_the_step_size_and_starts_the_window_anew():
    rng = np.random.default_rng(13)
    with pm.Model():
        pm.Normal("q", shape=2)
        step = SGHMC()
    chain = step.chain.parts.tuner.start(step.state.tuned, np.zeros(2), rng)
    for _ in range(90):
        chain = step.chain.parts.tuner.learn(chain, rng.standard_normal(2), rng)
    cut = step.chain.parts.tuner.learn(chain, None, rng)
    assert cut.step_size == chain.step_size / 2 and cut.window.draws == 0
    for _ in range(window_length(0)):
        cut = step.chain.parts.tuner.learn(cut, rng.standard_normal(2), rng)
    assert cut.window.index == 1 and 0.4 < cut.step_size / chain.step_size < 0.6


@pytest.mark.compiled
def test_without_a_metric_the_noise_bounds_the_step_size():
    with regression() as model:
        step = SGHMC(metric=None, gradient="plain", batch_size=2, rng=0)
        _, (stats,) = step.step(model.initial_point())
    assert stats["step_size"] < 1e-3 and stats["noise_fraction"] > 0.05
    np.testing.assert_allclose(stats["predicted_bias"], (1 - STEP_SHARE) * 0.05, rtol=1e-4)


@pytest.mark.compiled
def test_without_tuning_draws_it_is_refused():
    model, step = untold()
    with model, pytest.raises(SamplingError, match=r"tune=0, and sgnht.*step_size=None"):
        sample(step, tune=0)


@pytest.mark.compiled
@pytest.mark.parametrize("sampler", statistics_but([SGNHT], SAMPLERS))
def test_with_a_step_size_nothing_is_tuned(sampler):
    with regression():
        step = sampler(step_size=1e-3, batch_size=5, **PLAIN)
        stats = sample(step).sample_stats
    assert not set(TUNED_STATS) & set(stats)
    with pytest.raises(ValueError, match="nothing to report"):
        report(sample_of(stats))


def sample_of(stats):
    return type("Data", (), {"sample_stats": stats})


@pytest.mark.statistics
@pytest.mark.compiled
@pytest.mark.parametrize("sampler", [SGNHT, Santa])
def test_a_chain_depends_on_its_seed_alone(sampler):
    """Tuners are the same for all samplers; Santa learns scales of its own beside them."""
    with regression():
        step = sampler(batch_size=5)
        one = draws(sample(step, **SHORT))
        np.testing.assert_array_equal(one, draws(sample(step, **SHORT)))
        np.testing.assert_array_equal(one, draws(sample(step, cores=2, **SHORT)))


@pytest.mark.statistics
def test_spawned_processes_agree():
    with regression():
        step = SGNHT(batch_size=5)
        one, spawned = sample(step, **SHORT), sample(step, cores=2, mp_ctx="spawn", **SHORT)
    np.testing.assert_array_equal(draws(one), draws(spawned))
    sums, of_spawned = running_sums(one), running_sums(spawned)
    for name in sums:
        np.testing.assert_array_equal(sums[name], of_spawned[name])


@pytest.mark.compiled
def test_a_tuned_chain_resumes(tmp_path):
    with regression():
        step = Resumable(SGNHT(batch_size=5, gradient="svrg"), every=20)
        settings = {"tune": 110, "chains": 2}
        whole = sample(step, draws=60, **settings)
        save(sample(step, draws=40, **settings), step, tmp_path / "run")
        again = resume(tmp_path / "run", step, draws=20, cores=1, progressbar=False)
    np.testing.assert_array_equal(draws(whole), draws(again))


@pytest.mark.statistics
def test_float32():
    with pytensor.config.change_flags(floatX="float32"), regression():
        idata = tuned(SGNHT(batch_size=5))
    x, y = (regression()[name].get_value() for name in ("x", "y"))
    precision = x.T @ x + np.eye(2)
    sd = np.sqrt(np.diag(np.linalg.inv(precision)))
    check_posterior(draws(idata), np.linalg.solve(precision, x.T @ y), sd, slack=0.03)


@pytest.mark.statistics
def test_few_rows_have_exact_gradients_and_many_have_blocks():
    for n_rows, size, batches in ((256, [], "Random"), (257, [128], "Random"),
                                  (MANY_ROWS, [128], "Blocks")):  # fmt: skip
        with pm.Model():
            pm.Normal("y", pm.Normal("mu"), 1.0, observed=np.zeros(n_rows))
            step = SGLD()
        assert step.target.batch_sizes == size and type(step.chain.parts.source).__name__ == batches


@pytest.mark.statistics
def test_noise_from_few_rows_is_seen():
    """One row in a hundred tells of a coefficient: a minibatch of a few hundred does not."""
    rng = np.random.default_rng(14)
    for n_rows, everything in ((1000, True), (20_000, False)):
        x = np.column_stack([np.ones(n_rows), np.arange(n_rows) % 100 == 0])
        y = rng.random(n_rows) < 1 / (1 + np.exp(-x @ [-4.0, 1.0]))
        with pm.Model() as model:
            beta = pm.Normal("beta", 0.0, 3.0, shape=2)
            pm.Bernoulli("y", logit_p=pm.Data("x", x) @ beta, observed=y.astype(int))
            step = SGHMC(batches="random", rng=0)
        _, (stats,) = step.step(model.initial_point())
        assert (stats["batch_size"] == n_rows) == everything and stats["batch_size"] >= 256
        assert (stats["noise_fraction"] == 0.0) == everything


@pytest.mark.compiled
def test_rows_that_do_not_separate_have_exact_gradients(caplog):
    rng = np.random.default_rng(3)
    with pm.Model():
        rho = pm.Normal("rho", 0.0, 0.5)
        pm.AR("y", rho, sigma=1.0, init_dist=pm.Normal.dist(), steps=299,
              observed=rng.normal(size=300))  # fmt: skip
        with caplog.at_level(logging.WARNING, "pymc.sgmcmc"):
            step = SGHMC()
    assert not step.target.groups and "Exact gradients of y, because" in caplog.text


@pytest.mark.compiled
def test_the_batch_size_of_a_minibatch_is_kept():
    x = np.random.default_rng(4).normal(size=1000)
    with pm.Model():
        batch = pm.Minibatch(x, batch_size=50)
        pm.Normal("y", pm.Normal("mu"), 1.0, observed=batch, total_size=1000)
        idata = tuned(SGHMC(), tune=150, draws=10, chains=1)
    assert (idata.sample_stats.batch_size == 50).all()


@pytest.mark.statistics
def test_other_step_methods_in_the_likelihood_forbid_control_variates():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(2000, 2))
    y = x @ [1.0, -1.0] + 0.5 + rng.normal(size=2000)
    with pm.Model():
        b, c = pm.Normal("b", shape=2), pm.Normal("c")
        pm.Normal("y", pm.Data("x", x) @ b + c, 1.0, observed=y)
        with pytest.warns(UserWarning, match="does not sample"):
            steps = [SGHMC([b]), SGNHT([c])]
            with pytest.raises(ValueError, match=r"gradient='svrg'.*\['c'\]"):
                SGHMC([b], gradient="svrg")
        idata = tuned(steps)
    design = np.column_stack([x, np.ones(2000)])
    precision = design.T @ design + np.eye(3)
    mean, sd = np.linalg.solve(precision, design.T @ y), np.sqrt(np.diag(np.linalg.inv(precision)))
    check_posterior(np.dstack([draws(idata, "b"), draws(idata, "c")]), mean, sd, slack=0.02)
    assert not idata.sample_stats.control_variate.any()


@pytest.mark.statistics
def test_noise_that_is_measured_is_subtracted():
    """A Gaussian mean whose gradient noise is as large as the friction allows."""
    rng = np.random.default_rng(6)
    y = rng.exponential(size=(400, 50))
    with pm.Model():
        q = pm.Flat("q", shape=50)
        pm.Normal("y", q, 20.0, observed=pm.Data("data", y))
        given = {"step_size": 0.2, "batch_size": 2, "friction": 0.15, "steps_per_draw": 100}
        V = 400**2 / 2 * y.var(axis=0) / 20.0**4
        ratios = {}
        for estimate in (0.0, "auto"):
            step = SGHMC(**given, noise_estimate=estimate)
            ratios[estimate] = draws(tuned(step, draws=1500), "q").var(axis=(0, 1))
    law = 1 + (0.2**2 * V / 4) / np.tanh(0.15 * 0.2 / 2) / (1 - 0.2**2 / 4)
    assert abs(np.mean(ratios[0.0] / law) - 1) < 0.02 and law.mean() > 1.3
    assert abs(ratios["auto"].mean() - 1) < 0.05


@pytest.mark.compiled
@pytest.mark.parametrize("thermostat", statistics_but(["coordinate"], ["scalar", "coordinate"]))
def test_a_thermostat_starts_where_it_settles(thermostat):
    """At A + h V / 2, and at rest in the first window."""
    with regression() as model:
        step = SGNHT(batch_size=5, noise_estimate=0.0, diffusion=2.0, thermostat=thermostat,
                     gradient="plain")  # fmt: skip
    point = model.initial_point()
    for draw in range(window_length(0) + 1):
        point, _ = step.step(point)
        settled = 2.0 + step.state.tuned.step_size * step.state.tuned.noise / 2
        xi = initial_state(step, np.random.default_rng(0))["xi"]
        np.testing.assert_allclose(xi, settled.mean() if thermostat == "scalar" else settled)
        assert np.isinf(coefficients_of(step)["mass"]) == (draw < window_length(0) - 1)
    assert np.isfinite(step.chain.frame.coefficients["mass"]) and settled.mean() > 2.01


@pytest.mark.compiled
def test_the_centre_of_svrg_follows_the_chain():
    with regression() as model:
        step = SGHMC(batch_size=5, gradient="svrg", steps_per_draw=2)
    point, moved = model.initial_point(), []
    for draw in range(12):
        point, _ = step.step(point)
        moved.append(np.array_equal(step.state.tuned.anchor, point["beta"]))
        gradient = step.target.batched_gradient(step.state.tuned.anchor)
        np.testing.assert_allclose(step.state.tuned.anchor_gradient, gradient)
    assert moved == [draw % 4 == 3 for draw in range(12)]  # 8 batches, 2 a draw


def test_a_noise_estimate_that_cannot_be_measured_is_refused():
    with regression():
        for settings, match in (
            ({"batches": "epochs"}, "drawn independently"),
            ({"step_size": Polynomial(0.1, 1.0, 0.5)}, "follows the step size"),
        ):
            with pytest.raises(ValueError, match=match):
                SGHMC(**({"step_size": 0.1, "batch_size": 5} | settings), noise_estimate="auto")


@pytest.mark.compiled
def test_a_centre_that_is_not_found_is_said(monkeypatch):
    nowhere = Located(Coordinates(np.zeros(2), metric_of(np.eye(2))), 1e6, 0.0, np.ones(2))
    with regression() as model:
        step = SGHMC(rng=0)
    monkeypatch.setattr(step.chain.parts.tuner, "_locator", lambda *_: nowhere)
    _, (stats,) = step.step(model.initial_point())
    assert "not found" in stats["warning"].message and "initvals" in stats["warning"].message


@pytest.mark.compiled
def test_gradients_far_away_are_finite():
    """PyMC 5.28 differentiates log(1 - sigmoid(x)) to NaN where the sigmoid is one."""
    with pm.Model():
        x = pm.Data("x", np.repeat([1.0, 2.0], 150))
        pm.Bernoulli("y", logit_p=pm.Flat("b") * x, observed=np.arange(300) % 2)
        step = SGLD(step_size=1e-3)
    value, gradient = step.target.value_and_gradient(np.array([800.0]))
    np.testing.assert_allclose([value, gradient[0]], [225 * 800.0, 225.0])


@pytest.mark.compiled
def test_report():
    model, step = untold()
    with model:
        idata = tuned(step, tune=110, draws=5, chains=2)
    header, *rows = report(idata).splitlines()
    names = ["chain", "h", "batch", "gradient", "noise", "condition", "decrement", "bias", "tuning"]
    assert header.split() == names
    assert len(rows) == 2 and all("control variate" in row for row in rows)


@pytest.mark.compiled
def test_effects_of_groups_have_second_order():
    rng = np.random.default_rng(8)
    group = rng.integers(60, size=6000)
    y = rng.random(6000) < 1 / (1 + np.exp(-rng.normal(size=60)[group]))
    with pm.Model():
        effects = pm.Normal("effects", 0, pm.HalfNormal("tau"), shape=60)
        pm.Bernoulli("y", logit_p=effects[group], observed=y)
        idata = sample(SGHMC(metric="diag"), draws=50, tune=200, chains=1)
    stats = idata.sample_stats
    assert stats.second_order.all() and (stats.batch_size < 1000).all()
    assert "second order" in report(idata)


@pytest.mark.statistics
@pytest.mark.parametrize("groups", [20, 300], ids=["an array", "sparse"])
@pytest.mark.parametrize("kept", [True, False])
def test_backends_agree_on_second_order(groups, kept, monkeypatch):
    monkeypatch.setattr(pymc_sgmcmc.posterior.target, "CURVED_FROM", 0)
    if not kept:
        monkeypatch.setattr(near_anchor, "KEPT", 0)
    rng = np.random.default_rng(11)
    group = rng.integers(groups, size=2000)
    found = {}
    for backend in ("c", "numba"):
        with pm.Model():
            effects = pm.Normal("effects", 0, 0.5, shape=groups)
            pm.Poisson("y", pm.math.exp(effects[group]), observed=np.arange(2000) % 3)
            step = SGHMC(batch_size=30, step_size=0.1, gradient="control_variate", metric="diag",
                         backend=backend)  # fmt: skip
            idata = sample(step, draws=10, tune=120, chains=1)
        assert idata.sample_stats.second_order.all()
        found[backend] = draws(idata, "effects")
    np.testing.assert_allclose(found["c"], found["numba"], rtol=0, atol=1e-6)


@pytest.mark.statistics
@pytest.mark.parametrize("n", [1000, 200_000])
def test_second_derivatives_that_are_not_finite_are_left_alone(n, monkeypatch):
    """Those of |e|^1.5 at e = 0, which one row has: of many, no small batch need have seen it."""
    monkeypatch.setattr(pymc_sgmcmc.posterior.target, "CURVED_FROM", 0)
    rng = np.random.default_rng(10)
    x = rng.normal(size=(n, 2))
    y = x @ [1.0, -1.0] + rng.normal(size=n)
    x[3], y[3] = 0.0, 0.0
    with pm.Model(coords={"row": range(n)}):
        x, y = pm.Data("x", x, dims=("row", "k")), pm.Data("y", y, dims="row")
        b = pm.Normal("b", shape=2)
        pm.Potential("loss", -(pt.abs(y - x @ b) ** 1.5), dims="row")
        idata = sample(SGHMC(batch_size=10), draws=20, tune=150, chains=1)
    stats = idata.sample_stats
    assert stats.control_variate.all() and not stats.second_order.any()
    assert not stats.diverging.any()


@pytest.mark.statistics
def test_many_effects_of_a_normal_model_have_the_exact_law():
    """More than 200 parameters, groups of 3 to 300 rows: Hessian and metric are sparse."""
    rng = np.random.default_rng(9)
    shares = rng.gamma(1.0, size=300)
    group = np.concatenate([np.arange(300), rng.choice(300, 19_700, p=shares / shares.sum())])
    x = rng.normal(size=(20_000, 2))
    y = x @ [1.0, -0.5] + rng.normal(0, 0.5, 300)[group] + rng.normal(size=20_000)
    with pm.Model():
        effects = pm.Normal("effects", 0, 0.5, shape=300)
        pm.Normal("y", x @ pm.Normal("b", shape=2) + effects[group], 1.0, observed=y)
        idata = sample(SGNHT(), draws=2000, tune=1000, chains=2)
    A = np.zeros((20_000, 302))
    A[np.arange(20_000), group], A[:, 300:] = 1.0, x
    precision = A.T @ A + np.diag(np.r_[np.full(300, 4.0), 1.0, 1.0])
    covariance = np.linalg.inv(precision)
    mean, sd = covariance @ (A.T @ y), np.sqrt(np.diag(covariance))
    found = np.concatenate([draws(idata, "effects"), draws(idata, "b")], axis=-1)
    ess = np.array([float(az.ess(found[..., k])) for k in range(302)])
    assert idata.sample_stats.second_order.all() and ess.min() > 400
    z = (found.mean(axis=(0, 1)) - mean) / sd
    assert np.abs(z * np.sqrt(ess)).max() < 4.5
    ratio = found.std(axis=(0, 1)) / sd
    # An sd has the relative error 1 / sqrt(2 ESS); the tolerance of a variance is 0.05.
    assert (np.abs(ratio - 1) < 0.025 + 4.5 / np.sqrt(2 * ess)).all(), (ratio.min(), ratio.max())
    assert abs(ratio.mean() - 1) < 0.025 + 4.5 / np.sqrt(2 * ess.sum())


@pytest.mark.statistics
@pytest.mark.parametrize("centred", [True, False])
def test_the_law_of_the_scale_of_effects(centred):
    """With the effects integrated out, the density of the scale is known on a grid."""
    rng = np.random.default_rng(14)
    group = rng.choice(250, size=20_000, p=rng.dirichlet(np.full(250, 3.0)))
    y = 0.4 * rng.normal(size=250)[group] + rng.normal(size=20_000)
    with pm.Model():
        tau = pm.HalfNormal("tau", 1)
        effects = pm.Normal("a", 0, tau, shape=250) if centred else tau * pm.Normal("z", shape=250)
        pm.Normal("y", effects[group], 1.0, observed=y)
        step = SGNHT()
        idata = sample(step, draws=2000, tune=1000, chains=2)
    assert isinstance(step.chain.parts.untuned.metric, SparseFactor)
    n = np.bincount(group, minlength=250)
    means = np.bincount(group, y, 250) / np.maximum(n, 1)
    grid = np.linspace(0.25, 0.6, 2000)
    variance = grid[:, None] ** 2 + 1 / np.maximum(n, 1e-9)
    density = -(grid**2) / 2 - np.sum(np.log(variance) + means**2 / variance, axis=1) / 2
    weights = np.exp(density - density.max())
    mean = np.average(grid, weights=weights)
    sd = np.sqrt(np.average((grid - mean) ** 2, weights=weights))
    found = draws(idata, "tau")
    ess = float(az.ess(found))
    assert ess > 400 and abs(found.mean() - mean) < 4.5 * sd / np.sqrt(ess)
    assert abs(found.std() / sd - 1) < 0.025 + 4.5 / np.sqrt(2 * ess)
