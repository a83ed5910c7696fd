import pickle
import sys
import threading

import numpy as np
import pytest
from numba import njit

from pymc_sgmcmc import Resumable, resume, save
from pymc_sgmcmc.chain import frame
from pymc_sgmcmc.compile import normal_stream
from pymc_sgmcmc.compile.normal_stream import MANY, Noise, fill
from pymc_sgmcmc.compile.philox import PIECE, _compiled, box_muller, integers_below, philox
from pymc_sgmcmc.samplers import SGHMC
from tests.cases import regression, sample
from tests.saving.test_resume import assert_same_draws
from tests.tiers import statistics_but

SIZE = 2**22 + 1  # odd, and in several pieces
DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64"])

pytestmark = pytest.mark.compiled  # by Numba, at the first call in a process


def rng(seed=0):
    return np.random.default_rng(seed)


def many(dtype, size=SIZE, key=1, step=0):
    return Noise(size, dtype).draw(None, key, step, (size,))


def check_normal(z):
    """Moments, tails and correlations, within 4.5 standard errors."""
    n = len(z)
    powers = {1: (0, 1), 2: (1, 2), 3: (0, 15), 4: (3, 96), 6: (15, 10170)}
    for k, (mean, variance) in powers.items():
        assert abs(np.mean(z**k) - mean) < 4.5 * np.sqrt(variance / n), k
    for bound, share in ((2, 0.0455003), (4, 6.33425e-5), (4.5, 6.7953e-6)):
        beyond = np.sum(np.abs(z) > bound)
        assert abs(beyond - n * share) < 4.5 * np.sqrt(n * share), bound
    # Neighbours, those of one counter, of the same words, and of the same place in two pieces: by
    # their values and their sizes.
    for lag in (1, PIECE // 4, PIECE // 2, PIECE):
        one, other = z[lag:], z[:-lag]
        for first, second in ((one, other), (one**2, other**2)):
            assert abs(np.corrcoef(first, second)[0, 1]) < 4.5 / np.sqrt(len(one)), lag


@pytest.mark.statistics
@DTYPES
def test_they_are_normal(dtype):
    check_normal(many(dtype).astype(float))


@pytest.mark.planted
@pytest.mark.statistics
@DTYPES
@pytest.mark.parametrize("lag", [PIECE // 2, PIECE])
def test_words_used_twice_are_seen(dtype, lag):
    """The mistake that the test of correlations is for."""
    z = many(dtype).astype(float)
    z[lag:] = np.abs(z[:-lag]) * np.sign(z[lag:])
    with pytest.raises(AssertionError):
        check_normal(z)


@pytest.mark.parametrize(
    "counter, key, words",
    [
        ((0, 0, 0, 0), (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ((2**32 - 1,) * 4, (2**32 - 1,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_philox_has_the_words_of_its_authors(counter, key, words):
    """Those of `kat_vectors` in Random123."""

    def joined(low, high):
        return np.uint64(low + (high << 32))

    out = np.empty(4, np.uint32)
    philox(joined(*key), joined(*counter[2:]), joined(*counter[:2]), out)
    assert [f"{word:08x}" for word in out] == words.split()


@DTYPES
def test_box_muller_is_the_transform_of_its_authors(dtype):
    """Its radius is that of the first word, and its angle is uniform in the second."""
    word = np.dtype(f"u{np.dtype(dtype).itemsize}")
    bits, n = 8 * word.itemsize, 100_000
    ends = np.array([0, 1, 2 ** (bits - 1), 2**bits - 1], word)
    first = np.concatenate([rng(1).integers(2**bits, size=n, dtype=word), ends, ends[::-1]])
    second = np.concatenate([rng(2).integers(2**bits, size=n, dtype=word), ends, ends])
    out = np.concatenate([first, second])
    njit(lambda words: box_muller(words))(out)
    x, y = out.view(dtype).astype(float).reshape(2, -1)
    tolerance = 4 * np.finfo(dtype).eps
    uniform = (first.astype(dtype) + np.array(0.5, dtype)) / np.array(2.0**bits, dtype)
    radius = np.sqrt(-2 * np.log(uniform.astype(float)))
    np.testing.assert_allclose(np.hypot(x, y), radius, rtol=tolerance, atol=tolerance)
    # Two bits say which quarter of the circle it is in, the others where in it, from end to end.
    quarter, within = second >> word.type(bits - 2), (second << word.type(2)).view(f"i{bits // 8}")
    angle = np.pi / 4 * within.astype(float) / 2.0 ** (bits - 1)
    middle = np.where(quarter & 1, np.pi, 0) + np.where(quarter & 2, np.pi / 2, 0)
    angle = np.where(quarter & 2, middle - angle, middle + angle)
    np.testing.assert_allclose(x, radius * np.cos(angle), atol=8 * tolerance)
    np.testing.assert_allclose(y, radius * np.sin(angle), atol=8 * tolerance)


@pytest.mark.parametrize("bound", [1, 7, 10**7, 2**32 - 1])
def test_integers_are_upper_halves_of_products(bound):
    key = 2**63 + 5
    words, out = np.empty((2, 10_000), np.uint64)
    philox(key, 0, 0, words.view(np.uint32))
    integers_below(bound, key, out)
    assert out.tolist() == [word * bound >> 64 for word in words.tolist()]


@DTYPES
@pytest.mark.parametrize("size", [1, MANY - 1, MANY + 1, 2 * PIECE + 3])
def test_all_are_filled(dtype, size):
    noise = Noise(size, dtype)
    for step in (0, 1):  # in both buffers
        noise.draw(rng(), 5, step, (2 * size,))[:] = np.nan
    z = noise.draw(rng(1), 5, 2, (1, size, 1))
    assert z.shape == (1, size, 1) and z.dtype == dtype and np.isfinite(z).all()
    assert len(np.unique(z)) > 0.99 * size


@DTYPES
def test_few_are_those_of_numpy(dtype):
    drawn = Noise(20, dtype).draw(rng(3), 0, 0, (4, 1, 5))
    np.testing.assert_array_equal(drawn, rng(3).standard_normal((4, 1, 5), dtype))


@DTYPES
@pytest.mark.parametrize("size", [11, 2 * MANY])
def test_a_seed_gives_the_same_again_and_others_later(dtype, size):
    one, other = rng(7), rng(7)
    noise, again = Noise(3 * size, dtype), Noise(3 * size, dtype)
    draws = [noise.draw(one, 9, step, (3, 1, size)).copy() for step in (0, 3)]
    for step, draw in zip((0, 3), draws, strict=True):
        np.testing.assert_array_equal(draw, again.draw(other, 9, step, (3, 1, size)))
    assert np.mean(draws[0] == draws[1]) < 0.001
    assert np.mean(draws[0] == noise.draw(rng(8), 10, 0, (3, 1, size))) < 0.001


@DTYPES
@pytest.mark.parametrize("kept", [True, False])
def test_what_is_made_ahead_is_the_same(dtype, kept, monkeypatch):
    """Whether it is what is asked for then, or not."""
    shape = (3, 1, 40_001)
    expected = many(dtype, size=120_003, key=4, step=30)
    monkeypatch.setattr(normal_stream, "_a_core_is_free", lambda: True)
    monkeypatch.setattr(normal_stream, "AHEAD", 1)
    noise, made = Noise(120_003, dtype), []
    make = noise._make
    noise._make = lambda *of: made.append(threading.current_thread()) or make(*of)
    first = noise.draw(None, 4, 27, shape)
    before = first.copy()
    noise.begin(4, 30, shape) if kept else noise.begin(4, 33, (2, 1, 40_001))
    z = noise.draw(None, 4, 30, shape)
    np.testing.assert_array_equal(z.ravel(), expected)
    assert not np.shares_memory(z, first)
    np.testing.assert_array_equal(first, before)  # while it was in use
    here = threading.current_thread()
    assert [of is here for of in made] == [True, False] + [True] * (not kept)


@pytest.mark.parametrize("kwargs", statistics_but([{}], [{}, {"batches": "epochs"}]))
@pytest.mark.parametrize("block", statistics_but([1000], [frame.BLOCK, 1000]))
def test_draws_do_not_depend_on_what_is_made_ahead(block, kwargs, monkeypatch, tmp_path):
    """Nor on a stop in between."""
    monkeypatch.setattr(frame, "BLOCK", block)
    monkeypatch.setattr(normal_stream, "AHEAD", 1)
    made, make = [], Noise._make
    monkeypatch.setattr(Noise, "_make", lambda *of: made.append(of) or make(*of))

    def run(draws, free):
        made.clear()
        monkeypatch.setattr(normal_stream, "_a_core_is_free", lambda: free)
        return sample(step, draws=draws, tune=2)

    with regression():
        step = SGHMC(step_size=1e-3, friction=5.0, batch_size=7, steps_per_draw=1100, **kwargs)
        step = Resumable(step, every=2)
        whole = run(6, free=False)
        keys, steps = {key for _, key, *_ in made}, {(key, step) for _, key, step, *_ in made}
        assert len(keys) == 2 and len(steps) == len(made)  # one for each chain, and none twice
        assert_same_draws(run(6, free=True), whole)
        assert [len(of) for of in made].count(4) == 2  # the first of each chain was not
        save(run(3, free=True), step, tmp_path)
        resumed = resume(tmp_path, step, draws=3, cores=1, progressbar=False)
    assert_same_draws(resumed, whole)
    assert len(np.unique(whole.posterior["beta"].values[..., 0])) == 12


@pytest.mark.parametrize("cores, size, ahead", [(10**6, SIZE, 1), (10**6, MANY, 0), (1, SIZE, 0)])
def test_it_is_made_ahead_where_it_pays(cores, size, ahead, monkeypatch):
    """For many normals, where a core is free: this process runs on one."""
    monkeypatch.setattr("os.sched_getaffinity", lambda process: range(cores), raising=False)
    noise = Noise(size, "float32")
    noise.begin(1, 0, (size,))
    on_linux = sys.platform == "linux"
    assert (noise._thread is not None) == (ahead and on_linux)


def test_a_thread_that_cannot_start_is_done_without(monkeypatch):
    def full(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(normal_stream, "_a_core_is_free", lambda: True)
    noise = Noise(SIZE, "float32")
    with monkeypatch.context() as limited:
        limited.setattr("threading.Thread.start", full)
        noise.begin(1, 0, (SIZE,))
    np.testing.assert_array_equal(noise.draw(None, 1, 0, (SIZE,)), many("float32"))


def test_what_was_interrupted_is_not_taken_for_what_was_made_before(monkeypatch):
    monkeypatch.setattr(normal_stream, "_a_core_is_free", lambda: True)
    noise = Noise(SIZE, "float32")
    noise.begin(1, 0, (SIZE,))
    noise._thread.join()

    def interrupted(normals, *of):
        normals[:] = 0
        raise KeyboardInterrupt

    with monkeypatch.context() as stopped:
        stopped.setattr(normal_stream, "fill", interrupted)
        with pytest.raises(KeyboardInterrupt):
            noise.draw(None, 1, 5, (SIZE,))
    np.testing.assert_array_equal(noise.draw(None, 1, 0, (SIZE,)), many("float32"))


def test_noise_is_pickled_while_it_is_made(monkeypatch):
    monkeypatch.setattr(normal_stream, "_a_core_is_free", lambda: True)
    noise = Noise(SIZE, "float32")
    noise.begin(1, 0, (SIZE,))
    copy = pickle.loads(pickle.dumps(noise))
    np.testing.assert_array_equal(copy.draw(None, 1, 0, (SIZE,)), noise.draw(None, 1, 0, (SIZE,)))


@DTYPES
def test_keys_and_streams_have_numbers_of_their_own(dtype):
    words = [(np.uint64(key), np.uint64(stream)) for key, stream in ((0, 0), (1, 0), (0, 1))]
    draws = np.empty((3, MANY), dtype)
    for out, (key, stream) in zip(draws, words, strict=True):
        fill(out, key, stream)
    assert np.abs(np.corrcoef(draws)[np.triu_indices(3, 1)]).max() < 4.5 / np.sqrt(MANY)


def test_code_that_cannot_be_kept_is_compiled_anew(monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("numba.core.caching.IndexDataCacheFile.save", full)
    assert _compiled("float64(float64)")(lambda x: 2 * x)(3.0) == 6.0
