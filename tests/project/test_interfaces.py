"""Parts that can be exchanged: a toy of each through its interface, most without a compiler."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

from pymc_sgmcmc import SGNHT
from pymc_sgmcmc._utils.coordinates import Coordinates
from pymc_sgmcmc._utils.metric import Dense, Metric, identity
from pymc_sgmcmc.posterior import gradient_estimator
from pymc_sgmcmc.posterior.batch_sources import Random
from pymc_sgmcmc.posterior.gradient_estimator import Estimator
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.rows.readers import stand_for
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

    def exact(target, start, rng, metric):
        calls.append(metric)
        precision = 1 + X @ X
        centre = np.array([2 * X @ X / precision])
        value, gradient = target.value_and_gradient(centre)
        return Located(
            Coordinates(centre, Dense(np.eye(1) / np.sqrt(precision))), 0.0, value, gradient
        )

    tuner = simple_tuner(target, locator=exact)
    untuned = Tuned.untuned((), Coordinates(np.zeros(1), identity(1, dense=True)))
    tuned = tuner.start(untuned, np.zeros(1), np.random.default_rng(0))
    assert calls == [untuned.coordinates.metric] and tuned.decrement == 0.0
    np.testing.assert_allclose(tuned.coordinates.centre, 2 * X @ X / (1 + X @ X))
    np.testing.assert_allclose(tuned.curvature, 1.0, rtol=1e-4)  # z is about N(0, 1)


class SecondOrder:
    """Gradient and second derivative of each row at the anchor: no noise in a linear regression."""

    any_length = frozenset({"g", "H"})

    def numbers(self, of):
        slope = of.anchor[0]
        g, G = (slope * X - 2 * X) * X, of.anchor_gradient
        return {"anchor": of.anchor, "anchor_gradient": G, "g": g, "H": X * X}

    def corrected(self, gradient, batch, numbers, on):
        (rows,), (weight,) = batch.rows, batch.weights
        moved = batch.q - numbers["anchor"]
        expansion = weight * pt.sum(numbers["g"][rows] + numbers["H"][rows] * moved)
        whole = pt.sum(numbers["H"]) * moved
        return gradient - on * (expansion - whole - numbers["anchor_gradient"])


def test_a_control_variate_that_knows_second_derivatives(monkeypatch):
    made = lambda target, source: SecondOrder()  # noqa: E731
    monkeypatch.setattr(gradient_estimator, "control_variate_of", made)
    target, anchor, q = target_of(batch_size=2), np.array([1.3]), np.array([0.4])
    estimator = Estimator(target, Random(target.groups, [2]), None, control=True)
    frame = SimpleNamespace(order=1, anchor=anchor, anchor_gradient=target.batched_gradient(anchor))
    symbols = estimator.symbols(frame)
    assert symbols["H"].type.shape == (None,) and symbols["anchor"].type.shape == (1,)
    numbers = {name: pt.as_tensor(value) for name, value in estimator.numbers(frame).items()}
    for rows in ([0, 1], [7, 7]):
        _, gradient = estimator.bind(numbers)(pt.as_tensor(q), [pt.as_tensor(rows)], [N / 2])
        found, (_, exact) = gradient.eval(mode="FAST_COMPILE"), target.value_and_gradient(q)
        np.testing.assert_allclose(found, exact)


@dataclass(frozen=True, eq=False)
class Stretched(Metric):
    """L = diag(scales) (1 + length w w'), with |w| = 1: neither dense nor diagonal."""

    own: np.ndarray
    w: np.ndarray
    length: np.ndarray

    def _stretch(self, x, length):
        return x + length * (x @ self.w)[..., None] * self.w

    def times(self, z):
        return self.own * self._stretch(z, self.length)

    def pull(self, gradient):
        return self._stretch(self.own * gradient, self.length)

    def solve(self, difference):
        return self._stretch(difference / self.own, -self.length / (1 + self.length))

    @property
    def scales(self):
        L = self.times(np.eye(len(self.own))).T
        return np.linalg.norm(L, axis=1)


STRETCHED = Stretched(np.array([0.5, 2.0, 1.0]), np.array([0.6, -0.8, 0.0]), np.array(3.0))
L = np.diag(STRETCHED.own) @ (np.eye(3) + 3 * np.outer(STRETCHED.w, STRETCHED.w))


def three_slopes():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, 3)) @ np.linalg.inv(L)
    with pm.Model() as model:
        b = pm.Normal("b", 0, 5, shape=3)
        pm.Normal("y", x @ b, 1.0, observed=x @ [1.0, -1.0, 2.0] + rng.normal(size=40))
    return model


def test_a_metric_of_another_form():
    z, centre = np.array([0.3, -1.0, 0.5]), np.array([1.0, 2.0, 3.0])
    coordinates = Coordinates(centre, STRETCHED)
    np.testing.assert_allclose(coordinates.position(z), centre + L @ z)
    np.testing.assert_allclose(coordinates.of(centre + L @ z), z)
    model = three_slopes()
    target = Target(model, model.continuous_value_vars, backend=INTERPRETED)
    estimator = Estimator(target, Random((), ()), STRETCHED, control=False)
    numbers = estimator.numbers(SimpleNamespace(coordinates=coordinates))
    symbols = {name: pt.as_tensor(value) for name, value in numbers.items()}
    value, gradient = estimator.bind(symbols)(pt.as_tensor(z), [], [])
    found = pytensor.function([], [value, gradient], mode="FAST_COMPILE")()
    u, g = target.value_and_gradient(centre + L @ z)
    np.testing.assert_allclose(found[0], u)
    np.testing.assert_allclose(found[1], L.T @ g)


@pytest.mark.statistics
@pytest.mark.parametrize("settings", [{"batch_size": 8}, {}])
def test_draws_with_a_metric_of_another_form_are_those_of_the_same_dense_one(settings):
    found = []
    for metric in (STRETCHED, Dense(L)):
        with three_slopes():
            step = SGNHT(step_size=0.2, metric=metric, **settings)
            idata = pm.sample(
                step=step, draws=20, tune=10, chains=1, cores=1, random_seed=3,
                progressbar=False, compute_convergence_checks=False,
            )  # fmt: skip
        found.append(idata.posterior["b"].values)
    np.testing.assert_allclose(*found, rtol=1e-8)
    assert np.std(found[0]) > 0.1


class OnDisk:
    """Rows of a file of NumPy's, which are read when they are asked for."""

    def __init__(self, path):
        self._rows = np.load(path, mmap_mode="r")
        self.shape, self.read_so_far = self._rows.shape, 0

    def read(self, rows):
        self.read_so_far += rows.size
        return np.asarray(self._rows[rows])


def logistic_with_groups(folder, held):
    """Data of 600 rows, of which the model holds the first `held`; None: all, in memory."""
    rng = np.random.default_rng(2)
    X, group = rng.normal(size=(600, 2)), rng.integers(4, size=600)
    y = (rng.random(600) < 1 / (1 + np.exp(-X[:, 0] - 0.3 * group))).astype("int8")
    readers = {}
    with pm.Model() as model:
        data = {}
        for name, array in {"X": X, "group": group, "y": y}.items():
            data[name] = pm.Data(name, array[:held])
            if held is not None:
                np.save(folder / f"{name}.npy", array)
                readers[name] = OnDisk(folder / f"{name}.npy")
                stand_for(readers[name], data[name])
        beta, effect = pm.Normal("beta", shape=2), pm.Normal("effect", shape=4)
        logit = (2 * data["X"]) @ beta + effect[data["group"]]
        pm.Bernoulli("labels", logit_p=logit, observed=data["y"])
    return model, readers


@pytest.mark.parametrize("settings", [
    pytest.param({}, marks=pytest.mark.statistics),
    {"step_size": 0.05, "batch_size": 7, "gradient": "control_variate"},
])  # fmt: skip
@pytest.mark.compiled
def test_rows_that_are_read_give_the_draws_of_rows_in_memory(settings, tmp_path):
    found = []
    for held in (None, 300):
        model, readers = logistic_with_groups(tmp_path, held)
        with model:
            step = SGNHT(**settings)
            idata = pm.sample(
                step=step, draws=15, tune=110, chains=1, cores=1, random_seed=3,
                progressbar=False, compute_convergence_checks=False,
            )  # fmt: skip
        assert list(step.target.check_lengths()) == [600]
        found.append(idata.posterior)
    assert all(reader.read_so_far > 1000 for reader in readers.values())
    for name in ("beta", "effect"):
        np.testing.assert_array_equal(*(of[name].values for of in found))


def test_rows_that_are_read_and_cannot_be():
    few, many = (pytensor.shared(np.zeros((n, 2)), name="X") for n in (3, 300))
    for data, shape in ((few, (900, 2)), (many, (900, 4)), (many, (200, 2))):
        with pytest.raises(ValueError, match=r"X has shape \(30*, 2\), and all rows have shape"):
            stand_for(SimpleNamespace(shape=shape), data)


def test_blocks_are_of_data_in_memory(tmp_path):
    model, _ = logistic_with_groups(tmp_path, 300)
    with model, pytest.raises(ValueError, match=r"those of \['labels'\] are not in memory"):
        SGNHT(batches="blocks")
