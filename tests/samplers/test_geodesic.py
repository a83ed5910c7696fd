"""SGGMC, gSGNHT and GMC on spheres, on the simplex by square roots, and on the Stiefel manifold."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_sgmcmc import GMC, SGGMC, SGLD, check, gSGNHT
from pymc_sgmcmc.distributions import (
    RootDirichlet,
    UniformSphere,
    UniformStiefel,
    VonMisesFisher,
    manifolds,
)
from tests.cases import draws, sample
from tests.helpers import initial_state, score_mean, simulate, subject

pytestmark = pytest.mark.statistics

SAMPLERS = {
    "SGGMC": (SGGMC, {"friction": 1.5}),
    "SGGMC symmetric": (SGGMC, {"friction": 1.5, "integrator": "symmetric"}),
    "SGGMC OBABO": (SGGMC, {"friction": 1.5, "integrator": "OBABO"}),
    "gSGNHT": (gSGNHT, {"diffusion": 1.5}),
    "gSGNHT symmetric": (gSGNHT, {"diffusion": 1.5, "integrator": "symmetric"}),
    "GMC": (GMC, {"leapfrog_steps": 5, "target_accept": None}),
}
each = pytest.mark.parametrize("name", SAMPLERS)


def step_of(name, variable, h, **more):
    sampler, settings = SAMPLERS[name]
    with pm.Model():
        variable()
        return sampler(step_size=h, **settings | more)


def chain_of(step, h, count, inner=10, seed=1, **rows):
    chain, rng = subject(step), np.random.default_rng(seed)
    q = step.algorithm.space.nearest(rng.standard_normal(step.target.size))
    state = tuple(initial_state(step, rng).values())
    return simulate(chain, q, state, h, draws=count, inner=inner, burn_in=100, seed=seed, **rows)


# Without a potential the law is uniform, whatever the step.


@each
def test_the_uniform_law_is_exact_at_any_step(name):
    d = 3
    step = step_of(name, lambda: UniformSphere("x", shape=(100, d)), 0.9)
    q = chain_of(step, 0.9, 800).q.reshape(-1, 100, d)
    np.testing.assert_allclose(np.sum(q**2, axis=-1), 1.0, atol=1e-12)
    score_mean(q[..., 0] ** 2 * d, 1.0, 0.02, "E x^2")
    score_mean(q[..., 0] * q[..., 1] * d, 0.0, 0.02, "E xy")
    score_mean(q, 0.0, 0.02, "E x")


# With one the mean is that of the von Mises and Fisher density: I_{d/2} / I_{d/2 - 1}.

KAPPA = 3.0
MEAN = 1 / np.tanh(KAPPA) - 1 / KAPPA


def check_law(name, h=0.1, count=3000, **more):
    mu = np.array([0.0, 0.6, 0.8])
    step = step_of(name, lambda: VonMisesFisher("x", mu, KAPPA, shape=(100, 3)), h, **more)
    simulated = chain_of(step, h, count)
    along = simulated.q.reshape(-1, 100, 3) @ mu
    score_mean(along / MEAN, 1.0, 0.005, "E mu.x")
    if "kinetic_temperature" in step.algorithm.stats:
        score_mean(simulated.temperature, 1.0, 0.005, "kinetic temperature")


@each
def test_the_law_on_a_sphere(name):
    check_law(name, h=0.4 if name == "GMC" else 0.1)


@pytest.mark.planted
@pytest.mark.parametrize("name", ["SGGMC", "gSGNHT"])
def test_the_law_shows_noise_and_gradients_that_are_not_tangent(name, monkeypatch):
    monkeypatch.setattr(manifolds.Sphere, "tangent", lambda self, x, v: v)
    with pytest.raises(AssertionError, match="where the law says"):
        check_law(name, count=600)


@pytest.mark.planted
def test_the_law_shows_the_dimension_of_the_embedding(monkeypatch):
    monkeypatch.setattr(manifolds.Sphere, "dimension", lambda self, shape: int(np.prod(shape)))
    with pytest.raises(AssertionError, match="where the law says"):
        check_law("gSGNHT", count=600)


@pytest.mark.planted
def test_the_law_shows_a_straight_line_drawn_back_to_the_sphere(monkeypatch):
    def line(self, x, v, t):
        there = x + t * v
        return there / pt.sqrt(pt.sum(there**2, axis=-1, keepdims=True)), v

    monkeypatch.setattr(manifolds.Sphere, "flow", line)
    with pytest.raises(AssertionError, match="where the law says"):
        check_law("GMC", h=0.4, count=600)


# Other manifolds.


@pytest.mark.parametrize("name", ["SGGMC", "GMC"])
def test_the_law_on_matrices_with_orthonormal_columns(name):
    """Density exp(tr(F'X)): against uniform matrices, weighted."""
    F = np.array([[2.0, 0.0], [0.0, 1.0], [0.5, 0.0]])

    def matrix():
        X = UniformStiefel("X", shape=(3, 2))
        pm.Potential("F", pt.sum(F * X))

    rng = np.random.default_rng(0)
    uniform = np.linalg.qr(rng.standard_normal((400_000, 3, 2)))[0]
    uniform *= rng.choice([-1.0, 1.0], size=(len(uniform), 1, 2))
    weights = np.exp(np.sum(uniform * F, axis=(1, 2)))
    expected = np.average(uniform, axis=0, weights=weights)
    h = 0.1 if name == "SGGMC" else 0.4
    X = chain_of(step_of(name, matrix, h), h, 1000).q.reshape(-1, 3, 2)
    np.testing.assert_allclose(np.einsum("kni,knj->kij", X, X), [np.eye(2)] * len(X), atol=1e-9)
    for i, j in np.ndindex(3, 2):
        score_mean(X[:, i, j] - expected[i, j], 0.0, 0.04, f"E X[{i}, {j}]")


def test_the_simplex_by_square_roots():
    """A Dirichlet posterior of counts of categories."""
    alpha, counts = np.array([2.0, 1.0, 1.5]), np.array([12, 3, 5])
    labels = np.repeat(np.arange(3), counts)
    with pm.Model():
        x = RootDirichlet("x", alpha)
        pm.Categorical("y", x**2, observed=pm.Data("labels", labels))
        step = SGGMC(step_size=0.05, friction=3.0, steps_per_draw=20)
        idata = sample(step, draws=4000, tune=100, chains=2)
    after = alpha + counts
    mean, total = after / after.sum(), after.sum()
    variance = mean * (1 - mean) / (total + 1)
    pi = np.moveaxis(draws(idata, "x") ** 2, 1, 0)
    for k in range(3):
        score_mean(pi[..., k] / mean[k], 1.0, 0.02, f"mean {k}")
        score_mean((pi[..., k] - mean[k]) ** 2 / variance[k], 1.0, 0.1, f"variance {k}")


# The circle of Liu, Zhu and Song, with noise N(0, 1000 I) in the gradient.

MU = np.array([[0.5, np.sqrt(0.75)], [0.5, -np.sqrt(0.75)]])
N_ROWS, BATCH, COPIES = 200, 10, 100


def circle(sampler, **settings):
    """Some copies of the circle; the noise is that of minibatches of a term with the sum zero."""
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((N_ROWS, COPIES, 2))
    rows -= rows.mean(axis=0)
    rows *= np.sqrt(1000 * BATCH) / N_ROWS / rows.std(axis=0)
    with pm.Model():
        x = UniformSphere("x", shape=(COPIES, 2))
        pm.Potential("U", pt.sum(pt.log(pt.exp(5 * x @ MU[0]) + 2 * pt.exp(5 * x @ MU[1]))))
        pm.CustomDist(
            "noise", x, logp=lambda value, x: pt.sum(value * x, axis=(-2, -1)),
            observed=pm.Data("rows", rows), signature="(k,d)->(k,d)",
        )  # fmt: skip
        return sampler(batch_size=BATCH, **settings)


def total_variation(q, bins=48, fine=50):
    """Of the histogram of the angles and the exact one."""
    angles = (np.arange(bins * fine) + 0.5) / (bins * fine) * 2 * np.pi - np.pi
    x = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    exact = (np.exp(5 * x @ MU[0]) + 2 * np.exp(5 * x @ MU[1])).reshape(bins, fine).sum(axis=1)
    seen = np.histogram(np.arctan2(q[..., 1], q[..., 0]), np.linspace(-np.pi, np.pi, bins + 1))[0]
    return np.abs(seen / seen.sum() - exact / exact.sum()).sum() / 2


H = 0.01
SETTINGS = {
    "SGGMC": (SGGMC, {"friction": 10.0, "noise_estimate": H * 1000 / 2}),
    "gSGNHT": (gSGNHT, {"diffusion": 5.0}),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_the_circle_with_noisy_gradients(name):
    sampler, settings = SETTINGS[name]
    step = circle(sampler, step_size=H, **settings)
    rows = {"n_rows": N_ROWS, "batch": BATCH, "inner": 50}
    q = chain_of(step, H, 1500, **rows).q.reshape(-1, COPIES, 2)
    print(name, total_variation(q))
    assert total_variation(q) < 0.03


def test_the_circle_shows_noise_that_is_not_subtracted():
    step = circle(SGGMC, step_size=H, friction=10.0)
    rows = {"n_rows": N_ROWS, "batch": BATCH, "inner": 50}
    q = chain_of(step, H, 500, **rows).q.reshape(-1, COPIES, 2)
    assert total_variation(q) > 0.05


# Two modes: a mixture of v1 and of the direction between v1 and v2 (Liu, Zhu and Song, 2016).

CONCENTRATION, PRIOR = 25.0, 0.5


def mixture_rows():
    """Half around an angle of -0.25, half around 0.25, which v1 and the middle share in two ways.

    Where v1 and v2 are opposite the posterior jumps, which no gradient feels: there is none of it.
    """
    angles = np.random.default_rng(4).vonmises(np.repeat([-0.25, 0.25], 6), CONCENTRATION)
    return np.stack([np.cos(angles), np.sin(angles)], axis=-1)


def log_posterior(v1, v2, rows, log, exp, total, root):
    """Of two directions, each (..., 2), without constants."""
    middle = v1 + v2
    middle = middle / root(total(middle**2, axis=-1, keepdims=True))
    each = [total(v[..., None, :] * rows, axis=-1) for v in (v1, middle)]
    return log(exp(CONCENTRATION * each[0]) + exp(CONCENTRATION * each[1]))


@pytest.mark.parametrize("sampler", [SGGMC, GMC])
def test_both_modes_of_a_mixture(sampler):
    """With noisy gradients and with exact ones; the thermostat of gSGNHT is asked above."""
    rows, n = mixture_rows(), 400
    grid = (np.arange(n) + 0.5) / n * 2 * np.pi - np.pi
    v = np.stack([np.cos(grid), np.sin(grid)], axis=-1)
    between = grid + np.pi / n  # never opposite to another
    w = np.stack([np.cos(between), np.sin(between)], axis=-1)
    likelihood = [
        log_posterior(one, w, rows, np.log, np.exp, np.sum, np.sqrt).sum(axis=-1) for one in v
    ]
    log_p = np.array(likelihood) + PRIOR * (v[:, None, 0] + w[None, :, 0])
    exact = np.exp(log_p - log_p.max())
    weight = exact[grid > 0].sum() / exact.sum()  # of the mode with v1 above
    assert 0.15 < weight < 0.85
    e1 = np.array([1.0, 0.0])
    with pm.Model():
        v1 = VonMisesFisher("v1", e1, PRIOR, shape=2)
        v2 = VonMisesFisher("v2", e1, PRIOR, shape=2)
        middle = (v1 + v2) / pt.sqrt(pt.sum((v1 + v2) ** 2))
        parts = [VonMisesFisher.dist(v, CONCENTRATION, shape=2) for v in (v1, middle)]
        pm.Mixture("x", [0.5, 0.5], parts, observed=pm.Data("rows", rows))
        if sampler is GMC:
            step = GMC(step_size=0.1, leapfrog_steps=20, steps_per_draw=80)
        else:  # with h V / 2; Numba takes longer to compile and saves more
            step = SGGMC(step_size=0.005, batch_size=6, steps_per_draw=400, friction=2.0,
                         noise_estimate=0.5, backend="numba")  # fmt: skip
        idata = sample(step, draws=1200 if sampler is GMC else 3000, tune=200, chains=2)
    above = draws(idata, "v1")[..., 1] > 0
    by_chain = above.mean(axis=1)
    assert np.all((by_chain > 0.05) & (by_chain < 0.95)), "a chain stayed in one mode"
    score_mean(np.moveaxis(above, 1, 0), weight, 0.05, "weight of a mode")


# Beside variables in R^d, and what is refused.


def sphere_and_line(n=200):
    rng = np.random.default_rng(3)
    x = VonMisesFisher.dist(np.array([0.0, 0.0, 1.0]), 8.0, shape=(n, 3))
    data = pm.draw(x, random_seed=rng)
    with pm.Model() as model:
        mu = UniformSphere("mu", shape=3)
        kappa = pm.Gamma("kappa", 2.0, 0.1)
        VonMisesFisher("x", mu, kappa, observed=pm.Data("data", data))
    return model


def test_a_sphere_beside_a_line_against_another_sampler():
    with (model := sphere_and_line()):
        step = gSGNHT(step_size=0.01, diffusion=20.0, steps_per_draw=50)
        idata = sample(step, draws=1500, tune=300)
        reference = sample(
            [GMC(model["mu"], step_size=0.03), pm.NUTS(model["kappa"])], draws=1000, tune=300
        )  # fmt: skip
        result = check(idata, model, progressbar=False)
    for name in ("mu", "kappa"):
        ours, theirs = draws(idata, name), draws(reference, name)
        sd = theirs.std(axis=(0, 1))
        assert np.all(np.abs(ours.mean(axis=(0, 1)) - theirs.mean(axis=(0, 1))) < 0.25 * sd)
        np.testing.assert_allclose(ours.std(axis=(0, 1)), sd, rtol=0.2)
    assert not result.alarms
    assert np.isnan(result.dataset.sd_ratio[:3]).all() and np.isfinite(result.dataset.sd_ratio[3])
    assert "variables are on manifolds" in " ".join(str(result).split())


def test_gradient_noise_is_said():
    with sphere_and_line(n=400):
        settings = {"step_size": 0.004, "batch_size": 5}
        run = {"draws": 300, "tune": 50, "chains": 1, "keep_warning_stat": True}
        noisy = sample(SGGMC(friction=10.0, **settings), **run).sample_stats["warning"].values
        quiet = sample(gSGNHT(diffusion=10.0, **settings), **run).sample_stats["warning"].values
    said = [warning.message for warning in noisy.ravel() if warning]
    assert any("The noise of the gradients adds" in message for message in said)
    assert not any("noise of the gradients" in str(warning) for warning in quiet.ravel())


def test_chains_start_apart_on_the_sphere():
    with pm.Model():
        UniformSphere("x", shape=(2, 3))
        idata = sample(SGGMC(step_size=1e-6), draws=2, tune=0)
    first = draws(idata, "x")[:, 0]
    np.testing.assert_allclose(np.sum(first**2, axis=-1), 1.0)
    assert np.abs(first[0] - first[1]).max() > 0.1


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: SGLD(step_size=0.1), ValueError, r"would leave the manifolds of 'x' \(sphere\)"),
        (lambda: SGGMC(step_size=None), NotImplementedError, "nothing is tuned.*give sggmc a step"),
        (lambda: GMC(), NotImplementedError, "nothing is tuned.*give gmc a step_size"),
        (lambda: SGGMC(step_size=0.1, metric=np.ones(3)), NotImplementedError, "leave out metric"),
        (lambda: SGGMC(step_size=0.1, integrator="euler"), ValueError, "'symmetric' or a word"),
        (lambda: SGGMC(step_size=0.1, integrator="UBU"), ValueError, "letters A, B, O"),
        (lambda: gSGNHT(step_size=0.1, integrator="DUBUD"), ValueError, "letters A, B, D, O|A, B"),
        (lambda: GMC(step_size=0.1, steps_per_draw=15), ValueError, "not a multiple of leapfrog"),
    ],
)
def test_what_is_refused(make, error, match):
    with pm.Model():
        UniformSphere("x", shape=3)
        with pytest.raises(error, match=match):
            make()
