"""Properties of values that hold whatever the values are, by Hypothesis."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_array

from pymc_sgmcmc._utils.coordinates import Coordinates
from pymc_sgmcmc._utils.flat import entry_name, shaped
from pymc_sgmcmc._utils.metric import metric_of, square_root
from pymc_sgmcmc._utils.values import equal_values
from pymc_sgmcmc.chain.running_sums import RunningSums
from pymc_sgmcmc.saving.state_text import state_from_text, state_to_text
from pymc_sgmcmc.tuning.sparse_metric import factor_of_sparse

SIZES = st.integers(1, 6)
NUMBERS = st.floats(-1e3, 1e3)


@st.composite
def factors(draw):
    """L, as a diagonal or a well-conditioned matrix, with scales from 1e-6 to 1e6."""
    d = draw(SIZES)
    scales = 10.0 ** draw(arrays(float, d, elements=st.floats(-6, 6)))
    if draw(st.booleans()):
        return scales
    turned = draw(arrays(float, (d, d), elements=st.floats(-0.9 / d, 0.9 / d)))
    return scales[:, None] * (np.eye(d) + turned)


@given(factors(), st.data())
def test_a_metric_is_a_matrix_its_transpose_and_its_inverse(L, data):
    metric, d = metric_of(L), len(L)
    z, g = (data.draw(arrays(float, (3, d), elements=NUMBERS)) for _ in range(2))
    matrix = np.diag(L) if L.ndim == 1 else L
    np.testing.assert_allclose(metric.times(z), z @ matrix.T, rtol=1e-12)
    np.testing.assert_allclose(metric.times(z)[0], metric.times(z[0]), rtol=1e-12)
    size = np.abs(matrix) @ np.abs(z).T + 1  # what sums may cancel
    there_and_back = np.linalg.norm(metric.solve(metric.times(z)) - z)
    assert there_and_back <= 1e-9 * (1 + np.linalg.norm(z)) * d * 10
    # <L z, g> = <z, L' g>
    one, other = np.sum(metric.times(z) * g, axis=1), np.sum(z * metric.pull(g), axis=1)
    np.testing.assert_allclose(one, other, atol=1e-12 * np.max(size) * (1 + np.abs(g).max()) * d)
    np.testing.assert_allclose(metric.scales**2, np.diag(matrix @ matrix.T), rtol=1e-9)


@given(factors(), st.data())
def test_coordinates_are_left_and_returned_to(L, data):
    d = len(L)
    centre, z = (data.draw(arrays(float, d, elements=NUMBERS)) for _ in range(2))
    coordinates = Coordinates(np.max(np.abs(L)) * centre, metric_of(L))
    q = coordinates.position(z)
    lost = 1e-15 * np.abs(q).max() / coordinates.metric.scales.min()
    np.testing.assert_allclose(coordinates.of(q), z, rtol=1e-9, atol=1e-9 * 1e3 * d + 50 * lost)


@given(SIZES, st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_a_sparse_factor_has_the_inverse_of_its_matrix(d, seed, density):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(d, d)) * (rng.random((d, d)) < density)
    H = A @ A.T + np.diag(rng.uniform(0.1, 2, size=d))
    metric = factor_of_sparse(csr_array(H))
    covariance = square_root(np.linalg.inv(H))
    L = metric.times(np.eye(d)).T
    np.testing.assert_allclose(L @ L.T, covariance @ covariance.T, rtol=1e-6, atol=1e-9)
    z = rng.normal(size=(2, d))
    np.testing.assert_allclose(metric.solve(metric.times(z)), z, rtol=1e-7, atol=1e-9)


SHAPES = st.lists(st.lists(st.integers(1, 3), max_size=3).map(tuple), min_size=1, max_size=4)


@given(SHAPES)
def test_a_flat_vector_is_cut_into_its_variables(shapes):
    flat = np.arange(sum(int(np.prod(shape)) for shape in shapes))
    parts = shaped(flat, shapes)
    assert [part.shape for part in parts] == shapes
    np.testing.assert_array_equal(np.concatenate([part.ravel() for part in parts]), flat)
    for part in parts:
        names = [entry_name("x", part.shape, k) for k in range(part.size)]
        assert len(set(names)) == part.size
        for name, value in zip(names, part.ravel(), strict=True):
            at = tuple(map(int, name[2:-1].split(", "))) if part.shape else ()
            assert part[at] == value


@given(st.integers(1, 130), SIZES, st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_running_sums_are_sums_whatever_their_batches(draws, d, steps, seed):
    parts = np.random.default_rng(seed).normal(size=(draws, 9, d))
    sums = RunningSums.start(np.zeros(d))
    for part in parts:
        sums = sums.add(part.copy(), steps)
    assert (sums.draws, sums.steps) == (draws, draws * steps)
    np.testing.assert_allclose(sums.sums, parts.sum(axis=0), atol=1e-9)
    means, n = sums.batch_means(), sums.length
    assert means.shape[1] * n > draws - n  # only what fills no batch is in none
    for k in range(means.shape[1]):
        own = parts[k * n : (k + 1) * n, 4:].sum(axis=0) / (n * steps)
        np.testing.assert_allclose(means[:, k], own, atol=1e-9)


LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**60), 2**60), st.text(max_size=5), st.floats(),
    st.sampled_from(["f8", "f4", "i8", "b1"]).flatmap(
        lambda kind: arrays(kind, st.lists(st.integers(0, 3), max_size=2).map(tuple))
    ),
)  # fmt: skip
STATES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=3), inner, max_size=3),
    ),
    max_leaves=8,
)


@given(STATES)
def test_a_state_in_text_keeps_every_bit(state):
    assert equal_values(state_from_text(state_to_text(state), state), state)
