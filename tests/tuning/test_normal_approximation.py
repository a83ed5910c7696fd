"""The nearest normal distribution, and where its search leads."""

from functools import cache

import numpy as np
import pymc as pm
import pytest

import pymc_sgmcmc.posterior.target
from pymc_sgmcmc.posterior.effects import inform
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.tuning.information import informed
from pymc_sgmcmc.tuning.normal_approximation import nearest_normal
from tests.tiers import statistics_but

N, G = 3000, 60
GROUP = np.random.default_rng(0).integers(G, size=N)
X = np.random.default_rng(1).normal(size=(N, 2))
EFFECTS = 0.5 * np.random.default_rng(2).normal(size=G)
Y = np.random.default_rng(3).normal(0.3 + EFFECTS[GROUP] + X @ [0.7, -0.2])
FEW = 6
OF_FEW = GROUP % FEW
Y_OF_FEW = np.random.default_rng(7).normal(np.array([-2.1, 0.4, -3.1, -0.1, 1.0, 2.5])[OF_FEW])
B = np.random.default_rng(4).random(N) < 1 / (1 + np.exp(-EFFECTS[GROUP]))


def known_scales():
    mean = pm.Normal("b", shape=2)
    pm.Normal("y", X @ mean + pm.Normal("a", 0.3, 0.5, shape=G)[GROUP], 1.0, observed=Y)


def centred():
    a = pm.Normal("a", 0, pm.HalfNormal("t"), shape=G)
    pm.Bernoulli("y", logit_p=X @ pm.Normal("b", shape=2) + a[GROUP], observed=B)


def not_centred():
    a = pm.HalfNormal("t") * pm.Normal("z", shape=G)
    pm.Bernoulli("y", logit_p=X @ pm.Normal("b", shape=2) + a[GROUP], observed=B)


def few_centred():
    a = pm.Normal("a", pm.Normal("m"), pm.HalfNormal("t"), shape=FEW)
    pm.Normal("y", a[OF_FEW], pm.HalfNormal("s"), observed=Y_OF_FEW)


def few_not_centred():
    a = pm.HalfNormal("t") * pm.Normal("z", shape=FEW)
    pm.Normal("y", a[OF_FEW], pm.HalfNormal("s"), observed=Y_OF_FEW)


@cache
def target_of(build):
    """The target of a model, made once, as for a chain, with second derivatives at any size."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pymc_sgmcmc.posterior.target, "CURVED_FROM", 0)
        with pm.Model() as model:
            build()
        of_model = Target(
            model, model.value_vars, batch_size=100, with_predictors=True, partial_centring=True
        )
        target = informed(of_model)
    assert target.is_structured
    return target


def found(target, seed=0, start=0.0):
    rng = np.random.default_rng(seed)
    point = target.initial + start + rng.uniform(-1, 1, size=target.size)
    with np.errstate(all="ignore"):
        return nearest_normal(target, point, rng)


def place(target, name):
    names = [var.name for var in target.vars]
    return int(np.sum(target.energy.sizes[: names.index(name)]))


@pytest.mark.compiled
@pytest.mark.parametrize("start", [0.0, 1000.0])
def test_a_normal_posterior_is_found(start):
    target = target_of(known_scales)
    normal = found(target, start=start)
    A = np.zeros((N, 2 + G))
    A[:, :2], A[np.arange(N), 2 + GROUP] = X, 1.0
    precision = A.T @ A + np.diag(np.r_[np.ones(2), np.full(G, 4.0)])
    mean = np.linalg.solve(precision, A.T @ Y + np.r_[np.zeros(2), np.full(G, 4.0 * 0.3)])
    if target.vars[0].name == "a":
        order = np.r_[2 : 2 + G, :2]
        precision, mean = precision[order][:, order], mean[order]
    np.testing.assert_allclose(normal.precision.toarray(), precision, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(normal.mean, mean, atol=1e-3)
    assert normal.passes < 8


@pytest.mark.compiled
@pytest.mark.parametrize("build", statistics_but([not_centred], [centred, not_centred]))
def test_a_scale_has_the_mass_and_not_the_mode(build):
    """The joint mode is at t = 0 if effects are centred, and far too large if they are not.

    The marginal likelihood of t, by quadrature over each effect where slopes are at their mean, is
    the reference: its mean and sd of log t.
    """
    target = target_of(build)
    log_t, z = place(target, "t_log__"), place(target, "b")
    nodes, weights = np.polynomial.hermite_e.hermegauss(30)
    for seed in (0, 1):
        normal = found(target, seed)
        eta = X @ normal.mean[z : z + 2]
        grid = np.linspace(-2.2, 0.2, 60)
        log_density = []
        for value in grid:
            logits = eta[:, None] + np.exp(value) * nodes
            rows = np.where(B[:, None], -np.logaddexp(0, -logits), -np.logaddexp(0, logits))
            of_groups = np.zeros((G, len(nodes)))
            np.add.at(of_groups, GROUP, rows)
            top = of_groups.max(axis=1)
            inside = np.log(np.exp(of_groups - top[:, None]) @ weights) + top
            log_density.append(inside.sum() - np.exp(2 * value) / 2 + value)
        p = np.exp(np.array(log_density) - max(log_density))
        p /= p.sum()
        mean = p @ grid
        sd = np.sqrt(p @ (grid - mean) ** 2)
        # Near enough is one sd, and the reference is normal in log t only nearly.
        assert abs(normal.mean[log_t] - mean) < 1.5 * sd, (normal.mean[log_t], mean, sd)
        assert normal.distance < 1 and normal.passes <= 60


@pytest.mark.compiled
def test_a_start_that_is_not_finite_is_said():
    target = target_of(centred)
    point = target.initial.copy()
    point[place(target, "t_log__")] = -800.0
    with np.errstate(all="ignore"):
        assert nearest_normal(target, point, np.random.default_rng(0)) is None


@pytest.mark.compiled
@pytest.mark.parametrize("factor", [0.1, 1.0, 1e60])
@pytest.mark.parametrize("build", [few_centred, few_not_centred])
def test_effects_are_found_where_the_guess_of_what_rows_say_is_wrong(build, factor):
    """The coordinates depend on it, the posterior does not. Data may change after it was made."""
    target = target_of(build)
    (own,) = target.centring.effects
    known = own.information.get_value()
    assert ((known > 200) & (known < 1000)).all()  # 500 rows each, with a variance of 1
    try:
        inform(own, factor * known)
        normal = found(target)
    finally:
        inform(own, known)
    assert normal.distance < 1 and normal.passes < 15
    values = target.energy.values_at(target.centring.values(normal.mean))
    by_name = {var.name: value for var, value in values.items()}
    effects = by_name["a"] if build is few_centred else np.exp(by_name["t_log__"]) * by_name["z"]
    # Rows have sd 1 around them, and the prior hardly matters: see how many rows there are.
    for k, effect in enumerate(effects):
        rows = Y_OF_FEW[OF_FEW == k]
        assert abs(effect - rows.mean()) < 1.5 / np.sqrt(len(rows))
