"""Distributions on manifolds: exact normalisers, moments of draws, and what is refused."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pymc.logprob.utils import ParameterValueError
from pytensor.compile.mode import Mode
from pytensor.graph.traversal import ancestors
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar.basic import Switch
from pytensor.tensor.elemwise import Elemwise
from scipy.special import gammaln, ive, logsumexp
from scipy.stats import kstest, vonmises

import pymc_sgmcmc.distributions.numba_code  # noqa: F401
from pymc_sgmcmc.compile.backend import Backend
from pymc_sgmcmc.compile.in_python import interpreted
from pymc_sgmcmc.distributions import (
    OffManifoldError,
    RootDirichlet,
    RootDirichletRV,
    UniformSphere,
    UniformSphereRV,
    UniformStiefel,
    UniformStiefelRV,
    VonMisesFisher,
    VonMisesFisherRV,
)
from pymc_sgmcmc.distributions.bessel import bessel, log_bessel
from pymc_sgmcmc.distributions.manifolds import STIEFEL
from pymc_sgmcmc.model.log_density import inside, log_density_terms
from pymc_sgmcmc.posterior.target import Target

# d, kappa, log C_d(kappa), A_d(kappa), with 60 digits by mpmath's Bessel functions.
REFERENCE = np.array(
    """
    2 0 -1.8378770664093455 0            2 1e-8 -1.8378770664093455 5.0e-9
    2 0.01 -1.8379020662530972 0.0049999375010416489
    2 1 -2.0737914249165241 0.44638996589653451
    2 30 -29.222578499581281 0.98318955536533609
    2 1e3 -997.46518595627881 0.99949987487480428
    2 1e5 -99995.162477050726 0.99999499998749987
    3 0 -2.5310242469692908 0            3 1e-8 -2.5310242469692908 3.3333333333333334e-9
    3 0.01 -2.5310409135804023 0.0033333111113227493
    3 1 -2.6924636085404864 0.3130352854993313
    3 30 -28.43667968474719 0.96666666666666667
    3 1e3 -994.93012178742721 0.999
    3 1e5 -99990.324951601439 0.99999
    10 0 -3.2387427794590006 0           10 1e-8 -3.2387427794590006 1.0e-9
    10 0.01 -3.2387477794569172 0.00099999916666785716
    10 1 -3.2885364065453559 0.099178382399712559
    10 30 -22.698452476620837 0.85901368829239464
    10 1e3 -977.177669112346 0.99550788285570415
    10 1e5 -99956.462203456082 0.99995500078750787
    50 0 25.47333507131737 0             50 1e-8 25.47333507131737 2.0e-10
    50 0.01 25.473334071317389 0.00019999999230769288
    50 1 25.463336993445265 0.019992313385191792
    50 30 17.589202562285521 0.47052758969548591
    50 1e3 -875.49997856146671 0.97578812171736426
    50 1e5 -99762.958435470878 0.99975502878778746
    500 0 841.64815223008073 0           500 1e-8 841.64815223008073 2.0e-11
    500 0.01 841.64815213008073 1.9999999992031873e-5
    500 1 841.64715223207275 0.0019999920319357484
    500 30 840.74975814323143 0.059786383725329734
    500 1e3 295.79277084997234 0.78106343716120328
    500 1e5 -97585.765419419201 0.99750810006369555
    5000 0 14194.60411419778 0           5000 1e-8 14194.60411419778 2.0e-12
    5000 0.01 14194.60411418778 1.9999999999920032e-6
    5000 1 14194.604014197782 0.00019999999200319936
    5000 30 14194.514115817054 0.0059997841018974125
    5000 1e3 14096.50410746559 0.1925849606070781
    5000 1e5 -75785.992992666297 0.97531720442327167
    """.split(),
    dtype=float,
).reshape(-1, 4)
E1 = np.array([1.0, 0.0, 0.0])


def log_normaliser(log_bessel, d):
    return -d / 2 * np.log(2 * np.pi) - log_bessel


def check_reference(function):
    """`function`: of d and kappa, gives log C and A."""
    d, kappa, log_c, mean = REFERENCE.T
    value, derivative = function(d, kappa)
    np.testing.assert_allclose(value, log_c, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(derivative, mean, rtol=1e-12)


def by_numpy(d, kappa, above=0):
    log_i, ratio = bessel(d / 2 - 1 + above, kappa)
    return log_normaliser(log_i, d), kappa * ratio


@pytest.mark.planted
def test_normaliser_in_numpy():
    check_reference(by_numpy)
    with pytest.raises(AssertionError):  # the mistake of an order
        check_reference(lambda d, kappa: by_numpy(d, kappa, above=1))


@pytest.mark.compiled
@pytest.mark.parametrize("backend", ["c", "numba"])
def test_normaliser_and_its_derivatives_in_a_graph(backend):
    order, kappa = pt.dvector(), pt.dvector()
    value = log_bessel(order, kappa)
    slope = pt.grad(value.sum(), kappa)
    outputs = [value, slope, pt.grad(slope.sum(), kappa)]
    function = Backend(backend).function([order, kappa], outputs)

    def graph(d, k):
        value, slope, _ = function(d / 2 - 1, k)
        return log_normaliser(value, d), slope

    check_reference(graph)
    d, k = np.meshgrid([2.0, 5.0, 300.0], [0.0, 1e-3, 2.0, 50.0, 1e3])
    d, k = d.ravel(), k.ravel()
    second = function(d / 2 - 1, k)[2]
    around = [by_numpy(d, k + step)[1] for step in (1e-5, -1e-5)]
    np.testing.assert_allclose(second, (around[0] - around[1]) / 2e-5, rtol=1e-5, atol=1e-10)
    np.testing.assert_allclose(second[k == 0], 1 / d[k == 0])


@pytest.mark.parametrize("d", [2, 3, 7, 33, 64, 257, 1500, 5000])
def test_normaliser_against_the_power_series(d):
    """All its terms are positive: with their logarithms it is good everywhere."""
    kappa, order, m = np.geomspace(1e-8, 1e5, 40), d / 2 - 1, np.arange(120_000)
    terms = -gammaln(m + 1) - gammaln(m + order + 1) - order * np.log(2)
    series = [logsumexp(terms + 2 * m * np.log(k / 2)) for k in kappa]
    np.testing.assert_allclose(bessel(order, kappa)[0], series, rtol=1e-11, atol=1e-11)
    if d < 64:
        direct = np.log(ive(order, kappa[25:])) + kappa[25:] - order * np.log(kappa[25:])
        np.testing.assert_allclose(bessel(order, kappa[25:])[0], direct, rtol=1e-12, atol=1e-12)


def log_density(dist, x):
    return interpreted([], [pm.logp(dist, x)])()[0]


def sphere_quadrature(d):
    """Points and weights on the circle or the sphere."""
    phi = 2 * np.pi * (np.arange(400) + 0.5) / 400
    circle = np.stack([np.cos(phi), np.sin(phi)], axis=-1)
    if d == 2:
        return circle, np.full(400, 2 * np.pi / 400)
    z, weights = np.polynomial.legendre.leggauss(100)
    r = np.sqrt(1 - z**2)
    height = np.broadcast_to(z[:, None, None], (100, 400, 1))
    x = np.concatenate([r[:, None, None] * circle, height], axis=-1)
    return x.reshape(-1, 3), np.repeat(weights, 400) * 2 * np.pi / 400


@pytest.mark.parametrize("d", [2, 3])
def test_densities_integrate_to_one(d):
    x, weights = sphere_quadrature(d)
    mu = np.arange(1.0, d + 1) / np.linalg.norm(np.arange(1.0, d + 1))
    for dist in [
        UniformSphere.dist(shape=d),
        *(VonMisesFisher.dist(mu, kappa) for kappa in (0.0, 0.3, 40.0)),
        RootDirichlet.dist(np.array([1.0, 1.5, 2.0])[:d]),
        RootDirichlet.dist(np.full(d, 0.5)),
    ]:
        total = weights @ np.exp(log_density(dist, x))
        np.testing.assert_allclose(total, 1.0, rtol=1e-4)  # kinks of |x| are seen at 2e-5


def test_special_cases_agree():
    x = nearest(np.random.default_rng(0).normal(size=(5, 4)))
    x[0] = [0, 0.6, 0.8, 0]
    uniform = log_density(UniformSphere.dist(shape=(5, 4)), x)
    assert uniform.shape == (5,)
    np.testing.assert_allclose(uniform, -np.log(2 * np.pi**2))
    mu = np.full(4, 0.5)
    for same, value in [
        (RootDirichlet.dist(np.full(4, 0.5), shape=(5, 4)), x),
        (VonMisesFisher.dist(mu, 0.0, shape=(5, 4)), x),
        (UniformStiefel.dist(shape=(5, 4, 1)), x[..., None]),
    ]:
        np.testing.assert_allclose(log_density(same, value), uniform)
    concentrated = log_density(VonMisesFisher.dist(mu, 7.0), x)
    log_c = np.log(7.0) - 2 * np.log(2 * np.pi) - np.log(ive(1, 7.0)) - 7.0
    np.testing.assert_allclose(concentrated, log_c + 7.0 * x @ mu)


def nearest(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def rotation(a, b, c):
    """Of R^3 by Euler's angles, (n, 3, 3)."""

    def turn(angle, i, j):
        matrix = np.zeros((len(angle), 3, 3)) + np.eye(3)
        matrix[:, i, i] = matrix[:, j, j] = np.cos(angle)
        matrix[:, i, j] = -np.sin(angle)
        matrix[:, j, i] = np.sin(angle)
        return matrix

    return turn(a, 0, 1) @ turn(b, 1, 2) @ turn(c, 0, 1)


def surface(columns):
    """The area of all R[:, :columns], R a rotation of R^3, as of a surface in R^(3 x columns)."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    b = np.pi * (nodes + 1) / 2
    angles, step = np.stack([0.3 + 0 * b, b, 0.7 + 0 * b]), 1e-5
    slopes = [
        (rotation(*(angles + step * e[:, None])) - rotation(*(angles - step * e[:, None])))
        / (2 * step)
        for e in np.eye(3)
    ]
    J = np.stack([slope[..., :columns].reshape(len(b), -1) for slope in slopes], axis=-1)
    area = np.sqrt(np.linalg.det(J.swapaxes(1, 2) @ J))  # nothing depends on the other angles
    return (2 * np.pi) ** 2 * np.pi / 2 * weights @ area


@pytest.mark.planted
def test_volume_of_the_stiefel_manifold():
    def volume(n, p):
        return np.exp(-log_density(UniformStiefel.dist(shape=(n, p)), np.eye(n, p)))

    # O(2) is two curves of orthogonal matrices: the length of the speed of a rotation, sqrt(2).
    np.testing.assert_allclose(volume(2, 2), 2 * 2 * np.pi * np.sqrt(2))
    np.testing.assert_allclose(volume(3, 2), surface(2), rtol=1e-8)
    np.testing.assert_allclose(volume(3, 3), 2 * surface(3), rtol=1e-8)
    with pytest.raises(AssertionError):  # Haar measure
        np.testing.assert_allclose(volume(3, 2) / np.sqrt(2), surface(2), rtol=1e-8)


# Draws.


def z_score(values, expected):
    """Of means over the first axis, in their standard errors."""
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return (values.mean(axis=0) - expected) / error


def check_cosines(cosines, d, kappa):
    """Mean and variance of mu.x."""
    mean = by_numpy(d, kappa)[1]
    ratios = [bessel(d / 2 - 1 + above, kappa)[1] for above in (0, 1)]
    variance = ratios[0] * (1 + kappa**2 * (ratios[1] - ratios[0]))  # without 1 - 1
    assert abs(z_score(cosines, mean)) < 4.5
    assert abs(z_score((cosines - mean) ** 2, variance)) < 4.5


CASES = [(2, 1e-8), (2, 1.0), (2, 1e5), (3, 0.0), (3, 2.0), (3, 1e5), (50, 1e-8), (50, 1.0),
         (50, 1e5), (5000, 1.0), (5000, 4e3), (5000, 1e5)]  # fmt: skip


@pytest.mark.planted
@pytest.mark.parametrize(("d", "kappa"), CASES)
def test_cosines_of_von_mises_fisher(d, kappa):
    rng, n = np.random.default_rng(d), 1000 if d == 5000 else 40_000
    mu = nearest(rng.normal(size=d))
    x = VonMisesFisherRV.rng_fn(rng, mu, kappa, (n,))
    np.testing.assert_allclose(np.linalg.norm(x, axis=-1), 1.0, rtol=1e-12)
    check_cosines(x @ mu, d, kappa)
    if kappa in (1e5, 4e3):
        with pytest.raises(AssertionError):
            check_cosines(x @ mu, d, 1.3 * kappa)
    tangent = (x - (x @ mu)[:, None] * mu)[:, :6]
    assert np.abs(z_score(tangent, 0.0)).max() < 4.5


def test_laws_of_the_cosine():
    rng = np.random.default_rng(3)
    x = VonMisesFisherRV.rng_fn(rng, E1, 1.7, (20_000,))
    assert kstest(x[:, 0], lambda w: np.expm1(1.7 * (w + 1)) / np.expm1(3.4)).pvalue > 1e-4
    x = VonMisesFisherRV.rng_fn(rng, E1[:2], 0.6, (20_000,))
    assert kstest(np.arctan2(x[:, 1], x[:, 0]), vonmises(0.6).cdf).pvalue > 1e-4


def check_isotropy(x, mu):
    """The covariance of the tangent part, and that it is uncorrelated with the cosine."""
    cosine = x @ mu
    tangent = x - cosine[:, None] * mu
    d = len(mu)
    expected = np.mean(1 - cosine**2) / (d - 1) * (np.eye(d) - np.outer(mu, mu))
    products = (tangent[:, :, None] * tangent[:, None, :]).reshape(len(x), -1)
    assert np.abs(z_score(products, expected.ravel())).max() < 5
    assert np.abs(z_score(tangent * cosine[:, None], 0.0)).max() < 5


def check_root_dirichlet(x, alpha):
    total = alpha.sum()
    mean = alpha / total
    assert np.abs(z_score(x, 0.0)).max() < 5
    assert np.abs(z_score(x**2, mean)).max() < 5
    variance = mean * (1 - mean) / (total + 1)
    assert np.abs(z_score((x**2 - mean) ** 2, variance)).max() < 5
    assert np.abs(z_score(x[:, :-1] * x[:, 1:], 0.0)).max() < 5


def check_stiefel(x):
    n, p = x.shape[1:]
    np.testing.assert_allclose(
        x.swapaxes(1, 2) @ x, np.zeros_like(x[:, :p]) + np.eye(p), atol=1e-12
    )
    assert np.abs(z_score(x, 0.0)).max() < 5
    assert np.abs(z_score(x**2, 1 / n)).max() < 5
    # The last column is uniform given the others, as the first is.
    assert np.abs(z_score(x[:, :, -1] ** 4, 3 / (n * (n + 2)))).max() < 5


ALPHA = np.array([0.05, 0.7, 1.0, 4.0])
MU = np.array([0.48, 0.6, 0.64])


def check_draws(von_mises_fisher, sphere, stiefel, root_dirichlet):
    check_isotropy(von_mises_fisher, MU)
    check_cosines(von_mises_fisher @ MU, 3, 3.0)
    check_isotropy(sphere, MU)
    check_cosines(sphere @ MU, 3, 0.0)
    check_stiefel(stiefel)
    check_root_dirichlet(root_dirichlet, ALPHA)


@pytest.mark.planted
def test_draws_by_numpy():
    rng, n = np.random.default_rng(5), (30_000,)
    check_draws(
        VonMisesFisherRV.rng_fn(rng, MU, 3.0, n),
        UniformSphereRV.rng_fn(rng, 3, n),
        UniformStiefelRV.rng_fn(rng, 4, 2, n),
        RootDirichletRV.rng_fn(rng, ALPHA, n),
    )
    square = UniformStiefelRV.rng_fn(rng, 3, 3, n)
    check_stiefel(square)
    assert abs(np.linalg.det(square).mean()) < 0.03
    rare = RootDirichletRV.rng_fn(rng, np.full(3, 1e-4), (100,))
    np.testing.assert_allclose(np.linalg.norm(rare, axis=-1), 1.0)
    with pytest.raises(AssertionError):  # draws that are not uniform given the first column
        check_isotropy(VonMisesFisherRV.rng_fn(rng, MU, 3.0, n) * [1.05, 1, 1], MU)


@pytest.mark.statistics
def test_draws_by_numba():
    n = 30_000
    dists = [
        VonMisesFisher.dist(MU, 3.0, shape=(n, 3)),
        UniformSphere.dist(shape=(n, 3)),
        UniformStiefel.dist(shape=(n, 4, 2)),
        RootDirichlet.dist(ALPHA, shape=(n, 4)),
    ]
    check_draws(*pm.draw(dists, random_seed=7, mode="NUMBA"))
    mixed = VonMisesFisher.dist(np.eye(2), np.array([[1e-8], [1.0], [1e5]]), shape=(n, 3, 2, 2))
    x = pm.draw(mixed, random_seed=8, mode="NUMBA")
    for i, kappa in enumerate([1e-8, 1.0, 1e5]):
        check_cosines(x[:, i, 0, 0], 2, kappa)
        check_cosines(x[:, i, 1, 1], 2, kappa)


# In models.


def on_all_manifolds():
    rows = nearest(np.random.default_rng(2).normal(np.eye(4)[0], size=(60, 4)))
    coords = {"row": range(60), "group": range(3), "axis": range(4)}
    with pm.Model(coords=coords) as model:
        centre = UniformSphere("centre", dims="axis")
        kappa = pm.HalfNormal("kappa", 10.0)
        VonMisesFisher("groups", centre, kappa, dims=("group", "axis"))
        UniformStiefel("frames", shape=(2, 4, 3))
        root = RootDirichlet("root", alpha=np.array([0.5, 1.0, 3.0]))
        pm.Multinomial("words", n=9, p=root**2, observed=[3, 2, 4])
        VonMisesFisher("x", centre, kappa, observed=pm.Data("data", rows), dims=("row", "axis"))
    return model


def test_shapes_predictive_draws_and_start():
    fast = {"compile_kwargs": {"mode": Mode(linker="py", optimizer="fast_compile")}}
    with on_all_manifolds() as model:
        point = model.initial_point()
        prior = pm.sample_prior_predictive(6, random_seed=1, **fast)
        posterior = pm.sample_posterior_predictive(
            prior.prior, random_seed=2, progressbar=False, **fast
        )
    for name in ("centre", "groups", "root"):
        np.testing.assert_allclose(np.linalg.norm(point[name], axis=-1), 1.0)
        np.testing.assert_allclose(np.linalg.norm(prior.prior[name], axis=-1), 1.0)
    np.testing.assert_allclose(point["root"] ** 2, np.array([0.5, 1.0, 3.0]) / 4.5)
    np.testing.assert_allclose(point["groups"], [point["centre"]] * 3)
    np.testing.assert_allclose(point["frames"], [np.eye(4, 3)] * 2)
    frames = prior.prior["frames"].values
    np.testing.assert_allclose(frames.mT @ frames - np.eye(3), 0.0, atol=1e-12)
    assert prior.prior["groups"].dims == ("chain", "draw", "group", "axis")
    assert posterior.posterior_predictive["x"].shape == (1, 6, 60, 4)
    classes = {"centre": UniformSphereRV, "groups": VonMisesFisherRV, "x": VonMisesFisherRV,
               "frames": UniformStiefelRV, "root": RootDirichletRV}  # fmt: skip
    for name, kind in classes.items():
        assert isinstance(model[name].owner.op, kind)
        assert model.rvs_to_transforms.get(model[name]) is None


def test_batches_of_parameters():
    mu, kappa = np.eye(3), np.array([1.0, 5.0, 0.0])
    dist = VonMisesFisher.dist(mu, kappa, shape=(2, 3, 3))
    x = VonMisesFisherRV.rng_fn(np.random.default_rng(0), mu, kappa, (2, 3))
    together = log_density(dist, x)
    assert together.shape == (2, 3)
    for i in range(3):
        alone = log_density(VonMisesFisher.dist(mu[i], kappa[i]), x[:, i])
        np.testing.assert_allclose(together[:, i], alone)


def test_float32():
    mode = Mode(linker="py", optimizer="fast_compile")
    with pytensor.config.change_flags(floatX="float32"):
        rough = MU * 1.0005  # as far as a sampler in float32 may lead
        dist = VonMisesFisher.dist(rough, 1e5, shape=(5, 3))
        others = [UniformSphere.dist(shape=(5, 3)), UniformStiefel.dist(shape=(3, 2)),
                  RootDirichlet.dist(np.full(3, 0.7))]  # fmt: skip
        for x in pm.draw([dist, *others], random_seed=1, mode=mode):
            assert x.dtype == np.float32
        x = np.tile(MU, (5, 1)).astype(np.float32)
        value = log_density(dist, x)
    assert value.dtype == np.float32
    np.testing.assert_allclose(value, 1e5 * 1.0005 + by_numpy(3, 1e5)[0], rtol=1e-6, atol=0.05)


@pytest.mark.statistics
def test_a_mixture_of_von_mises_fisher():
    """It knows its components' densities; their checks are within a sum, and raise nothing."""
    rows = nearest(np.random.default_rng(6).normal(size=(40, 3)))
    with pm.Model() as model:
        v = UniformSphere("v", shape=3)
        parts = [VonMisesFisher.dist(v, 5.0), VonMisesFisher.dist(MU, 2.0)]
        pm.Mixture("x", w=[0.3, 0.7], comp_dists=parts, observed=rows)
    target = Target(model, model.value_vars, batch_size=10)
    q = nearest(np.array([1.0, 2.0, -1.0]))
    logs = [k * rows @ mu + by_numpy(3, k)[0] for k, mu in [(5.0, q), (2.0, MU)]]
    expected = np.log(4 * np.pi) - np.log(0.3 * np.exp(logs[0]) + 0.7 * np.exp(logs[1])).sum()
    np.testing.assert_allclose(target.value_and_gradient(q)[0], expected)


@pytest.mark.statistics
def test_target_has_no_checks_and_the_right_gradient():
    model = on_all_manifolds()
    for rv, term in log_density_terms(model, {}).items():
        ops = [v.owner.op for v in ancestors([inside(term)]) if v.owner is not None]
        assert not any(isinstance(op, CheckAndRaise) for op in ops)
        if rv.name in ("centre", "groups", "x"):
            switches = [op for op in ops if isinstance(op, Elemwise)]
            assert not any(isinstance(op.scalar_op, Switch) for op in switches)
    target = Target(model, model.value_vars, batch_size={"row": 10})
    # The sums of squares, of data alone, are taken once for all batches.
    assert [data.name for data in target.groups[0].data] == ["computed from data", "data"]

    rng, names = np.random.default_rng(4), [var.name for var in model.value_vars]
    start = model.initial_point()
    start = {name: np.array(value, float) for name, value in start.items()}
    start["kappa_log__"] = np.array(0.7)
    rows = [rng.integers(60, size=10)]
    _, gradient = target.value_and_gradient(flat(start, names), rows)
    for _ in range(6):
        move = {name: rng.normal(size=np.shape(value)) for name, value in start.items()}
        step = 1e-5
        values, ends = [], []
        for sign in (1, -1):
            end = {name: start[name] + sign * step * move[name] for name in names}
            for name in ("centre", "groups", "root"):
                end[name] = nearest(end[name])
            end["frames"] = STIEFEL.nearest(end["frames"])
            ends.append(flat(end, names))
            values.append(target.value_and_gradient(ends[-1], rows)[0])
        slope = (values[0] - values[1]) / (2 * step)
        np.testing.assert_allclose(gradient @ (ends[0] - ends[1]) / (2 * step), slope, rtol=1e-6)

    def energy(q):  # the part of the rows, exactly
        kappa, centre = np.exp(0.7), start["centre"]
        log_c = np.log(kappa) - 2 * np.log(2 * np.pi) - np.log(ive(1, kappa)) - kappa
        return -sum(kappa * model["data"].get_value()[q] @ centre + log_c)

    q = flat(start, names)
    whole, half = (target.value_and_gradient(q, [r])[0] for r in (np.arange(60), np.arange(30)))
    np.testing.assert_allclose(whole - half, energy(slice(60)) - 2 * energy(slice(30)), rtol=1e-9)


def flat(point, names):
    return np.concatenate([np.ravel(point[name]) for name in names])


# Refusals.


@pytest.mark.compiled
@pytest.mark.parametrize("init", ["jitter+adapt_diag", "adapt_diag"])
def test_nuts_is_refused(init):
    with pm.Model():
        mu = UniformSphere("mu", shape=3)
        VonMisesFisher("x", mu, 2.0, shape=(4, 3))
        with pytest.raises(OffManifoldError, match=r"NUTS, HMC, Metropolis and ADVI leave.*SGGMC"):
            pm.sample(draws=5, tune=5, chains=1, cores=1, init=init, progressbar=False)


def test_values_off_the_manifold_are_refused():
    off = np.array([1.0, 0.02, 0.0])
    for dist, value, name in [
        (UniformSphere.dist(shape=3), off, "UniformSphere"),
        (VonMisesFisher.dist(E1, 1.0), off, "VonMisesFisher"),
        (RootDirichlet.dist(np.ones(3)), off, "RootDirichlet"),
        (UniformStiefel.dist(shape=(3, 2)), np.stack([E1, [0.002, 1, 0]], 1), "UniformStiefel"),
    ]:
        with pytest.raises(OffManifoldError, match=f"value of {name} is more than .* with SGGMC"):
            log_density(dist, value)
        close = value * [1.0, 1e-3, 1.0] if value.ndim == 1 else np.eye(3, 2) + 1e-6
        assert np.isfinite(log_density(dist, close + 1e-6))


def test_parameters_are_checked():
    for dist, message in [
        (VonMisesFisher.dist(E1, -1.0), "kappa >= 0"),
        (VonMisesFisher.dist(1.01 * E1, 1.0), r"\|mu\| = 1"),
        (RootDirichlet.dist([1.0, 0.0, 1.0]), "alpha > 0"),
    ]:
        with pytest.raises(ParameterValueError, match=message):
            log_density(dist, E1)
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=r"kappa=.* must be finite and at least 0"):
        VonMisesFisherRV.rng_fn(rng, E1, -1.0, None)
    with pytest.raises(ValueError, match=r"mu=.* must be unit vectors"):
        VonMisesFisherRV.rng_fn(rng, 2 * E1, 1.0, None)
    with pytest.raises(ValueError, match=r"alpha=.* must be positive"):
        RootDirichletRV.rng_fn(rng, np.zeros(2), None)


def test_shapes_are_checked():
    with pytest.raises(ValueError, match="the last axis of mu is 1 long, and must be 2 at least"):
        VonMisesFisher.dist([1.0], 1.0)
    with pytest.raises(ValueError, match="mu of VonMisesFisher is a scalar"):
        VonMisesFisher.dist(1.0, 1.0)
    with pytest.raises(ValueError, match=r"is 3 long, and that of its shape=\(4, 2\) is 2"):
        VonMisesFisher.dist(E1, 1.0, shape=(4, 2))
    with pytest.raises(ValueError, match=r"UniformSphere has shape=None: .*\(\.\.\., d\)"):
        UniformSphere.dist()
    with pytest.raises(ValueError, match=r"UniformStiefel has shape=3: .*\(\.\.\., n, p\)"):
        UniformStiefel.dist(shape=3)
    with pytest.raises(ValueError, match="n=2 is less than p=3"):
        UniformStiefel.dist(shape=(5, 2, 3))
    with pytest.raises(ValueError, match="n, the last axis but one, is 1 long"):
        UniformStiefel.dist(shape=(1, 1))
    with pm.Model(coords={"one": [0]}):
        with pytest.raises(ValueError, match="the last axis is 1 long, and must be 2 at least"):
            UniformSphere("u", dims="one")
