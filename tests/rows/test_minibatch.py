"""Models with pm.Minibatch: the posterior is that of the same model written on the full data."""

import logging

import arviz as az
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_sgmcmc import SGLD, SGNHT, full_data
from pymc_sgmcmc.compile.pytensor_versions import scan
from pymc_sgmcmc.model.full_data import minibatches
from tests.cases import TYPICAL, begin, draws, sample
from tests.helpers import PYTHON
from tests.posterior.test_target import agrees, cheap
from tests.tiers import statistics_but

N, K, SIZE = 12, 2, 3
random = np.random.default_rng(4)
X = random.normal(size=(N, K))
Y = X @ [1.0, -0.5] + random.normal(size=N)
LABELS = Y > 0


def batch(minibatch, *arrays, size=SIZE):
    """The arrays, or batches of them; and the keyword argument that goes with them."""
    if not minibatch:
        return *arrays, {}
    drawn = pm.Minibatch(*arrays, batch_size=size)
    drawn = drawn if len(arrays) > 1 else [drawn]
    return *drawn, {"total_size": N}


def regression(minibatch, named=True, dims=None, initval=(0.3, 0.1)):
    with pm.Model(coords={"row": range(N), "feature": ["a", "b"]}) as model:
        x = pm.Data("x", X, dims=("row", "feature")) if named else X
        y = pm.Data("y", Y, dims="row") if named else Y
        x, y, total = batch(minibatch, x, y)
        beta = pm.Normal(
            "beta", 0, 1, dims="feature", **({"initval": list(initval)} if initval else {})
        )
        sigma = pm.HalfNormal("sigma")
        pm.Deterministic("variance", sigma**2)
        pm.Normal("obs", x @ beta, sigma, observed=y, dims=dims, **total)
    return model


def logistic(labels, named):
    def build(minibatch):
        with pm.Model() as model:
            x, y = (pm.Data("x", X), pm.Data("y", labels)) if named else (X, labels)
            x, y, total = batch(minibatch, x, y)
            beta = pm.Normal("beta", shape=K)
            pm.Bernoulli("obs", logit_p=x @ beta, observed=y, **total)
        return model

    return build


def one_variable(likelihood, *data):
    def build(minibatch):
        with pm.Model() as model:
            *batches, total = batch(minibatch, *data)
            likelihood(pm.Normal("mu"), *batches, **total)
        return model

    return build


def multivariate(mu, y, **kwargs):
    pm.MvNormal("obs", mu * np.ones(K), np.eye(K) + 0.5, observed=y, **kwargs)


def mixture(mu, x, y, **kwargs):
    components = [pm.Normal.dist(mu * x[:, 0]), pm.StudentT.dist(nu=4, mu=-mu)]
    pm.Mixture("obs", w=[0.3, 0.7], comp_dists=components, observed=y, **kwargs)


def censored(mu, x, y, **kwargs):
    pm.Censored("obs", pm.Normal.dist(mu * x[:, 0]), lower=-5, upper=5, observed=y, **kwargs)


def custom(mu, x, y, **kwargs):
    def dist(mu, size):
        return pm.math.exp(pm.Normal.dist(mu, 1.0, size=size))

    pm.CustomDist("obs", mu * x[:, 1], dist=dist, observed=y, **kwargs)


def of_a_function(mu, x, **kwargs):
    pm.Normal("obs", mu + pt.zeros_like(x[:, 0]), 1.0, observed=x[:, 1], **kwargs)


def recurrent(mu, x, y, **kwargs):
    def state(x, before, mu):
        return pt.tanh(mu * before + x)

    start = pt.zeros_like(x[:, 0])
    (states,) = scan(state, sequences=x.T, outputs_info=[start], non_sequences=[mu])
    pm.Normal("obs", states[-1], 1.0, observed=y, **kwargs)


MODELS = {
    "data": regression,
    "raw": lambda minibatch: regression(minibatch, named=False),
    "dims": lambda minibatch: regression(minibatch, dims="row"),
    "multivariate": one_variable(multivariate, X),
    "mixture": one_variable(mixture, X, Y),
    "censored": one_variable(censored, X, Y),
    "custom": one_variable(custom, X, np.abs(Y) + 0.1),
    "recurrent": one_variable(recurrent, X, Y),
}
# PyMC itself refuses raw int64 and float32 labels under pm.Minibatch.
MODELS |= {f"{kind}-raw": logistic(LABELS.astype(kind), False) for kind in ("bool", "int32")}
MODELS |= {
    f"{kind}-data": logistic(LABELS.astype(kind), True) for kind in ("bool", "int64", "float64")
}


@pytest.mark.parametrize("name", statistics_but(MODELS.keys() - {"mixture", "recurrent"}, MODELS))
def test_the_target_is_that_of_the_full_data(name):
    target = cheap(MODELS[name](True))
    assert target.batch_sizes == [SIZE] and list(target.check_lengths()) == [N]
    assert agrees(MODELS[name](False), target)


def logp(model, point):
    return model.compile_logp(mode=PYTHON)(point)


@pytest.mark.compiled
@pytest.mark.parametrize("name", MODELS)
def test_the_full_model_is_the_one_on_the_full_data(name):
    full, hand = full_data(MODELS[name](True)), MODELS[name](False)
    assert list(full.named_vars) == list(hand.named_vars)
    assert not minibatches(full)
    point = hand.initial_point()
    np.testing.assert_equal(full.initial_point(), point)
    np.testing.assert_allclose(logp(full, point), logp(hand, point))
    by_hand, ours = pm.draw([hand["obs"], full["obs"]], random_seed=1, mode=PYTHON)
    assert by_hand.shape == ours.shape


@pytest.mark.compiled
@pytest.mark.parametrize("batches", statistics_but(["random"], ["random", "epochs"]))
def test_the_draws_are_those_of_the_full_data(batches):
    case, settings = TYPICAL, {"batches": batches, "steps_per_draw": 3}
    with regression(False):
        hand = sample(case.step(batch_size=SIZE, **settings))
    with regression(True):
        step = case.step(batch_size=None, **settings)
        ours = sample(step)
        forked = sample(step, cores=2)
    for name in ("beta", "sigma", "variance"):
        np.testing.assert_array_equal(draws(hand, name), draws(ours, name))
        np.testing.assert_array_equal(draws(hand, name), draws(forked, name))
    for name in ("minibatch_logp", "grad_norm"):
        np.testing.assert_array_equal(hand.sample_stats[name], ours.sample_stats[name])


@pytest.mark.statistics
def test_a_step_method_survives_spawning():
    with regression(True):
        step = SGNHT(step_size=0.01)
        here, there = sample(step, draws=5), sample(step, draws=5, cores=2, mp_ctx="spawn")
    np.testing.assert_array_equal(draws(here), draws(there))


@pytest.mark.filterwarnings("ignore:Estimated shape parameter of Pareto")
@pytest.mark.statistics
def test_what_pymc_computes_afterwards_is_unscaled_and_whole():
    # PyMC's log-likelihood refuses models with initial values.
    model, hand = (regression(minibatch, initval=None) for minibatch in (True, False))
    with model:
        idata = sample(SGLD(step_size=0.01), draws=100)
    found = {}
    for key, where in {"ours": full_data(model), "hand": hand}.items():
        with where:
            copy = idata.copy()
            pm.compute_log_likelihood(copy, progressbar=False)
            nuts = sample(pm.NUTS(), draws=30)
            predictive = pm.sample_posterior_predictive(idata, random_seed=1, progressbar=False)
            loo = az.loo(copy)
        found[key] = {
            "log_likelihood": copy.log_likelihood["obs"].values,
            "predictive": predictive.posterior_predictive["obs"].values,
            "observed": predictive.observed_data["obs"].values,
            "loo": float(loo.elpd if hasattr(loo, "elpd") else loo.elpd_loo),
            "nuts": draws(nuts),
        }
    assert found["ours"]["log_likelihood"].shape == found["ours"]["predictive"].shape
    assert found["ours"]["predictive"].shape == (2, 100, N)
    for name, value in found["ours"].items():
        np.testing.assert_allclose(value, found["hand"][name], rtol=1e-10, err_msg=name)
    np.testing.assert_array_equal(found["ours"]["observed"], Y)
    with model:
        pm.compute_log_likelihood(idata, progressbar=False)
    assert idata.log_likelihood["obs"].shape == (2, 100, SIZE), "the README says so"


def test_nothing_is_copied_and_free_variables_are_the_same():
    model = regression(True, named=False, dims="row")
    full = full_data(model)
    assert np.shares_memory(full.rvs_to_values[full["obs"]].get_value(borrow=True), Y)
    assert all(a is b for a, b in zip(full.value_vars, model.value_vars, strict=True))
    assert full["beta"] is model["beta"] and full["variance"] is model["variance"]
    assert full.rvs_to_transforms[full["sigma"]] is model.rvs_to_transforms[model["sigma"]]
    assert full.named_vars_to_dims == model.named_vars_to_dims and full.coords is model.coords
    model = regression(True)
    assert full_data(model)["x"] is model["x"]


def test_what_has_no_minibatch_is_returned_as_it_is():
    model = regression(False)
    assert full_data(model) is model
    full = full_data(regression(True))
    assert full_data(full) is full


def test_a_total_size_of_all_rows_changes_nothing():
    with pm.Model() as model:
        pm.Normal("obs", pm.Normal("mu"), observed=Y, total_size=N)
    with pm.Model() as hand:
        pm.Normal("obs", pm.Normal("mu"), observed=Y)
    assert agrees(hand, cheap(model, batch_size=SIZE))


def two_likelihoods(minibatch, sizes=(3, 4), named=True):
    with pm.Model(coords={"row": range(N), "site": range(N)}) as model:
        x, y = pm.Data("x", X, dims=("row", None)), pm.Data("y", Y, dims="row")
        counts = pm.Data("counts", np.arange(N), dims="site" if named else None)
        x, y, w, total = batch(minibatch, x, y, pm.Data("w", Y**2, dims="row"), size=sizes[0])
        counts, total = batch(minibatch, counts, size=sizes[1])
        slope, level = pm.Normal("slope"), pm.HalfNormal("level")
        pm.Normal("obs", slope * x[:, 0], level, observed=y, **total)
        pm.Normal("second", slope + x[:, 1], 1.0, observed=w, **total)
        pm.Poisson("sites", pm.math.exp(slope), observed=counts, **total)
        pm.Potential("bound", -(slope**2))
        pm.Normal("exact", level, observed=Y)
    return model


@pytest.mark.parametrize("sizes", statistics_but([(3, 4)], [(3, 4), (3, 3)]))
@pytest.mark.parametrize("named", [True, False])
def test_aligned_and_separate_minibatches(sizes, named):
    target = cheap(two_likelihoods(True, sizes, named))
    assert [group.likelihoods for group in target.groups] == [("obs", "second"), ("sites",)]
    assert target.batch_sizes == list(sizes)
    assert agrees(two_likelihoods(False, named=named), target)


def test_only_the_data_of_a_minibatch_are_sliced():
    """A weight for each of as many groups as there are rows is no row data."""
    group = random.permutation(N)

    def build(minibatch):
        with pm.Model() as model:
            weights = pm.Data("weights", np.linspace(1, 2, N))
            index, y, total = batch(minibatch, pm.Data("group", group), Y)
            mu = pm.Normal("mu", shape=N)
            pm.Normal("obs", mu[index] * weights[index], 1.0, observed=y, **total)
        return model

    target = cheap(build(True))
    assert {data.name for data in target.groups[0].data} == {"group", "obs"}
    assert agrees(build(False), target)


@pytest.mark.parametrize("transform", [pt.log1p, lambda x: 2 * x, lambda x: x[:, :1]])
def test_a_minibatch_of_an_expression(transform):
    def build(minibatch):
        with pm.Model() as model:
            x, y, total = batch(minibatch, transform(pm.Data("x", np.abs(X))), Y)
            pm.Normal("obs", pm.Normal("mu") * x[:, 0], 1.0, observed=y, **total)
        return model

    assert agrees(build(False), cheap(build(True)))


def test_dims_that_no_minibatch_variable_has():
    """The rows of a minibatch are on its first axis, whatever its dimension is called."""
    with pm.Model(coords={"row": range(N), "person": range(N)}) as model:
        x, y = pm.Data("x", X[:, 0], dims="person"), pm.Data("y", Y, dims="row")
        x, y, total = batch(True, x, y)
        pm.Normal("obs", pm.Normal("mu") * x, 1.0, observed=y, **total)
    assert {data.name for data in cheap(model).groups[0].data} == {"x", "y"}


def test_rows_are_an_argument_still():
    from pymc_sgmcmc.model.errors import RowsDoNotSeparate

    with pytest.raises(RowsDoNotSeparate, match="obs"):
        cheap(regression(True), rows={"x": None})
    with pytest.raises(RowsDoNotSeparate, match=r"leaves out the rows.*without pm.Minibatch"):
        cheap(regression(True), rows={"x": None, "y": None})
    with pytest.raises(ValueError, match=r"names \['z'\]"):
        cheap(regression(True), rows={"z": 0})


def test_the_log_says_what_is_sliced_and_where_to_look_afterwards(caplog):
    with caplog.at_level(logging.INFO, "pymc.sgmcmc"):
        cheap(regression(True))
        cheap(regression(True, named=False))
        first, advice, second, _ = (record.message for record in caplog.records)
        caplog.clear()
        cheap(regression(False), batch_size=SIZE)
    assert first.startswith("Minibatched: obs by 3 of 12 rows (") and "minibatch." not in first
    assert "y, x" in first or "x, y" in first
    assert "obs" in second.split("(", 1)[1] and "minibatch." not in second
    assert "one random batch, scaled. Use full_data(model)" in advice
    assert "full_data" not in caplog.text


def test_the_log_says_that_a_batch_size_will_be_tuned(caplog):
    with pm.Model() as model:
        pm.Normal("obs", pm.Normal("mean"), observed=np.zeros(300))
    with caplog.at_level(logging.INFO, "pymc.sgmcmc"):
        cheap(model, batch_size="auto")
    assert caplog.messages == [
        "Minibatched: obs by 128 of 300 rows, until tuned (obs). Exact: the prior of mean."
    ]


@pytest.mark.compiled
def test_initvals_and_jitter():
    with regression(True):
        step = SGLD(step_size=1e-9)
        idata = sample(step, tune=0, draws=2)
        given = sample(step, tune=0, draws=2, initvals={"sigma": 2.5})
    assert np.ptp(draws(idata, "sigma")[:, 0]) > 1e-3
    np.testing.assert_allclose(draws(idata)[:, 0], [[0.3, 0.1]] * 2, atol=1e-3)
    np.testing.assert_allclose(draws(given, "sigma"), 2.5, atol=1e-3)


@pytest.mark.compiled
def test_new_data_under_the_model_and_the_full_one():
    model = regression(True)
    full = full_data(model)
    with model:
        step = SGLD(step_size=0.01)
        pm.set_data({"x": 2 * X, "y": Y + 1})
        ours = sample(step)
    hand = regression(False)
    with hand:
        pm.set_data({"x": 2 * X, "y": Y + 1})
        theirs = sample(SGLD(step_size=0.01, batch_size=SIZE))
    np.testing.assert_array_equal(draws(ours), draws(theirs))
    point = hand.initial_point()
    np.testing.assert_allclose(logp(full, point), logp(hand, point))
    with full:
        pm.set_data({"x": X[:5], "y": Y[:5]}, coords={"row": list("abcde")})
    assert model.coords["row"] == tuple("abcde")
    with pytest.raises(ValueError, match=r"total_size=12 of 'obs' is not .* rows, 5.*pm.set_data"):
        begin(step)


@pytest.mark.statistics
def test_variables_left_to_pymc_are_warned_of():
    model = regression(True)
    with pytest.warns(UserWarning, match=r"\['sigma'\].*wrong posterior.*\[sigma\], model=full"):
        step = SGLD([model["beta"]], step_size=0.01, model=model)
    with model, pytest.warns(UserWarning, match="wrong posterior"):
        other = SGNHT([model["sigma"]], step_size=0.01)
        assert np.isfinite(draws(sample([step, other]))).all()
    with model:
        SGLD(step_size=0.01, blocked=False)


def indicators(minibatch):
    data = np.concatenate([random.normal(-2, 1, 60), random.normal(2, 1, 60)])
    with pm.Model() as model:
        mu = pm.Normal("mu", [-1.0, 1.0], 2.0)
        z = pm.Categorical("z", [0.5, 0.5], shape=len(data))
        index, y = pm.Minibatch(np.arange(120, dtype="int32"), data, batch_size=20)
        pm.Normal("obs", mu[z[index]], 1.0, observed=y, total_size=120)
    return model


@pytest.mark.statistics
def test_beside_a_gibbs_sampler_on_the_full_data():
    model = indicators(True)
    with model:
        with pytest.warns(UserWarning, match=r"\['z'\]"):
            step = SGNHT([model["mu"]], step_size=0.02, diffusion=10.0)
        gibbs = pm.CategoricalGibbsMetropolis([model["z"]], model=full_data(model))
        idata = sample([step, gibbs], draws=300, tune=50)
    np.testing.assert_allclose(draws(idata, "mu").mean(axis=(0, 1)), [-2, 2], atol=0.4)
    assert (draws(idata, "z").mean(axis=(0, 1))[:60] < 0.5).mean() > 0.9


@pytest.mark.statistics
def test_our_step_on_the_full_model_in_a_sample_of_the_minibatch_model():
    model = regression(True)
    with model:
        step = SGLD(step_size=0.01, batch_size=SIZE, model=full_data(model))
        np.testing.assert_array_equal(draws(sample(step)), draws(sample(SGLD(step_size=0.01))))


@pytest.mark.compiled
def test_a_deterministic_of_a_batch_is_warned_of():
    with regression(True) as model:
        x = pm.Minibatch(model["x"], batch_size=SIZE)
        pm.Deterministic("mean", x @ model["beta"])
    with pytest.warns(UserWarning, match="'mean' depends on a pm.Minibatch.*full_data") as record:
        SGLD(step_size=0.01, model=model)
    assert len(record) == 1
    full = full_data(model)
    assert full["mean"] is not model["mean"] and full["variance"] is model["variance"]
    assert pm.draw(full["mean"], mode=PYTHON).shape == (N,)


@pytest.mark.compiled
def test_names_of_a_model_with_a_prefix():
    with pm.Model(name="root") as model:
        y = pm.Minibatch(Y, batch_size=SIZE)
        with pm.Model(name="part") as part:
            mu = pm.Normal("mu")
        pm.Normal("obs", mu, 1.0, observed=y, total_size=N)
    full = full_data(model)
    assert list(full.named_vars) == ["root::part::mu", "root::obs"]
    assert full["obs"] is full.observed_RVs[0]
    with pytest.raises(ValueError, match=r"sub-model '(root::)?part'.*model.root"):
        full_data(part)
    with model:
        assert np.isfinite(draws(sample(SGLD(step_size=0.01)), "root::part::mu")).all()
