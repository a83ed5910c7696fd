"""What is minibatched, and what is exact, and why: decided of each likelihood by itself."""

import logging
import warnings

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pymc.exceptions import ImputationWarning
from pytensor.graph.traversal import graph_inputs

from pymc_sgmcmc import SGNHT
from pymc_sgmcmc.model.errors import RowsDoNotSeparate
from pymc_sgmcmc.model.log_density import log_density_terms
from pymc_sgmcmc.posterior.row_likelihood import row_terms
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.rows.batch_rows import BatchRows
from pymc_sgmcmc.rows.decisions import Decision
from pymc_sgmcmc.rows.dependence import Dependence
from pymc_sgmcmc.rows.groups import RowGroup, row_data
from pymc_sgmcmc.rows.selection import NotByRow
from pymc_sgmcmc.rows.separation import prove_separation
from tests.helpers import INTERPRETED, PYTHON
from tests.posterior.test_target import agrees, cheap
from tests.tiers import statistics_but

N = 12
MANY = 400
"""More rows than those that are exact because they are few."""
Y = np.random.default_rng(3).standard_normal(N)
X = np.random.default_rng(4).standard_normal((N, 3))


def sliced(target):
    """The data that are sliced, by likelihood."""
    return {d.name: dict(d.sliced) for d in target.decisions if not d.exact}


def data(name, values):
    return pm.Data(name, values)


def lags():
    y, r = data("yd", Y), pm.Normal("r")
    pm.Normal("y", r * y[:-1], 1, observed=y[1:])


def errors_of_order_one():
    """A regression whose errors follow an autoregression: means are shifted, too."""
    x, y, b, r = data("x", X), data("yd", Y), pm.Normal("b", shape=3), pm.Normal("r")
    mu = x @ b
    pm.Normal("y", mu[1:] + r * (y[:-1] - mu[:-1]), 1, observed=y[1:])


def standardised():
    x, b = data("x", 5 + 2 * X), pm.Normal("b", shape=3)
    pm.Normal("y", ((x - x.mean(0)) / x.std(0)) @ b, 1, observed=Y)


def joined_columns():
    x, b = data("x", X[:, 0]), pm.Normal("b", shape=3)
    columns = pt.stack([x, pt.log(x**2 + 1), pt.cumsum(x)], axis=1)
    pm.Normal("y", columns @ b, 1, observed=Y)


def joined_rows():
    first, second, b = data("first", X[:4]), data("second", X[4:]), pm.Normal("b", shape=3)
    pm.Normal("y", pt.concatenate([first, second]) @ b, 1, observed=Y)


def chosen_columns():
    x, b = data("x", X), pm.Normal("b", shape=2)
    pm.Normal("y", x[:, np.array([2, 0])] @ b, 1, observed=Y)


def basis():
    x, ell = data("x", np.linspace(0, 1, N)[:, None]), pm.InverseGamma("ell", 5, 5)
    gp = pm.gp.HSGP(m=[4], c=2.0, cov_func=pm.gp.cov.ExpQuad(1, ls=ell))
    pm.Normal("y", gp.prior("f", X=x), 1, observed=Y)


def masked_vector():
    kept, b = Y > -0.5, pm.Normal("b", shape=3)
    mu = pt.exp(0.1 * (data("x", X) @ b))
    pm.Normal("y", mu[kept], 1, observed=Y[kept])


def masked_by_data():
    kept, b = data("kept", (Y > -0.5)), pm.Normal("b", shape=3)
    pm.Normal("y", (data("x", X) @ b)[kept], 1, observed=data("yd", Y)[kept])


def masked_matrix():
    mask = np.random.default_rng(1).random((5, 4)) < 0.6
    U, V = pm.Normal("U", shape=(5, 2)), pm.Normal("V", shape=(4, 2))
    pm.Normal("y", (U @ V.T)[mask], 0.5, observed=np.arange(mask.sum()) / 5)


def places_of_a_matrix():
    i, j = np.array([0, 1, 4, 4, 2, 0]), np.array([3, 3, 0, 1, 2, 2])
    a, b = pm.Normal("a", shape=5), pm.Normal("b", shape=4)
    mu = a[:, None] + b * np.arange(5)[:, None]
    pm.Normal("y", mu[data("i", i), data("j", j)], 1, observed=Y[:6])


def index_of_groups_of_data():
    """Covariates of groups, and which group a row belongs to."""
    group, b = data("group", np.arange(N) % 5), pm.Normal("b", shape=3)
    pm.Normal("y", (data("x", X[:5]) @ b)[group], 1, observed=Y)


def panel():
    price = data("price", np.random.default_rng(2).standard_normal((3, N)))
    alpha, b = pm.Normal("alpha", shape=3), pm.Normal("b")
    y = np.random.default_rng(5).standard_normal((3, N))
    pm.Normal("y", alpha[:, None] + b * price, 1, observed=y)


def walk_along_a_panel():
    """Only the first axis separates: the second is time."""
    y = np.random.default_rng(5).standard_normal((5, N))
    drift, start = pm.Normal("drift"), pm.Normal.dist()
    pm.GaussianRandomWalk("y", drift, 1.0, init_dist=start, observed=y)


def reshaped():
    x, b = data("x", X), pm.Normal("b", shape=3)
    pm.Normal("y", (x * b).reshape((N, 3, 1)).sum(axis=(1, 2)), 1, observed=Y)


SEPARATE = [
    lags,
    errors_of_order_one,
    standardised,
    joined_columns,
    joined_rows,
    chosen_columns,
    basis,
    masked_vector,
    masked_by_data,
    masked_matrix,
    places_of_a_matrix,
    index_of_groups_of_data,
    panel,
    walk_along_a_panel,
    reshaped,
]
QUICK = [f for f in SEPARATE if f not in (basis, joined_rows, chosen_columns)]


@pytest.mark.parametrize("build", statistics_but(QUICK, SEPARATE))
def test_these_are_sliced(build, monkeypatch):
    """Gradients on the parts of any partition have the exact one as their mean."""
    monkeypatch.setattr("pymc_sgmcmc.rows.moved_indices.FEW_ROWS", 1)
    monkeypatch.setattr("pymc_sgmcmc.rows.computed.FEW", 1)
    with pm.Model() as model:
        build()
    target = cheap(model, batch_size=1)
    assert list(sliced(target)) == ["y"]
    assert agrees(model, target)


def test_the_axis_is_the_longest_that_separates(monkeypatch):
    monkeypatch.setattr("pymc_sgmcmc.rows.requests.FEW_ROWS", 4)
    monkeypatch.setattr("pymc_sgmcmc.rows.requests.START_SIZE", 2)
    for build, axis, rows in [(panel, 1, N), (walk_along_a_panel, 0, 5)]:
        with pm.Model() as model:
            build()
        (decision,) = cheap(model, batch_size="auto").decisions
        assert (decision.axis, decision.rows) == (axis, rows)


@pytest.mark.parametrize(
    ("size", "rows", "axis"),
    [(2, {}, 0), (5, {}, 1), ({"day": 2}, {}, 1), ({"store": 2}, {}, 0), (2, {"yd": 1}, 1)],
)
def test_the_axis_that_the_user_gives(size, rows, axis):
    with pm.Model(coords={"store": range(3), "day": range(N)}) as model:
        y = pm.Data("yd", np.random.default_rng(5).standard_normal((3, N)))
        pm.Normal("y", pm.Normal("mu"), 1, observed=y, dims=("store", "day"))
    (decision,) = cheap(model, batch_size=size, rows=rows).decisions
    assert (decision.axis, decision.rows) == (axis, (3, N)[axis])


def test_an_axis_of_latents_is_left_for_another():
    with pm.Model(coords={"store": range(3), "day": range(N)}) as model:
        panel()
    (decision,) = cheap(model, batch_size=2).decisions
    assert decision.axis == 1


def test_data_are_computed_anew(monkeypatch):
    monkeypatch.setattr("pymc_sgmcmc.rows.computed.FEW", 1)
    for build in (standardised, joined_columns):
        with pm.Model() as model:
            build()
        target = cheap(model, batch_size=3)
        assert agrees(model, target)
        with model:
            pm.set_data({"x": np.exp(model["x"].get_value())})
        target.examine()
        assert agrees(model, target)


def test_operations_one_after_the_other():
    """Python would recur no more than a thousand times."""
    x = pytensor.shared(X[:, 0], name="x")
    whole = x * pt.scalar("b")
    for _ in range(2000):
        whole = pt.tanh(whole) + x
    used = row_data(x, "x", 0)
    rows = BatchRows(N, Dependence([], {}), lambda leaf, axis: used.slice)
    part = rows(whole, 0)
    assert used.slice in graph_inputs([part]) and x not in graph_inputs([part])


def test_a_mean_of_a_batch_is_seen():
    """The planted mistake: it is taken of the rows of a batch, where it is one of all rows."""
    with pm.Model() as model:
        x, b = data("x", X[:, 0]), pm.Normal("b")
        pm.Normal("y", (x - x.mean()) * b, 1, observed=Y)
    term = log_density_terms(model, {})[model["y"]]
    rows = [row_data(x, "x", 0), row_data(pytensor.shared(Y), "y", 0)]
    n = rows[0].slice.shape[0]
    mu = (rows[0].slice - rows[0].slice.mean()) * model.rvs_to_values[b]
    wrong = pm.logp(pm.Normal.dist(mu, 1, shape=(n,)), rows[1].slice)
    group = RowGroup("y", ("y",), tuple(rows), (wrong,))
    with pytest.raises(NotByRow, match="random rows of its data it differs"):
        prove_separation(model, group, term, 0, model.initial_point(), {})


# What is exact, and why.


def gaussian_process():
    x = np.linspace(0, 1, MANY)[:, None]
    gp = pm.gp.Marginal(cov_func=pm.gp.cov.ExpQuad(1, ls=pm.HalfNormal("ell")))
    gp.marginal_likelihood("y", X=x, y=np.sin(x[:, 0]), sigma=0.5)


def autoregression():
    pm.AR("y", rho=[pm.Normal("r")], init_dist=pm.Normal.dist(), observed=np.arange(MANY) / 99)


def cumulated():
    pm.Normal("y", pt.cumsum(pm.Normal("a") * np.ones(MANY)), 1, observed=np.zeros(MANY))


def latents():
    pm.Normal("y", pm.Normal("z", shape=MANY), 1, observed=np.zeros(MANY))


REASONS = {
    gaussian_process: "one number for all.*a Gaussian process",
    autoregression: "one number for all.*time series",
    cumulated: "CumOp takes all rows together",
    latents: "latent variable 'z' has one value per row.*marginalise",
}


@pytest.mark.compiled
@pytest.mark.parametrize("build", REASONS)
def test_exact_gradients_say_why(build, caplog):
    """One likelihood that does not separate leaves the others alone."""
    with pm.Model() as model:
        build()
        pm.Normal("other", pm.Normal("mu"), observed=np.zeros(MANY))
    with caplog.at_level(logging.INFO, "pymc.sgmcmc"):
        target = cheap(model, batch_size="auto")
    assert list(sliced(target)) == ["other"]
    (warning,) = (r.message for r in caplog.records if r.levelname == "WARNING")
    assert warning.startswith("Exact gradients of y, because") and "NUTS" in warning
    (decision,) = (d for d in target.decisions if d.exact)
    with pytest.raises(RowsDoNotSeparate, match=REASONS[build]) as error:
        cheap(model, batch_size={"y": 10})
    assert decision.reason in str(error.value) and decision.reason in warning
    assert decision.rows == MANY and decision.reason in str(decision)
    assert not any(word in str(error.value) for word in ("broadcast", "operands", "Apply node"))
    assert list(sliced(cheap(model, batch_size={"other": 10}))) == ["other"]


def test_likelihoods_that_are_exact_for_one_reason_are_named_in_one_line(caplog):
    with pm.Model() as model:
        theta = pm.Normal("theta", shape=MANY)
        for k in range(3):
            pm.Normal(f"y{k}", pm.Normal(f"b{k}") * theta, observed=np.zeros(MANY))
    with caplog.at_level(logging.WARNING, "pymc.sgmcmc"):
        cheap(model, batch_size="auto")
    (warning,) = (r.message for r in caplog.records)
    assert warning.startswith("Exact gradients of y0, y1, y2, because the latent variable 'theta'")
    assert f"All {3 * MANY} rows" in warning


def test_few_rows_and_no_request_need_no_reason():
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("a"), observed=Y)
    for batch_size in ("auto", None):
        assert cheap(model, batch_size=batch_size).decisions == [Decision("y", N)]


# Potentials.


def gamma_gamma(n):
    x = np.arange(n) % 7 + 1
    p, v = pm.HalfNormal("p"), pm.HalfNormal("v")
    return pt.gammaln(p * x) + p * x * np.log(x) - (p * x) * pt.log(x + v)


@pytest.mark.parametrize("total", [lambda x: x, lambda x: x.sum(), lambda x: -0.5 * pt.sum(-x)])
def test_a_potential_with_a_value_a_row_is_minibatched(total):
    with pm.Model() as model:
        pm.Potential("ll", total(gamma_gamma(N)))
    target = cheap(model, batch_size=2)
    assert list(sliced(target)) == ["ll"]
    assert agrees(model, target)
    with pm.Model() as model:
        pm.Potential("ll", total(gamma_gamma(MANY)))
    assert list(sliced(cheap(model, batch_size="auto"))) == ["ll"]
    assert list(sliced(cheap(model, batch_size={"ll": None}))) == []


PRIORS = {
    "of entries": lambda b: -0.5 * b**2,
    "weighted": lambda b: -0.5 * b**2 * pm.Data("w", np.linspace(1, 2, MANY)),
    "sum": lambda b: -0.5 * pt.sum(b**2 * np.linspace(1, 2, MANY)),
    "differences": lambda b: -((b[1:] - b[:-1]) ** 2),
}


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("batch_size", [5, "auto"])
def test_a_prior_that_is_a_potential_is_exact(prior, batch_size, caplog):
    with pm.Model() as model:
        b = pm.Normal("b", shape=MANY)
        pm.Potential("prior", PRIORS[prior](b))
        pm.Normal("y", b[np.arange(MANY)[::-1] // 2], 1, observed=np.zeros(MANY))
    target = cheap(model, batch_size=batch_size)
    assert list(sliced(target)) == ["y"]
    assert not [r for r in caplog.records if r.levelname == "WARNING"]


def test_an_explicit_batch_size_of_a_prior_is_an_error():
    with pm.Model() as model:
        b = pm.Normal("b", shape=N)
        pm.Potential("prior", -0.5 * b**2)
    with pytest.raises(RowsDoNotSeparate, match=r"'prior' do not separate.*'b' has one value"):
        cheap(model, batch_size={"prior": 2})


# Missing values.


def with_missing(where):
    x, y = X[:, 0].copy(), Y.copy()
    (x if where == "x" else y)[[2, 7]] = np.nan
    with pm.Model() as model, warnings.catch_warnings():
        warnings.simplefilter("ignore", ImputationWarning)
        b, s = pm.Normal("b"), pm.HalfNormal("s")
        covariate = pm.Normal("x", b, s, observed=x) if where == "x" else x
        pm.Normal("y", 0.3 + b * covariate, s, observed=y)
    return model


@pytest.mark.parametrize("where", ["x", "y"])
def test_missing_values_are_imputed_and_exact(where):
    model = with_missing(where)
    sizes = {"y": 3, "x_observed": None} if where == "x" else {"y_observed": 5}
    target = cheap(model, batch_size=sizes)
    (decision,) = (d for d in target.decisions if not d.exact)
    assert decision.imputed == (2 if where == "x" else 0)
    assert agrees(model, target)
    # Batches say nothing of the two imputed values: their gradient has no noise.
    q = 0.3 * np.random.default_rng(1).standard_normal(target.size)
    names = [target.coordinate(i) for i in range(target.size)]
    own = [i for i, name in enumerate(names) if "unobserved" in name]
    first, second = (target.value_and_gradient(q, [np.array(rows)])[1] for rows in ([0], [2, 5]))
    np.testing.assert_allclose(first[own], second[own])
    assert np.abs(first - second).max() > 0.01


@pytest.mark.compiled
def test_the_log_likelihood_of_a_row_has_its_imputed_value():
    model = with_missing("x")
    point = model.initial_point()
    point["x_unobserved"] = np.array([0.7, -0.4])
    (term,) = row_terms(model, [model["y"]], point)
    whole = term(term.arguments(point), np.arange(N))
    expected = model.compile_logp(vars=[model["y"]], sum=False)(point)[0]
    np.testing.assert_allclose(whole, expected)


def test_nan_that_is_not_reached_does_no_harm():
    """A constant of the graph, and data behind a mask; not what enters the log-density."""
    x = X[:, 0].copy()
    x[3] = np.nan
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("b") * x[~np.isnan(x)], 1, observed=Y[~np.isnan(x)])
        xd = pt.constant(x, name="x")
        filled = pt.switch(pt.isnan(xd), 0.0, xd)
        pm.Normal("z", model["b"] * filled, 1, observed=Y)
    # As written, PyTensor's gradient has 0 times NaN.
    assert agrees(model, cheap(model, batch_size=None), mode=PYTHON)
    with model:
        pm.Normal("w", model["b"] * xd, 1, observed=Y)
    with pytest.raises(ValueError, match="The data x of 'w' hold 1 NaN"):
        cheap(model, batch_size=None)


def test_a_check_of_parameters_reads_the_rows_of_the_batch():
    """sigma > 0 for all rows would be computed from all data at every inner step."""
    with pm.Model() as model:
        x = pm.Data("x", X)
        pm.Normal("y", 0.0, pt.exp(x @ pm.Normal("b", shape=3)), observed=Y)
    (group,) = cheap(model, batch_size=2).groups
    assert model["x"] not in graph_inputs(group.terms)


@pytest.mark.statistics
def test_the_decisions_are_in_the_step():
    with pm.Model() as model:
        lags()
        step = SGNHT(step_size=0.01, batch_size=3, model=model)
    assert [d.name for d in step.target.decisions] == ["y"]


@pytest.mark.compiled
def test_parameters_that_are_looked_up_for_each_word_of_a_document():
    """An index of all words end to end, of which a document has a row, as in topic models."""
    rng, shape = np.random.default_rng(0), (30, 4)
    words, number = rng.integers(7, size=shape), rng.integers(1, 4, size=shape)

    def documents(number, topics, words):
        topics = topics.reshape(topics.shape[-2:]).T
        each = pt.log(topics)[words.ravel()].reshape((*words.shape, topics.shape[1]))
        return pt.sum(pt.cast(number, "float64")[..., None] * each, axis=(-2, -1))

    with pm.Model() as model:
        theta = pm.Gamma("theta", 0.5, 1, shape=(3, 7))
        topics = theta / theta.sum(axis=-1, keepdims=True)
        data = pm.Data("words", words), pm.Data("number", number)
        pm.CustomDist("y", topics, data[0], logp=documents, observed=data[1],
                      signature="(k,v),(l)->(l)")  # fmt: skip
    target = Target(model, model.value_vars, batch_size=5, backend=INTERPRETED)
    q = rng.normal(size=target.size)
    each = [target.value_and_gradient(q, [np.array([i])])[1] for i in range(shape[0])]
    np.testing.assert_allclose(np.mean(each, axis=0), target.value_and_gradient(q)[1], rtol=1e-10)
