"""Values of graphs, found node by node, are those of compiled graphs."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_sgmcmc.compile.evaluate import evaluate
from pymc_sgmcmc.posterior.target import Target
from tests.helpers import INTERPRETED


@pytest.mark.parametrize("axis", [-1, None])
def test_a_sum_of_a_number_along_its_last_axis(axis):
    """NumPy refuses it; compiled, it is the number. The density of `pm.CAR` has such sums."""
    x = pt.dscalar()
    total = pt.log(x).sum(axis=axis)
    np.testing.assert_allclose(evaluate([2 * total], {x: np.array(3.0)}), [2 * np.log(3.0)])


def test_an_operation_that_is_made_of_others():
    """As a softmax is in PyTensor 3, which compiles its graph."""
    x = pt.dvector()
    values = np.array([0.3, -1.0, 2.0])
    (found,) = evaluate([pt.special.softmax(x)], {x: values})
    np.testing.assert_allclose(found, np.exp(values) / np.exp(values).sum())


@pytest.mark.compiled
def test_a_spatial_model_has_a_target():
    W = np.eye(5, k=1) + np.eye(5, k=-1)
    with pm.Model() as model:
        phi = pm.CAR(
            "phi", np.zeros(5), W=W, alpha=pm.Beta("alpha", 2, 2), tau=pm.Exponential("tau")
        )
        pm.Poisson("y", pm.math.exp(phi[np.arange(50) % 5]), observed=np.arange(50) % 4)
    target = Target(model, model.continuous_value_vars, batch_size=10, backend=INTERPRETED)
    value, gradient = target.value_and_gradient(target.initial)
    np.testing.assert_allclose(value, -model.compile_logp()(model.initial_point()))
    assert np.isfinite(gradient).all()
