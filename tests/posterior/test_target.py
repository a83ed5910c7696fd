from itertools import product

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.builders import OpFromGraph

import pymc_sgmcmc.posterior.target
from pymc_sgmcmc.compile.backend import Backend
from pymc_sgmcmc.model.errors import RowsDoNotSeparate
from pymc_sgmcmc.posterior.target import Target
from tests.helpers import AS_WRITTEN, INTERPRETED
from tests.tiers import statistics_but

N, K = 6, 2


def rng():
    return np.random.default_rng(1)


def cheap(model, vars=None, **kwargs):
    vars = model.continuous_value_vars if vars is None else vars
    return Target(model, vars, backend=INTERPRETED, **kwargs)


def parts_of(target, q):
    stops = np.cumsum([int(np.prod(shape)) for shape in target.shapes])[:-1]
    parts = zip(target.vars, np.split(q, stops), target.shapes, strict=True)
    return {var.name: part.reshape(shape) for var, part, shape in parts}


def by_pymc(model, target, q, mode=AS_WRITTEN, **others):
    point = model.initial_point() | others | parts_of(target, q)
    rvs = {var.name: rv for var, rv in model.values_to_rvs.items()}
    rvs = [rvs[var.name] for var in target.vars]
    outputs = [model.logp(), model.dlogp(vars=rvs)]
    logp, dlogp = model.compile_fn(outputs, mode=mode)(point)
    return -logp, -dlogp


def assert_close(got, expected, tolerance=1e-8):
    np.testing.assert_allclose(got[0], expected[0], rtol=tolerance)
    scale = max(1.0, np.abs(expected[1]).max())
    np.testing.assert_allclose(got[1], expected[1], rtol=0, atol=tolerance * scale)


def mean_over_parts(target, q, k):
    """The mean of estimates over a partition of the rows of group k, all other rows in use."""
    lengths = target.check_lengths()
    rows = [np.arange(length) for length in lengths]
    parts = np.split(rng().permutation(lengths[k]), lengths[k] // target.batch_sizes[k])
    results = [target.value_and_gradient(q, [*rows[:k], part, *rows[k + 1 :]]) for part in parts]
    return np.mean([value for value, _ in results]), np.mean([g for _, g in results], axis=0)


def agrees(model, target, tolerance=1e-8, mode=AS_WRITTEN, **others):
    q = 0.3 * rng().standard_normal(target.size)
    expected = by_pymc(model, target, q, mode, **others)
    assert_close(target.value_and_gradient(q), expected, tolerance)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pymc_sgmcmc.posterior.evaluation, "CHUNK", 3)
        assert_close(target.value_and_gradient(q), expected, tolerance)
    for k in range(len(target.groups)):
        assert_close(mean_over_parts(target, q, k), expected, tolerance)
    return True


def logistic(named=True, dtype="int64", transpose=False):
    X = rng().standard_normal((N, K))
    y = np.array([0, 1, 1, 0, 1, 0]).astype(dtype)
    with pm.Model(coords={"row": range(N), "k": range(K)}) as model:
        beta = pm.Normal("beta", 0.5, 2.0, dims="k")
        if transpose:
            eta = beta @ pm.Data("X", X.T, dims=("k", "row"))
        elif named:
            eta = pm.Data("X", X, dims=("row", "k")) @ beta
        else:
            eta = X @ beta
        y = pm.Data("labels", y, dims="row") if named else y
        pm.Bernoulli("y", logit_p=eta, observed=y, dims="row" if named else None)
    return model


def hierarchical(named, n=N):
    county = np.array([0, 1, 2, 0, 1, 2])
    y = rng().standard_normal(n)
    with pm.Model(coords={"row": range(n), "county": range(3)}) as model:
        if named:
            county, y = pm.Data("county_idx", county, dims="row"), pm.Data("y_data", y, dims="row")
        mu = pm.Normal("mu")
        tau = pm.HalfNormal("tau")
        alpha = pm.Normal("alpha", mu, tau, dims="county")
        pm.Normal("y", alpha[county], 0.7, observed=y, dims="row")
    return model


@pytest.mark.parametrize("dtype", ["int64", "int32", "bool", "float64"])
@pytest.mark.parametrize("named", statistics_but([True], [True, False]))
def test_logistic(named, dtype):
    model = logistic(named, dtype)
    target = cheap(model, batch_size=2)
    assert agrees(model, target)
    assert target.size == K
    assert [group.length() for group in target.groups] == [N]
    assert len(target.groups[0].data) == 2


def test_a_batch_against_numpy():
    model = logistic()
    target = cheap(model, batch_size=2)
    X, y = model["X"].get_value(), model["labels"].get_value()
    beta, rows = np.array([0.4, -1.1]), np.array([4, 1, 4])
    eta = X[rows] @ beta
    log_likelihood = np.sum(y[rows] * eta - np.logaddexp(0, eta))
    log_prior = np.sum(-0.5 * ((beta - 0.5) / 2) ** 2 - np.log(2 * np.sqrt(2 * np.pi)))
    by_row = (y[rows] - 1 / (1 + np.exp(-eta)))[:, None] * X[rows]
    expected = (
        -log_prior - N / 3 * log_likelihood,
        (beta - 0.5) / 4 - N / 3 * by_row.sum(axis=0),
    )
    assert_close(target.value_and_gradient(beta, [rows]), expected)


def test_rows_on_the_second_axis():
    model = logistic(transpose=True)
    target = cheap(model, batch_size=2)
    assert agrees(model, target)
    assert {data.name: data.axis for data in target.groups[0].data} == {"X": 1, "labels": 0}


@pytest.mark.parametrize("named", [True, False])
def test_hierarchical(named):
    model = hierarchical(named)
    assert agrees(model, cheap(model, batch_size=2))


def test_every_batch_is_unbiased_and_the_prior_is_not_scaled():
    model = hierarchical(named=True)
    target = cheap(model, batch_size=2)
    q = 0.3 * rng().standard_normal(target.size)
    exact = target.value_and_gradient(q)
    zero_weight = target._evaluation.on_rows(q, np.zeros(1), [np.zeros(1)])
    values, gradients, scaled = [], [], []
    for batch in product(range(N), repeat=2):
        value, gradient = target.value_and_gradient(q, [np.array(batch)])
        values.append(value)
        gradients.append(gradient)
        scaled.append(value + (N / 2 - 1) * zero_weight[0])
    assert len(values) == N**2
    np.testing.assert_allclose(np.mean(values), exact[0], rtol=1e-10)
    np.testing.assert_allclose(np.mean(gradients, axis=0), exact[1], atol=1e-10)
    assert abs(np.mean(scaled) - exact[0]) > 1
    assert np.abs((N / 2 - 1) * zero_weight[1]).max() > 0.1


def two_observed(n1=6, n2=4):
    random = rng()
    with pm.Model(coords={"row": range(n1), "site": range(n2)}) as model:
        x = pm.Data("x", random.standard_normal(n1), dims="row")
        slope = pm.Normal("slope")
        sigma = pm.HalfNormal("sigma")
        pm.Normal("y", slope * x, sigma, observed=random.standard_normal(n1), dims="row")
        pm.Poisson("counts", pm.math.exp(slope), observed=np.arange(n2), dims="site")
    return model


@pytest.mark.parametrize(
    ("batch_size", "sizes"),
    [
        (2, {"y": 2, "counts": 2}),
        ({"row": 3, "site": 2}, {"y": 3, "counts": 2}),
        ({"y": 3, "counts": 2}, {"y": 3, "counts": 2}),
        ({"row": 3, "site": None}, {"y": 3}),
        ({"counts": 1}, {"counts": 1}),
        ({"y": None}, {}),
        (None, {}),
    ],
)
def test_two_observed_variables(batch_size, sizes):
    model = two_observed()
    target = cheap(model, batch_size=batch_size)
    assert agrees(model, target)
    observed = [group.likelihoods for group in target.groups]
    assert dict(zip(observed, target.batch_sizes, strict=True)) == {
        (name,): size for name, size in sizes.items()
    }


@pytest.mark.parametrize("key", ["row", "y"])
def test_the_name_of_a_variable_comes_before_that_of_its_dimension(key):
    with pm.Model(coords={"row": range(N)}) as model:
        mu = pm.Normal("mu")
        pm.Normal("y", mu, observed=np.arange(N), dims="row")
        pm.Normal("z", mu, observed=np.arange(N), dims="row")
    sizes = {"row": 2, "y": None}
    target = cheap(model, batch_size={key: sizes[key], **sizes})
    assert [group.likelihoods for group in target.groups] == [("z",)]
    assert agrees(model, target)


def test_two_observed_variables_of_one_dimension_share_their_rows():
    with pm.Model(coords={"row": range(N)}) as model:
        x = pm.Data("x", rng().standard_normal(N), dims="row")
        a, b = pm.Normal("a"), pm.Normal("b")
        pm.Normal("y", a * x, observed=rng().standard_normal(N), dims="row")
        pm.Normal("z", b * x, observed=np.arange(N), dims="row")
    target = cheap(model, batch_size=3)
    assert [group.likelihoods for group in target.groups] == [("y", "z")]
    assert agrees(model, target)


def test_potentials_count_as_prior():
    with pm.Model() as model:
        a = pm.Normal("a", shape=3)
        pm.Potential("bound", -10 * pm.math.sum(a) ** 2)
        pm.Potential("elementwise", -a)
        pm.Normal("y", a[0] + a[1], observed=np.arange(N))
    assert agrees(model, cheap(model, batch_size=3))


@pytest.mark.compiled
def test_transforms():
    with pm.Model() as model:
        sigma = pm.HalfNormal("sigma")
        weights = pm.Dirichlet("weights", np.ones(3))
        chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.Exponential.dist(1.0))
        effect = pm.ZeroSumNormal("effect", shape=4)
        beta = pm.MvNormal("beta", np.zeros(2), chol=chol)
        bounded = pm.Uniform("bounded", -1, 2)
        mu = weights[0] * beta[0] + bounded + effect[np.array([0, 1, 2, 3, 3, 0])]
        pm.Normal("y", mu, sigma, observed=rng().standard_normal(N))
    target = cheap(model, batch_size=2)
    assert target.size == 1 + 2 + 3 + 3 + 2 + 1
    assert agrees(model, target)


def multivariate_normal(mu):
    chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.Exponential.dist(1.0))
    pm.MvNormal("y", mu, chol=chol, observed=rng().standard_normal((N, 2)))


def multinomial(mu):
    counts = rng().integers(1, 9, size=(N, 3))
    x = np.linspace(0, 1, N)[:, None]
    p = pm.math.softmax(x * pt.stack([mu, 0.1 * mu, 0.0]), axis=-1)
    pm.Multinomial("y", n=counts.sum(axis=1), p=p, observed=counts)


def dirichlet(mu):
    simplex = rng().dirichlet(np.ones(3), size=N)
    pm.Dirichlet("y", pm.math.exp(mu) * np.ones(3), observed=simplex)


def matrix_of_normals(mu):
    offset = rng().standard_normal((N, 1))
    scale = np.array([[0.5, 1.0, 2.0]])
    pm.Normal("y", mu + offset, scale, observed=rng().standard_normal((N, 3)))


def categorical(mu):
    pm.Categorical("y", logit_p=pt.stack([mu, 0.0, -mu]), observed=np.arange(N) % 3)


def binomial(mu):
    pm.Binomial("y", n=np.arange(N) + 2, logit_p=mu, observed=np.arange(N))


def censored(mu):
    y = rng().standard_normal(N).clip(-0.5, 0.5)
    pm.Censored("y", pm.Normal.dist(mu), lower=-0.5, upper=0.5, observed=y)


def censored_by_row(mu):
    upper = np.linspace(0.1, 0.9, N)
    y = np.minimum(rng().standard_normal(N), upper)
    pm.Censored("y", pm.Normal.dist(mu), lower=None, upper=upper, observed=y)


def truncated(mu):
    y = rng().uniform(0.1, 2, size=N)
    pm.Truncated("y", pm.Normal.dist(mu), lower=0.0, observed=y)


def truncated_normal(mu):
    pm.TruncatedNormal("y", mu, 1.0, lower=0.0, observed=rng().uniform(0.1, 2, size=N))


def mixture(mu):
    components = [pm.Normal.dist(mu), pm.StudentT.dist(nu=4, mu=-mu)]
    pm.Mixture("y", w=[0.3, 0.7], comp_dists=components, observed=rng().standard_normal(N))


def mixture_of_supports(mu):
    """One component is impossible for some rows, and the mixture is not."""
    components = [pm.HalfNormal.dist(pm.math.exp(mu)), pm.Normal.dist(mu)]
    pm.Mixture("y", w=[0.3, 0.7], comp_dists=components, observed=rng().standard_normal(N))


def normal_mixture(mu):
    w = pm.Dirichlet("w", np.ones(2))
    pm.NormalMixture("y", w, pt.stack([mu, mu + 1]), 0.5, observed=rng().standard_normal(N))


def zero_inflated(mu):
    pm.ZeroInflatedPoisson("y", psi=0.6, mu=pm.math.exp(mu), observed=np.arange(N) % 3)


def custom_logp(mu):
    def logp(value, mu):
        return -pt.abs(value - mu) - np.log(2)

    pm.CustomDist("y", mu, logp=logp, observed=rng().standard_normal(N))


def custom_dist(mu):
    def dist(mu, size):
        return pm.math.exp(pm.Normal.dist(mu, 1.0, size=size))

    pm.CustomDist("y", mu, dist=dist, observed=rng().uniform(0.1, 2, size=N))


def student(mu):
    pm.StudentT("y", nu=3, mu=mu, sigma=np.linspace(1, 2, N), observed=np.arange(N))


def random_walks(mu):
    y = rng().standard_normal((N, 4))
    pm.GaussianRandomWalk("y", mu, 1.0, init_dist=pm.Normal.dist(), observed=y)


LIKELIHOODS = [
    binomial,
    categorical,
    censored,
    censored_by_row,
    custom_dist,
    custom_logp,
    dirichlet,
    matrix_of_normals,
    mixture,
    mixture_of_supports,
    multinomial,
    multivariate_normal,
    normal_mixture,
    random_walks,
    student,
    truncated,
    truncated_normal,
    zero_inflated,
]


@pytest.mark.compiled
@pytest.mark.parametrize(
    "likelihood",
    statistics_but([one for one in LIKELIHOODS if one is not multivariate_normal], LIKELIHOODS),
)
def test_likelihood(likelihood):
    with pm.Model() as model:
        likelihood(pm.Normal("mu"))
    target = cheap(model, batch_size=2)
    assert [group.likelihoods for group in target.groups] == [("y",)]
    assert agrees(model, target)


def test_scalar_observed_is_exact():
    with pm.Model() as model:
        mu = pm.Normal("mu")
        pm.Normal("total", mu, observed=2.0)
        pm.Normal("y", mu, observed=np.arange(N))
    target = cheap(model, batch_size=2)
    assert [group.likelihoods for group in target.groups] == [("y",)]
    assert agrees(model, target)


def test_one_row():
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu"), observed=[2.0])
    assert agrees(model, cheap(model, batch_size=1))


def test_discrete_latents_of_the_rows_are_shared_inputs():
    with pm.Model() as model:
        mu = pm.Normal("mu", [-1.0, 1.0], shape=2)
        z = pm.Categorical("z", [0.4, 0.6], shape=N)
        pm.Normal("y", mu[z], observed=np.arange(N))
    target = cheap(model, batch_size=2)
    assert "z" in {data.name for data in target.groups[0].data}
    (shared,) = target.shared.values()
    np.testing.assert_array_equal(shared.get_value(), model.initial_point()["z"])
    for z in (np.arange(N) % 2, np.ones(N, dtype=int)):
        shared.set_value(z)
        assert agrees(model, target, z=z)


def test_a_continuous_variable_left_out_is_a_shared_input():
    with pm.Model() as model:
        mu = pm.Normal("mu", shape=2)
        sigma = pm.HalfNormal("sigma")
        pm.Normal("y", mu[np.arange(N) % 2], sigma, observed=np.arange(N))
    target = cheap(model, [model.rvs_to_values[model["mu"]]], batch_size=2)
    (shared,) = target.shared.values()
    shared.set_value(np.array(0.4))
    assert target.size == 2
    assert agrees(model, target, sigma_log__=np.array(0.4))


@pytest.mark.compiled
def test_the_proof_moves_shared_inputs():
    with pm.Model() as model:
        X = pm.Data("X", rng().standard_normal((N, K)))
        beta = pm.Normal("beta", shape=K)
        mu = pm.Normal("mu")
        whole = pt.vector()
        centred = OpFromGraph([whole], [whole - whole.mean()])
        pm.Normal("y", mu + centred(X @ beta), observed=np.arange(N))
    with pytest.raises(RowsDoNotSeparate, match="'y'"):
        cheap(model, [model.rvs_to_values[model["mu"]]], batch_size=2)


def test_float32():
    with pytensor.config.change_flags(floatX="float32"):
        model = hierarchical(named=True)
        target = cheap(model, batch_size=2)
        q = 0.3 * rng().standard_normal(target.size)
        value, gradient = target.value_and_gradient(q)
        compiled = target._evaluation._function
        assert {output.dtype for output in compiled._function(*inputs_of(target, q))} == {
            np.dtype("float32")
        }
        estimated = mean_over_parts(target, q, 0)
    assert gradient.dtype == np.float64
    model = hierarchical(named=True)
    exact = by_pymc(model, cheap(model, batch_size=2), q)
    assert_close((value, gradient), exact, 1e-3)
    assert_close(estimated, exact, 1e-3)


def inputs_of(target, q):
    one = np.ones((), dtype="float32")
    return q.astype("float32"), one, one, np.arange(2)


@pytest.mark.compiled
@pytest.mark.parametrize("backend", statistics_but(["c"], ["c", "numba"]))
def test_backends(backend):
    model = logistic(transpose=True)
    target = Target(model, model.continuous_value_vars, batch_size=2, backend=Backend(backend))
    assert agrees(model, target)


@pytest.mark.compiled
def test_new_data_of_another_length():
    model = hierarchical(named=True)
    target = cheap(model, batch_size=2)
    with model:
        pm.set_data(
            {"county_idx": [2, 1, 0, 0], "y_data": [1.0, 2.0, 3.0, 4.0]}, coords={"row": range(4)}
        )
    np.testing.assert_array_equal(target.check_lengths(), [4])
    assert agrees(model, target)


def test_coordinates_have_names():
    target = cheap(hierarchical(named=False), batch_size=2)
    names = [target.coordinate(i) for i in range(target.size)]
    assert names == ["mu", "tau_log__", "alpha[0]", "alpha[1]", "alpha[2]"]
    with pytest.raises(IndexError):
        target.coordinate(5)
