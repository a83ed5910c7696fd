"""The complete recipe: the direct samplers written as recipes, step by step, and exact laws."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_sgmcmc import SGHMC, SGLD, SGNHT, SGRHMC, SGRLD, Recipe
from tests.helpers import (
    COUNTS,
    FEATURES,
    PLAIN,
    PRIOR_SD,
    initial_state,
    poisson_step,
    score_mean,
    simulate,
    subject,
)

pytestmark = pytest.mark.statistics

H = 0.01
D4 = len(PRIOR_SD)


def normal(rng, d):
    return rng.standard_normal(d)


AS_RECIPES = {
    "SGLD": (
        SGLD, {"noise": "fresh", "temperature": 1.7},
        {"D": lambda q: {"q": 1.0}},
    ),
    "SGHMC": (
        SGHMC, {"friction": 2.5, "temperature": 1.7, "integrator": "euler"},
        {
            "D": lambda q, p: {"p": 2.5},
            "Q": lambda q, p: {("q", "p"): -1.0},
            "energy": lambda q, p: pt.sum(p**2) / 2,
            "auxiliary": {"p": normal},
        },
    ),
    "SGNHT": (
        SGNHT, {"diffusion": 2.5, "thermal_mass": 3.7, "integrator": "euler", "temperature": 1.7},
        {
            "D": lambda q, p, xi: {"p": 2.5},
            "Q": lambda q, p, xi: {("q", "p"): -1.0, ("p", "xi"): p / (3.7 * D4)},
            "energy": lambda q, p, xi: pt.sum(p**2) / 2 + 3.7 * D4 * (xi - 2.5) ** 2 / 2,
            "auxiliary": {"p": normal, "xi": lambda rng, d: 2.5},
        },
    ),
    "SGNHT, one for each coordinate": (
        SGNHT,
        {"diffusion": 2.5, "thermal_mass": 3.7, "integrator": "euler", "thermostat": "coordinate"},
        {
            "D": lambda q, p, xi: {"p": 2.5},
            "Q": lambda q, p, xi: {("q", "p"): -1.0, ("p", "xi"): p / 3.7},
            "energy": lambda q, p, xi: pt.sum(p**2) / 2 + 3.7 * pt.sum((xi - 2.5) ** 2) / 2,
            "auxiliary": {"p": normal, "xi": lambda rng, d: np.full(d, 2.5)},
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", AS_RECIPES)
def test_direct_samplers_are_recipes(case):
    cls, settings, parts = AS_RECIPES[case]
    direct = poisson_step(cls, **settings, **PLAIN)
    recipe = poisson_step(Recipe, temperature=direct.algorithm.temperature, **parts, **PLAIN)
    rng = np.random.default_rng(1)
    q, state = PRIOR_SD / 3, tuple(initial_state(direct, rng).values())
    rows = rng.integers(len(COUNTS), size=(20, 3))
    normals = rng.standard_normal((20, 1, D4))
    outputs = [
        subject(step)(q, state, np.full(20, H), [rows], normals) for step in (direct, recipe)
    ]
    np.testing.assert_allclose(outputs[1].q, outputs[0].q, rtol=1e-9)
    for one, other in zip(outputs[0].state, outputs[1].state, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-9)


def test_sgrld_is_a_recipe():
    """In theta, where it does not reach the mirror; the direct one moves its logarithm."""
    with pm.Model():
        theta = pm.Gamma("theta", alpha=3.0, beta=1.0, shape=4)
        pm.Poisson("y", theta.sum(), observed=7)
        direct = SGRLD(step_size=H, **PLAIN)
    with pm.Model():
        theta = pm.Gamma("theta", alpha=3.0, beta=1.0, shape=4, default_transform=None)
        pm.Poisson("y", theta.sum(), observed=7)
        recipe = Recipe(step_size=H, D=lambda q: {"q": q}, **PLAIN)
    rng = np.random.default_rng(2)
    theta, normals = rng.gamma(3.0, size=4), rng.standard_normal((30, 1, 4))
    steps = np.full(30, H)
    expected = np.exp(subject(direct)(np.log(theta), (), steps, [], normals).q)
    np.testing.assert_allclose(subject(recipe)(theta, (), steps, [], normals).q, expected)


# A dense metric that depends on the position, with a curl: exact as h -> 0.


S = np.array([[1.0, 0.6], [0.6, 2.0]])


def gaussian_step(sampler, **parts):
    with pm.Model():
        pm.MvNormal("x", np.zeros(2), S)
        return sampler(step_size=0.02, **parts)


def check_law(sampler, parts, draws=15_000):
    """Of a correlated Gaussian."""
    step = gaussian_step(sampler, **parts)
    chain, rng, seen = subject(step), np.random.default_rng(3), []
    for seed in range(3):
        q = rng.multivariate_normal(np.zeros(2), S)
        state = tuple(initial_state(step, rng).values())
        seen.append(simulate(chain, q, state, 0.02, draws=draws, inner=20, seed=seed).q)
    q = np.concatenate(seen)
    score_mean(q[:, 0] ** 2 / S[0, 0], 1.0, 0.02, "Var x")
    score_mean(q[:, 1] ** 2 / S[1, 1], 1.0, 0.02, "Var y")
    score_mean(q[:, 0] * q[:, 1] / S[0, 1], 1.0, 0.05, "Cov")


def metric(q):
    """Positive definite, and different everywhere."""
    a = 1 + 0.5 * pt.tanh(q[0])
    b = 0.4 * pt.tanh(q[1] - q[0])
    return pt.stack([pt.stack([a, b]), pt.stack([b, 1 + 0.5 * pt.tanh(q[1]) ** 2])])


DENSE = {"D": lambda q: {"q": metric(q)}}
RIEMANNIAN_HMC = {
    # A position-dependent curl between q and p, and a friction that is its square.
    "D": lambda q, p: {"p": (1 + pt.tanh(q) ** 2) ** 2},
    "Q": lambda q, p: {("q", "p"): -(1 + pt.tanh(q) ** 2)},
    "energy": lambda q, p: pt.sum(p**2) / 2,
    "auxiliary": {"p": normal},
}


ROOT = {"root": lambda q: 1 + pt.tanh(q) ** 2}


@pytest.mark.planted
@pytest.mark.parametrize(
    ("sampler", "parts"), [(Recipe, DENSE), (SGRHMC, ROOT)], ids=["dense D", "SGRHMC"]
)
def test_matrices_that_depend_on_the_position(sampler, parts, monkeypatch):
    check_law(sampler, parts)
    monkeypatch.setattr("pymc_sgmcmc.samplers.recipe.divergence", lambda *_: 0.0)
    with pytest.raises(AssertionError, match="where the law says"):
        check_law(sampler, parts, draws=3000)


def sgrhmc(q, p, h, z, friction, T):
    """The lines of its docstring on that Gaussian, in NumPy."""
    r, slope = 1 + np.tanh(q) ** 2, 2 * np.tanh(q) / np.cosh(q) ** 2
    g = np.linalg.solve(S, q)
    noise = np.sqrt(2 * h * friction * T) * r * z
    p = p - h * r * g + h * T * slope - h * friction * r**2 * p + noise
    return q + h * r * p, p


def test_sgrhmc_is_its_algorithm():
    step = gaussian_step(SGRHMC, **ROOT, friction=1.7, temperature=2.5, **PLAIN)
    chain, rng = subject(step), np.random.default_rng(1)
    q, p, normals = rng.standard_normal(2), rng.standard_normal(2), rng.standard_normal((9, 1, 2))
    found = chain(q, (p,), np.full(9, 0.05), [], normals)
    for z in normals[:, 0]:
        q, p = sgrhmc(q, p, 0.05, z, 1.7, 2.5)
    np.testing.assert_allclose(found.q, q, rtol=1e-12)
    np.testing.assert_allclose(found.state[0], p, rtol=1e-12)


def test_sgrhmc_is_the_recipe():
    chains = [
        subject(gaussian_step(sampler, **parts, **PLAIN))
        for sampler, parts in ((Recipe, RIEMANNIAN_HMC), (SGRHMC, ROOT))
    ]
    normals = np.random.default_rng(2).standard_normal((9, 1, 2))
    q = np.array([0.3, -0.9])
    one, other = (chain(q, (q,), np.full(9, 0.05), [], normals) for chain in chains)
    np.testing.assert_allclose(one.q, other.q, rtol=1e-12)


@pytest.mark.parametrize(
    ("wrong", "error", "match"),
    [
        ({"root": 2.0}, TypeError, "root=2.0 is no function"),
        ({"friction": 0.0}, ValueError, "friction=0.0 must be positive"),
        ({"temperature": -1.0}, ValueError, "temperature=-1.0 must be positive"),
    ],
)
def test_sgrhmc_refuses(wrong, error, match):
    with pytest.raises(error, match=match):
        gaussian_step(SGRHMC, **(ROOT | wrong))


def test_the_term_of_each_kind_of_block_by_differences():
    """sum_j d block_ij / d z_j, for every shape that a block may have."""
    from pymc_sgmcmc.compile.in_python import interpreted
    from pymc_sgmcmc.dynamics.block_matrices import divergence

    vector, scalar = pt.dvector("vector"), pt.dscalar("scalar")
    at = np.array([0.3, -0.7, 1.1])
    blocks = {
        "number": (pt.sum(vector**3), vector, vector, lambda v: np.sum(v**3) * np.eye(3)),
        "diagonal": (vector * pt.sum(vector), vector, vector, lambda v: np.diag(v * v.sum())),
        "dense": (
            pt.outer(vector, vector**2), vector, vector, lambda v: np.outer(v, v**2),
        ),
        "row": (pt.sin(vector), vector, scalar, lambda v: np.sin(v)[None]),
    }  # fmt: skip
    eps = 1e-6
    for block, column, row, numeric in blocks.values():
        found = interpreted([vector], [divergence(block, column, row)])(at)[0]
        expected = sum(
            (numeric(at + eps * e) - numeric(at - eps * e))[:, j] / (2 * eps)
            for j, e in enumerate(np.eye(3))
        )
        np.testing.assert_allclose(np.atleast_1d(found), expected, rtol=1e-6, atol=1e-9)
    column = interpreted([scalar], [divergence(scalar**2 * pt.ones(3), scalar, vector)])(0.4)[0]
    np.testing.assert_allclose(column, np.full(3, 0.8))
    assert divergence(pt.ones(3), vector, vector) == 0.0 and len(FEATURES) == len(COUNTS)


@pytest.mark.parametrize(
    ("parts", "match"),
    [
        ({"D": lambda q: {"Q": 1.0}}, r"D has a block 'Q': the variables are \['q'\]"),
        ({"D": lambda q: {}}, "D is empty"),
        (
            {"D": lambda q: {"q": 1.0}, "Q": lambda q: {("q", "q"): 1.0}},
            r"Q has a block \('q', 'q'\)",
        ),
        (
            {"D": lambda q: {"q": 1.0}, "Q": lambda q: {("q", "p"): 1.0}},
            r"Q has a block \('q', 'p'\)",
        ),
        (
            {
                "D": lambda q, p: {"p": 1.0},
                "Q": lambda q, p: {("q", "p"): -1.0, ("p", "q"): 1.0},
                "auxiliary": {"p": normal},
            },
            r"Q has a block \('q', 'p'\).*each pair of two different ones once",
        ),
    ],
)
def test_blocks_that_would_be_left_out(parts, match):
    with pm.Model():
        pm.Normal("x")
        with pytest.raises(ValueError, match=match):
            Recipe(step_size=0.1, **parts)
