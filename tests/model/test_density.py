"""Graphs of log-densities: the same values with fewer operations, far into the tails too."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.graph.traversal import applys_between
from pytensor.scalar.math import Softplus
from pytensor.tensor.elemwise import Elemwise

from pymc_sgmcmc.compile.backend import Backend
from pymc_sgmcmc.model.log_density import stabilized

LOGITS = np.array([-800.0, -40.0, -0.3, 0.0, 2.0, 38.0, 800.0])


def labels_model(labels, shape):
    with pm.Model() as model:
        logits = pm.Flat("logits", shape=shape)
        pm.Bernoulli("y", logit_p=logits, observed=labels)
    (term,) = model.logp(vars=model.observed_RVs, sum=False)
    return term, model.value_vars[0]


@pytest.mark.compiled
@pytest.mark.parametrize("backend", ["c", "numba"])
@pytest.mark.parametrize("label", [0, 1])
def test_a_bernoulli_variable_takes_one_softplus(backend, label):
    """y x - log(1 + exp(x)), and its slope y - p, without a jump between two branches."""
    term, x = labels_model(np.full(len(LOGITS), label), len(LOGITS))
    value = stabilized(term.sum())
    nodes = [node for node in applys_between([x], [value]) if isinstance(node.op, Elemwise)]
    assert sum(isinstance(node.op.scalar_op, Softplus) for node in nodes) == 1
    function = Backend(backend).function([x], [value, pt.grad(value, x)])
    value, slope = function(LOGITS)
    np.testing.assert_allclose(value, np.sum(label * LOGITS - np.logaddexp(0, LOGITS)), rtol=1e-14)
    p = np.exp(-np.logaddexp(0, -LOGITS))
    np.testing.assert_allclose(slope, label - p, rtol=1e-14, atol=1e-15)


@pytest.mark.compiled
def test_labels_of_one_logit():
    labels = np.array([1, 0, 1, 1])
    term, x = labels_model(labels, ())
    function = Backend("c").function([x], [stabilized(term.sum())])
    for logit in LOGITS:
        expected = np.sum(labels * logit - np.logaddexp(0, logit))
        np.testing.assert_allclose(function(np.array(logit))[0], expected, rtol=1e-14)
