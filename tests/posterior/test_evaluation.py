"""Small batches are evaluated without what is exact, where that is dear."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from pymc_sgmcmc.posterior import evaluation
from pymc_sgmcmc.posterior.evaluation import DEAR, count_operations
from pymc_sgmcmc.posterior.target import Target
from tests.helpers import INTERPRETED

N = 12
X = np.random.default_rng(0).normal(size=N)


class Counted(Op):
    """x, and how often it was computed."""

    calls = 0

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        Counted.calls += 1
        outputs[0][0] = np.array(inputs[0])

    def L_op(self, inputs, outputs, gradients):
        return gradients

    def grad(self, inputs, gradients):
        return gradients

    pullback = L_op


def target_of():
    with pm.Model() as model:
        slope = pm.Normal("slope")
        pm.Potential("exact", -((Counted()(slope) - 1.0) ** 2))
        pm.Normal("y", slope * X, 1.0, observed=X)
    return Target(model, model.continuous_value_vars, batch_size=3, backend=INTERPRETED)


def calls_of(target, use):
    before = Counted.calls
    use(target)
    return Counted.calls - before


BATCHES = [np.array([k, 3, 3]) for k in range(5)]


@pytest.mark.parametrize(("dear", "expected"), [(1, 0), (2**60, len(BATCHES))])
def test_batches_leave_out_what_is_exact_where_it_is_dear(dear, expected, monkeypatch):
    monkeypatch.setattr(evaluation, "DEAR", dear)
    target, q = target_of(), np.array([0.3])
    target.warm_up(q)
    each = calls_of(target, lambda t: t.value_and_gradient(q, BATCHES[:1]))
    assert each > 0
    found = calls_of(target, lambda t: [t.row_gradient(q, 0, rows) for rows in BATCHES])
    assert found == expected * each


def test_the_gradients_are_the_same(monkeypatch):
    usual, q = target_of(), np.array([0.3])
    monkeypatch.setattr(evaluation, "DEAR", 1)
    apart = target_of()
    for rows in BATCHES:
        np.testing.assert_allclose(apart.row_gradient(q, 0, rows), usual.row_gradient(q, 0, rows))
        np.testing.assert_allclose(
            apart.value_and_gradient(q, [rows])[1], usual.value_and_gradient(q, [rows])[1]
        )
    np.testing.assert_allclose(apart.value_and_gradient(q)[1], usual.value_and_gradient(q)[1])
    np.testing.assert_allclose(apart.batched_gradient(q), usual.batched_gradient(q))


def gaussian_process(points, length):
    x = pm.Data("x", np.linspace(0, 1, points))
    distance = (x[:, None] - x) ** 2
    cov = pt.exp(-distance / length**2) + 0.1 * pt.eye(points)
    pm.MvNormal("g", np.zeros(points), cov, observed=np.zeros(points))


def many_effects(points, length):
    """200 vectors of 5, with their covariance."""
    chol, *_ = pm.LKJCholeskyCov("chol", n=5, eta=2, sd_dist=pm.HalfNormal.dist(1.0))
    pm.MvNormal("effects", np.zeros(5), chol=chol, shape=(points, 5))


@pytest.mark.parametrize(
    ("exact", "points", "dear"),
    [(gaussian_process, 300, True), (gaussian_process, 20, False), (many_effects, 200, False)],
)
@pytest.mark.compiled
def test_what_is_dear(exact, points, dear):
    with pm.Model() as model:
        length = pm.HalfNormal("length")
        exact(points, length)
        pm.Normal("y", length * X, 1.0, observed=X)
    target = Target(model, model.continuous_value_vars, batch_size={"y": 3}, backend=INTERPRETED)
    assert (count_operations(target.energy) >= DEAR) == dear
