"""Blocks of shuffled rows, and the balance of injected and measured noise."""

from dataclasses import replace
from functools import cache

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pymc_sgmcmc.posterior.batch_sources
from pymc_sgmcmc import SGHMC
from pymc_sgmcmc._utils.coordinates import Coordinates
from pymc_sgmcmc._utils.metric import metric_of
from pymc_sgmcmc.compile.compiled_graph import CompiledGraph
from pymc_sgmcmc.dynamics.noise_budget import noise_to_inject
from pymc_sgmcmc.posterior.batch_sources import Blocks
from pymc_sgmcmc.posterior.gradient_estimator import Estimator
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.tuning.tuned import Tuned
from tests.cases import draws, sample
from tests.helpers import INTERPRETED, PYTHON, draw_rows_of, unit_coordinates

N, LARGEST = 23, 7


def rng(seed=1):
    return np.random.default_rng(seed)


def order_of(n=N):
    """The rows in the order in which blocks hold them."""
    return pymc_sgmcmc.posterior.batch_sources._shuffled(0, n)


def build(x, y, axis=0, **kwargs):
    """A regression on `x` (n, 2), held on `axis`."""
    dims = ("row", "feature") if axis == 0 else ("feature", "row")
    with pm.Model(coords={"row": range(len(y)), "feature": range(2)}) as model:
        beta = pm.Normal("beta", 0.0, 1.0, dims="feature")
        data = pm.Data("x", x if axis == 0 else x.T, dims=dims)
        eta = data @ beta if axis == 0 else beta @ data
        if y.dtype.kind == "f":
            pm.Normal("obs", eta, 1.0, observed=pm.Data("y", y, dims="row"), dims="row")
        else:
            pm.Bernoulli("obs", logit_p=eta, observed=pm.Data("y", y, dims="row"), dims="row")
        return model, Target(model, model.continuous_value_vars, backend=INTERPRETED, **kwargs)


def taker(source):
    """``take(bounds)``: the slices of the first group's data by name."""
    (group,) = source.groups
    bounds = pt.lvector("bounds")
    slices = source.slices(group, [bounds])
    function = CompiledGraph([bounds], [slices[data.slice] for data in group.data], INTERPRETED)

    def take(bounds):
        return dict(zip([data.name for data in group.data], function(bounds), strict=True))

    return take


@pytest.mark.parametrize("size", [1, 5, LARGEST])
def test_every_row_is_equally_often_in_a_block(size):
    ids = np.arange(N)
    _, target = build(np.stack([ids, ids], axis=1) * 1.0, ids * 1.0, batch_size=size)
    source = Blocks(target.groups, [LARGEST])
    take, counts = taker(source), np.zeros(N, dtype=int)
    for start in range(N):
        block = take(np.array([start, start + size]))
        rows = block["y"].astype(int)
        np.testing.assert_array_equal(rows, order_of()[(start + np.arange(size)) % N])
        np.testing.assert_array_equal(block["x"], np.stack([rows, rows], axis=1))
        assert len(set(rows)) == size
        counts[rows] += 1
    np.testing.assert_array_equal(counts, size)
    assert sorted(order_of()) == list(ids)
    assert (np.diff(order_of()) == 1).sum() < 5


def test_starts_are_uniform_and_bounds_have_the_size():
    _, target = build(np.zeros((N, 2)), np.arange(N) * 1.0, batch_size=5)
    source = Blocks(target.groups, [LARGEST])
    bounds, state = source.draw(source.start, rng(2), N, 46_000, 5)
    assert state == source.start == () and source.independent
    np.testing.assert_array_equal(bounds[:, 1] - bounds[:, 0], 5)
    counts = np.bincount(bounds[:, 0], minlength=N)
    assert len(counts) == N
    assert (np.abs(counts - 2000) < 4 * np.sqrt(2000 * (1 - 1 / N))).all()
    assert np.abs(np.corrcoef(bounds[1:, 0], bounds[:-1, 0])[0, 1]) < 4 / np.sqrt(46_000)
    one = source.any(rng(3), N, 5)
    assert one.shape == (1, 2) and one[0, 1] - one[0, 0] == 5 and 0 <= one[0, 0] < N


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float64"])
@pytest.mark.parametrize("axis", [0, 1])
def test_types_and_axes(axis, dtype):
    x, y = rng(4).normal(size=(N, 2)), rng(5).integers(2, size=N).astype(dtype)
    _, target = build(x, y, axis, batch_size=5)
    source = Blocks(target.groups, [LARGEST])
    take = taker(source)
    held = {data.name: data for data in target.groups[0].data}
    for start in (0, 9, N - 1):
        block, rows = (
            take(np.array([start, start + 5])),
            order_of()[np.arange(start, start + 5) % N],
        )
        np.testing.assert_array_equal(block["x"], x[rows] if axis == 0 else x[rows].T)
        for name, values in (("x", x), ("y", y)):
            assert block[name].dtype == held[name].source.type.dtype
            assert block[name].dtype.kind == values.dtype.kind
        np.testing.assert_array_equal(block["y"], y[rows])


@pytest.mark.parametrize("size", [2, 10, 30])
def test_noise_of_the_mean_of_a_block(size):
    """Its share of the noise of independent rows, on average over data."""
    n, columns = 60, 3000
    values = rng(6).exponential(size=(n, columns))
    with pm.Model() as model:
        mu = pm.Normal("mu", shape=columns)
        pm.Normal("obs", mu, observed=values)
    target = Target(model, model.continuous_value_vars, batch_size=size, backend=INTERPRETED)
    source = Blocks(target.groups, [size])
    take = taker(source)
    means = [next(iter(take(np.array([s, s + size])).values())).mean(axis=0) for s in range(n)]
    ratio = np.var(means, axis=0) / (source.share(n, size) / size * values.var(axis=0, ddof=1))
    error = ratio.std() / np.sqrt(columns)
    assert error < 0.02
    assert abs(ratio.mean() - 1) < 4 * error


@cache
def compiled(axis, keeps):
    """``estimate(tuned, z, bounds)`` with control variates, from blocks."""
    x, y = rng(7).normal(size=(N, 2)), rng(8).integers(2, size=N)
    _, target = build(x, y, axis, batch_size=5, with_predictors=keeps)
    assert (target.energy.predictors is not None) == keeps
    return target, estimate_of(target, 5)


def estimate_of(target, size):
    source = Blocks(target.groups, [size])
    start = Tuned.untuned([size], unit_coordinates(target.size, 2))
    estimator = Estimator(target, source, start.coordinates.metric, control=True)
    numbers = {
        name: pt.tensor(name, shape=(None,) * np.ndim(value), dtype="float64")
        for name, value in estimator.numbers(start).items()
    }
    z, bounds, weight = pt.dvector(), pt.lvector(), pt.dscalar()
    outputs = estimator.bind(numbers)(z, [bounds], [weight])
    function = CompiledGraph([z, bounds, weight, *numbers.values()], outputs, INTERPRETED)

    def estimate(z, s, **found):
        values = estimator.numbers(replace(start, **found))
        weight = np.asarray(target.check_lengths()[0] / size)
        return function(z, np.array([s, s + size]), weight, *map(np.asarray, values.values()))

    return estimate


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("control", [False, True])
def test_gradients_of_blocks_are_unbiased(control, axis, keeps):
    target, estimate = compiled(axis, keeps)
    z, anchor, centre = rng(9).normal(size=(3, 2))
    L = np.array([[1.0, 0.0], [0.5, 2.0]])
    found = {"coordinates": Coordinates(centre, metric_of(L)), "order": int(control),
             "anchor": anchor, "anchor_gradient": target.batched_gradient(anchor)}  # fmt: skip
    results = [estimate(z, start, **found) for start in range(N)]
    value, gradient = target.value_and_gradient(centre + L @ z)
    np.testing.assert_allclose(np.mean([v for v, _ in results]), value, rtol=1e-12)
    np.testing.assert_allclose(np.mean([g for _, g in results], axis=0), L.T @ gradient, rtol=1e-10)
    assert np.std([g for _, g in results], axis=0).min() > 0.1
    if control:
        at_anchor = np.linalg.solve(L, anchor - centre)
        exact = L.T @ target.value_and_gradient(anchor)[1]
        for start in (0, N - 1):
            np.testing.assert_allclose(estimate(at_anchor, start, **found)[1], exact, rtol=1e-10)


@pytest.mark.statistics
@pytest.mark.parametrize("n", [N, 40])
def test_new_data_are_shuffled_when_a_chain_starts(n):
    x, y = rng(10).normal(size=(N, 2)), rng(11).normal(size=N)
    model, _ = build(x, y)
    with model:
        step = SGHMC(step_size=0.01, batch_size=5, batches="blocks", backend="c",
                     compile_kwargs={"mode": PYTHON})  # fmt: skip
        take = taker(step.chain.parts.source)
        np.testing.assert_array_equal(take(np.array([3, 8]))["y"], y[order_of()[3:8]])
        kept = step.chain.parts.source._shuffled.copy()
        values = {var: shared.get_value(borrow=True) for var, shared in kept.items()}
        step.start_chain(rng(12))
        for var, shared in kept.items():
            assert shared.get_value(borrow=True) is values[var]  # nothing is new
        x, y = rng(13).normal(size=(n, 2)), rng(14).normal(size=n)
        pm.set_data({"x": x, "y": y}, coords={"row": range(n)})
    step.start_chain(rng(12))
    for start in (0, n - 1):
        rows = order_of(n)[np.arange(start, start + 5) % n]
        block = take(np.array([start, start + 5]))
        np.testing.assert_array_equal(block["x"], x[rows])
        np.testing.assert_array_equal(block["y"], y[rows])
    bounds = draw_rows_of(step, 50)[0]
    assert bounds.shape == (50, 2) and bounds[:, 0].max() >= (n > N) * N


# Data that are sorted by their outcome.

ROWS, BATCH = 2000, 64


@cache
def straight_line():
    """Rows (1, x) and y, sorted by y."""
    x = np.stack([np.ones(ROWS), rng(15).normal(size=ROWS)], axis=1)
    y = x @ [1.0, -2.0] + rng(16).normal(size=ROWS)
    order = np.argsort(y)
    return x[order], y[order]


def variance_of_blocks(order, g):
    """Over all starts, of N times the mean of a block of the rows g (n, d)."""
    sums = np.cumsum(np.vstack([np.zeros(g.shape[1]), g[order], g[order[: BATCH - 1]]]), axis=0)
    return np.var(ROWS / BATCH * (sums[BATCH:] - sums[:-BATCH]), axis=0)


@pytest.mark.planted
@pytest.mark.statistics
@pytest.mark.parametrize("planted", [False, True], ids=["shuffled", "as they are"])
def test_noise_of_blocks_of_sorted_data(planted, monkeypatch):
    """It is that of rows without replacement, within what one shuffle leaves to chance."""
    if planted:
        monkeypatch.setattr(
            pymc_sgmcmc.posterior.batch_sources, "_shuffled", lambda seed, n: np.arange(n)
        )
    x, y = straight_line()
    _, target = build(x, y, batch_size=BATCH)
    q, estimate = np.array([1.1, -1.9]), estimate_of(target, BATCH)
    identity = unit_coordinates(2, 2)
    gradients = [estimate(q, start, coordinates=identity)[1] for start in range(ROWS)]
    got = np.var(gradients, axis=0)
    g = (x @ q - y)[:, None] * x
    predicted = Blocks(target.groups, [BATCH]).share(ROWS, BATCH) * ROWS**2 * g.var(axis=0) / BATCH
    chance = [variance_of_blocks(rng(s).permutation(ROWS), g) for s in range(400)]
    spread = np.std(chance, axis=0)
    np.testing.assert_array_less(np.abs(np.mean(chance, axis=0) - predicted), spread / 5)
    assert (spread < 0.21 * predicted).all()
    if planted:
        assert (got > 3 * predicted).any() and (np.abs(got - predicted) > 4 * spread).all()
    else:
        assert (np.abs(got - predicted) < 4 * spread).all()


def batch_means(values, batches=10):
    """Mean and its standard error, from 10 batches of each chain."""
    means = values.reshape(len(values) * batches, -1, values.shape[-1]).mean(axis=1)
    return means.mean(axis=0), means.std(axis=0, ddof=1) / np.sqrt(len(means))


@cache
def sampled(gradient, in_order=True):
    x, y = straight_line()
    order = np.arange(ROWS) if in_order else rng(17).permutation(ROWS)
    model, _ = build(x[order], y[order])
    with model:
        step = SGHMC(batches="blocks", batch_size=BATCH, gradient=gradient)
        return sample(step, draws=4000, tune=400, chains=4, random_seed=18)


def z_scores(idata):
    """Of means and variances; and the errors of these, relative to the posterior's."""
    x, y = straight_line()
    precision = x.T @ x + np.eye(2)
    mean, variance = np.linalg.solve(precision, x.T @ y), np.diag(np.linalg.inv(precision))
    z = (draws(idata) - mean) / np.sqrt(variance)
    (first, e1), (second, e2) = batch_means(z), batch_means(z**2)
    return np.concatenate([first / e1, (second - 1) / e2]), np.concatenate([e1, e2])


@pytest.mark.statistics
@pytest.mark.parametrize("in_order", [True, False], ids=["sorted", "shuffled"])
@pytest.mark.parametrize("gradient", ["auto", "plain"])
def test_sorted_data_give_the_exact_posterior(gradient, in_order):
    idata = sampled(gradient, in_order)
    scores, errors = z_scores(idata)
    assert (errors < 0.06).all(), errors
    assert (np.abs(scores) < 4).all(), scores
    assert idata.sample_stats.control_variate.all() == (gradient == "auto")


# The balance of noise.


def test_automatic_noise_is_subtracted_and_never_more_than_there_is():
    measured = np.array([0.0, 0.5, 2.0, 3.0])
    np.testing.assert_array_equal(
        noise_to_inject(2.0, "C", "auto", measured, True), [2.0, 1.5, 0, 0]
    )
    total = np.array([1.0, 0.1, 2.0, 5.0])
    np.testing.assert_array_equal(
        noise_to_inject(total, "C", "auto", measured, True), [1.0, 0, 0, 2.0]
    )
    many = noise_to_inject(1.0, "C", "auto", rng(19).exponential(size=1000), True)
    assert many.min() == 0.0 and many.max() <= 1.0


def test_given_noise_is_subtracted():
    zeros = np.zeros(2)
    np.testing.assert_array_equal(noise_to_inject(np.float64(2.0), "C", 0.5, zeros, True), 1.5)
    np.testing.assert_array_equal(noise_to_inject(2.0, "C", [0.5, 2.0], zeros, True), [1.5, 0.0])
    np.testing.assert_array_equal(
        noise_to_inject(np.array([1.0, 2.0]), "C", 1, zeros, True), [0.0, 1.0]
    )
    # What is measured is for "auto" alone.
    assert noise_to_inject(2.0, "C", 0.0, np.ones(2), False) == 2.0


@pytest.mark.parametrize("estimate, batched, error, message", [
    (2.1, True, ValueError, "noise_estimate=2.1 exceeds friction"),
    ([0.1, 2.1], True, ValueError, "exceeds friction"),
    (0.5, False, ValueError, "independently"),
    ([0.0, 0.5], False, ValueError, "independently"),
    (-0.1, True, ValueError, "non-negative"),
    (np.nan, True, ValueError, "finite"),
    ([0.1, 0.1, 0.1], True, ValueError, "shape"),
    ("Auto", True, TypeError, "not a number"),
    (None, True, TypeError, "not a number"),
    (True, True, TypeError, "not a number"),
], ids=str)  # fmt: skip
def test_noise_that_cannot_be_subtracted_is_refused(estimate, batched, error, message):
    with pytest.raises(error, match=message):
        noise_to_inject(np.array(2.0), "friction", estimate, np.zeros(2), batched)
