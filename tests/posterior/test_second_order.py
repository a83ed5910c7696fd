"""Second derivatives of rows: their sum, and control variates that use them."""

from dataclasses import replace
from functools import cache

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pymc_sgmcmc.posterior.target
from pymc_sgmcmc.compile.compiled_graph import CompiledGraph
from pymc_sgmcmc.posterior import control_variates, row_hessian
from pymc_sgmcmc.posterior.batch_sources import Random
from pymc_sgmcmc.posterior.gradient_estimator import Estimator
from pymc_sgmcmc.posterior.predictors import Predictors
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.tuning.tuned import Tuned
from tests.helpers import INTERPRETED, unit_coordinates

N, G, H = 24, 5, 3


def rng(seed):
    return np.random.default_rng(seed)


X, Y = rng(1).normal(size=(N, 3)), rng(2).normal(size=N)
STORE, DAY = rng(3).integers(G, size=N), rng(4).integers(H, size=N)


def flat():
    pm.Bernoulli("y", logit_p=pm.Normal("a") + X @ pm.Normal("b", shape=3), observed=Y > 0)


def scale():
    pm.Normal("y", X @ pm.Normal("b", shape=3), pm.HalfNormal("s"), observed=Y)


def crossed():
    u, v = pm.Normal("u", 0, pm.HalfNormal("t"), shape=G), pm.Normal("v", shape=(H, 2))
    slope = v[DAY, 0] + v[DAY, 1] * X[:, 0]
    pm.Poisson("y", pm.math.exp(u[STORE] + slope - u.mean()), observed=DAY + 1)


def several_slopes():
    u = pm.Normal("u", shape=(G, 3))
    mu = (u[STORE] * X).sum(axis=1) / 2
    pm.StudentT("y", nu=4, mu=mu, sigma=pm.HalfNormal("s"), observed=Y)


def two_predictors():
    log_scale = 0.3 * pm.Normal("c", shape=G)[STORE]
    pm.Normal("y", X @ pm.Normal("b", shape=3), pm.math.exp(log_scale), observed=Y)


def two_groups():
    b = pm.Normal("b", shape=3)
    pm.Normal("y", X @ b, pm.HalfNormal("s"), observed=Y)
    pm.Poisson("z", pm.math.exp(X[:10] @ b), observed=DAY[:10])


MODELS = [flat, scale, crossed, several_slopes, two_predictors, two_groups]


def new_target(build):
    with pm.Model() as model:
        build()
    size = {"y": 6, "z": 5} if build is two_groups else 6
    return Target(
        model,
        model.continuous_value_vars,
        batch_size=size,
        with_predictors=True,
        backend=INTERPRETED,
    )


@cache
def built(build):
    """Second derivatives of a model with few parameters."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pymc_sgmcmc.posterior.target, "CURVED_FROM", 0)
        return new_target(build)


def target_of(build):
    """The same for all tests, without what it keeps of an anchor."""
    target = built(build)
    target.near_anchor.forget()
    return target


def hessian_of(target, q, rows=None):
    """By central differences of gradients of the minibatched part."""

    def gradient(at):
        if rows is None:
            return target.batched_gradient(at)
        parts = [target.row_gradient(at, k, own) for k, own in enumerate(rows)]
        return np.sum(parts, axis=0)

    steps = 1e-5 * np.eye(target.size)
    return np.array([(gradient(q + e) - gradient(q - e)) / 2e-5 for e in steps])


@pytest.fixture
def any_size(monkeypatch):
    """Second derivatives of models with few parameters."""
    monkeypatch.setattr(pymc_sgmcmc.posterior.target, "CURVED_FROM", 0)


@pytest.fixture
def form(request, monkeypatch):
    """Whether Hessians are arrays."""
    if request.param == "sparse":
        for module in (row_hessian, control_variates):
            monkeypatch.setattr(module, "LARGEST_DENSE", 0)
    return request.param


BOTH_FORMS = pytest.mark.parametrize("form", ["arrays", "sparse"], indirect=True)


@BOTH_FORMS
@pytest.mark.parametrize("build", MODELS)
def test_the_sum_of_all_rows(build, form):
    target = target_of(build)
    assert target.near_anchor.is_curved
    q = rng(5).normal(size=target.size) / 2
    found = target.near_anchor.hessian(q)
    assert isinstance(found, np.ndarray) == (form == "arrays")
    whole = found if form == "arrays" else found.toarray()
    expected = hessian_of(target, q)
    np.testing.assert_allclose(whole, expected, rtol=0, atol=1e-6 * np.abs(expected).max())
    np.testing.assert_allclose(whole, whole.T, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_effects_that_no_row_has_in_common_are_not_stored(monkeypatch):
    monkeypatch.setattr(row_hessian, "LARGEST_DENSE", 0)
    target = target_of(crossed)
    # Day effects are two for each of 3 days; stores share the mean of all.
    dense = target.near_anchor.hessian(np.zeros(target.size)).toarray()
    days = dense[-2 * H :, -2 * H :].reshape(H, 2, H, 2)
    for one in range(H):
        for other in range(H):
            assert (days[one, :, other] != 0).all() == (one == other)


def estimates(target, order, anchor, q, batches):
    """Gradients at `q` from each of `batches`, by `Estimator`."""
    near, source = target.near_anchor, Random(target.groups, target.batch_sizes)
    estimator = Estimator(target, source, None, control=True)
    tuned = replace(
        Tuned.untuned(target.batch_sizes, unit_coordinates(target.size, 1)),
        order=order,
        anchor=anchor,
        anchor_gradient=near.gradient(anchor),
    )
    numbers, symbols = estimator.numbers(tuned), estimator.symbols(tuned)
    z, rows = pt.dvector("z"), [pt.lvector() for _ in target.groups]
    weights = [pt.dscalar() for _ in target.groups]
    outputs = estimator.bind(symbols)(z, rows, weights)
    function = CompiledGraph([z, *rows, *weights, *symbols.values()], outputs, INTERPRETED)
    found = []
    for batch in batches:
        factors = target.check_lengths() / [len(own) for own in batch]
        found.append(function(q, *batch, *map(np.asarray, factors), *numbers.values())[1])
    return found


def partition(target, seed=6):
    """Batches that have every row of every group once."""
    lengths, sizes, r = target.check_lengths(), target.batch_sizes, rng(seed)
    count = max(n // m for n, m in zip(lengths, sizes, strict=True))
    parts = [np.array_split(r.permutation(n), count) for n in lengths]
    return list(zip(*parts, strict=True))


# What is kept of rows knows nothing of the form of their sum: one model has all four.
@pytest.mark.parametrize(
    ("build", "form", "kept"),
    [(build, *pair) for build in MODELS for pair in (("arrays", True), ("sparse", False))]
    + [
        pytest.param(several_slopes, *pair, marks=pytest.mark.statistics)
        for pair in (("arrays", False), ("sparse", True))
    ],
    indirect=["form"],
)
def test_the_mean_of_all_batches_is_exact_and_each_is_the_formula(build, kept, form, monkeypatch):
    """g(q) - g(c) - H_rows (q - c) + G + H (q - c), and the exact prior at q."""
    target = target_of(build)
    assert target.near_anchor.is_kept
    monkeypatch.setattr(target.near_anchor, "is_kept", kept)
    c, q = rng(7).normal(size=(2, target.size)) / 3
    batches = partition(target)
    found = estimates(target, 2, c, q, batches)
    exact = target.value_and_gradient(q)[1]
    scale = np.abs(exact).max()
    if build is not two_groups:  # whose batches differ in size
        np.testing.assert_allclose(np.mean(found, axis=0), exact, rtol=0, atol=1e-10 * scale)
    prior = exact - target.batched_gradient(q)
    G, H = target.batched_gradient(c), hessian_of(target, c)
    for rows, got in zip(batches, found, strict=True):
        own = hessian_of(target, c, rows)
        pairs = [*enumerate(rows)]
        there = sum(target.row_gradient(c, k, own_rows) for k, own_rows in pairs)
        here = sum(target.row_gradient(q, k, own_rows) for k, own_rows in pairs)
        expected = prior + here - there - own @ (q - c) + G + H @ (q - c)
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6 * scale)


def one_side(self, curvatures, x):
    """W x without what is below the diagonal of W."""
    products = [0.0] * len(self)
    for curvature, (j, k) in zip(curvatures, self.pairs, strict=False):
        products[j] = products[j] + curvature * x[k]
    return products


def other_order(self, curvatures, x):
    """W x with the entries of W in another order."""
    return turn(self, [*curvatures][::-1], x)


turn = Predictors.turn


@pytest.mark.planted
@pytest.mark.parametrize("mistake", [one_side, other_order])
@pytest.mark.parametrize("kept", [True, False])
def test_a_mistake_of_the_expansion_is_seen(mistake, kept, monkeypatch):
    monkeypatch.setattr(Predictors, "turn", mistake)
    right = test_the_mean_of_all_batches_is_exact_and_each_is_the_formula
    with pytest.raises(AssertionError):
        right(two_predictors, kept, "arrays", monkeypatch)


@BOTH_FORMS
@pytest.mark.parametrize("order", [0, 1])
def test_other_orders_have_the_same_graph(order, form):
    target = target_of(crossed)
    c, q = rng(8).normal(size=(2, target.size)) / 3
    batches = partition(target)
    prior = target.value_and_gradient(q)[1] - target.batched_gradient(q)
    for rows, got in zip(batches, estimates(target, order, c, q, batches), strict=True):
        expected = prior + target.row_gradient(q, 0, rows[0])
        if order:
            expected += target.batched_gradient(c) - target.row_gradient(c, 0, rows[0])
        np.testing.assert_allclose(got, expected, rtol=1e-9)


def test_linear_regressions_have_no_noise(any_size):
    with pm.Model() as model:
        pm.Normal("y", X @ pm.Normal("b", shape=3), 0.7, observed=Y)
    target = Target(model, model.continuous_value_vars, batch_size=2, with_predictors=True,
                    backend=INTERPRETED)  # fmt: skip
    c, q = np.zeros(3), np.array([10.0, -20.0, 5.0])
    exact = target.value_and_gradient(q)[1]
    for got in estimates(target, 2, c, q, [(np.array([3, 3]),), (np.array([0, 20]),)]):
        np.testing.assert_allclose(got, exact, rtol=1e-11)


def test_where_they_are_not_known(any_size):
    """PyTensor has no second derivative of the incomplete gamma function in its shape."""

    def binomial(value, eta):
        return pt.log(pt.gammainc(pt.exp(eta), 2.0)) * value

    with pm.Model() as model:
        eta = X @ pm.Normal("b", shape=3)
        pm.CustomDist("y", eta, logp=binomial, observed=np.abs(Y))
    target = Target(model, model.continuous_value_vars, batch_size=6, with_predictors=True,
                    backend=INTERPRETED)  # fmt: skip
    assert target.near_anchor is not None and not target.near_anchor.is_curved


def test_few_parameters_have_none(monkeypatch):
    for size, curved in ((4, True), (5, False)):
        monkeypatch.setattr(pymc_sgmcmc.posterior.target, "CURVED_FROM", size)
        assert new_target(flat).near_anchor.is_curved == curved  # of four parameters
