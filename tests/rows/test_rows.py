import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.compile.builders import OpFromGraph

from pymc_sgmcmc import SGLD
from pymc_sgmcmc.model.errors import RowsDoNotSeparate
from pymc_sgmcmc.posterior.target import Target
from tests.helpers import INTERPRETED
from tests.posterior.test_target import agrees

N = 6
Y = np.random.default_rng(3).standard_normal(N)


def make(model, **kwargs):
    return Target(model, model.continuous_value_vars, **{"batch_size": 2} | kwargs)


def axes(target):
    return {data.name: data.axis for group in target.groups for data in group.data}


def refused(model, match, **kwargs):
    with pytest.raises(RowsDoNotSeparate, match=match) as info:
        make(model, **kwargs)
    assert "'y'" in str(info.value) and f"{N} rows" in str(info.value)


def with_offset(shape, dims=None, mu=None):
    with pm.Model(coords={"row": range(N), "other": range(N), "k": range(3)}) as model:
        a = pm.Normal("a", shape=3)
        X = pm.Data("X", np.random.default_rng(4).standard_normal(shape), dims=dims)
        pm.Normal("y", X @ a if mu is None else mu(X, a), observed=Y, dims="row")
    return model


def test_rows_are_found_by_dims():
    assert axes(make(with_offset((N, 3), ("row", "k")))) == {"X": 0, "y": 0}
    model = with_offset((3, N), ("k", "row"), lambda X, a: a @ X)
    assert axes(make(model)) == {"X": 1, "y": 0}


def test_rows_are_found_by_the_leading_length():
    assert axes(make(with_offset((N, 3)))) == {"X": 0, "y": 0}
    assert axes(make(with_offset((N, 3), (None, "k")))) == {"X": 0, "y": 0}


def test_the_dims_of_data_may_stand_for_those_of_the_observed():
    with pm.Model(coords={"row": range(N)}) as model:
        y = pm.Data("labels", Y, dims="row")
        pm.Normal("y", pm.Normal("a"), observed=y)
    (group,) = make(model, batch_size={"row": 2}).groups
    assert group.name == "row" and group.length() == N


def test_an_explicit_axis():
    model = with_offset((3, N), None, lambda X, a: a @ X)
    assert axes(make(model)) == axes(make(model, rows={"X": 1})) == {"X": 1, "y": 0}
    model = with_offset((N, 3), ("other", "k"))
    assert axes(make(model)) == axes(make(model, rows={"X": 0})) == {"X": 0, "y": 0}
    refused(model, r"rows=\{'X': None\} leaves out the rows", rows={"X": None})


def test_data_of_that_length_that_are_no_rows():
    def mu(X, a):
        return a[0] + pt.sum(X)

    model = with_offset((N,), None, mu)
    assert axes(make(model)) == axes(make(model, rows={"X": None})) == {"y": 0}
    assert agrees(model, make(model, backend=INTERPRETED))


@pytest.mark.parametrize(
    ("rows", "error", "match"),
    [
        ({"Z": 0}, ValueError, r"rows=\{'Z': 0\} names \['Z'\].*sliced by row: \['X', 'y'\]"),
        ({"X": 1}, ValueError, r"rows=\{'X': 1\}.*shape \(6, 3\).*6 rows"),
        ({"X": 2}, ValueError, r"rows=\{'X': 2\}.*shape \(6, 3\)"),
        ({"X": -2}, ValueError, r"rows=\{'X': -2\}"),
        ({"y": 1}, ValueError, r"rows=\{'y': 1\} cannot be.*shape \(6,\), and no axis 1.*up to 0"),
        ({"X": "row"}, TypeError, r"rows=\{'X': 'row'\}.*integer"),
        ({"X": True}, TypeError, r"rows=\{'X': True\}.*integer"),
        (["X"], TypeError, r"rows=\['X'\] is not a mapping"),
        ({"X": None, "y": None}, RowsDoNotSeparate, r"rows=\{'[Xy]': None\} leaves out the rows"),
    ],
)
def test_wrong_rows(rows, error, match):
    with pytest.raises(error, match=match):
        make(with_offset((N, 3)), rows=rows)


@pytest.mark.compiled
def test_a_gaussian_process_is_refused():
    x = np.linspace(0, 1, N)[:, None]
    with pm.Model() as model:
        scale = pm.HalfNormal("scale")
        gp = pm.gp.Marginal(cov_func=pm.gp.cov.ExpQuad(1, ls=scale))
        gp.marginal_likelihood("y", X=x, y=Y, sigma=0.5)
    refused(model, "not one value a row.*a Gaussian process.*batch_size=None")


def test_an_event_over_the_rows_is_refused():
    with pm.Model() as model:
        pm.MvNormal("y", pm.Normal("a") * np.ones(N), np.eye(N), observed=Y)
    refused(model, "not one value a row")


@pytest.mark.parametrize("walk", ["AR", "GaussianRandomWalk"])
def test_a_time_series_is_refused(walk):
    with pm.Model() as model:
        a = pm.Normal("a")
        start = pm.Normal.dist(0.0, 1.0)
        if walk == "AR":
            pm.AR("y", rho=[a], sigma=1.0, init_dist=start, observed=Y)
        else:
            pm.GaussianRandomWalk("y", a, 1.0, init_dist=start, observed=Y)
    refused(model, "time series.*batch_size=None")


def centred(X, a):
    return (X - X.mean(axis=0)) @ a


def by_the_maximum(X, a):
    return (X / pt.max(X, axis=0)) @ a


def lagged(X, a):
    return pt.concatenate([pt.zeros(1), X[:-1] @ a])


def cumulated(X, a):
    return pt.cumsum(X @ a)


def reversed_rows(X, a):
    return X[::-1] @ a


def by_number(X, a):
    return X @ a / X.shape[0]


def counted(X, a):
    return X @ a + pt.arange(X.shape[0])


def set_apart(X, a):
    return pt.set_subtensor((X @ a)[:2], 0.0)


@pytest.mark.parametrize("mu", [lagged, cumulated, set_apart])
@pytest.mark.parametrize("dims", [None, ("row", "k")])
def test_rows_that_depend_on_each_other_are_refused(mu, dims):
    refused(with_offset((N, 3), dims, mu), "do not separate.*because.*batch_size=None")


@pytest.mark.parametrize("mu", [centred, by_the_maximum, reversed_rows, by_number, counted])
@pytest.mark.parametrize("dims", [None, ("row", "k")])
def test_rows_whose_data_depend_on_each_other_separate(mu, dims):
    """What is computed from data alone is data."""
    model = with_offset((N, 3), dims, mu)
    assert agrees(model, make(model, backend=INTERPRETED))


@pytest.mark.parametrize("by_dims", [True, False])
def test_a_latent_of_the_rows_is_named(by_dims):
    with pm.Model(coords={"row": range(N)}) as model:
        size = {"dims": "row"} if by_dims else {"shape": N}
        z = pm.Normal("z", **size)
        other = pm.Normal("other")
        pm.Normal("y", z + other, observed=Y, **({"dims": "row"} if by_dims else {}))
    refused(model, "latent variable 'z' has one value per row.*marginalise")


def test_a_sliced_latent_is_not_blamed():
    with pm.Model() as model:
        X = pm.Data("X", np.random.default_rng(4).standard_normal((N, 3)))
        z = pm.Bernoulli("z", 0.4, shape=N)
        pm.Normal("y", z + cumulated(X, pm.Normal("a", shape=3)), observed=Y)
    with pytest.raises(RowsDoNotSeparate) as info:
        make(model)
    assert "latent variable" not in str(info.value)


@pytest.mark.parametrize("constant", [True, False])
def test_as_many_groups_as_rows(constant):
    index = np.array([0, 0, 1, 1, 0, 2])
    with pm.Model() as model:
        group = index if constant else pm.Data("group", index)
        effect = pm.Normal("effect", shape=N)
        pm.Normal("y", effect[group], observed=Y)
    assert set(axes(make(model)).values()) == {0}
    assert len(make(model).groups[0].data) == 2


@pytest.mark.parametrize("name", ["effect", "kind"])
def test_left_out_effects_of_as_many_groups_as_rows(name):
    index = np.array([0, 0, 1, 1, 0, 2])
    with pm.Model() as model:
        group = pm.Data("group", index)
        a = pm.Normal("a")
        effect = pm.Normal("effect", shape=N) if name == "effect" else 0.0
        kind = pm.Bernoulli("kind", 0.4, shape=N) if name == "kind" else np.zeros(1)
        mu = effect[group] if name == "effect" else kind[group]
        pm.Normal("y", a + mu, observed=Y)
    vars = [model.rvs_to_values[a]]
    for rows in ({}, {name: None}):
        target = Target(model, vars, batch_size=2, rows=rows)
        assert axes(target) == {"group": 0, "y": 0}
        (shared,) = target.shared.values()
        np.testing.assert_array_equal(shared.get_value(), model.initial_point()[name])


@pytest.mark.compiled
def test_new_data_between_construction_and_use():
    with pm.Model(coords={"row": range(N)}) as model:
        x, y = pm.Data("x", np.ones(N), dims="row"), pm.Data("labels", Y, dims="row")
        pm.Normal("y", pm.Normal("a") * x, observed=y, dims="row")
    target = make(model, batch_size=4)
    with model:
        pm.set_data({"x": np.ones(9), "labels": np.zeros(9)}, coords={"row": range(9)})
    np.testing.assert_array_equal(target.check_lengths(), [9])
    with model:
        pm.set_data({"x": np.ones(3), "labels": np.zeros(3)}, coords={"row": range(3)})
    with pytest.raises(ValueError, match="batch_size=4 is larger than the 3 rows of y"):
        target.check_lengths()
    model["x"].set_value(np.ones(5))
    with pytest.raises(ValueError, match=r"data of y differ.*'labels': 3.*'x': 5.*pm.set_data"):
        target.check_lengths()


def test_new_data_beside_constants():
    with pm.Model() as model:
        x = pm.Data("x", np.ones(N))
        pm.Normal("y", pm.Normal("a") * x, observed=Y)
    target = make(model)
    with model:
        pm.set_data({"x": np.ones(9)})
    with pytest.raises(ValueError, match=r"data of y differ.*'y': 6.*'x': 9"):
        target.value_and_gradient(np.zeros(1))


def centred_by_an_operation(x):
    """An operation that takes rows together, and that no rule knows."""
    whole = x.type()
    return OpFromGraph([whole], [whole - whole.mean(axis=0)])(x)


@pytest.mark.statistics
def test_data_that_come_after_construction_are_examined():
    """Placeholders of zeros hide a mean over rows; the real data do not."""
    with pm.Model():
        X, y = pm.Data("X", np.zeros((20, 2))), pm.Data("y", np.zeros(20))
        beta = pm.Normal("beta", shape=2)
        pm.Normal("obs", centred_by_an_operation(X * beta).sum(axis=1), 1, observed=y)
        step = SGLD(step_size=0.01, batch_size=4, compile_kwargs={"mode": "FAST_COMPILE"})
        step.start_chain(step.rng)
        pm.set_data({"X": np.random.default_rng(0).normal(size=(20, 2))})
        with pytest.raises(RowsDoNotSeparate, match="obs"):
            step.start_chain(step.rng)


@pytest.mark.compiled
def test_a_proof_needs_a_point_inside_the_support():
    """The moved point is outside for a narrow scale: a nearer one must be found."""
    x = np.linspace(0, 1, 30)
    with pm.Model() as model:
        X = pm.Data("X", x)
        b = pm.Normal("b")
        s = pm.HalfNormal("s", default_transform=None, initval=0.005)
        pm.Normal("y", centred_by_an_operation(X * b), s, observed=np.zeros(30))
        with pytest.raises(RowsDoNotSeparate, match="y"):
            Target(model, model.value_vars, batch_size=5)
