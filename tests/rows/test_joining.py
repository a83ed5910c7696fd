"""Log-likelihoods of one form as one: equal to each by itself, for models of many shapes."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

import pymc_sgmcmc.rows.joining_rules  # noqa: F401
from pymc_sgmcmc.model.log_density import flat_gradient, log_density_terms
from pymc_sgmcmc.rows.forms import is_data_alone, of_one_form
from pymc_sgmcmc.rows.joining import NotJoined, join
from tests.helpers import AS_WRITTEN

LENGTHS = (7, 12, 3, 9)
RNG = np.random.default_rng(3)
PEOPLE = RNG.normal(size=(20, 3))
PERIODS = np.repeat(np.arange(len(LENGTHS)), LENGTHS)
ALL_X = RNG.normal(size=len(PERIODS))


def entries_of_a_vector(g, n):
    mu, s = pm.modelcontext(None)["mu"], pm.modelcontext(None)["s"]
    mean = mu + s * pm.modelcontext(None)["z"][g] + RNG.normal(size=n)
    return pm.Normal(f"y_{g}", mean, s, observed=RNG.normal(size=n))


def own_variables(g, n):
    a, b = pm.Normal(f"a_{g}"), pm.HalfNormal(f"b_{g}")
    ability = pm.modelcontext(None)["theta"][RNG.integers(20, size=n)]
    pm.Bernoulli(f"y_{g}", logit_p=a + b * ability, observed=RNG.integers(2, size=n))


def own_constants(g, n):
    link = 0.5 + 0.1 * g
    mu = pm.modelcontext(None)["mu"]
    pm.Poisson(f"y_{g}", pt.exp(mu * link) + g + 1, observed=RNG.integers(5, size=n))


def own_data(g, n):
    x, exposure = pm.Data(f"x_{g}", RNG.normal(size=(n, 3))), pm.Data(f"e_{g}", 1.0 + g)
    slopes = pm.modelcontext(None)["B"][g]
    pm.Poisson(f"y_{g}", exposure * pt.exp(x @ slopes), observed=RNG.integers(5, size=n))


def common_slopes(g, n):
    x = RNG.normal(size=(n, 20))
    model = pm.modelcontext(None)
    mean = x @ model["theta"] + model["B"][g, 1]
    pm.StudentT(f"y_{g}", nu=3 + g, mu=mean, sigma=model["s"], observed=RNG.normal(size=n))


def parts_of_data(g, n):
    chosen = PERIODS == g
    x = pm.modelcontext(None)["x"][chosen]
    pm.Normal(f"y_{g}", pm.modelcontext(None)["z"][g] * x, 1, observed=RNG.normal(size=n))


def table_of_each(g, n):
    weights = pm.Normal(f"w_{g}", shape=3)
    index = RNG.integers(3, size=n)
    pm.Exponential(f"y_{g}", pt.exp(weights[index]), observed=RNG.random(n))


def matrices(g, n):
    mean = pm.modelcontext(None)["B"][g] + RNG.normal(size=(n, 3))
    pm.Normal(f"y_{g}", mean, pm.modelcontext(None)["s"], observed=RNG.normal(size=(n, 3)))


def categories(g, n):
    logits = RNG.normal(size=(n, 4)) + pm.Normal(f"c_{g}", shape=4)
    pm.Categorical(f"y_{g}", logit_p=logits, observed=RNG.integers(4, size=n))


LIKELIHOODS = [entries_of_a_vector, own_variables, own_constants, own_data, common_slopes,
               parts_of_data, table_of_each, matrices]  # fmt: skip


def model_of(likelihood, lengths=LENGTHS):
    with pm.Model() as model:
        pm.Normal("mu")
        pm.HalfNormal("s")
        pm.Normal("z", shape=len(lengths))
        pm.Normal("theta", shape=20)
        pm.Normal("B", shape=(len(lengths), 3))
        pm.Data("x", ALL_X)
        for g, n in enumerate(lengths):
            likelihood(g, n)
    return model


def terms_of(model):
    terms = log_density_terms(model, {})
    return {rv.name: terms[rv] for rv in model.observed_RVs}


def joined(model):
    terms, data_alone = terms_of(model), is_data_alone(set())
    (names,) = of_one_form(terms, data_alone)
    lengths = [len(model.rvs_to_values[rv].data) for rv in model.observed_RVs]
    return join([terms[name] for name in names], lengths, data_alone), list(terms.values())


def at_random(model, graphs, seed=1):
    """Values and gradients of graphs where all values are random."""
    rng, values = np.random.default_rng(seed), model.value_vars
    point = [0.3 * rng.normal(size=np.shape(v)) for v in model.initial_point().values()]
    gradient = flat_gradient(sum(graph.sum() for graph in graphs), model.continuous_value_vars)
    function = pytensor.function(
        values, [*graphs, gradient], mode=AS_WRITTEN, on_unused_input="ignore"
    )
    return function(*point)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_joined_terms_are_those_end_to_end(likelihood):
    model = model_of(likelihood)
    one, terms = joined(model)
    whole, gradient = at_random(model, [one])
    *parts, slope = at_random(model, terms)
    np.testing.assert_allclose(whole, np.concatenate(parts), rtol=1e-12)
    np.testing.assert_allclose(gradient, slope, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("likelihood", [own_data, entries_of_a_vector])
def test_terms_of_one_length_are_joined(likelihood):
    model = model_of(likelihood, (8, 8, 8))
    one, terms = joined(model)
    whole, _ = at_random(model, [one])
    *parts, _ = at_random(model, terms)
    np.testing.assert_allclose(whole, np.concatenate(parts), rtol=1e-12)


def test_the_graph_does_not_grow_with_the_number_of_terms():
    from pytensor.graph.traversal import toposort

    sizes = [
        len([*toposort([joined(model_of(entries_of_a_vector, (9,) * G))[0]])]) for G in (3, 12)
    ]
    assert sizes[0] == sizes[1]


def test_new_data_are_seen():
    model = model_of(own_data)
    one, _ = joined(model)
    with model:
        pm.set_data({"x_1": RNG.normal(size=(12, 3)), "e_2": 9.0})
    whole, _ = at_random(model, [one])
    *parts, _ = at_random(model, list(terms_of(model).values()))
    np.testing.assert_allclose(whole, np.concatenate(parts), rtol=1e-12)


def test_other_forms_are_told_apart():
    with pm.Model() as model:
        a = pm.Normal("a", shape=2)
        pm.Normal("y_0", a[0], 1, observed=np.zeros(3))
        pm.Normal("y_1", a[1], 1, observed=np.zeros(4))
        pm.Normal("y_2", a[0] ** 2, 1, observed=np.zeros(4))
        pm.Poisson("y_3", pt.exp(a[0]), observed=np.zeros(4, int))
        pm.Normal("y_4", a[0], 1, observed=np.zeros((4, 2)))
    names = of_one_form(terms_of(model), is_data_alone(set()))
    assert names == [["y_0", "y_1"], ["y_2"], ["y_3"], ["y_4"]]


def test_what_has_no_rule_is_not_joined():
    with pm.Model() as model:
        a = pm.Normal("a", shape=2)
        for g in range(2):
            x = RNG.normal(size=5 + g)
            pm.Normal(f"y_{g}", a[g] * pt.cumsum(x * a[0]), 1, observed=np.zeros(5 + g))
    with pytest.raises(NotJoined, match="no rule"):
        joined(model)


def test_a_number_of_rows_in_the_density_is_no_shape():
    """The mean over the rows of a term is not that over all rows."""
    with pm.Model() as model:
        a = pm.Normal("a", shape=2)
        for g in range(2):
            x = pm.Data(f"x_{g}", RNG.normal(size=5 + g))
            pm.Normal(f"y_{g}", a[g] * x / x.shape[0], 1, observed=np.zeros(5 + g))
    one, terms = joined(model)
    whole, _ = at_random(model, [one])
    *parts, _ = at_random(model, terms)
    np.testing.assert_allclose(whole, np.concatenate(parts), rtol=1e-12)
