"""`log_likelihood` against formulas, PyMC's own, and leave-one-out predictions that are exact."""

import warnings

import arviz as az
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from scipy import stats

from pymc_sgmcmc import log_likelihood
from pymc_sgmcmc._utils.groups import from_groups
from pymc_sgmcmc.compile.backend import Backend
from pymc_sgmcmc.posterior import row_likelihood
from tests.drawn import dataset_of

N, CHAINS, LENGTH = 600, 2, 30
LEAD = ("chain", "draw")


def data_of(**values):
    """What pm.sample would return, with a sample stat; each array is (chain, draw, ...)."""
    lead = next(iter(values.values())).shape[:2]
    stats_of = xr.Dataset({"lp": (LEAD, np.arange(np.prod(lead)).reshape(lead))})
    return from_groups({"posterior": dataset_of(values), "sample_stats": stats_of})


class Regression:
    """y ~ N(X beta, sigma^2) with labelled rows, of which some are in a batch."""

    def __init__(self, minibatch=False):
        rng = np.random.default_rng(1)
        self.X, self.y = rng.normal(size=(N, 3)), rng.normal(size=N)
        coords = {"row": [f"r{i}" for i in range(N)], "feature": list("abc")}
        with pm.Model(coords=None if minibatch else coords) as self.model:
            beta, sigma = pm.Normal("beta", shape=3), pm.HalfNormal("sigma")
            if minibatch:
                X, y = pm.Minibatch(self.X, self.y, batch_size=20)
                pm.Normal("y", X @ beta, sigma, observed=y, total_size=N)
            else:
                X = pm.Data("X", self.X, dims=("row", "feature"))
                pm.Normal("y", X @ beta, sigma, observed=self.y, dims="row")
        beta, sigma = rng.normal(size=(CHAINS, LENGTH, 3)), rng.gamma(2, size=(CHAINS, LENGTH))
        self.idata = data_of(beta=beta, sigma=sigma)
        self.exact = stats.norm.logpdf(self.y, beta @ self.X.T, sigma[..., None])


@pytest.fixture(scope="module", params=[False, True], ids=["data", "minibatch"])
def regression(request):
    return Regression(request.param)


def values_of(found, name="y"):
    return found.log_likelihood[name].values


@pytest.fixture
def uncompiled(monkeypatch):
    """Nothing is compiled."""
    backend = Backend(compile_kwargs={"mode": "FAST_COMPILE"})
    monkeypatch.setattr(row_likelihood, "Backend", lambda: backend)


@pytest.mark.compiled
@pytest.mark.parametrize("chunk", [100, 2**17])
def test_all_rows_at_all_draws(regression, chunk, monkeypatch):
    monkeypatch.setattr(row_likelihood, "CHUNK", chunk)
    found = log_likelihood(regression.idata, regression.model)
    np.testing.assert_allclose(values_of(found), regression.exact, rtol=1e-10)
    assert type(found) is type(regression.idata)
    assert not hasattr(regression.idata, "log_likelihood")
    labelled = "row" in regression.model.coords
    y = found.log_likelihood["y"]
    assert y.dims == (*LEAD, "row" if labelled else "y_dim_0")
    assert list(y[y.dims[2]].values[:2]) == (["r0", "r1"] if labelled else [0, 1])


def test_some_rows_and_draws(regression, uncompiled):
    found = log_likelihood(regression.idata, regression.model, draws=12, rows=50, dtype="float32")
    y = found.log_likelihood["y"]
    assert y.shape == (CHAINS, 6, 50) and y.dtype == "float32"
    rows = [int(str(label).lstrip("r")) for label in y[y.dims[2]].values]
    assert rows == sorted(set(rows)) and rows[-1] - rows[0] > N / 2
    kept = y.draw.values if "draw" in y.coords else np.arange(6) * 5 + 2
    np.testing.assert_array_equal(kept, np.arange(6) * 5 + 2)  # spread evenly
    np.testing.assert_allclose(y, regression.exact[:, kept][..., rows], rtol=1e-5)
    # All groups are those of the same draws.
    np.testing.assert_array_equal(
        found.posterior.beta, regression.idata.posterior.beta.isel(draw=kept)
    )
    np.testing.assert_array_equal(found.sample_stats.lp, regression.idata.sample_stats.lp[:, kept])
    again = log_likelihood(regression.idata, regression.model, draws=12, rows=50)
    assert list(again.log_likelihood["y"][y.dims[2]].values) == list(y[y.dims[2]].values)
    others = log_likelihood(regression.idata, regression.model, draws=2, rows=50, random_seed=1)
    assert list(others.log_likelihood["y"][y.dims[2]].values) != list(y[y.dims[2]].values)


def test_memory_is_bounded_by_the_user(regression, uncompiled):
    needed = CHAINS * LENGTH * N * 8
    with pytest.raises(ValueError, match=r"y \(600,\) at 60 draws .* draws=30, or fewer"):
        log_likelihood(regression.idata, regression.model, max_memory=needed / 2)
    log_likelihood(regression.idata, regression.model, draws=30, max_memory=needed / 2)
    log_likelihood(regression.idata, regression.model, dtype="float32", max_memory=needed / 2)


def mixed():
    """Several variables: two that share rows, few rows, rows that depend, and events of two."""
    rng = np.random.default_rng(2)
    series = np.cumsum(rng.normal(size=400)) / 20
    with pm.Model(coords={"row": np.arange(300), "pair": ["u", "v"]}) as model:
        k, s = pm.Poisson("k", 2), pm.HalfNormal("s", shape=2)
        group = pm.Data("group", rng.integers(2, size=300), dims="row")
        pm.Normal("one", k, s[group], observed=rng.normal(size=300), dims="row")
        pm.Poisson("two", s[group], observed=rng.poisson(2, size=300), dims="row")
        pm.Normal("few", k, s[0], observed=rng.normal(size=7))
        pm.AR("series", rho=s[:1], sigma=1.0, init_dist=pm.Normal.dist(), observed=series)
        pm.MvNormal("event", pm.math.stack([s[0], k]), np.eye(2),
                    observed=rng.normal(size=(300, 2)), dims=("row", "pair"))  # fmt: skip
        pm.Normal("number", s[1], 1, observed=0.3)
        pm.Normal("summed", s[0] * pt.cumsum(group), observed=rng.normal(size=300), dims="row")
    lead = (CHAINS, LENGTH)
    return model, data_of(k=rng.poisson(2, size=lead), s=rng.gamma(3, size=(*lead, 2)) / 3)


@pytest.mark.compiled
def test_as_pymc_has_it(uncompiled):
    model, idata = mixed()
    found = log_likelihood(idata, model)
    with model:
        expected = pm.compute_log_likelihood(
            idata, extend_inferencedata=False, progressbar=False,
            compile_kwargs={"mode": "FAST_COMPILE"},
        )  # fmt: skip
    assert set(found.log_likelihood.data_vars) == set(expected.data_vars)
    for name in expected.data_vars:
        np.testing.assert_allclose(found.log_likelihood[name], expected[name], rtol=1e-7)
        assert found.log_likelihood[name].dims == expected[name].dims
    some = log_likelihood(idata, model, var_names=["one", "summed", "number"], rows=20)
    assert set(some.log_likelihood.data_vars) == {"one", "summed", "number"}
    rows = some.log_likelihood["row"].values
    np.testing.assert_allclose(some.log_likelihood["one"], expected["one"][..., rows])
    np.testing.assert_allclose(some.log_likelihood["summed"], expected["summed"][..., rows])
    assert some.log_likelihood["number"].shape == (CHAINS, LENGTH)
    both = log_likelihood(idata, model, var_names=["one", "two"], rows=20)
    assert both.log_likelihood.sizes["row"] == 20


@pytest.mark.compiled
@pytest.mark.parametrize("rows", [None, 150])
def test_loo_is_right(rows):
    """A normal mean with known variance: every leave-one-out prediction is a normal."""
    rng, n = np.random.default_rng(3), 300
    y = 1 + rng.normal(size=n)
    with pm.Model() as model:
        batch = pm.Minibatch(y, batch_size=10)
        pm.Normal("y", pm.Normal("mu", 0, 10), 1.0, observed=batch, total_size=n)
    precision = n + 0.01
    mu = y.sum() / precision + rng.normal(size=(4, 1000)) / np.sqrt(precision)
    found = log_likelihood(data_of(mu=mu), model, rows=rows)
    kept = np.arange(n) if rows is None else found.log_likelihood["y"]["y_dim_0"].values
    left = precision - 1
    exact = stats.norm.logpdf(y, (y.sum() - y) / left, np.sqrt(1 + 1 / left))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loo = az.loo(found, pointwise=True)
    elpd = loo.elpd if hasattr(loo, "elpd") else loo.elpd_loo
    pointwise = loo.elpd_i if hasattr(loo, "elpd_i") else loo.loo_i
    np.testing.assert_allclose(pointwise, exact[kept], atol=0.01)
    assert abs(elpd - exact[kept].sum()) < 0.1
    if rows is not None:
        error = n / rows * np.std(exact) * np.sqrt(rows)
        assert abs(n / rows * elpd - exact.sum()) < 4 * error


def test_a_batch_in_place_of_the_data_would_be_seen():
    """What PyMC computes of a model with pm.Minibatch: one batch, scaled."""
    regression = Regression(minibatch=True)
    with regression.model:
        wrong = pm.compute_log_likelihood(
            regression.idata, extend_inferencedata=False, progressbar=False,
            compile_kwargs={"mode": "FAST_COMPILE"},
        )  # fmt: skip
    assert wrong["y"].shape[2] == 20 and wrong["y"].mean() < 10 * regression.exact.mean()


def test_refusals(regression):
    idata, model = regression.idata, regression.model
    with pytest.raises(ValueError, match=r"has no observed variable \['z'\]. It has \['y'\]"):
        log_likelihood(idata, model, var_names="z")
    with pytest.raises(ValueError, match=r"lacks the free variables \['sigma'\]"):
        log_likelihood(data_of(beta=np.zeros((2, 3, 3))), model)
    with pytest.raises(ValueError, match="draws=0 must be at least 1"):
        log_likelihood(idata, model, draws=0)
    with pytest.raises(TypeError, match=r"rows=0.5 is not an integer"):
        log_likelihood(idata, model, rows=0.5)
    with pytest.raises(ValueError, match="dtype='int' is unknown"):
        log_likelihood(idata, model, dtype="int")
    with pm.Model() as wrong:
        y = pm.Minibatch(np.zeros(50), batch_size=5)
        pm.Normal("y", pm.Normal("mu"), observed=y, total_size=5000)
    with pytest.raises(ValueError, match="total_size=5000 of 'y'"):
        log_likelihood(data_of(mu=np.zeros((2, 9))), wrong)
    with pm.Model() as prior:
        pm.Normal("mu")
    with pytest.raises(ValueError, match=r"It has \[\]"):
        log_likelihood(data_of(mu=np.zeros((2, 9))), prior)
