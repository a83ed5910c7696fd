"""Effects in coordinates of their own: the same posterior, and its derivatives there."""

from functools import cache

import numpy as np
import pymc as pm
import pytensor
import pytest
from pytensor.compile.mode import Mode

import pymc_sgmcmc.compile.at_points
import pymc_sgmcmc.posterior.coefficients
import pymc_sgmcmc.posterior.energy_graph
import pymc_sgmcmc.posterior.find_effects
import pymc_sgmcmc.posterior.target
from pymc_sgmcmc.compile.backend import Backend
from pymc_sgmcmc.posterior.effects import CorrelatedEffects, ScaledEffects, inform
from pymc_sgmcmc.posterior.find_effects import centred_effects
from pymc_sgmcmc.posterior.target import Target
from tests.posterior.test_second_order import estimates, partition
from tests.tiers import statistics_but

# Of PyTensor 2, where PyMC draws the initial point of a Cholesky factor.
pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS:UserWarning")

N, G, K = 24, 5, 3

PLAIN = Mode(linker="py", optimizer="merge")
"""To rewrite these graphs takes longer than all that is asked of them."""
MERGED = Backend(compile_kwargs={"mode": PLAIN})


@pytest.fixture(autouse=True)
def derivatives_of_few_points_are_not_rewritten(monkeypatch):
    def function(inputs, outputs):
        return pytensor.function(inputs, outputs, mode=PLAIN, on_unused_input="ignore")

    monkeypatch.setattr(pymc_sgmcmc.compile.at_points, "simplified", list)
    monkeypatch.setattr(pymc_sgmcmc.posterior.coefficients, "interpreted", function)


def rng(seed):
    return np.random.default_rng(seed)


GROUP = rng(0).integers(G, size=N)
X, Y = rng(1).normal(size=(N, K)), rng(2).normal(size=N)


def one_scale():
    z = pm.Normal("z", shape=G)
    pm.Normal("y", (pm.Normal("m") + pm.HalfNormal("t") * z)[GROUP], 1.0, observed=Y)


def scale_after_selection():
    z, t = pm.Normal("z", shape=G), pm.HalfNormal("t")
    pm.Normal("y", z[GROUP] * X[:, 0] * t, pm.HalfNormal("s"), observed=Y)


def two_of_a_group():
    u, v = pm.Normal("u", shape=G), pm.StudentT("v", nu=4, shape=G)
    p = pm.Normal("m") + (pm.HalfNormal("tu") * u)[GROUP]
    p = p + (pm.Normal("n") + pm.HalfNormal("tv") * v[GROUP]) * X[:, 1]
    pm.Bernoulli("y", logit_p=p, observed=Y > 0)


def scales_of_coefficients():
    z, local = pm.Normal("z", shape=K), pm.HalfCauchy("local", 1, shape=K)
    pm.Normal("y", X @ (z * local * pm.HalfCauchy("t", 1)), 1.0, observed=Y)


def spectrum():
    length, b = pm.LogNormal("length"), pm.Normal("b", shape=K)
    scales = pm.math.exp(-(np.arange(K) ** 2) * length**2 / 4)[:, None]
    mu = (X @ (b[:, None] * scales))[:, 0]
    pm.Normal("y", mu, pm.HalfNormal("s"), observed=Y)


def _correlated(made, n=2):
    chol, *_ = pm.LKJCholeskyCov("L", n=n, eta=2, sd_dist=pm.Exponential.dist(1.0))
    effects = made(chol)
    mu = effects[GROUP, 0] + effects[GROUP, 1] * X[:, 0]
    mu = mu if n == 2 else mu + effects[GROUP, 2] * X[:, 1]
    pm.Normal("y", mu, 1.0, observed=Y)


def correlated():
    _correlated(lambda chol: (chol @ pm.Normal("z", shape=(2, G))).T)


def correlated_by_group():
    mean = pm.Normal("mean", shape=2)
    _correlated(lambda chol: mean + pm.Normal("z", shape=(G, 2)) @ chol.T)


def correlated_in_threes():
    mean = pm.Normal("mean", shape=3)
    _correlated(lambda chol: mean + pm.Normal("z", shape=(G, 3)) @ chol.T, n=3)


def correlated_turned():
    _correlated(lambda chol: (chol @ pm.Normal("z", shape=(G, 2)).T).T)


def correlated_summed():
    chol, *_ = pm.LKJCholeskyCov("L", n=2, eta=1, sd_dist=pm.Exponential.dist(1.0))
    effects = pm.Normal("z", shape=(G, 2)) @ chol.T
    pm.Normal("y", (effects[GROUP] * X[:, :2]).sum(axis=1), pm.HalfNormal("s"), observed=Y)


STANDARDIZED = {
    one_scale: ["z"], scale_after_selection: ["z"], two_of_a_group: ["u", "v"],
    scales_of_coefficients: ["z"], spectrum: ["b"],
    correlated: ["z"], correlated_by_group: ["z"], correlated_turned: ["z"],
    correlated_summed: ["z"], correlated_in_threes: ["z"],
}  # fmt: skip


def centred():
    a = pm.Normal("a", pm.Normal("m"), pm.HalfNormal("t"), shape=G)
    pm.Normal("y", a[GROUP], pm.HalfNormal("s"), observed=Y)


def nested():
    school = pm.Normal("school", 0, pm.HalfNormal("t", 1), shape=2)
    sd = pm.HalfNormal("u", 1)
    of_class = pm.StudentT("class", nu=5, mu=school[np.arange(G) % 2], sigma=sd, shape=G)
    pm.Poisson("y", pm.math.exp(of_class[GROUP]), observed=np.arange(N) % 4)


def exact_rows():
    theta = pm.Laplace("theta", pm.Normal("m"), pm.HalfCauchy("t", 5), shape=4)
    pm.Normal("few", theta, np.array([1.0, 2.0, 3.0, 4.0]), observed=np.arange(4.0))


CENTRED = {centred: ["a"], nested: ["class", "school"], exact_rows: ["theta"]}


@cache
def model_of(build):
    with pm.Model() as model:
        build()
    return model


@cache
def plain(build):
    model = model_of(build)
    return Target(model, model.continuous_value_vars, backend=MERGED)


@cache
def target_of(build):
    return made(build)


def made(build):
    """A target in coordinates, with information at random."""
    model = model_of(build)
    settings = {"batch_size": None if build is exact_rows else 6, "backend": MERGED}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pymc_sgmcmc.posterior.target, "CURVED_FROM", 0)
        # Effects count as many, and the entries of a factor as few.
        patch.setattr(pymc_sgmcmc.posterior.energy_graph, "FEW", 6 if is_correlated(build) else 2)
        target = Target(
            model, model.continuous_value_vars, with_predictors=True, partial_centring=True,
            **settings,
        )  # fmt: skip
        if build in CENTRED:
            found = centred_effects(target.model, target.vars, target.shapes)
            target = target.partially_centred(found)
    for k, own in enumerate(target.centring.effects):
        shape = own.information.get_value().shape
        inform(own, rng(k).gamma(1, 3, size=shape), rng(k).normal(size=shape))
    return target


def is_correlated(build):
    return build.__name__.startswith("correlated")


ALSO = [correlated, correlated_turned, correlated_summed]
"""Other ways to write `correlated_by_group`: they take as long, and CI has them."""


def marked(builds, slow=ALSO):
    """PyMC compiles the initial point of a Cholesky factor; CI has what is `slow`."""

    def marks(build):
        own = [pytest.mark.compiled] * is_correlated(build)
        return own + [pytest.mark.statistics] * (build in slow)

    return [pytest.param(one, marks=marks(one)) for one in builds]


ALL = [*STANDARDIZED, *CENTRED]
BUILDS = marked(ALL)
CORRELATED = list(filter(is_correlated, ALL))
OF_COEFFICIENTS = [scales_of_coefficients, spectrum, correlated_in_threes]


def points(target, number=1):
    return target.initial + 0.4 * rng(9).normal(size=(number, target.size))


def differences(function, q, width=1e-5):
    steps = width * np.eye(len(q))
    return np.array([(function(q + e) - function(q - e)) / (2 * width) for e in steps])


@pytest.mark.parametrize("build", BUILDS)
def test_effects_are_found(build):
    effects = target_of(build).centring.effects
    names = sorted(own.var.name for own in effects)
    assert names == sorted((STANDARDIZED | CENTRED)[build])
    kind = CorrelatedEffects if is_correlated(build) else ScaledEffects
    assert {type(own) for own in effects} == {kind}


@pytest.mark.parametrize("build", marked(ALL, [*ALSO, correlated_by_group]))
def test_the_density_is_that_of_the_model_with_the_jacobian(build):
    target, (q,) = target_of(build), points(target_of(build))
    change = target.centring
    values = change.values(q)
    assert np.abs(values - q).max() > 0.005  # it does something
    np.testing.assert_allclose(change.coordinates(values), q, rtol=1e-10, atol=1e-12)
    sign, jacobian = np.linalg.slogdet(differences(change.values, q))
    expected = plain(build).value_and_gradient(values)[0] - jacobian
    assert sign > 0
    np.testing.assert_allclose(target.value_and_gradient(q)[0], expected, rtol=1e-8)


@pytest.mark.parametrize("build", marked(ALL, CORRELATED))
def test_the_gradient(build):
    target, (q,) = target_of(build), points(target_of(build))
    expected = differences(lambda at: target.value_and_gradient(at)[0], q)
    found = target.value_and_gradient(q)[1]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("build", marked(ALL, [*ALSO, *CORRELATED]))
def test_second_derivatives_of_rows(build):
    """They are sparse and exact; those in coefficients are looked at below."""
    target = target_of(build)
    assert target.is_structured == (build is not exact_rows)
    assert build is exact_rows or bool(target.energy.coefficients) == (build in OF_COEFFICIENTS)
    if build in OF_COEFFICIENTS or build is exact_rows:
        return
    (q,) = points(target)
    expected = differences(target.batched_gradient, q)
    scale = np.abs(expected).max()
    H = target.near_anchor.hessian(q) + np.zeros(expected.shape)
    np.testing.assert_allclose(H, expected, rtol=0, atol=1e-6 * scale)


@pytest.mark.parametrize("build", marked(OF_COEFFICIENTS, [correlated_in_threes]))
def test_derivatives_of_coefficients(build):
    target = target_of(build)
    near, (q,) = target.near_anchor, points(target)
    expected = differences(near.with_coefficients, q).T
    J = near.coefficients.at(q).toarray()
    np.testing.assert_allclose(J, expected, rtol=1e-6, atol=1e-7)
    assert np.abs(J[target.size :]).max() > 0.1 and len(J) > target.size
    # What is left out of the Hessian in q are second derivatives of the coefficients.
    gradient, H = near.expand(q)
    np.testing.assert_allclose(gradient, target.batched_gradient(q), rtol=1e-8, atol=1e-8)
    slopes = target.anchor_gradient(q)
    of_coefficients = differences(lambda at: near.coefficients.at(at).toarray().T @ slopes, q)
    whole = differences(target.batched_gradient, q)
    if build is not spectrum:  # whose scale of rows has second derivatives of its own
        scale = np.abs(whole).max()
        np.testing.assert_allclose(H.toarray() + of_coefficients, whole, rtol=0, atol=1e-5 * scale)


def predicted(build, values):
    """Predictors of the rows of `build`, from values by name, and their curvatures."""
    v = {name.removesuffix("_log__"): value for name, value in values.items()}
    if build is one_scale:
        return (v["m"] + np.exp(v["t"]) * v["z"])[GROUP], np.ones(N)
    of_u = v["m"] + np.exp(v["tu"]) * v["u"][GROUP]
    eta = of_u + (v["n"] + np.exp(v["tv"]) * v["v"][GROUP]) * X[:, 1]
    p = 1 / (1 + np.exp(-eta))
    return eta, p * (1 - p)


@pytest.mark.parametrize("build", [one_scale, two_of_a_group])
@pytest.mark.parametrize("known", [0.0, 1.0, 1e9])
def test_the_gauss_newton_hessian_of_rows(build, known):
    """J' C J, whatever is known of effects when products of scales and effects are found."""
    target = made(build)
    for own in target.centring.effects:
        own.information.set_value(known * own.information.get_value())

    def at(q):
        named = target.energy.values_at(target.centring.values(q))
        return predicted(build, {var.name: value for var, value in named.items()})

    (q,) = points(target)
    J = differences(lambda q: at(q)[0], q).T
    found = target.near_anchor.expand(q)[1] + np.zeros((len(q), len(q)))
    np.testing.assert_allclose(found, (J.T * at(q)[1]) @ J, rtol=0, atol=1e-6)


OF_PRIOR = [one for one in ALL if one not in (exact_rows, *ALSO)]
QUICK = [one_scale, centred]


@pytest.mark.parametrize("build", marked(OF_PRIOR, [x for x in OF_PRIOR if x not in QUICK]))
def test_second_derivatives_of_the_prior(build):
    target = target_of(build)
    (q,) = points(target)

    def gradient(q):
        return target.exact_part.gradients(q[None])[0]

    whole = target.value_and_gradient(q)[1]
    np.testing.assert_allclose(gradient(q), whole - target.batched_gradient(q), rtol=1e-9)
    found = target.exact_part.mean(q[None])[1].toarray()
    expected = differences(gradient, q)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("order", statistics_but([2], [1, 2]))
@pytest.mark.parametrize("build", marked(OF_COEFFICIENTS))
def test_control_variates_in_coefficients(build, order):
    """The mean over all batches is exact; a normal response with a known sd has no noise left."""
    target = target_of(build)
    assert target.energy.coefficients
    c, q = points(target, 2)
    found = np.array(estimates(target, order, c, q, partition(target)))
    exact = target.value_and_gradient(q)[1]
    scale = np.abs(exact).max()
    np.testing.assert_allclose(found.mean(axis=0), exact, rtol=0, atol=1e-10 * scale)
    is_exact = np.abs(found - exact).max() < 1e-9 * scale
    assert is_exact == (build is not spectrum and order == 2)


def test_the_gradient_at_an_anchor_in_coefficients():
    """In q and in coefficients: X' (mu - y) for a normal response, with sd 1."""
    target = target_of(scales_of_coefficients)
    (q,) = points(target)
    (coefficients,) = target.energy.coefficients_at(q)
    found = target.anchor_gradient(q)
    assert found.shape == (target.size + K,)
    expected = X.T @ (X @ coefficients.ravel() - Y)
    np.testing.assert_allclose(found[target.size :], expected, rtol=1e-9)
    assert not found[: target.size].any()
    H = target.near_anchor.hessian(q)
    np.testing.assert_allclose(H[target.size :, target.size :], X.T @ X, rtol=1e-9)


def two_scales():
    z, t = pm.Normal("z", shape=G), pm.HalfNormal("t", shape=2)
    pm.Normal("y", (t[0] * z)[GROUP] + t[1] * z[GROUP] * X[:, 0], 1.0, observed=Y)


def alone_too():
    z = pm.Normal("z", shape=G)
    pm.Normal("y", (pm.HalfNormal("t") * z)[GROUP] + z[GROUP] * X[:, 0], 1.0, observed=Y)


def scales_by_row():
    z, t = pm.Normal("z", shape=G), pm.HalfNormal("t", shape=G)
    pm.Normal("y", t[GROUP] * z[(GROUP + 1) % G], 1.0, observed=Y)


def squared():
    z = pm.Normal("z", shape=G)
    pm.Normal("y", (z * z)[GROUP], 1.0, observed=Y)


def by_data():
    z = pm.Normal("z", shape=G)
    pm.Normal("y", z[GROUP] * X[:, 0] + pm.Normal("m"), 1.0, observed=Y)


def full_matrix():
    A = pm.Normal("A", shape=(2, 2))
    effects = A @ pm.Normal("z", shape=(2, G))
    pm.Normal("y", effects[0, GROUP], 1.0, observed=Y)


@pytest.mark.parametrize(
    "build", [two_scales, alone_too, scales_by_row, squared, by_data, full_matrix]
)
def test_what_has_no_scale_of_its_own_is_left_alone(build):
    target = target_of(build)
    assert not any(own.var.name == "z" for own in target.centring.effects)
    (q,) = points(target)
    expected = differences(lambda at: target.value_and_gradient(at)[0], q)
    np.testing.assert_allclose(target.value_and_gradient(q)[1], expected, rtol=1e-5, atol=1e-6)


def test_a_model_without_effects_keeps_its_values():
    target = target_of(by_data)
    (q,) = points(target)
    assert target.centring.values(q) is q and target.centring.coordinates(q) is q


def test_centred_effects_that_others_scale_are_not_ours():
    with pm.Model() as model:
        t = pm.HalfNormal("t")
        a = pm.Normal("a", 0, t, shape=G)
        pm.Normal("y", a[GROUP], 1.0, observed=Y)
    vars = [model.rvs_to_values[a]]
    assert centred_effects(model, vars, [(G,)]) == []
    assert len(centred_effects(model, model.continuous_value_vars, [(), (G,)])) == 1


class NoJacobian(ScaledEffects):
    log_jacobian = property(lambda self: 0 * self.var)


class OfTheWholeRatio(ScaledEffects):
    """The Jacobian is that of r^2 = 1 + t^2 I."""

    log_jacobian = property(lambda self: super().log_jacobian * 1.5)


class LocationNotShrunk(ScaledEffects):
    def replacements(self, graphs):
        found = super().replacements(graphs)
        more = 0.0 if self.location is None else 0.01 * self.location
        return {self.var: found[self.var] + more}


class SharesOfCoordinates(CorrelatedEffects):
    """The share of the location is multiplied with the coordinates, and not with z."""

    _inverse = property(
        lambda self: ({key: x * (1 + 1e-3 * (key[0] != key[1])) for key, x in own.items()}
                      for own in super()._inverse)
    )  # fmt: skip


OF_EFFECTS = [
    (one_scale, NoJacobian),
    (centred, NoJacobian),
    pytest.param(nested, OfTheWholeRatio, marks=pytest.mark.statistics),
    (centred, LocationNotShrunk),
    pytest.param(correlated_by_group, SharesOfCoordinates, marks=pytest.mark.statistics),
]


@pytest.mark.planted
@pytest.mark.parametrize(("build", "kind"), OF_EFFECTS)
def test_a_mistake_of_coordinates_is_seen(build, kind, monkeypatch):
    original = kind.__base__
    monkeypatch.setattr(pymc_sgmcmc.posterior.find_effects, original.__name__, kind)
    target = made(build)
    monkeypatch.setitem(globals(), "target_of", lambda build: target)
    with pytest.raises(AssertionError):
        test_the_density_is_that_of_the_model_with_the_jacobian(build)


def tiny_scales():
    length, school = pm.LogNormal("length"), pm.Normal("school", 0, pm.HalfNormal("t"), shape=K)
    scales = pm.math.exp(-(np.arange(K) ** 2) * length * 5)
    b = pm.Normal("b", school, scales, shape=K)
    pm.Normal("y", X @ b, 1.0, observed=Y)


def test_centred_effects_start_where_their_prior_has_them():
    """A start that is a million scales away would be as many sds from the posterior."""
    model = model_of(tiny_scales)
    target = Target(model, model.continuous_value_vars, partial_centring=True, backend=MERGED)
    target = target.partially_centred(centred_effects(target.model, target.vars, target.shapes))
    change, at = target.centring, target.energy.coordinates()
    names = {var.name: at[var] for var in target.vars}
    values = rng(3).uniform(-1, 1, size=target.size)
    near = change.values(change.start(values))
    scales = np.exp(-(np.arange(K) ** 2) * np.exp(values[names["length_log__"]]) * 5)
    school, b = near[names["school"]], near[names["b"]]
    assert scales[-1] < 1e-3
    np.testing.assert_allclose((b - school) / scales, np.clip((b - school) / scales, -3, 3))
    assert np.abs((values[names["b"]] - school) / scales).max() > 100
    for name in ("length_log__", "t_log__", "school"):  # these are near, and stay
        np.testing.assert_allclose(near[names[name]], values[names[name]])
