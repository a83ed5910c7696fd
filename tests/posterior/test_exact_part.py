"""Gradient and Hessian of what is not minibatched, against differences and each other's mean."""

import numpy as np
import pymc as pm
import pytest

import pymc_sgmcmc.posterior.target
from pymc_sgmcmc.posterior.target import Target
from tests.helpers import INTERPRETED

G, N = 5, 30
GROUP = np.random.default_rng(0).integers(G, size=N)
Y = np.random.default_rng(1).normal(size=N)


def centred():
    a = pm.Normal("a", pm.Normal("m"), pm.HalfNormal("t"), shape=G)
    pm.Normal("y", a[GROUP], pm.Exponential("s", 1), observed=Y)


def student():
    tau = pm.HalfCauchy("t", 1)
    a = pm.StudentT("a", nu=3, mu=0, sigma=tau, shape=(2, G))
    pm.Normal("y", a[0, GROUP] + a[1, GROUP] * Y, 1.0, observed=Y)


def nested():
    school = pm.Normal("school", 0, pm.HalfNormal("t", 1), shape=2)
    of_class = pm.Normal("class", school[np.arange(G) % 2], pm.HalfNormal("u", 1), shape=G)
    pm.Normal("y", of_class[GROUP], 1.0, observed=Y)


def scales_by_column():
    a = pm.Normal("a", pm.Normal("m", shape=2), pm.HalfNormal("t", shape=2), shape=(G, 2))
    pm.Normal("y", a[GROUP, 0] + a[GROUP, 1] * Y, 1.0, observed=Y)


def with_a_simplex():
    w = pm.Dirichlet("w", np.ones(3))
    a = pm.Normal("a", 0, 1, shape=G)
    pm.Normal("y", a[GROUP] * 1.0, 1.0, observed=Y)
    pm.Potential("p", -((w[0] - 0.2) ** 2) * 5)


def beside_an_exact_likelihood():
    a = pm.Normal("a", 0, pm.HalfNormal("t"), shape=G)
    pm.Normal("few", a, 0.5, observed=np.linspace(-1, 1, G))
    pm.Normal("y", a[GROUP], 1.0, observed=Y)


MODELS = [
    centred, student, nested, scales_by_column, beside_an_exact_likelihood,
    pytest.param(with_a_simplex, marks=pytest.mark.statistics),
]  # fmt: skip


def exact_of(build, monkeypatch, **settings):
    monkeypatch.setattr(pymc_sgmcmc.posterior.target, "CURVED_FROM", 0)
    with pm.Model() as model:
        build()
    settings = {"batch_size": {"y": 10, "few": None}} | settings
    if build is not beside_an_exact_likelihood:
        settings["batch_size"] = 10
    target = Target(model, model.value_vars, with_predictors=True, backend=INTERPRETED, **settings)
    return target, target.exact_part


@pytest.mark.parametrize("build", MODELS)
def test_the_hessian_is_that_of_the_gradient(build, monkeypatch):
    target, exact = exact_of(build, monkeypatch)
    assert exact.is_known and target.is_structured
    q = np.random.default_rng(2).normal(size=target.size) / 2
    gradient, H = exact.mean(q[None])
    # U less its minibatched part, by the function that samples.
    _, whole = target.value_and_gradient(q)
    np.testing.assert_allclose(gradient, whole - target.batched_gradient(q), rtol=1e-9, atol=1e-9)
    width = 1e-5
    ends = [exact.gradients(q + sign * width * np.eye(target.size)) for sign in (1, -1)]
    np.testing.assert_allclose(H.toarray(), (ends[0] - ends[1]) / (2 * width), rtol=1e-5, atol=1e-5)


def test_means_over_points(monkeypatch):
    target, exact = exact_of(centred, monkeypatch)
    points = np.random.default_rng(3).normal(size=(3, target.size)) / 2
    gradient, H = exact.mean(points)
    each = [exact.mean(q[None]) for q in points]
    np.testing.assert_allclose(gradient, np.mean([g for g, _ in each], axis=0), rtol=1e-12)
    np.testing.assert_allclose(H.toarray(), np.mean([h.toarray() for _, h in each], axis=0))


def test_effects_are_tied_to_what_they_share_alone(monkeypatch):
    target, exact = exact_of(centred, monkeypatch)
    _, H = exact.mean(np.linspace(0.1, 1, target.size)[None])
    first = sum(target.energy.sizes[: [var.name for var in target.vars].index("a")])
    effects = H.toarray()[first : first + G, first : first + G]
    assert np.count_nonzero(effects) == G and np.diag(effects).all()
    assert H.toarray()[first : first + G, :2].all()


def test_data_of_an_exact_likelihood_that_change(monkeypatch):
    monkeypatch.setattr(pymc_sgmcmc.posterior.target, "CURVED_FROM", 0)
    with pm.Model() as model:
        a = pm.Normal("a", shape=G)
        pm.Normal("few", a[0], 0.5, observed=pm.Data("known", np.zeros(4)))
        pm.Normal("y", a[GROUP], 1.0, observed=Y)
        sizes = {"y": 10, "few": None}
        target = Target(model, model.value_vars, batch_size=sizes, with_predictors=True,
                        backend=INTERPRETED)  # fmt: skip
        q = np.linspace(-1, 1, G)
        for data in (np.zeros(4), np.ones(9)):
            pm.set_data({"known": data})
            target.examine()
            gradient, H = target.exact_part.mean(q[None])
            expected = q + np.r_[np.sum(q[0] - data) * 4, np.zeros(G - 1)]
            np.testing.assert_allclose(gradient, expected)
            np.testing.assert_allclose(H.toarray(), np.diag(1 + 4.0 * len(data) * (q == q[0])))


def test_many_variables_of_one_density_are_not_known(monkeypatch):
    def multivariate():
        a = pm.MvNormal("a", np.zeros(70), np.eye(70))
        pm.Normal("y", a[GROUP], 1.0, observed=Y)

    target, exact = exact_of(multivariate, monkeypatch)
    assert not exact.is_known and not target.is_structured
