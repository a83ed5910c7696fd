"""Models of many likelihoods of one form: which are joined, and that U is what it was."""

import logging

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pymc_sgmcmc.rows.joined
import pymc_sgmcmc.rows.joining
from pymc_sgmcmc.posterior.batch_sources import Random
from pymc_sgmcmc.posterior.gradient_estimator import Estimator
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.rows.joined import FEWEST
from pymc_sgmcmc.rows.joining import NotJoined
from pymc_sgmcmc.tuning.tuned import Tuned
from tests.helpers import INTERPRETED, unit_coordinates

GROUPS = FEWEST + 1
LENGTHS = [70 + 3 * g for g in range(GROUPS)]
RNG = np.random.default_rng(1)
X = [RNG.normal(size=n) for n in LENGTHS]
Y = [RNG.normal(size=n) for n in LENGTHS]


def model_of(groups=GROUPS, power=1.0):
    """Normal likelihoods of groups; the last has its mean raised to a power."""
    with pm.Model() as model:
        mu, s, b = pm.Normal("mu"), pm.HalfNormal("s"), pm.Normal("b", shape=groups)
        for g in range(groups):
            x = pm.Data(f"x_{g}", X[g])
            mean = mu + b[g] * x
            if g == groups - 1 and power != 1:
                mean = mean**power
            pm.Normal(f"y_{g}", mean, s, observed=Y[g])
        pm.Poisson("k", pt.exp(mu), observed=np.arange(3))
    return model


def target_of(model, **kwargs):
    return Target(model, model.continuous_value_vars, **{"backend": INTERPRETED} | kwargs)


def expected(q, rows=None):
    """U and its gradient of `model_of` at q = (mu, log s, b), in NumPy; `rows` of the union."""
    mu, s, b = q[0], np.exp(q[1]), q[2:]
    group, x, y = np.repeat(np.arange(GROUPS), LENGTHS), np.concatenate(X), np.concatenate(Y)
    rows = np.arange(len(x)) if rows is None else rows
    group, x, y, weight = group[rows], x[rows], y[rows], len(x) / len(rows)
    e = y - mu - b[group] * x
    slope = np.empty(len(q))
    slope[0] = mu - weight * e.sum() / s**2 + 3 * np.exp(mu) - 3
    slope[1] = s**2 - 1 + weight * np.sum(1 - e**2 / s**2)
    slope[2:] = b - weight * np.bincount(group, e * x, GROUPS) / s**2
    value = (q[0] ** 2 + b @ b + s**2) / 2 - np.log(s) + 3 * np.exp(mu) - 3 * mu + np.log(2)
    value += (1 + GROUPS) / 2 * np.log(2 * np.pi) - np.log(2 / np.pi) / 2
    value += weight * np.sum(e**2 / s**2 / 2 + np.log(s) + np.log(2 * np.pi) / 2)
    return value, slope


@pytest.mark.parametrize("batch_size", ["auto", 3, None])
def test_many_of_one_form_are_one_likelihood(batch_size):
    target = target_of(model_of(), batch_size=batch_size)
    q = 0.5 * np.random.default_rng(2).normal(size=target.size)
    batches = [None]
    if batch_size is None:
        assert not target.groups
    elif batch_size == 3:
        assert sorted(group.length() for group in target.groups) == [3, sum(LENGTHS)]
    else:
        (group,) = target.groups
        assert group.length() == sum(LENGTHS)
        batches.append(np.array([0, 69, 70, 100, sum(LENGTHS) - 1]))
    for rows in batches:
        value, gradient = target.value_and_gradient(q, None if rows is None else [rows])
        wanted, slope = expected(q, rows)
        assert value == pytest.approx(wanted, rel=1e-10)
        np.testing.assert_allclose(gradient, slope, rtol=1e-9, atol=1e-9)


def test_the_log_says_how_many_rows_are_joined(caplog):
    with caplog.at_level(logging.INFO, logger="pymc.sgmcmc"):
        target_of(model_of(), batch_size="auto")
    said = f"{GROUPS} likelihoods of one form (y_0, ..., y_{GROUPS - 1})"
    assert f"{said} by 128 of {sum(LENGTHS)} rows" in caplog.text
    assert "Exact: k, the priors of mu, s, b." in caplog.text


def test_each_has_a_decision():
    decisions = {one.name: one for one in target_of(model_of(), batch_size="auto").decisions}
    assert [decisions[f"y_{g}"].rows for g in range(GROUPS)] == LENGTHS
    assert not any(decisions[f"y_{g}"].exact for g in range(GROUPS))
    assert decisions["k"].exact


@pytest.mark.parametrize(
    ("kwargs", "joined"),
    [
        ({"batch_size": {"y_0": 8}}, GROUPS - 1),
        ({"batch_size": "auto", "rows": {"x_1": 0}}, GROUPS - 1),
        ({"batch_size": None}, GROUPS),
    ],
)
def test_what_the_user_names_stays_apart(kwargs, joined):
    # `rows=` names data of an exact likelihood here: it has no axis to be given.
    if "rows" in kwargs:
        kwargs = kwargs | {"batch_size": {f"y_{g}": 8 for g in range(GROUPS)}}
        joined = 0
    (one, *_) = [*target_of(model_of(), **kwargs).likelihoods.joined, None]
    assert (len(one.members) if one else 0) == joined


def test_names_with_a_comma_are_those_of_inputs():
    """PyTensor 3 would take "expansions_5 likelihoods of one form (y_0, ..., y_4)" for a dtype."""
    target = target_of(model_of(), batch_size="auto", with_predictors=True)
    assert target.energy.predictors is not None
    untuned = Tuned.untuned(target.batch_sizes, unit_coordinates(target.size))
    source = Random(target.groups, target.batch_sizes)
    symbols = Estimator(target, source, None, control=True).symbols(untuned)
    (found,) = [x for name, x in symbols.items() if name.startswith("expansions")]
    assert "," in found.name and found.type.shape[0] is None


def test_few_are_not_joined():
    assert not target_of(model_of(FEWEST - 1)).likelihoods.joined


def test_another_form_is_not_joined():
    (one,) = target_of(model_of(power=2.0)).likelihoods.joined
    assert [rv.name for rv in one.members] == [f"y_{g}" for g in range(GROUPS - 1)]


def test_new_data_are_seen():
    model = model_of()
    target = target_of(model, batch_size="auto")
    q = np.zeros(target.size)
    before = target.value_and_gradient(q)[0]
    with model:
        pm.set_data({"x_2": 3 * X[2]})
    target.examine()
    # x_2 has a part in what b_2 changes alone.
    assert target.value_and_gradient(q)[0] == pytest.approx(before)
    e, x = np.array(Y[2]), 3 * X[2]
    q[4] = 0.5
    change = np.sum((e - 0.5 * x) ** 2 - e**2) / 2 + 0.5**2 / 2
    assert target.value_and_gradient(q)[0] == pytest.approx(before + change)


@pytest.mark.planted
@pytest.mark.parametrize("mistake", ["group", "common"])
def test_a_mistake_is_found_and_all_stay_apart(mistake, monkeypatch):
    """The group of a row off by one; a leaf that differs taken for one that all have."""
    joining = pymc_sgmcmc.rows.joining.Joining
    if mistake == "group":
        find = joining._find_rows

        def off_by_one(self, terms):
            find(self, terms)
            self.group = (self.group + 1) % len(terms)

        monkeypatch.setattr(joining, "_find_rows", off_by_one)
    else:
        monkeypatch.setattr(pymc_sgmcmc.rows.joining, "_are_one", lambda variables: True)
    assert not target_of(model_of()).likelihoods.joined


def test_rows_that_do_not_separate_are_not_joined_for_batches():
    with pm.Model() as model:
        mu = pm.Normal("mu", shape=GROUPS)
        for g, y in enumerate(Y):
            start = pm.Normal.dist()
            pm.AR(f"y_{g}", rho=mu[g : g + 1], sigma=1.0, init_dist=start, observed=y)
    target = target_of(model, batch_size="auto")
    assert not target.likelihoods.joined
    assert not target.groups


def test_shapes_that_no_longer_fit_are_said():
    model = model_of()
    target = target_of(model, batch_size="auto")
    with model:
        pm.set_data({"x_2": X[2][:5]})
    with pytest.raises((ValueError, NotJoined)):
        target.examine()
