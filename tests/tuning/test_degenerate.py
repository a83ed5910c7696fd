"""Posteriors and data that cannot be sampled end in one error that says what is wrong with them."""

import logging
import re

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pymc.exceptions import SamplingError

import pymc_sgmcmc.compile.backend
from pymc_sgmcmc import AMAGOLD, GMC, MALA, SGHMC, SGNHT
from pymc_sgmcmc._utils.coordinates import Coordinates
from pymc_sgmcmc._utils.metric import identity, metric_of
from pymc_sgmcmc.chain.divergences import divergence_alarm
from pymc_sgmcmc.model.gradient_flow import unreached
from pymc_sgmcmc.model.log_density import log_density_terms
from pymc_sgmcmc.posterior.nonfinite import culprit, numbered, without_derivative
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.tuning.degenerate import refuse_degenerate
from pymc_sgmcmc.tuning.gradient_noise import Gradient, measure_noise
from pymc_sgmcmc.tuning.locate import Located, locate
from pymc_sgmcmc.tuning.reach import within_reach
from tests.helpers import INTERPRETED, unit_coordinates

N = 300
rng = np.random.default_rng(0)
X = rng.normal(size=N)
Y = X + rng.normal(size=N)


def target_of(model, batch_size=50):
    return Target(model, model.continuous_value_vars, batch_size=batch_size, backend=INTERPRETED)


def regression(x=X, prior=pm.Normal, **data):
    with pm.Model(coords={"row": range(N)}) as model:
        pm.Normal("o", prior("a") * pm.Data("x", x, dims="row"), 1, observed=Y, dims="row")
    return model


@pytest.fixture(autouse=True)
def few_steps(monkeypatch):
    monkeypatch.setattr("pymc_sgmcmc.tuning.adam.STEPS", 200)


def refused(model, start):
    """What is said of it, around the mode from `start`."""
    target = target_of(model)
    located = locate(target, start, np.random.default_rng(1), identity(target.size, dense=True))
    with pytest.raises(SamplingError) as raised:
        refuse_degenerate(target, start, located)
    return str(raised.value)


def uniform():
    a = pm.HalfNormal("a", 10, initval=2.0)
    pm.Uniform("o", 0, a, observed=pm.Data("y", rng.uniform(size=N), dims="row"), dims="row")


def shifted():
    y = pm.Data("y", 0.5 + np.abs(X), dims="row")
    pm.TruncatedNormal("o", 1.0, 1.0, lower=pm.Normal("a"), observed=y, dims="row")


def constant():
    y = pm.Data("y", np.full(N, 3.0), dims="row")
    pm.Normal("o", 3.0, pm.HalfNormal("a"), observed=y, dims="row")


def separated():
    y = pm.Data("y", (X > 0).astype(int), dims="row")
    pm.Bernoulli("o", logit_p=pm.Flat("b") * pm.Data("x", X, dims="row"), observed=y, dims="row")


def collinear():
    features = pm.Data("X", np.stack([X, 2 * X], 1), dims=("row", "column"))
    y = pm.Data("y", Y, dims="row")
    pm.Normal("o", features @ pm.Flat("b", shape=2), 1, observed=y, dims="row")


def without_data():
    pm.HalfFlat("a")
    pm.Normal("o", pm.Normal("b"), 1, observed=pm.Data("y", Y, dims="row"), dims="row")


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (uniform, r"edge of the support.*rises along - a_log__ .*'o' is -inf at row \d+\."),
        (shifted, r"edge of the support.*rises along a up to .*'o' is -inf at row"),
        (constant, r"improper.*along - a_log__|edge.*along - a_log__"),
        (separated, r"improper.*along b, its density does not fall"),
        (collinear, r"improper.*along -? ?b\[\d\] [-+] b\[\d\]"),
        (without_data, "improper.*along a_log__"),
    ],
)
def test_posteriors_that_cannot_be_sampled(build, said):
    with pm.Model(coords={"row": range(N), "column": range(2)}) as model:
        build()
    start = np.concatenate([np.ravel(v) for v in model.initial_point().values()])
    message = refused(model, start)
    assert re.search(said, message), message


@pytest.mark.statistics
def test_columns_that_depend_on_each_other_are_refused_from_every_start():
    """The direction without curvature is known to rounding, which counts a billion sds away."""
    x, z, noise = np.random.default_rng(13).normal(size=(3, 2000))
    with pm.Model() as model:
        b = pm.Flat("b", shape=3)
        pm.Normal("o", np.stack([x, z, x + 2 * z], 1) @ b, 1, observed=x + noise)
    target = target_of(model)
    for start in np.random.default_rng(1).uniform(-1, 1, size=(12, 3)):
        located = locate(target, start, np.random.default_rng(1), identity(target.size, dense=True))
        with pytest.raises(SamplingError, match=r"improper.*along .*b\[1\]"):
            refuse_degenerate(target, start, located)


def long_tails():
    pm.Cauchy("a", 0, 1)


def weak_prior():
    features = pm.Data("X", np.stack([X, X], 1), dims=("row", "column"))
    b = pm.Normal("b", 0, 1e6, shape=2)
    pm.Normal("o", features @ b, 1, observed=pm.Data("y", Y, dims="row"), dims="row")


def tiny_scale():
    a = pm.HalfCauchy("a", 1)
    y = pm.Data("y", 1e-9 * Y, dims="row")
    pm.Normal("o", 0, a, observed=y, dims="row")


@pytest.mark.parametrize("build", [long_tails, weak_prior, tiny_scale])
def test_proper_posteriors_are_not_refused(build):
    with pm.Model(coords={"row": range(N), "column": range(2)}) as model:
        build()
    target = target_of(model, None if build is long_tails else 50)
    start = 0.5 * np.ones(target.size)
    refuse_degenerate(
        target,
        start,
        locate(target, start, np.random.default_rng(1), identity(target.size, dense=True)),
    )


def rooted(n=N, at=123):
    x = np.abs(X[:n]) + 0.1
    x[at] = 0.0
    with pm.Model(coords={"row": range(n)}) as model:
        mean = pt.sqrt(pm.Data("x", x, dims="row") * pm.Normal("a") ** 2)
        pm.Normal("o", mean, 1, observed=np.zeros(n), dims="row")
    return model


@pytest.mark.parametrize("batch_size", [50, None])
def test_a_row_without_a_derivative_is_named(batch_size):
    target = target_of(rooted(), batch_size)
    said = culprit(target, np.array([0.7]))
    assert "'o' along a is NaN at row 123, where its value is finite" in said
    assert without_derivative(target, np.array([0.7])) == said
    assert culprit(target_of(regression()), np.array([0.7])) == ""


@pytest.mark.compiled
def test_a_row_without_a_derivative_ends_a_chain_of_fixed_steps():
    model = rooted(60, at=12)
    with model:
        step = SGHMC(step_size=0.01, friction=5.0, batch_size=20, rng=1)
    point = {"a": np.array(0.7)}
    with pytest.raises(SamplingError, match=r"'o' along a is NaN at row 12, .*drop those data"):
        for _ in range(20):
            point, _ = step.step(point)


def test_values_are_named_before_gradients():
    with pm.Model(coords={"row": range(N)}) as model:
        y = pm.Data("y", 1 + np.abs(X), dims="row")
        pm.Uniform("o", 0, pm.Normal("a", 0, 10), observed=y, dims="row")
    point = {"a": np.array(10.0)}
    target = Target(model, model.value_vars, batch_size=50, initial_point=point,
                    backend=INTERPRETED)  # fmt: skip
    highest = int(np.argmax(np.abs(X)))
    edge = 1 + np.abs(X[highest])
    assert culprit(target, np.array([edge + 1e-6])) == ""
    said = f"The log-density of 'o' is -inf at row {highest}."
    assert culprit(target, np.array([edge - 1e-6])) == said
    assert "rows" in culprit(target, np.array([1.0])) and "(300 of 300)" in culprit(
        target, np.array([1.0])
    )


def test_numbered():
    assert numbered([5], 10) == "row 5"
    assert numbered([1, 2, 3, 4], 10) == "rows 1, 2, 3, ... (4 of 10)"


def test_a_guess_is_shortened_where_it_overflows():
    """The square of an exponential: exp(exp(a)) beyond a = 6.6."""
    with pm.Model() as model:
        a, b = pm.Normal("a", 0, 1), pm.Normal("b", 0, 1)
        pm.Potential("o", -pt.exp(pt.exp(a)) * 1e-9 - b**2)
    target = target_of(model, None)
    points = np.random.default_rng(2).standard_normal((40, 2))
    guess = Coordinates(np.zeros(2), metric_of(np.diag([50.0, 1.0])))
    found = within_reach(target, guess, points)
    assert found.metric.factor[1, 1] == 1.0 and 0.5 < found.metric.factor[0, 0] < 5.0
    fine = Coordinates(np.zeros(2), metric_of(np.eye(2)))
    assert within_reach(target, fine, points) is fine


def test_points_without_gradients_are_left_out_of_the_noise():
    target, points = target_of(regression()), np.array([[0.1], [1e200], [0.2], [0.3]])
    with np.errstate(all="ignore"):
        noise = measure_noise(target, unit_coordinates(1, 2), points, {"plain": Gradient()},
                              np.random.default_rng(3))["plain"]  # fmt: skip
    assert noise.left_out == [1]
    # sum of squares of single rows' gradients x (y - a x), times N^2
    expected = N**2 * np.mean([np.var(X * (Y - a * X)) for a in (0.1, 0.2, 0.3)])
    np.testing.assert_allclose(noise.covariances[0][0, 0], expected, rtol=0.3)


def disconnected(how):
    with pm.Model(coords={"row": range(N)}) as model:
        a, b = pm.Normal("a"), pm.Normal("b")
        mean = {
            "comparison": lambda: pt.switch(a > 0, 0.2, -0.2) + b,
            "floor": lambda: pt.floor(a) + b,
            "index": lambda: b * pt.as_tensor(np.arange(3.0))[pt.clip(a, 0, 2).astype(int)],
            "rounding": lambda: pt.round(a) * b,
            "smooth": lambda: pt.switch(pm.Data("x", X, dims="row") > a, a * b, 0.0),
            "clip": lambda: pt.clip(a, -1, 1) + b,
            "shape": lambda: pt.zeros_like(a) + b,
        }[how]()
        pm.Normal("o", mean, 1, observed=pm.Data("y", Y, dims="row"), dims="row")
    return model


@pytest.mark.parametrize("how", ["comparison", "floor", "index", "rounding"])
def test_variables_that_no_gradient_reaches_are_named(how):
    model = disconnected(how)
    assert list(unreached(log_density_terms(model, {}), model.value_vars)) == [("o", ["a"])]
    with disconnected(how), pytest.raises(ValueError, match="'o' depends on 'a' through compar"):
        SGNHT()


@pytest.mark.parametrize("how", ["smooth", "clip", "shape"])
def test_variables_that_a_gradient_reaches_are_not(how):
    model = disconnected(how)
    assert list(unreached(log_density_terms(model, {}), model.value_vars)) == []


@pytest.mark.parametrize("build", [
    lambda: pm.Flat("a"),
    lambda: pm.Uniform("a", 0, 1),
    lambda: pm.Uniform("a", 0, 1, default_transform=None),
    lambda: pm.TruncatedNormal("a", 0, 1, lower=0),
    lambda: pm.Dirichlet("a", np.ones(3)),
    lambda: pm.LKJCholeskyCov("a", n=2, eta=1, sd_dist=pm.Exponential.dist(1)),
    lambda: pm.Censored("a", pm.Normal.dist(pm.Normal("m"), 1), -1, 1, observed=[0.0, 1.0]),
    lambda: pm.OrderedLogistic(
        "a", eta=pm.Normal("e"), observed=[0, 1],
        cutpoints=pm.Normal("c", [0.0, 1.0], 1, shape=2,
                            transform=pm.distributions.transforms.ordered)),
    lambda: pm.Mixture(
        "a", [0.5, 0.5], [pm.Uniform.dist(0, pm.HalfNormal("s")), pm.HalfNormal.dist(1)],
        observed=[0.5, 1.0]),
    lambda: pm.ZeroInflatedPoisson("a", pm.Beta("p", 1, 1), pm.HalfNormal("m"), observed=[0, 2]),
    lambda: pm.AsymmetricLaplace("a", kappa=pm.HalfNormal("k"), b=1, mu=0, observed=[0.5, -0.3]),
    lambda: pm.GaussianRandomWalk("a", sigma=pm.HalfNormal("s"), init_dist=pm.Normal.dist(),
                                  steps=3),
], ids=lambda build: "")  # fmt: skip
def test_usual_distributions_are_reached(build):
    with pm.Model() as model:
        build()
    assert list(unreached(log_density_terms(model, {}), model.value_vars)) == []


@pytest.mark.compiled
def test_what_corrects_itself_needs_no_gradient(monkeypatch):
    class Compiled(Exception):
        pass

    def function(self, inputs, outputs):
        raise Compiled

    monkeypatch.setattr(pymc_sgmcmc.compile.backend.Backend, "function", function)
    with disconnected("comparison"), pytest.raises(Compiled):
        MALA(step_size=0.1)
    corrects = [cls.algorithm_class.has_accept_step for cls in (GMC, AMAGOLD, SGHMC)]
    assert corrects == [True, True, False]


@pytest.mark.parametrize("likelihood", [pm.Beta, pm.Gamma])
def test_a_value_at_the_edge_of_the_support_is_named(likelihood):
    with pm.Model() as model:
        likelihood("o", pm.HalfNormal("a"), pm.HalfNormal("b"), observed=np.array([0.5, 0.0, 0.3]))
    target = target_of(model, None)
    message = culprit(target, np.array([0.5, -0.3]))
    assert re.search("log-density of 'o' is .* at row 1", message)


def test_a_chain_that_left_the_support_says_so():
    settings = {"first": True, "tuned": True, "left": "'o' is -inf."}
    told = divergence_alarm(
        "sgnht, draw 3", "the state became non-finite", 0.1, tune=False, **settings
    )
    assert "left the support. 'o' is -inf. It repeats" in told.text
    assert "bias_tolerance" not in told.text


@pytest.mark.compiled
def test_a_jittered_start_that_leads_nowhere_is_left(monkeypatch, caplog):
    with regression():
        step = SGHMC(rng=0)
    started = []
    tried = type(step.chain.parts.tuner).start

    def start(self, tuned, q, *rest):
        started.append(q)
        if len(started) == 1:
            raise SamplingError("nowhere")
        return tried(self, tuned, q, *rest)

    monkeypatch.setattr(type(step.chain.parts.tuner), "start", start)
    with caplog.at_level(logging.INFO, "pymc.sgmcmc"):
        step.step({"a": np.array(0.0)})
    assert len(started) == 2 and started[0] != started[1]
    assert "the chain starts anew, from another point. nowhere" in caplog.text


@pytest.mark.statistics
@pytest.mark.parametrize("batches", ["random", "blocks"])
def test_tuned_batches_follow_the_data(batches):
    with pm.Model(coords={"row": range(N)}):
        x, y = pm.Data("x", X, dims="row"), pm.Data("y", Y, dims="row")
        pm.Normal("o", pm.Normal("a") * x, 1, observed=y, dims="row")
        step = SGHMC(batches=batches, rng=0)
        for n in (N, 100, 30):
            pm.set_data({"x": X[:n], "y": Y[:n]}, coords={"row": range(n)})
            assert step.target.batch_sizes == [min(n, 128)]
            idata = pm.sample(step=step, draws=400, tune=200, chains=1, cores=1, random_seed=1,
                              progressbar=False, compute_convergence_checks=False)  # fmt: skip
            precision = 1 + X[:n] @ X[:n]
            draws = idata.posterior["a"].values
            # 400 draws are worth 100 at least
            off = (draws.mean() - X[:n] @ Y[:n] / precision) * precision**0.5
            assert abs(off) < 0.4 and abs(draws.std() * precision**0.5 - 1) < 0.3


def test_located_knows_the_gradient():
    target = target_of(regression())
    located = locate(
        target, np.zeros(1), np.random.default_rng(1), identity(target.size, dense=True)
    )
    assert isinstance(located, Located)
    _, gradient = target.value_and_gradient(located.coordinates.centre)
    np.testing.assert_allclose(located.gradient, gradient, atol=1e-9)
