"""`predict` against predictive laws that are exact, and what may not change or be guessed."""

import numpy as np
import pymc as pm
import pytest

from pymc_sgmcmc import predict
from tests.drawn import posterior_of

CHAINS, LENGTH, N = 4, 500, 100
LEAD = ("chain", "draw")
rng = np.random.default_rng(1)
BETA = np.array([1.0, -2.0]) + 0.1 * rng.normal(size=(CHAINS, LENGTH, 2))
OFFSETS = np.array([0.0, 10.0, 20.0]) + 0.1 * rng.normal(size=(CHAINS, LENGTH, 3))
FEATURES, GROUPS = rng.normal(size=(N, 2)), rng.integers(3, size=N)


DRAWS = posterior_of(beta=BETA, offset=OFFSETS)


def labelled(observed="data"):
    """A regression with groups, of which rows and groups have names."""
    coords = {"row": [f"r{i}" for i in range(N)], "feature": ["a", "b"], "group": list("xyz")}
    with pm.Model(coords=coords) as model:
        features = pm.Data("features", FEATURES, dims=("row", "feature"))
        groups = pm.Data("groups", GROUPS, dims="row")
        beta = pm.Normal("beta", 0, 100, dims="feature")
        offset = pm.Normal("offset", 0, 100, dims="group")
        mean = pm.Deterministic("mean", features @ beta + offset[groups], dims="row")
        y = pm.Data("y", np.zeros(N), dims="row") if observed == "data" else np.zeros(N)
        pm.Normal("obs", mean, 0.5, observed=y, dims="row")
    return model


def minibatched():
    """The same in batches, and nothing has a name."""
    with pm.Model() as model:
        data = pm.Data("features", FEATURES), pm.Data("groups", GROUPS)
        features, groups, y = pm.Minibatch(*data, np.zeros(N), batch_size=10)
        beta, offset = pm.Normal("beta", 0, 100, shape=2), pm.Normal("offset", 0, 100, shape=3)
        mean = features @ beta + offset[groups]
        pm.Normal("obs", mean, 0.5, observed=y, total_size=N)
    return model


NEW = {"features": [[1.0, 1.0], [0.0, -1.0]], "groups": [2, 0]}
MEAN = BETA @ np.transpose(NEW["features"]) + OFFSETS[..., NEW["groups"]]

MODELS = [labelled, lambda: labelled("array"), minibatched]


@pytest.mark.compiled
@pytest.mark.parametrize("build", MODELS, ids=["data", "array", "minibatch"])
def test_new_rows(build):
    model = build()
    before = {data.name: data.get_value() for data in model.data_vars}
    found = predict(DRAWS, model, NEW, random_seed=2)
    drawn = found.predictions["obs"]
    assert drawn.shape == (CHAINS, LENGTH, 2)
    # Given the draws, only the noise of each is new.
    z = (drawn.values - MEAN) / 0.5
    n = z.size
    assert abs(z.mean()) < 4 / np.sqrt(n) and abs(z.var() - 1) < 4 * np.sqrt(2 / n)
    assert abs(np.corrcoef(z[..., 0].ravel(), z[..., 1].ravel())[0, 1]) < 4 / np.sqrt(n / 2)
    for data in model.data_vars:
        np.testing.assert_array_equal(data.get_value(), before[data.name])
    np.testing.assert_array_equal(found.posterior["beta"], BETA)
    again, other = (predict(DRAWS, model, NEW, random_seed=seed) for seed in (2, 3))
    np.testing.assert_array_equal(again.predictions["obs"], drawn)
    assert (other.predictions["obs"] != drawn).all()


@pytest.mark.compiled
def test_own_rows_of_a_deterministic_and_some_draws():
    model = labelled()
    found = predict(DRAWS, model, var_names="mean", draws=40)
    mean = found.posterior_predictive["mean"]
    assert mean.dims == (*LEAD, "row") and mean["row"].values[1] == "r1"
    kept = mean["draw"].values
    assert len(kept) == 10
    expected = BETA[:, kept] @ FEATURES.T + OFFSETS[:, kept][..., GROUPS]
    np.testing.assert_allclose(mean, expected)
    np.testing.assert_array_equal(found.posterior["beta"], BETA[:, kept])


@pytest.mark.compiled
def test_labels():
    found = predict(DRAWS, labelled(), NEW, coords={"row": ["u", "v"]}, draws=4)
    assert list(found.predictions["row"].values) == ["u", "v"]
    assert list(predict(DRAWS, labelled(), NEW, draws=4).predictions["row"].values) == [0, 1]


@pytest.mark.compiled
def test_the_model_is_as_before_after_an_error(monkeypatch):
    model = labelled()
    monkeypatch.setattr("pymc_sgmcmc.results.predict.with_bar", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        predict(DRAWS, model, NEW)
    np.testing.assert_array_equal(model["features"].get_value(), FEATURES)
    assert model.dim_lengths["row"].eval() == N


def test_refusals():
    model = labelled()
    with pytest.raises(ValueError, match=r"new_data has 'x', and the model's pm.Data are \['feat"):
        predict(DRAWS, model, {"x": [1.0]})
    with pytest.raises(ValueError, match=r"new_data\['features'\] has shape \(2,\): it needs 2 ax"):
        predict(DRAWS, model, {"features": [1.0, 2.0]})
    with pytest.raises(ValueError, match="lacks 'groups': predictions depend on it"):
        predict(DRAWS, model, {"features": [[1.0, 2.0]]})
    with pytest.raises(ValueError, match="lacks 'groups'"):
        predict(DRAWS, minibatched(), {"features": [[1.0, 2.0]]})
    with pm.Model() as half:
        x, z, y = pm.Minibatch(pm.Data("x", np.ones(N)), np.ones(N), np.ones(N), batch_size=10)
        pm.Normal("obs", pm.Normal("a") * x * z, observed=y, total_size=N)
    with pytest.raises(ValueError, match=r"lacks an array that is no pm.Data: .* shape \(3,\)"):
        predict(posterior_of(a=np.ones((1, 3))), half, {"x": np.ones(3)})
    with pytest.raises(ValueError, match="has 3 'row', and other data have 2"):
        predict(DRAWS, model, NEW | {"groups": [0, 1, 2]})
    with pytest.raises(ValueError, match=r"dtype float64, and the model's is int"):
        predict(DRAWS, model, NEW | {"groups": [0.5, 1.0]})
    with pytest.raises(ValueError, match="on axis 1, and the model 2"):
        predict(DRAWS, minibatched(), {"features": np.ones((2, 3)), "groups": [0, 1]})
    with pytest.raises(ValueError, match=r"coords\['row'\] has 3 labels, and new_data 2"):
        predict(DRAWS, model, NEW, coords={"row": "uvw"})
    with pytest.raises(ValueError, match=r"has \['obs', 'mean'\], not \['beta'\]"):
        predict(DRAWS, model, NEW, var_names=["beta"])
    with pytest.raises(ValueError, match=r"lacks the free variables \['offset'\]"):
        predict(posterior_of(beta=BETA), model, NEW)
    with pytest.raises(ValueError, match=r"obs \(2,\) at 2000 draws .* draws=1000, or"):
        predict(DRAWS, model, NEW, max_memory=CHAINS * LENGTH * 8)


@pytest.mark.parametrize("new", [1, 2, 7])
def test_a_length_that_cannot_follow(new):
    """One row would be repeated for all of the observed array, without a word."""
    with pm.Model() as model:
        x = pm.Data("x", np.zeros(N))
        pm.Normal("obs", pm.Normal("slope") * x, observed=np.zeros(N))
    with pytest.raises(ValueError, match="'obs' has the fixed length 100 of its observed array"):
        predict(posterior_of(slope=np.zeros((2, 5))), model, {"x": np.zeros(new)})


@pytest.mark.compiled
def test_free_variables_are_never_drawn_again():
    """PyMC may do that where a dimension, or data in a prior, are not those of the run."""
    with pm.Model(coords={"row": range(N)}) as model:
        scale = pm.Data("scale", 1.0)
        slope = pm.Normal("slope", 0, scale)
        x = pm.Data("x", np.ones(N), dims="row")
        pm.Normal("obs", slope * x, 1e-6, observed=np.zeros(N), dims="row")
    draws = posterior_of(slope=np.full((2, 5), 50.0))
    found = predict(draws, model, {"x": [1.0, 2.0], "scale": 3.0})
    np.testing.assert_allclose(found.predictions["obs"].mean(LEAD), [50, 100], rtol=1e-5)
