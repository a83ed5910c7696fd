"""What went wrong is said of what the user did: of data, dims, labels and what holds the draws."""

from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest
import xarray as xr

from pymc_sgmcmc import (
    SteinDiscrepancy,
    check,
    compare,
    kinetic_temperature,
    ksd,
    log_likelihood,
    plot_step_sizes,
    plot_temperature,
    plot_thermostat,
    plot_width,
    predict,
    relabel,
    report,
    running_sums,
    weighted_mean,
    weighted_quantile,
)
from pymc_sgmcmc._utils.groups import from_groups
from pymc_sgmcmc.chain.width_messages import describe_ratio
from pymc_sgmcmc.model.sampled_data import refuse_other_data
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.results.gradient_check import _means, _sds
from pymc_sgmcmc.results.gradient_regression import GradientRegression
from tests.drawn import posterior_of
from tests.helpers import INTERPRETED

N = 300


def target_of(model):
    return Target(model, model.continuous_value_vars, batch_size="auto", backend=INTERPRETED)


@pytest.mark.parametrize(
    ("build", "labels", "match"),
    [
        (
            lambda y: pm.Bernoulli("y", logit_p=pm.Normal("a"), observed=y),
            [1, -1, 1, -1, -1, -1],
            r"'y' are outside the support of its distribution, Bernoulli, in 4 of 6 rows: row 1 "
            r"\(-1\), row 3 \(-1\), row 4 \(-1\), \.\.\.\. .*takes 0 and 1\. Recode",
        ),
        (
            lambda y: pm.Poisson("y", pm.HalfNormal("a"), observed=y),
            [0, 1, -3],
            r"Poisson, in 1 of 3 rows: row 2 \(-3\)\. .*whole numbers from 0",
        ),
        (
            lambda y: pm.Beta("y", pm.HalfNormal("a"), 1, observed=y),
            [0.5, 0.2, 1.5],
            r"Beta, in 1 of 3 rows: row 2 \(1\.5\)",
        ),
        (
            lambda y: pm.Normal("y", pm.Normal("a"), 1, observed=y),
            [0.5, 1e200, 1.0],
            r"in 1 of 3 rows: row 1 \(1\.e\+200\).*too large to be squared",
        ),
        (
            lambda y: pm.Normal("y", pm.Normal("a"), np.array([1.0, 0.0]), observed=y),
            [0.5, 1.0],
            r"'y' is not finite in any of its 2 rows, .* one row is enough \(a scale of zero",
        ),
        (
            lambda y: pm.Uniform("y", 0, pm.HalfNormal("a", initval=0.5), observed=y),
            [0.1, 0.9, 0.4],
            r"'y' is not finite at the initial point .a_log__=-0\.6931. in 1 of 3 rows: 1\. Cho",
        ),
    ],
)
def test_values_outside_the_support_are_named(build, labels, match):
    with pm.Model() as model:
        build(np.array(labels))
    with pytest.raises(ValueError, match=match):
        target_of(model)


def regression(rows=N, dims=("row", "feature")):
    x = np.random.default_rng(0).normal(size=(rows, 3))
    with pm.Model(coords={"row": range(rows), "feature": list("abc")}) as model:
        data = pm.Data("X", x, dims=dims)
        b = pm.Normal("b", dims="feature")
        y = pm.Data("labels", x.sum(axis=1), dims="row")
        pm.Normal("y", data @ b, 1, observed=y, dims="row")
    return model


def test_dims_in_the_wrong_order():
    match = (
        r"dims of 'X', \('feature', 'row'\), do not fit its shape \(300, 3\): 'feature' has 3, "
        r"'row' has 300 labels. Most likely its axes are dims=\('row', 'feature'\)"
    )
    with pytest.raises(ValueError, match=match):
        target_of(regression(dims=("feature", "row")))
    target_of(regression())


def stored(model, **more):
    """As `pm.sample` stores it."""
    constant = {"X": (("row", "feature"), model["X"].get_value()),
                "labels": ("row", model["labels"].get_value())}  # fmt: skip
    draws = np.random.default_rng(1).normal(size=(4, 100, 3))
    return from_groups(
        {
            "posterior": xr.Dataset({"b": (("chain", "draw", "feature"), draws)}),
            "constant_data": xr.Dataset(constant),
            "observed_data": xr.Dataset({"y": ("row", model["labels"].get_value())}),
        }
        | more
    )


@pytest.mark.compiled
def test_data_that_were_not_sampled_are_refused():
    model = regression()
    idata = stored(model)
    refuse_other_data(idata, model)
    with model:
        x = model["X"].get_value()
        pm.set_data({"X": x + np.eye(N, 3)})
        match = "data are not those that were sampled: X differs in 3 of 900 entries.*pm.set_data"
        for judge in (check, ksd):
            with pytest.raises(ValueError, match=match):
                judge(idata, model)
        pm.set_data({"X": x[:100], "labels": np.zeros(100)}, coords={"row": range(100)})
        match = r"X has shape \(100, 3\), and had \(300, 3\); labels has shape .*; y has shape"
        with pytest.raises(ValueError, match=match):
            check(idata, model)
        pm.set_data({"X": x.astype("float32"), "labels": x.sum(axis=1)}, coords={"row": range(N)})
    refuse_other_data(idata, model)
    refuse_other_data(SimpleNamespace(posterior=None), model)


PLOTS = [plot_step_sizes, plot_temperature, plot_thermostat]
NEEDS_DRAWS = {
    "check": check,
    "ksd": ksd,
    "compare": lambda idata, model: compare(idata, idata),
    "predict": predict,
    "log_likelihood": log_likelihood,
    "relabel": lambda idata, model: relabel(idata, "feature"),
    "weighted_mean": lambda idata, model: weighted_mean(idata),
    "weighted_quantile": lambda idata, model: weighted_quantile(idata, 0.5),
}
NEEDS_STATS = {
    "report": report,
    "kinetic_temperature": kinetic_temperature,
    "running_sums": running_sums,
    **{plot.__name__: plot for plot in PLOTS},
}


def without_draws(chains, draws):
    posterior = xr.Dataset({"b": (("chain", "draw", "feature"), np.zeros((chains, draws, 3)))})
    names = ["step_size", "kinetic_temperature", "thermostat", "batch_size", "control_variate",
             "second_order", "svrg", "noise_fraction", "metric_condition", "decrement",
             "predicted_bias", "tuning_gradients"]  # fmt: skip
    stats = {name: (("chain", "draw"), np.zeros((chains, draws))) for name in names}
    stats["running_sums"] = (("chain", "draw", "r", "w"), np.zeros((chains, draws, 29, 4)))
    return from_groups({"posterior": posterior, "sample_stats": xr.Dataset(stats)})


@pytest.mark.parametrize("shape", [(0, 10), (2, 0)])
@pytest.mark.parametrize("name", [*NEEDS_DRAWS, *NEEDS_STATS])
def test_nothing_was_drawn(name, shape):
    idata = without_draws(*shape)
    with pytest.raises(ValueError, match="no draws"):
        if name in NEEDS_DRAWS:
            NEEDS_DRAWS[name](idata, regression())
        else:
            NEEDS_STATS[name](idata)


EMPTY = from_groups({"prior": xr.Dataset({"b": (("chain", "draw"), np.zeros((1, 3)))})})


@pytest.mark.parametrize("idata", [EMPTY, None, 3, "draws", {}], ids=str)
@pytest.mark.parametrize("name", [*NEEDS_DRAWS, *NEEDS_STATS])
def test_groups_that_are_missing(name, idata):
    match = "posterior|sample_stats|sample stat|running sums|reference="
    with pytest.raises((ValueError, TypeError), match=match):
        if name in NEEDS_DRAWS:
            NEEDS_DRAWS[name](idata, regression())
        else:
            NEEDS_STATS[name](idata)


def test_draws_that_were_averaged():
    data = SimpleNamespace(posterior=xr.Dataset({"b": ("draw", np.zeros(10))}))
    with pytest.raises(ValueError, match=r"lacks the dimensions \['chain'\]"):
        weighted_mean(data)
    with pytest.raises(ValueError, match="holds no variable"):
        weighted_mean(SimpleNamespace(posterior=xr.Dataset()))


def test_nan_draws_are_said_to_be_left_out():
    values = np.arange(10.0).reshape(1, 10)
    values[0, :3] = np.nan
    sizes = xr.Dataset({"step_size": (("chain", "draw"), np.ones((1, 10)))})
    posterior = xr.Dataset({"a": (("chain", "draw"), values)})
    data = SimpleNamespace(posterior=posterior, sample_stats=sizes)
    with pytest.warns(UserWarning, match="a is NaN in 3 of 10 draws: these are left out"):
        assert weighted_mean(data)["a"] == 6.0


@pytest.mark.parametrize("judge", [check, ksd, predict, log_likelihood])
def test_outside_a_model(judge):
    with pytest.raises(TypeError, match="There is no model: pass model=, or call this within"):
        judge(posterior_of(b=np.zeros((2, 100, 3))))
    with pytest.raises(TypeError, match="model='m' is not a "):
        judge(posterior_of(b=np.zeros((2, 100, 3))), "m")


def test_impossible_numbers_are_not_printed_beside_a_verdict():
    nothing = np.full(2, 0.1)
    wide = np.array([0.01, 1.0])
    result = GradientRegression(
        np.array([1.0, -0.03]), wide, nothing, nothing, joint=True, gradients=40
    )
    sds, means = _sds(("a", "b"), result, "", 0.0), _means(("a", "b"), result, "", 0.0)
    assert sds.verdict == "PASS" and "1.00 to 1.00" in sds.passed
    assert "Not conclusive for b" in sds.notes[-1] and means.verdict == "PASS"
    wrong = GradientRegression(
        np.array([1.0, -9.0]), nothing, nothing, nothing, joint=True, gradients=40
    )
    (alarm,) = _sds(("a", "b"), wrong, "", 0.0).alarms
    assert "nan" not in alarm.text and "b moves downhill" in alarm.text
    none = GradientRegression(-nothing, 10 * nothing, nothing, nothing, joint=True, gradients=40)
    found = _sds(("a", "b"), none, "", 0.0)
    assert found.verdict == "NOT DONE" and "nan" not in str(found.notes)
    assert "2.00 ± 0.10 times" in describe_ratio(2.0, 0.1)
    assert "times" not in describe_ratio(-0.03, 0.1) and "downhill" in describe_ratio(-0.03, 0.1)
    assert "Not conclusive" in str(SteinDiscrepancy(np.nan, 0.5, 100, 100, by_covariance=False))


def test_a_report_has_dashes_for_what_is_not_known():
    idata = without_draws(1, 1)
    idata.sample_stats["decrement"][:] = np.nan
    idata.sample_stats["predicted_bias"][:] = np.inf
    (row,) = report(idata).splitlines()[1:]
    assert row.split().count("-") == 2 and "nan" not in row and "inf" not in row


def test_the_width_of_a_run_without_sums_is_not_shown():
    with pytest.raises(ValueError):
        plot_width(without_draws(2, 10))
