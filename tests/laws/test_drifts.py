"""The samplers as diffusions: drift -(D + Q) grad H + T Gamma, noise 2 T D (Ma et al., 2015).

Both are read from single short steps, whose normals take all combinations of signs: these have the
mean and the covariance of normals, without a Monte Carlo error. D, Q and H are those of the
papers, in NumPy, with derivatives by differences. So few steps are interpreted.
"""

from itertools import product

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_sgmcmc import PSGHMC, PSGLD, SGGMC, SGHMC, SGLD, SGNHT, SGRLD, Recipe, Santa, gSGNHT
from tests.helpers import PLAIN, initial_state, subject

pytestmark = pytest.mark.statistics

T = 1.7
AT = np.array([0.3, -0.8])
P = np.array([0.9, -0.4])


def potential(q):
    return np.sum(np.cosh(q)) + 0.3 * q[0] * q[1] ** 2


def step_of(sampler, **settings):
    with pm.Model():
        q = pm.Flat("q", shape=2)
        pm.Potential("minus U", -pt.sum(pt.cosh(q)) - 0.3 * q[0] * q[1] ** 2)
        return sampler(step_size=0.001, temperature=T, **PLAIN, **settings)


def moments(step, z, h):
    """Mean and covariance of the change of z = (q, *state) in one step, divided by h."""
    chain, kernel = subject(step), step.chain.parts.kernel
    state = initial_state(step, np.random.default_rng(0))
    shapes = [(2,), *map(np.shape, state.values())]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    q, *carried = (part.reshape(s) for part, s in zip(np.split(z, ends[:-1]), shapes, strict=True))
    changes = []
    for signs in product([-1.0, 1.0], repeat=2 * kernel.n_noise):
        normals = np.reshape(signs, (1, kernel.n_noise, 2))
        output = chain(q, carried, np.array([h]), [], normals)
        changes.append(np.concatenate([np.ravel(x) for x in (output.q, *output.state)]) - z)
    return np.mean(changes, axis=0) / h, np.cov(np.array(changes).T, bias=True) / h


def differences(f, z, eps=1e-5):
    """The derivatives of an array by each entry of z, along the first axis."""
    steps = eps * np.eye(len(z))
    return np.array([(f(z + step) - f(z - step)) / (2 * eps) for step in steps])


def check(step, z, D, Q, H, gamma=1.0):
    coarse, fine = (moments(step, z, h) for h in (2e-4, 1e-4))
    drift, covariance = (2 * b - a for a, b in zip(coarse, fine, strict=True))  # h -> 0
    both = lambda z: D(z) + Q(z)  # noqa: E731
    owed = np.einsum("jij->i", differences(both, z))
    expected = -both(z) @ differences(H, z) + gamma * T * owed
    np.testing.assert_allclose(drift, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(covariance, 2 * T * D(z), rtol=1e-4, atol=1e-4)


def blocks(**parts):
    """A matrix over (q, p, xi...) from its blocks by rows and columns, in slices of two."""
    n = parts.pop("n")
    matrix = np.zeros((n, n))
    for name, value in parts.items():
        row, column = (slice(2 * "qpx".index(letter), None) for letter in name)
        row, column = (slice(s.start, min(s.start + 2, n)) for s in (row, column))
        size = row.stop - row.start, column.stop - column.start
        matrix[row, column] = value * np.eye(2) if np.ndim(value) == 0 and size == (2, 2) else value
    return matrix


def skew(matrix):
    return matrix - matrix.T


def kinetic(z):
    return potential(z[:2]) + z[2:4] @ z[2:4] / 2


C, MASS = 2.5, 3.7
G = np.array([0.5, 2.0])

MOMENTUM = (
    lambda z: blocks(n=4, pp=C),
    lambda z: skew(blocks(n=4, qp=-1.0)),
    kinetic,
)
SCALAR = (
    lambda z: blocks(n=5, pp=C),
    lambda z: skew(blocks(n=5, qp=-1.0, px=z[2:4, None] / (2 * MASS))),
    lambda z: kinetic(z) + 2 * MASS * (z[4] - C) ** 2 / 2,
)
COORDINATES = (
    lambda z: blocks(n=6, pp=C),
    lambda z: skew(blocks(n=6, qp=-1.0, px=np.diag(z[2:4]) / MASS)),
    lambda z: kinetic(z) + MASS * np.sum((z[4:] - C) ** 2) / 2,
)


def friction_matrix_curl(z):
    """Xi in four numbers: dp has -Xi p, and dXi has (p p' - T) / Q."""
    matrix = np.zeros((8, 8))
    matrix[:2, 2:4] = -np.eye(2)
    for i in range(2):
        for j in range(2):
            matrix[2 + i, 4 + 2 * i + j] = z[2 + j] / MASS
    return skew(matrix)


MATRIX = (
    lambda z: np.diag([0, 0, C, C, 0, 0, 0, 0]),
    friction_matrix_curl,
    lambda z: kinetic(z) + MASS * np.sum((z[4:].reshape(2, 2) - C * np.eye(2)) ** 2) / 2,
)
XI, XIS = np.array([1.9]), np.array([1.9, 3.1])
XI_MATRIX = np.array([1.9, 0.6, 0.6, 3.1])
SGNHT_SETTINGS = {"diffusion": C, "thermal_mass": MASS}

CASES = {
    "SGLD": (SGLD, {}, AT, (lambda z: np.eye(2), lambda z: 0 * np.eye(2), potential)),
    **{
        f"SGHMC {word}": (SGHMC, {"friction": C, "integrator": word}, np.r_[AT, P], MOMENTUM)
        for word in ("euler", "symmetric", "BAOAB", "OBABO", "UBU")
    },
    "SGGMC": (SGGMC, {"friction": C}, np.r_[AT, P], MOMENTUM),
    "gSGNHT": (gSGNHT, SGNHT_SETTINGS, np.r_[AT, P, XI], SCALAR),
    **{
        f"SGNHT {word}": (SGNHT, SGNHT_SETTINGS | {"integrator": word}, np.r_[AT, P, XI], SCALAR)
        for word in ("euler", "symmetric", "BAOAB", "DUBUD")
    },
    "SGNHT coordinate": (
        SGNHT, SGNHT_SETTINGS | {"thermostat": "coordinate"}, np.r_[AT, P, XIS], COORDINATES
    ),
    "SGNHT matrix": (
        SGNHT, SGNHT_SETTINGS | {"thermostat": "matrix"}, np.r_[AT, P, XI_MATRIX], MATRIX
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_sampler_is_its_diffusion(name):
    sampler, settings, z, parts = CASES[name]
    check(step_of(sampler, **settings), z, *parts)


def at_rest(sampler, **settings):
    """A step whose metric rests, at G: it carries v, of which G = 1 / (damping + sqrt(v))."""
    step = step_of(sampler, damping=1e-5, **settings)
    return step, (1 / G - 1e-5) ** 2


def checked_at_rest(sampler, z, D, Q, H, **settings):
    """The same for the samplers with RMSProp's metric, whose v stays."""
    step, v = at_rest(sampler, **settings)
    n, m = len(z), len(z) + 2
    pad = lambda of: lambda z: np.pad(of(z[:n]), (0, m - n))  # noqa: E731
    check(step, np.r_[z, v], pad(D), pad(Q), lambda z: H(z[:n]))


def test_metrics_at_rest():
    checked_at_rest(PSGLD, AT, lambda z: np.diag(G), lambda z: np.zeros((2, 2)), potential)
    root = np.diag(np.sqrt(G))
    curl = lambda z: skew(blocks(n=4, qp=-root))  # noqa: E731
    z = np.r_[AT, P]
    checked_at_rest(PSGHMC, z, MOMENTUM[0], curl, kinetic, friction=C)
    curl = lambda z: skew(blocks(n=6, qp=-root, px=np.diag(z[2:4]) / MASS))  # noqa: E731
    for word in ("euler", "symmetric"):
        checked_at_rest(
            Santa, np.r_[z, XIS], COORDINATES[0], curl, COORDINATES[2],
            diffusion=C, thermal_mass=MASS, integrator=word,
        )  # fmt: skip


@pytest.mark.planted
def test_metrics_that_move_with_the_position():
    """In the logarithm SGRLD's metric is 1 / theta; the recipe's is dense."""
    with pm.Model():
        theta = pm.Gamma("theta", alpha=[3.0, 1.5], beta=2.0, shape=2)
        pm.Potential("more", -0.3 * theta[0] * theta[1])
        step = SGRLD(step_size=0.001, temperature=T, **PLAIN)
    parts = (
        lambda z: np.diag(np.exp(-z)),
        lambda z: np.zeros((2, 2)),
        lambda z: 2 * np.exp(z).sum() - z @ [3.0, 1.5] + 0.3 * np.exp(z.sum()),
    )
    check(step, AT, *parts)
    with pytest.raises(AssertionError):
        check(step, AT, *parts, gamma=0.0)

    def dense(q, stack, tanh):
        a, b = 1 + 0.5 * tanh(q[0]), 0.4 * tanh(q[1] - q[0])
        return stack([stack([a, b]), stack([b, 1 + 0.5 * tanh(q[1]) ** 2])])

    step = step_of(Recipe, D=lambda q: {"q": dense(q, pt.stack, pt.tanh)})
    parts = lambda z: dense(z, np.stack, np.tanh), lambda z: np.zeros((2, 2)), potential
    check(step, AT, *parts)
    with pytest.raises(AssertionError):
        check(step, AT, *parts, gamma=0.0)


def twice_the_friction(q, p, *, grad, h, noise, friction, diffusion):
    p = p - h * grad(q) - h * friction * p + pt.sqrt(4 * diffusion * h) * noise()
    return q + h * p, p


def the_old_momentum_damped_twice(q, p, *, grad, h, noise, friction, diffusion):
    p = p - h * grad(q) - 2 * h * friction * p + pt.sqrt(2 * diffusion * h) * noise()
    return q + h * p, p


def no_kick(q, p, *, grad, h, noise, friction, diffusion):
    p = p - 0.0 * grad(q) - h * friction * p + pt.sqrt(2 * diffusion * h) * noise()
    return q + h * p, p


@pytest.mark.planted
@pytest.mark.parametrize("update", [twice_the_friction, the_old_momentum_damped_twice, no_kick])
def test_a_mistake_shows(update, monkeypatch):
    monkeypatch.setattr(
        SGHMC.algorithm_class, "update", lambda self, *args, **numbers: update(*args, **numbers)
    )
    with pytest.raises(AssertionError):
        check(step_of(SGHMC, friction=C), np.r_[AT, P], *MOMENTUM)
