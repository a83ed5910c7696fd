import numpy as np
import pytest

from pymc_sgmcmc.noise import PIECE, Noise

SIZE = 2**22 + 1  # odd, and in several pieces


def rng(seed=0):
    return np.random.default_rng(seed)


def check_normal(z):
    """Moments, tails and correlations, within 4.5 standard errors."""
    n = len(z)
    powers = {1: (0, 1), 2: (1, 2), 3: (0, 15), 4: (3, 96), 6: (15, 10170)}
    for k, (mean, variance) in powers.items():
        assert abs(np.mean(z**k) - mean) < 4.5 * np.sqrt(variance / n), k
    for bound, share in ((2, 0.0455003), (4, 6.33425e-5), (4.5, 6.7953e-6)):
        beyond = np.sum(np.abs(z) > bound)
        assert abs(beyond - n * share) < 4.5 * np.sqrt(n * share), bound
    # Neighbours, and the two that are made of the same uniforms: by their values and their sizes.
    half = (n + 1) // 2
    for one, other in ((z[1:], z[:-1]), (z[: n - half], z[half:])):
        for first, second in ((one, other), (one**2, other**2)):
            assert abs(np.corrcoef(first, second)[0, 1]) < 4.5 / np.sqrt(len(one))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_they_are_normal(dtype):
    check_normal(Noise().draw(rng(), (SIZE,), dtype).astype(float))


def test_uniforms_used_twice_are_seen():
    """The mistake that the test of correlations is for."""
    z = Noise().draw(rng(), (SIZE,), "float32").astype(float)
    half = (SIZE + 1) // 2
    z[half:] = np.abs(z[: SIZE - half]) * np.sign(z[half:])
    with pytest.raises(AssertionError):
        check_normal(z)


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 1, 5), (7, 2, PIECE)])
def test_float32_is_filled_to_the_end(shape):
    noise = Noise()
    noise.draw(rng(), (2 * np.prod(shape),), "float32")[:] = np.nan
    z = noise.draw(rng(1), shape, "float32")
    assert z.shape == shape and z.dtype == "float32" and np.isfinite(z).all()
    assert len(np.unique(z)) > 0.99 * z.size


def test_float64_is_that_of_numpy_in_the_same_memory():
    noise, generator = Noise(), rng(3)
    first = noise.draw(rng(3), (4, 1, 5), "float64")
    np.testing.assert_array_equal(first, generator.standard_normal((4, 1, 5)))
    assert np.shares_memory(first, noise.draw(rng(4), (2, 1, 5), "float64"))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_seed_gives_the_same_again(dtype):
    draws = [Noise().draw(rng(7), (3, 1, 11), dtype).copy() for _ in range(2)]
    np.testing.assert_array_equal(*draws)
