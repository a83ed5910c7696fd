"""What other step methods draw enters gradients at its present value, in whatever is kept of data.

Models are in every way in which a likelihood can depend on the variable of another step method.
"""

import logging
from dataclasses import replace

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
import xarray as xr

import pymc_sgmcmc.posterior.target
from pymc_sgmcmc import MALA, SGHMC, SGNHT, Gibbs
from pymc_sgmcmc.compile.compiled_graph import CompiledGraph
from pymc_sgmcmc.model.unconstrain import Unconstrain
from pymc_sgmcmc.posterior.batch_sources import SOURCES, Blocks
from pymc_sgmcmc.posterior.gradient_estimator import Estimator
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.results.exact_gradients import ExactGradients
from pymc_sgmcmc.step.arguments import Arguments
from pymc_sgmcmc.tuning.tuned import Tuned
from tests.cases import draws, sample
from tests.helpers import AS_WRITTEN, INTERPRETED, PYTHON, simple_tuner, unit_coordinates
from tests.tiers import statistics_but

N, BATCH = 24, 5
Y = np.random.default_rng(50).normal(1.0, 2.0, size=N)
GROUP = np.arange(N) % 3


def of_each_row(mu):
    e = pm.Normal("other", 0, 1, shape=N)
    pm.Normal("y", mu + e, 0.5, observed=Y)


def function_of_each_row(mu):
    e = pm.LogNormal("other", 0, 1, shape=N)  # sampled as its logarithm
    pm.Normal("y", mu + pm.Deterministic("twice", 2 * pm.math.sqrt(e)), 0.5, observed=Y)


def matrix_by_rows(mu):
    e = pm.Normal("other", 0, 1, shape=(2, N))
    pm.Normal("y", mu + e[0] - e[1] ** 2, 0.5, observed=Y)


def label_of_each_row(mu):
    z = pm.Bernoulli("other", 0.5, shape=N)
    pm.Normal("y", pt.stack([mu, -mu])[z], 1.0, observed=Y)


def switch_of_each_row(mu):
    z = pm.Bernoulli("other", 0.5, shape=N)
    pm.Normal("y", pm.math.switch(pt.eq(z, 1), mu, 0.0), 1.0, observed=Y)


def scale_of_all(mu):
    pm.Normal("y", mu, pm.HalfNormal("other", 1), observed=Y)


def effect_of_groups(mu):
    pm.Normal("y", mu + pm.Normal("other", 0, 1, shape=3)[GROUP], 0.5, observed=Y)


WAYS = [of_each_row, function_of_each_row, matrix_by_rows, label_of_each_row, switch_of_each_row,
        scale_of_all, effect_of_groups]  # fmt: skip


def model_of(way):
    with pm.Model() as model:
        way(pm.Normal("mu", 0, 10))
    return model


def target_of(model, rows=None, **kwargs):
    settings = {"batch_size": BATCH, "backend": INTERPRETED, "rows": rows} | kwargs
    return Target(model, [model.rvs_to_values[model["mu"]]], **settings)


def rows_of(way):
    return {"other": 1} if way is matrix_by_rows else None


def moved(target, seed):
    """Other values, as another step method draws them."""
    rng = np.random.default_rng(seed)
    return tuple(
        rng.integers(2, size=value.shape)
        if value.dtype.kind == "i"
        else value + rng.normal(size=value.shape)
        for value in target.others_now()
    )


def exact_by_pymc(model, target, mu):
    """The gradient of U in mu, compiled by nothing of this package's."""
    point = {var.name: shared.get_value() for var, shared in target.shared.items()}
    value = model.rvs_to_values[model["mu"]]
    gradient = pt.grad(-model.logp(), value)
    inputs = model.value_vars
    function = pytensor.function(inputs, [gradient], mode=AS_WRITTEN)
    return function(*(np.asarray(mu if v is value else point[v.name], v.dtype) for v in inputs))[0]


@pytest.mark.parametrize("way", WAYS)
def test_the_graph_tells_what_moves_between_draws(way):
    target = target_of(model_of(way), rows_of(way))
    (var,) = target.shared
    assert target.others_in_batches() == [var.name]


def test_what_only_the_prior_depends_on_leaves_control_variates_alone():
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, pm.HalfNormal("other"))
        pm.Normal("y", mu, 1.0, observed=Y)
    assert target_of(model).others_in_batches() == []


@pytest.mark.parametrize("kind", statistics_but(["blocks"], SOURCES))
@pytest.mark.parametrize("way", WAYS)
def test_minibatches_see_the_present_values(way, kind):
    """The mean over all batches is the exact gradient, whatever other step methods drew."""
    model = model_of(way)
    target = target_of(model, rows_of(way))
    source = SOURCES[kind](target.groups, [BATCH], target.others)
    estimator = Estimator(target, source, None, control=False)
    q, rows, weight = pt.dvector(), pt.lvector(), pt.dscalar()
    outputs = estimator.bind({})(q, [rows], [weight])
    estimate = CompiledGraph([q, rows, weight], outputs, INTERPRETED)
    # Of blocks, each row is the first of one; of single rows, each comes once.
    batches = [np.array([i, i + BATCH]) if kind == "blocks" else np.array([i]) for i in range(N)]
    size = BATCH if kind == "blocks" else 1
    for seed in (1, 2):
        target.set_others(moved(target, seed))
        mu = np.array([0.3 * seed])
        found = [estimate(mu, batch, np.asarray(N / size))[1] for batch in batches]
        expected = exact_by_pymc(model, target, mu[0])
        np.testing.assert_allclose(np.mean(found), expected, rtol=1e-10)
        np.testing.assert_allclose(target.value_and_gradient(mu)[1][0], expected, rtol=1e-10)


def test_a_copy_would_be_stale():
    """The mistake, planted: blocks that do not know what moves."""
    model = model_of(of_each_row)
    target = target_of(model)
    bounds = pt.lvector()
    (group,) = target.groups
    (e,) = [data for data in group.data if data.source in target.others]
    for moving in (target.others, ()):
        source = Blocks(target.groups, [BATCH], moving)
        target.set_others(moved(target, 3))
        function = CompiledGraph([bounds], [source.slices(group, [bounds])[e.slice]], INTERPRETED)
        (present,), taken = target.others_now(), function(np.array([0, N]))[0]
        assert np.array_equal(np.sort(taken), np.sort(present)) == bool(moving)


@pytest.mark.parametrize("way", WAYS)
def test_control_variates_are_left_out_and_refused_by_name(way):
    target = target_of(model_of(way), rows_of(way))
    given = {"batch_size": BATCH, "batches": "auto", "metric": "auto", "noise_estimate": "auto"}
    settings = Arguments(**given, gradient="auto")
    plan = settings.plan(target.model, target)
    assert plan.gradient == "plain"
    (var,) = target.shared
    for gradient in ("control_variate", "svrg"):
        settings = Arguments(**given, gradient=gradient)
        with pytest.raises(ValueError, match=rf"gradient='{gradient}'.*'{var.name}'"):
            settings.plan(target.model, target)


def tuner_of(target):
    given = {"batch_size": BATCH, "batches": "random", "gradient": "auto", "metric": "auto"}
    settings = Arguments(noise_estimate="auto", **given)
    plan = settings.plan(target.model, target)
    return simple_tuner(target, plan)


def test_noise_is_measured_at_the_values_that_other_step_methods_had(monkeypatch):
    """V is in proportion to 1 / scale^4: at the last value alone it would be another one."""
    target = target_of(model_of(scale_of_all))
    logs = [np.log(0.5), np.log(2.0)]
    variances = np.array([N**2 / BATCH * Y.var() / np.exp(4 * value) for value in logs])
    tuned = replace(
        Tuned.untuned([BATCH], unit_coordinates(1, 2)), injected_noise=1e9, in_first_window=True
    )
    choice = tuner_of(target)._choice
    target.set_others((np.array(logs[1]),))
    points, others = np.zeros((40, 1)), [(np.array(logs[i % 2]),) for i in range(40)]
    kept = {}

    def keep(tuned, points, h, rng, visit):
        kept["V"] = type(choice)._gradient(choice, tuned, points, h, rng, visit)[1]
        raise StopIteration  # what follows from it is of no concern here

    monkeypatch.setattr(choice, "_gradient", keep)
    for given, expected in ((others, variances.mean()), ((), variances[1])):
        with pytest.raises(StopIteration):
            choice.measure(tuned, points, np.random.default_rng(4), given)
        assert 0.7 < float(np.ravel(kept["V"])[0]) / expected < 1.4
        target.set_others((np.array(logs[1]),))


def test_windows_keep_what_other_step_methods_drew_with_each_point():
    target = target_of(model_of(effect_of_groups))
    tuner, tuned = tuner_of(target), Tuned.untuned([BATCH], unit_coordinates(1, 2))
    tuned = tuner._begun(tuned, 0)
    for draw in range(40):
        target.set_others((np.full(3, float(draw)),))
        tuned = tuner.learn(tuned, np.array([0.01 * draw]), np.random.default_rng(0))
    (values,) = zip(*tuned.window.others, strict=True)
    got = [value[0] * 0.01 for value in values]
    np.testing.assert_allclose(got, np.ravel(tuned.window.points))


def test_gradients_of_check_are_those_of_each_draw():
    model = model_of(label_of_each_row)
    rng = np.random.default_rng(5)
    z, mu = rng.integers(2, size=(1, 6, N)), rng.normal(size=(1, 6))
    data = xr.Dataset({"mu": (("chain", "draw"), mu), "other": (("chain", "draw", "row"), z)})
    idata = type("Drawn", (), {"posterior": data})
    flat = Unconstrain(model)(idata)
    got = ExactGradients(model, backend=INTERPRETED).gradients(flat, range(6), progressbar=False)
    sign = 1 - 2 * z[0]
    expected = mu[0] / 100 + np.sum(mu[0][:, None] - sign * Y, axis=1)
    np.testing.assert_allclose(got[:, 0], expected, rtol=1e-9)


def walk(step, point, n):
    for _ in range(n):
        point, _ = step.step(point)
    return point


@pytest.mark.compiled
@pytest.mark.parametrize("batches", statistics_but(["blocks"], ["random", "blocks"]))
def test_data_that_change_while_a_chain_runs(batches, caplog, monkeypatch):
    """Blocks, and all that is known at the anchor, are those of the new data."""
    monkeypatch.setattr(pymc_sgmcmc.posterior.target, "CURVED_FROM", 0)
    with pm.Model() as model:
        x, y = pm.Data("x", np.linspace(-1, 1, N)), pm.Data("yd", Y)
        mu = pm.Normal("mu", 0, 10, shape=2)
        pm.Normal("y", mu[0] + mu[1] * x, 1.0, observed=y)
        step = SGHMC(step_size=0.01, batch_size=BATCH, batches=batches, friction=50.0,
                     gradient="control_variate", compile_kwargs={"mode": PYTHON})  # fmt: skip
    step.start_chain(np.random.default_rng(6))
    point = walk(step, model.initial_point(), 3)
    before = step.state.tuned.anchor_gradient.copy()
    assert step.state.tuned.order == 2
    with model, caplog.at_level(logging.WARNING, "pymc.sgmcmc"):
        pm.set_data({"x": np.linspace(2, 5, N), "yd": Y + 3})
        walk(step, point, 2)
    assert [record.message.count("data changed while") for record in caplog.records] == [1]
    fresh = Target(model, model.value_vars, batch_size=BATCH, backend=INTERPRETED,
                   with_predictors=True)  # fmt: skip
    tuned = step.state.tuned
    np.testing.assert_allclose(
        tuned.anchor_gradient, fresh.batched_gradient(tuned.anchor), rtol=1e-9
    )
    numbers = step.chain.parts.estimator.numbers(tuned)
    np.testing.assert_allclose(numbers["hessian"], fresh.near_anchor.hessian(tuned.anchor))
    (expansions,) = fresh.near_anchor.of_all(tuned.anchor, 2)
    found = numbers["expansions_y"][:N]  # in another order, where rows are shuffled
    np.testing.assert_allclose(np.sort(found, axis=0), np.sort(expansions, axis=0))
    assert not np.allclose(before, step.state.tuned.anchor_gradient, rtol=0.1)
    if batches == "blocks":
        blocks = {data.name: s.get_value() for data, s in step.chain.parts.source._shuffled.items()}
        assert sorted(blocks["x"][:N]) == sorted(np.linspace(2, 5, N))


@pytest.mark.statistics
def test_potentials_that_are_kept_are_those_of_new_data():
    """MALA knows U at its place since the last draw."""
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu", 0, 10), 1.0, observed=pm.Data("yd", Y))
        step = MALA(step_size=1e-6, target_accept=None, compile_kwargs={"mode": PYTHON})
    step.start_chain(np.random.default_rng(7))
    point = walk(step, model.initial_point(), 2)
    with model:
        pm.set_data({"yd": Y + 30})
    point = walk(step, point, 1)
    u, _ = step.target.value_and_gradient(np.atleast_1d(point["mu"]))
    np.testing.assert_allclose(step.chain.parts.carried(step.state)["u"], u, rtol=1e-4)


@pytest.mark.statistics
@pytest.mark.filterwarnings("ignore:This step method does not sample")
@pytest.mark.parametrize(
    "settings", [{}, {"batches": "blocks"}, {"batches": "random", "gradient": "plain"}], ids=str
)
def test_the_law_beside_a_latent_variable_of_each_row(settings):
    n, rng = 3000, np.random.default_rng(8)
    y = 1.0 + rng.normal(size=n) + 0.5 * rng.normal(size=n)
    with pm.Model():
        mu, e = pm.Normal("mu", 0, 10), pm.Normal("e", 0, 1, shape=n)
        pm.Normal("y", mu + e, 0.5, observed=y)

        def conditional(point, rng):
            return 0.8 * (y - point["mu"]) + 0.2**0.5 * rng.standard_normal(n)

        idata = sample([SGNHT([mu], **settings), Gibbs(e, conditional)], draws=6000, tune=1000,
                       chains=2, var_names=["mu"])  # fmt: skip
    z = (draws(idata, "mu") - y.mean()) / (1.25 / n) ** 0.5
    # A Gibbs sampler's own autocorrelation is 0.8: of 12,000 draws 600 are independent at least.
    assert abs(z.mean()) < 4 / 600**0.5
    assert abs(z.var() - 1) < 4 * (2 / 600) ** 0.5
