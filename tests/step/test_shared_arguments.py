"""`Arguments`, given values in, their meaning out: no step method, nothing compiled."""

from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest

from pymc_sgmcmc import CyclicalCosine
from pymc_sgmcmc.posterior.batch_sources import Blocks, Epochs, Random
from pymc_sgmcmc.step.arguments import DENSE, MANY_ROWS, PLAIN, Arguments
from pymc_sgmcmc.tuning.batch_limits import largest_batch
from pymc_sgmcmc.tuning.sparse_metric import SparseFactor

EMPTY = pm.Model()


def resolved(**given):
    arguments = Arguments(**given)
    return {name: getattr(arguments, name) for name in PLAIN}


def target_of(*lengths, others=(), in_batches=""):
    """A target of groups of so many rows, of which a batch has ten."""
    return SimpleNamespace(
        groups=(),
        size=1,
        others=others,
        batch_sizes=[10 for _ in lengths],
        check_lengths=lambda: np.array(lengths, dtype=int),
        others_in_batches=lambda: in_batches,
    )


def test_without_a_step_size_all_is_automatic():
    arguments = Arguments()
    assert arguments.schedule is None and arguments.tunes()
    assert set(resolved().values()) == {"auto"}


def test_with_a_step_size_all_is_plain():
    plain = {"batch_size": None, "batches": "random", "gradient": "plain", "metric": None}
    assert resolved(step_size=0.1) == plain | {"noise_estimate": 0.0}
    arguments = Arguments(step_size=0.1)
    assert not arguments.tunes() and float(arguments.schedule(np.zeros(1))[0]) == 0.1
    assert resolved(batches="epochs")["noise_estimate"] == 0.0


@pytest.mark.parametrize("given", [{"gradient": "auto"}, {"batch_size": "auto"},
    {"noise_estimate": "auto"}, {"metric": "diag"}])  # fmt: skip
def test_one_automatic_argument_is_enough_to_tune(given):
    arguments = Arguments(step_size=0.1, **given)
    assert arguments.tunes()
    plan = arguments.plan(EMPTY, target_of(100))
    assert not plan.step_size and [plan.batch_size, plan.metric, plan.noise] == [
        name in given for name in ("batch_size", "metric", "noise_estimate")
    ]
    assert plan.gradient == given.get("gradient", "plain") and plan.tolerance == 0.05


def sized(size, is_structured=False):
    return SimpleNamespace(size=size, is_structured=is_structured)


def test_what_a_measured_noise_estimate_needs():
    with pytest.raises(ValueError, match="follows the step size"):
        Arguments(step_size=CyclicalCosine(0.1, 5), noise_estimate="auto")
    with pytest.raises(ValueError, match="is for batches drawn independently"):
        Arguments(batches="epochs", noise_estimate="auto")


@pytest.mark.parametrize(("metric", "size", "shape"), [
    (None, 3, (3,)), ("diag", 3, (3,)), ("dense", 3, (3, 3)),
    ("auto", DENSE, (DENSE, DENSE)), ("auto", DENSE + 1, (DENSE + 1,)),
])  # fmt: skip
def test_coordinates_begin_as_the_identity(metric, size, shape):
    factor = Arguments(step_size=0.1, metric=metric).coordinates(sized(size)).metric.factor
    assert factor.shape == shape
    np.testing.assert_array_equal(factor, np.eye(size) if factor.ndim == 2 else np.ones(size))


def test_a_sparse_metric_needs_a_sparse_hessian():
    large = sized(DENSE + 1, is_structured=True)
    for metric, target in (("auto", large), ("sparse", large), ("sparse", sized(3, True))):
        found = Arguments(metric=metric).coordinates(target).metric
        assert isinstance(found, SparseFactor)
        np.testing.assert_array_equal(found.times(np.arange(target.size)), np.arange(target.size))
    with pytest.raises(ValueError, match="metric='sparse' needs second derivatives"):
        Arguments(metric="sparse").coordinates(sized(3))


def test_a_given_metric_is_the_covariance_of_the_coordinates():
    G = np.array([[4.0, 1.0], [1.0, 9.0]])
    factor = Arguments(step_size=0.1, metric=G).coordinates(sized(2)).metric.factor
    np.testing.assert_allclose(factor @ factor.T, G)
    variances = Arguments(step_size=0.1, metric=[4.0, 9.0]).coordinates(sized(2)).metric.factor
    np.testing.assert_array_equal(variances, [2.0, 3.0])
    for metric, match in (
        (np.ones(3), r"shape \(3,\): pass the variances of the 2"),
        (-np.eye(2), "positive"),
    ):
        with pytest.raises(ValueError, match=match):
            Arguments(step_size=0.1, metric=metric).coordinates(sized(2))


@pytest.mark.parametrize(("given", "lengths", "kind", "largest"), [
    ({}, (MANY_ROWS,), Blocks, [largest_batch(MANY_ROWS, 1)]),
    ({}, (MANY_ROWS, 99), Random, [largest_batch(MANY_ROWS, 1), 99]),
    ({}, (), Random, []),
    ({"step_size": 0.1}, (MANY_ROWS,), Random, [10]),
    ({"step_size": 0.1, "batches": "epochs"}, (50,), Epochs, [10]),
    ({"batch_size": 5}, (50,), Random, [10]),
])  # fmt: skip
def test_where_batches_come_from(given, lengths, kind, largest):
    source = Arguments(**given).source(EMPTY, target_of(*lengths))
    assert type(source) is kind and source.largest == largest


def test_a_likelihood_that_other_step_methods_move_has_plain_gradients():
    moved = target_of(100, in_batches="'theta'")
    assert Arguments().plan(EMPTY, moved).gradient == "plain"
    assert Arguments().plan(EMPTY, target_of(100)).gradient == "auto"
    with pytest.raises(ValueError, match="'theta' in it are theirs"):
        Arguments(gradient="svrg").plan(EMPTY, moved)
