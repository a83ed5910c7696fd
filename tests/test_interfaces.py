"""Parts that can be exchanged: a toy of each through its interface, without a compiler."""

from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from pymc_sgmcmc._utils.coordinates import Coordinates
from pymc_sgmcmc.posterior import gradient_estimator
from pymc_sgmcmc.posterior.batch_sources import Random
from pymc_sgmcmc.posterior.gradient_estimator import Estimator
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.tuning.locate import Located
from pymc_sgmcmc.tuning.tuned import Tuned
from tests.helpers import INTERPRETED, simple_tuner

N = 10
X = np.random.default_rng(0).normal(size=N)


def target_of(batch_size=None):
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("slope") * X, 1.0, observed=2 * X)
    return Target(model, model.continuous_value_vars, batch_size=batch_size, backend=INTERPRETED)


def test_a_locator():
    """The exact posterior of a linear regression, with no search."""
    target, calls = target_of(), []

    def exact(target, start, rng, ndim):
        calls.append(ndim)
        precision = 1 + X @ X
        centre = np.array([2 * X @ X / precision])
        value, gradient = target.value_and_gradient(centre)
        return Located(Coordinates(centre, np.eye(1) / np.sqrt(precision)), 0.0, value, gradient)

    tuner = simple_tuner(target, locator=exact)
    untuned = Tuned.untuned((), Coordinates.identity(1, 2))
    tuned = tuner.start(untuned, np.zeros(1), 1.0, np.random.default_rng(0))
    assert calls == [2] and tuned.decrement == 0.0
    np.testing.assert_allclose(tuned.coordinates.centre, 2 * X @ X / (1 + X @ X))
    np.testing.assert_allclose(tuned.curvature, 1.0, rtol=1e-4)  # z is about N(0, 1)


class SecondOrder:
    """Gradient and second derivative of each row at the anchor: no noise in a linear regression."""

    by_row = frozenset({"g", "H"})

    def numbers(self, of):
        slope = of.anchor[0]
        return {"anchor": of.anchor, "g": (slope * X - 2 * X) * X, "H": X * X}

    def less_anchor(self, gradient, batch, numbers, on):
        (rows,), (weight,) = batch.rows, batch.weights
        moved = batch.q - numbers["anchor"]
        expansion = weight * pt.sum(numbers["g"][rows] + numbers["H"][rows] * moved)
        whole = pt.sum(numbers["H"]) * moved
        return gradient - on * (expansion - whole)


def test_a_control_variate_that_knows_second_derivatives(monkeypatch):
    made = lambda target, source: SecondOrder()  # noqa: E731
    monkeypatch.setattr(gradient_estimator, "control_variate_of", made)
    target, anchor, q = target_of(batch_size=2), np.array([1.3]), np.array([0.4])
    estimator = Estimator(target, Random(target.groups, [2]), moves=False, control=True)
    frame = SimpleNamespace(
        uses_control_variate=True, anchor=anchor, anchor_gradient=target.batched_gradient(anchor)
    )
    symbols = estimator.symbols(frame)
    assert symbols["H"].type.shape == (None,) and symbols["anchor"].type.shape == (1,)
    numbers = {name: pt.as_tensor(value) for name, value in estimator.numbers(frame).items()}
    for rows in ([0, 1], [7, 7]):
        _, gradient = estimator.bind(numbers)(pt.as_tensor(q), [pt.as_tensor(rows)], [N / 2])
        found, (_, exact) = gradient.eval(mode="FAST_COMPILE"), target.value_and_gradient(q)
        np.testing.assert_allclose(found, exact)
