"""Gradient estimates with control variates and metrics, and the noise that is measured of them."""

from dataclasses import replace
from functools import cache

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pymc_sgmcmc.posterior.target
import pymc_sgmcmc.tuning.gradient_noise
from pymc_sgmcmc import SGNHT
from pymc_sgmcmc._utils.coordinates import Coordinates
from pymc_sgmcmc._utils.metric import metric_of
from pymc_sgmcmc.compile.compiled_graph import CompiledGraph
from pymc_sgmcmc.dynamics.noise_rules import largest
from pymc_sgmcmc.posterior.batch_sources import Random
from pymc_sgmcmc.posterior.gradient_estimator import Estimator
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.tuning.gradient_noise import Gradient, RowNoise, measure_noise
from pymc_sgmcmc.tuning.tuned import Tuned
from tests.cases import draws, regression, sample
from tests.helpers import INTERPRETED, initial_state, unit_coordinates
from tests.tiers import statistics_but

N, D = 300, 3


def rng(seed=1):
    return np.random.default_rng(seed)


X = rng().normal(size=(N, D)) * [1.0, 3.0, 0.2]
X[:, 1] += X[:, 0]
LABELS = rng(2).integers(2, size=N)
OFFSET = rng(3).normal(size=N)


def logistic():
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 2.0, shape=D)
        pm.Bernoulli("y", logit_p=pm.Data("X", X) @ beta, observed=LABELS)
    return model, {"batch_size": 60}


def on_the_second_axis(rows=False):
    with pm.Model(coords={"row": range(N), "feature": range(D)}) as model:
        beta = pm.Normal("beta", 0.0, 2.0, shape=D)
        data = pm.Data("X", X.T, dims=None if rows else ("feature", "row"))
        pm.Bernoulli("y", logit_p=beta @ data, observed=LABELS, dims="row")
    return model, {"batch_size": 60, "rows": {"X": 1} if rows else None}


def by_rows():
    return on_the_second_axis(rows=True)


def poisson():
    with pm.Model() as model:
        alpha, beta = pm.Normal("alpha"), pm.Normal("beta", shape=D)
        tau = pm.HalfNormal("tau")
        rate = pm.math.exp(alpha + X @ beta / 5 + pm.Data("offset", OFFSET))
        pm.NegativeBinomial("y", mu=rate, alpha=1 + tau, observed=rng(4).poisson(2.0, size=N))
        pm.Poisson("z", rate, observed=rng(5).poisson(2.0, size=N))
    return model, {"batch_size": 50}


def two_groups():
    with pm.Model(coords={"a": range(20), "b": range(36)}) as model:
        mu, tau = pm.Normal("mu"), pm.HalfNormal("tau")
        slope = pm.Normal("slope", mu, tau, shape=2)
        x = pm.Data("x", rng(6).normal(size=(36, 2)), dims=("b", "k"))
        pm.StudentT("y", nu=4, mu=mu, sigma=1.0, observed=rng(7).normal(size=20), dims="a")
        pm.Bernoulli("z", logit_p=x @ slope, observed=rng(8).integers(2, size=36), dims="b")
        pm.Normal("exact", slope, tau, observed=[0.3, -1.0])
    return model, {"batch_size": {"a": 5, "b": 9, "exact": None}}


MODELS = [logistic, on_the_second_axis, by_rows, poisson, two_groups]


@cache
def target_of(build, keeps=False):
    model, settings = build()
    settings |= {"backend": INTERPRETED, "with_predictors": keeps}
    return Target(model, model.continuous_value_vars, **settings)


@cache
def compiled(build, ndim, control=True, keeps=False):
    """``estimate(tuned, z, rows)``: U and its gradient in z from one batch, by `Estimator`."""
    target = target_of(build, keeps)
    metric = None if ndim is None else unit_coordinates(target.size, ndim).metric
    estimator = Estimator(
        target, Random(target.groups, target.batch_sizes), metric, control=control
    )
    names = estimator.numbers(untuned(target, ndim))
    numbers = {
        name: pt.tensor(name, shape=(None,) * np.ndim(value), dtype="float64")
        for name, value in names.items()
    }
    z, rows = pt.dvector("z"), [pt.lvector() for _ in target.groups]
    weights = [pt.dscalar() for _ in target.groups]
    outputs = estimator.bind(numbers)(z, rows, weights)
    function = CompiledGraph([z, *rows, *weights, *numbers.values()], outputs, target.backend)

    def estimate(tuned, z, rows):
        weights = target.check_lengths() / [len(row) for row in rows]
        values = [np.asarray(value) for value in estimator.numbers(tuned).values()]
        return function(z, *rows, *map(np.asarray, weights), *values)

    return estimate


def untuned(target, ndim):
    return Tuned.untuned(target.batch_sizes, unit_coordinates(target.size, ndim or 1))


def tuned_for(target, ndim, *, control, seed=9):
    """A random anchor, centre and L."""
    d, r = target.size, rng(seed)
    L = r.normal(size=(d, d)) / 3 + np.eye(d) if ndim == 2 else r.uniform(0.1, 2, size=d)
    coordinates = Coordinates(r.normal(size=d) / 3, metric_of(L))
    anchor = r.normal(size=d) / 2
    return replace(
        untuned(target, ndim),
        coordinates=coordinates,
        order=int(control),
        anchor=anchor,
        anchor_gradient=target.batched_gradient(anchor),
    )


def point(target, tuned, ndim, seed=10):
    """Z, q and the L that takes gradients to z."""
    z, (c, L) = rng(seed).normal(size=target.size) / 3, vars_of(tuned)
    if ndim is None:
        return z, z, np.eye(target.size)
    L = np.diag(L) if ndim == 1 else L
    return z, c + L @ z, L


def vars_of(tuned):
    return tuned.coordinates.centre, tuned.coordinates.metric.factor


def partition(target, seed=11):
    """Batches that hold every row of every group once."""
    r = rng(seed)
    lengths, sizes = target.check_lengths(), target.batch_sizes
    parts = [np.split(r.permutation(n), n // m) for n, m in zip(lengths, sizes, strict=True)]
    return list(zip(*parts, strict=True))


@pytest.mark.parametrize("keeps", statistics_but([True], [False, True]))
@pytest.mark.parametrize("ndim", statistics_but([1], [None, 1, 2]))
@pytest.mark.parametrize("build", MODELS)
def test_control_variates_are_unbiased(build, ndim, keeps):
    target, estimate = target_of(build, keeps), compiled(build, ndim, keeps=keeps)
    for seed in (9, 20):
        tuned = tuned_for(target, ndim, control=True, seed=seed)
        z, q, L = point(target, tuned, ndim, seed + 1)
        parts = partition(target)
        results = [estimate(tuned, z, rows) for rows in parts]
        value, gradient = target.value_and_gradient(q)
        np.testing.assert_allclose(np.mean([v for v, _ in results]), value, rtol=1e-10)
        scale = np.abs(gradient).max()
        got = np.mean([g for _, g in results], axis=0)
        np.testing.assert_allclose(got, L.T @ gradient, rtol=0, atol=1e-10 * scale)
        for rows, (_, got) in zip(parts, results, strict=True):
            batch = target.value_and_gradient(q, rows)[1]
            there = target.value_and_gradient(tuned.anchor, rows)[1]
            there = there - target.value_and_gradient(tuned.anchor)[1]
            np.testing.assert_allclose(got, L.T @ (batch - there), rtol=0, atol=1e-10 * scale)
            assert np.abs(there).max() > 1e-3 * scale


@pytest.mark.parametrize("keeps", statistics_but([True], [False, True]))
@pytest.mark.parametrize("ndim", statistics_but([1], [None, 1, 2]))
@pytest.mark.parametrize("build", MODELS)
def test_without_control_it_is_the_plain_estimate(build, ndim, keeps):
    target = target_of(build, keeps)
    tuned = tuned_for(target, ndim, control=False)
    z, q, L = point(target, tuned, ndim)
    for rows in partition(target):
        off = compiled(build, ndim, keeps=keeps)(tuned, z, rows)
        for got, plain in zip(off, compiled(build, ndim, False)(tuned, z, rows), strict=True):
            # Two graphs, whose terms PyTensor may add in another order.
            np.testing.assert_allclose(got, plain, rtol=0, atol=1e-14 * np.abs(plain).max())
        value, gradient = target.value_and_gradient(q, rows)
        np.testing.assert_allclose(off[0], value, rtol=1e-12)
        atol = 1e-12 * np.abs(gradient).max()
        np.testing.assert_allclose(off[1], L.T @ gradient, rtol=0, atol=atol)


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize(("build", "ndim"), [(logistic, None), *((build, 1) for build in MODELS)])
def test_at_its_anchor_a_control_variate_is_exact(build, ndim, keeps):
    target = target_of(build, keeps)
    tuned = tuned_for(target, ndim, control=True)
    exact = target.value_and_gradient(tuned.anchor)[1]
    z = tuned.anchor
    if ndim:
        z, exact = tuned.coordinates.of(z), vars_of(tuned)[1] * exact
    for rows in partition(target):
        got = compiled(build, ndim, keeps=keeps)(tuned, z, rows)[1]
        np.testing.assert_allclose(got, exact, rtol=0, atol=1e-11 * np.abs(exact).max())


def test_the_gradient_at_the_anchor_leaves_out_the_prior():
    q = np.array([0.3, -0.2, 1.0])
    expected = -X.T @ (LABELS - 1 / (1 + np.exp(-X @ q)))
    for build in (logistic, on_the_second_axis, by_rows):
        np.testing.assert_allclose(target_of(build).batched_gradient(q), expected, rtol=1e-10)


def test_coordinates():
    r = rng(12)
    z = r.normal(size=(5, 4))
    for L in (r.normal(size=(4, 4)), r.uniform(0.1, 2, size=4)):
        coordinates = Coordinates(r.normal(size=4), metric_of(L))
        full = np.diag(L) if L.ndim == 1 else L
        q = coordinates.position(z)
        np.testing.assert_allclose(q, [coordinates.centre + full @ row for row in z], rtol=1e-12)
        np.testing.assert_allclose(coordinates.of(q), z, rtol=0, atol=1e-12)
        np.testing.assert_allclose(coordinates.of(q[0]), z[0], rtol=0, atol=1e-12)
        for matrix in (r.normal(size=(4, 4)), r.uniform(size=4))[2 - L.ndim :]:
            scaled = coordinates.scaled(matrix).metric.factor
            product = full @ (np.diag(matrix) if matrix.ndim == 1 else matrix)
            np.testing.assert_allclose(np.diag(scaled) if L.ndim == 1 else scaled, product)


def test_condition_of_a_metric():
    """That of a correlation matrix [[1, 0.8], [0.8, 1]]: 1.8 / 0.2."""
    G = np.array([[4.0, 0.016], [0.016, 1e-4]])
    assert metric_of(np.linalg.cholesky(G)).condition == pytest.approx(9.0)
    assert metric_of(np.array([1.0, 100.0])).condition == 1.0


# The noise of gradients, against single-row gradients in NumPy.

BETA = np.array([[0.3, -0.2, 1.0], [-1.0, 0.4, -3.0]])
ANCHORS = np.array([[0.5, -0.1, 1.5], [-1.1, 0.6, -3.0]])


def row_gradients(q):
    return -(LABELS - 1 / (1 + np.exp(-X @ q)))[:, None] * X


def exact_noise(gradients, L, batches, df):
    """N^2 times the covariance over rows in z, and the standard error of its estimate."""
    centred = N * (gradients - gradients.mean(axis=0)) @ L
    S = centred.T @ centred / N
    squares = np.outer(np.diag(S), np.diag(S))
    fourth = (centred**2).T @ centred**2 / N - squares - 2 * S**2
    error = np.sqrt((squares + S**2) / df + fourth / (16 * batches))
    return S, error


def plain_noise(target, coordinates, points, seed):
    return measure_noise(target, coordinates, points, {"plain": Gradient()}, rng(seed))["plain"]


FACTORS = {
    1: np.array([1.0, 0.3, 5.0]),
    2: np.array([[1.0, 0.0, 0.0], [-0.9, 0.4, 0.0], [0.5, 1.0, 5.0]]),
}


@cache
def fast_logistic():
    model, settings = logistic()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pymc_sgmcmc.posterior.target, "CURVED_FROM", 0)
        return Target(model, model.continuous_value_vars, with_predictors=True, **settings)


@cache
def measured(ndim, groups):
    """By 8000 batches at two points in turn: plain, and with one anchor or one for each."""
    points, two = (np.tile(q, (groups // 2, 1)) for q in (BETA, ANCHORS))
    gradients = {
        "plain": Gradient(),
        "one": Gradient(1, ANCHORS[0]),
        "two": Gradient(1, two),
        "second order": Gradient(2, two),
    }
    coordinates = Coordinates(np.ones(D), metric_of(FACTORS[ndim]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pymc_sgmcmc.tuning.gradient_noise, "BATCHES", 8000)
        return measure_noise(fast_logistic(), coordinates, points, gradients, rng(13))


@pytest.mark.compiled
@pytest.mark.parametrize(
    "groups", statistics_but([1000], [1000, 10]), ids=["many points", "few points"]
)
@pytest.mark.parametrize("ndim", statistics_but([1], [1, 2]))
@pytest.mark.parametrize("kind", ["plain", "one", "two", "second order"])
def test_measured_noise(kind, ndim, groups):
    L = FACTORS[ndim] if ndim == 2 else np.diag(FACTORS[ndim])
    expected = []
    for q, own in zip(BETA, ANCHORS, strict=True):
        anchor = {"one": ANCHORS[0], "two": own, "second order": own}.get(kind)
        gradients = row_gradients(q) - (0 if anchor is None else row_gradients(anchor))
        if kind == "second order":
            p = 1 / (1 + np.exp(-X @ own))
            gradients = gradients - (p * (1 - p) * (X @ (q - own)))[:, None] * X
        expected.append(exact_noise(gradients, L, 4000, (8000 - groups) / 2))
    S = (expected[0][0] + expected[1][0]) / 2
    error = np.sqrt(expected[0][1] ** 2 + expected[1][1] ** 2) / 2
    # What is left of second order comes from few rows.
    assert (np.diag(error) < (0.035 if kind == "second order" else 0.026) * np.diag(S)).all()
    if ndim == 1:
        S, error = np.diag(S), np.diag(error)
    got = measured(ndim, groups)[kind].of([7], [0.5]) * 7 / 0.5
    assert got.shape == S.shape
    assert (np.abs(got - S) < 4 * error).all(), (got - S) / error


@pytest.mark.compiled
def test_few_batches_are_enough_for_a_fifth():
    """As they are by default: 600 of 16 rows."""
    coordinates = unit_coordinates(D, 2)
    points = np.tile(BETA[:1], (20, 1))
    noise = plain_noise(fast_logistic(), coordinates, points, 14)
    S, error = exact_noise(row_gradients(BETA[0]), np.eye(D), 600, 580)
    assert (np.abs(noise.covariances[0] - S) < 4 * error).all()
    assert (np.diag(error) < 0.08 * np.diag(S)).all()


def test_more_batches_for_more_coordinates():
    """A dense covariance needs more of them than there are coordinates."""
    calls = []

    class Counted:
        size = 100

        def check_lengths(self):
            return np.array([50])

        def row_gradient(self, q, k, rows):
            calls.append(len(rows))
            return np.ones(100)

    points = np.zeros((20, 100))
    for ndim, count in ((2, 800), (1, 600)):
        calls.clear()
        plain_noise(Counted(), unit_coordinates(100, ndim), points, 1)
        assert calls == [16] * count


@cache
def gaussian():
    y = rng(15).normal(size=(50, 2)) * [1.0, 2.0]
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu", shape=2), [1.0, 0.5], observed=y)
        pm.Normal("few", model["mu"][0], observed=y[:9, 0])
    return Target(model, model.continuous_value_vars, batch_size=2, backend=INTERPRETED), y


@pytest.mark.parametrize("ndim", [1, 2])
def test_control_variates_of_a_gaussian_mean_have_no_noise(ndim):
    target, _ = gaussian()
    points = rng(16).normal(size=(20, 2))
    gradients = {"plain": Gradient(), "control": Gradient(1, np.array([3.0, -1.0]))}
    noises = measure_noise(target, unit_coordinates(2, ndim), points, gradients, rng(17))
    for plain, control in zip(*(noise.covariances for noise in noises.values()), strict=True):
        assert np.abs(control).max() < 1e-24 * largest(plain)


@pytest.mark.statistics
def test_noise_of_two_groups(monkeypatch):
    """Each has its own: V = sum_k share_k S_k / n_k. A group of 9 rows is measured 9 at a time."""
    monkeypatch.setattr(pymc_sgmcmc.tuning.gradient_noise, "BATCHES", 4000)
    target, y = gaussian()
    noise = plain_noise(target, unit_coordinates(2), np.zeros((4, 2)), 18)
    S = [50**2 * np.var(y * [1.0, 4.0], axis=0), 9**2 * np.array([np.var(y[:9, 0]), 0.0])]
    for got, expected in zip(noise.covariances, S, strict=True):
        np.testing.assert_allclose(got, expected, rtol=4 * np.sqrt(2 / 4000))
    V = noise.of([5, 3], [0.9, 0.5])
    expected = 0.9 * noise.covariances[0] / 5 + 0.5 * noise.covariances[1] / 3
    np.testing.assert_allclose(V, expected, rtol=1e-14)


def test_largest_eigenvalue_of_a_noise():
    assert largest(np.array([1.0, 3.0, 2.0])) == 3.0
    assert largest(np.array([[2.0, 1.0], [1.0, 2.0]])) == pytest.approx(3.0)


class Rows:
    """Gradients N g_i of given single rows g_i."""

    def __init__(self, gradients):
        self.gradients, self.size = gradients, gradients.shape[1]

    def check_lengths(self):
        return np.array([len(self.gradients)])

    def row_gradient(self, q, k, rows):
        return len(self.gradients) * self.gradients[rows].mean(axis=0)


@pytest.mark.parametrize("d", [2, 50])
def test_correlated_noise_is_seen(d):
    g, points = rng(19).normal(size=(9000, d)), np.zeros((20, d))

    def correlated(gradients, ndim=1):
        return plain_noise(Rows(gradients), unit_coordinates(d, ndim), points, 20).correlated

    assert correlated(g) < 0.15
    chance = (1 + np.sqrt(d / 600)) ** 2
    same = np.repeat(g[:, :1], d, axis=1) * rng().uniform(1, 5, size=d)
    assert correlated(same) == pytest.approx(1 - chance / d)
    assert correlated(same, 2) == 0.0
    assert correlated(np.zeros((9, d))) == 0.0


def test_noise_that_differs_between_points_is_uncertain():
    """Of variances 1 and 9 at 100 points each, from 3 batches at each: 1 / 14 sqrt(57) / 5."""
    g = rng(21).normal(size=(5000, 2))

    class Growing(Rows):
        def row_gradient(self, q, k, rows):
            return q * super().row_gradient(q, k, rows)

    points = np.repeat([[1.0, 0.0], [3.0, 0.0]], 100, axis=0)
    for ndim in (1, 2):
        noise = plain_noise(Growing(g), unit_coordinates(2, ndim), points, 22)
        assert noise.error == pytest.approx(np.sqrt(57 / 200) / 5, rel=0.25)
        equal = plain_noise(Rows(g), unit_coordinates(2, ndim), points, 23)
        assert equal.error == pytest.approx(np.sqrt(1 / 200), rel=0.25)
    assert plain_noise(Rows(0 * g), unit_coordinates(2), points, 24).error == 0.0


def test_share_and_size_scale_the_noise():
    S = [np.array([[2.0, 1.0], [1.0, 3.0]]), np.eye(2)]
    np.testing.assert_allclose(
        RowNoise(S, 0.0, 0.0, count=600).of([4, 10], [0.5, 1.0]), S[0] / 8 + S[1] / 10
    )


@pytest.mark.compiled
@pytest.mark.parametrize("thermostat", statistics_but(["coordinate"], ["scalar", "coordinate"]))
def test_a_thermostat_starts_at_the_measured_noise_of_a_step_size_that_is_given(thermostat):
    """And not at NaN: the tuned step size is none."""
    with regression():
        step = SGNHT(step_size=0.05, diffusion=3.0, batch_size=5, gradient="svrg",
                     thermostat=thermostat)  # fmt: skip
        idata = sample(step, draws=20, tune=20, chains=1)
    assert not idata.sample_stats.diverging.any() and draws(idata).std() > 0
    noise = step.state.tuned.noise
    assert (noise > 0).all()
    expected = 3.0 + 0.05 * noise / 2
    xi = initial_state(step, np.random.default_rng(0))["xi"]
    np.testing.assert_allclose(xi, expected if thermostat == "coordinate" else expected.mean())
