"""Posteriors with kinks: what is found of them where second derivatives say nothing."""

from functools import cache

import numpy as np
import pymc as pm
import pytest

from pymc_sgmcmc import SGHMC, SGNHT
from pymc_sgmcmc._utils.metric import identity
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.tuning.curvature import largest_curvature
from pymc_sgmcmc.tuning.jumps import SHARE, own_sds, secants
from pymc_sgmcmc.tuning.locate import locate
from tests.cases import draws, sample
from tests.helpers import INTERPRETED

N = 5000
LEVEL = 0.9


def rng(seed):
    return np.random.default_rng(seed)


X = rng(1).normal(size=(N, 2))
Y = 1 + X @ [2.0, -1.0] + rng(2).laplace(size=N)
SKEWED = 1 + X @ [2.0, -1.0] + rng(3).gamma(2, 1, size=N)


def laplace():
    pm.Laplace("y", pm.Normal("a", 0, 9) + X @ pm.Normal("b", 0, 9, shape=2), 1.0, observed=Y)


def hinge():
    """Support vectors: a Potential with a kink for each row."""
    margin = np.sign(Y - 1) * (X @ pm.Normal("b", 0, 9, shape=2))
    pm.Potential("loss", -pm.math.maximum(0, 1 - margin))


def normal():
    pm.Normal("y", pm.Normal("a", 0, 9) + X @ pm.Normal("b", 0, 9, shape=2), 1.0, observed=Y)


def counts():
    rate = pm.math.exp(pm.Normal("a") + X @ pm.Normal("b", shape=2))
    pm.Poisson("y", rate, observed=rng(4).poisson(np.exp(0.5 + X @ [0.5, 0.2])))


def mixture():
    """Its log-density has a maximum inside, and no kink."""
    parts = [pm.Normal.dist(pm.Normal(name), 1.0) for name in ("a", "b")]
    pm.Mixture("y", w=[0.5, 0.5], comp_dists=parts, observed=np.where(X[:, 0] > 0, 3, 0) + X[:, 1])


def clipped():
    """Smooth where the posterior is: the clip is far away."""
    mu = pm.math.clip(pm.Normal("a", 0, 9) + X @ pm.Normal("b", 0, 9, shape=2), -50, 50)
    pm.Normal("y", mu, 1.0, observed=Y)


@cache
def target_of(build):
    with pm.Model() as model:
        build()
    return Target(model, model.continuous_value_vars, batch_size=64, backend=INTERPRETED)


def test_the_sds_of_an_absolute_deviation():
    """Its mean second derivative is 2 f(0) = 1 for rows with Laplace errors."""
    found = own_sds(target_of(laplace), np.array([1.0, 2.0, -1.0]), rng(5))
    expected = 1 / np.sqrt([N, *np.sum(X**2, axis=0)])
    # About 90 of the rows pass their kink: 4 errors of a count, halved for an sd.
    np.testing.assert_allclose(found, expected, rtol=4 / np.sqrt(90) / 2)


@pytest.mark.parametrize("build", [laplace, hinge])
@pytest.mark.parametrize("away", [0.0, 0.3])
def test_jumps_are_seen(build, away):
    target = target_of(build)
    at = [2.0, -1.0] if build is hinge else [1.0, 2.0, -1.0]
    assert own_sds(target, np.array(at) + away, rng(6)) is not None


@pytest.mark.parametrize(
    "build", [normal, counts, pytest.param(mixture, marks=pytest.mark.compiled), clipped]
)
@pytest.mark.parametrize("away", [0.0, 1.0])
def test_smooth_posteriors_do_not_jump(build, away):
    target = target_of(build)
    assert own_sds(target, target.initial + away, rng(7)) is None


@pytest.mark.parametrize("build", [laplace, hinge])
def test_the_mass_is_located(build):
    """From 10 away, more than 300 sds: the decrement is that of a point near the mode."""
    target = target_of(build)
    found = locate(target, target.initial + 10, rng(8), identity(target.size, dense=True))
    assert found.jumps and found.decrement < 1
    z = found.coordinates.metric
    curvature = largest_curvature(
        lambda at: z.pull(target.value_and_gradient(found.coordinates.position(at))[1]),
        np.zeros((1, target.size)), rng(9), width=SHARE,
    )  # fmt: skip
    assert 0.6 < curvature < 1.8


def test_secants_of_a_quadratic_are_its_hessian():
    H = np.array([[4.0, 1.0], [1.0, 2.0]])
    found = secants(lambda q: H @ q, np.array([3.0, -5.0]), np.array([0.1, 7.0]))
    np.testing.assert_allclose(found, H, rtol=1e-12)


def quantile():
    kappa = np.sqrt(LEVEL / (1 - LEVEL))
    with pm.Model() as model:
        a, b, s = pm.Normal("a", 0, 5), pm.Normal("b", 0, 2, shape=2), pm.HalfNormal("s", 2)
        width = np.sqrt(LEVEL * (1 - LEVEL)) / s
        pm.AsymmetricLaplace("y", b=width, kappa=kappa, mu=a + X @ b, observed=SKEWED)
    return model


def log_density(theta):
    """Of a, b and log s, at many points, (k,)."""
    a, b, s = theta[:, :1], theta[:, 1:3], np.exp(theta[:, 3])
    error = SKEWED - a - b @ X.T
    loss = np.sum(np.where(error > 0, LEVEL, LEVEL - 1) * error, axis=1)
    priors = a[:, 0] ** 2 / 50 + np.sum(b**2, axis=1) / 8 + s**2 / 8
    return -(N - 1) * np.log(s) - loss / s - priors


@cache
def by_random_walks(walks=50, steps=3000):
    """Draws of a, b and s, (walks, steps, 4), by Metropolis's algorithm."""
    r, start = rng(10), np.array([np.quantile(SKEWED, LEVEL), 2.0, -1.0, np.log(0.3)])
    scale = np.array([0.06, 0.06, 0.06, 0.015])
    theta = start + scale * r.normal(size=(walks, 4))
    log_p, found = log_density(theta), []
    for _ in range(steps + 1000):
        new = theta + scale * r.normal(size=theta.shape)
        log_p_new = log_density(new)
        accept = np.log(r.random(walks)) < log_p_new - log_p
        theta = np.where(accept[:, None], new, theta)
        log_p = np.where(accept, log_p_new, log_p)
        found.append(theta)
    kept = np.array(found[1000:]).swapaxes(0, 1)
    return np.concatenate([kept[..., :3], np.exp(kept[..., 3:])], axis=-1)


@pytest.mark.statistics
@pytest.mark.parametrize("sampler", [SGNHT, SGHMC])
def test_quantile_regression(sampler):
    with quantile():
        idata = sample(sampler(), draws=1000, tune=1000, chains=4)
    got = np.concatenate([draws(idata, "a")[..., None], draws(idata, "b"),
                          draws(idata, "s")[..., None]], axis=-1)  # fmt: skip
    walks = by_random_walks()
    sd = walks.std(axis=(0, 1))

    def error(x):
        return x.mean(axis=1).std(axis=0, ddof=1) / np.sqrt(len(x))

    errors = np.hypot(error(got), error(walks))
    assert (4 * errors < 0.3 * sd).all()
    difference = got.mean(axis=(0, 1)) - walks.mean(axis=(0, 1))
    assert (np.abs(difference) < 4 * errors + 0.05 * sd).all()
    np.testing.assert_allclose(got.std(axis=(0, 1)), sd, rtol=0.12)
