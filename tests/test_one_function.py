"""Whole graphs as one function in C, whose compiled code is used again where graphs are alike."""

import numpy as np
import pytensor.tensor as pt
import pytest

from pymc_sgmcmc.compile.backend import Backend

pytestmark = pytest.mark.additions

C = Backend("c")


def test_graphs_that_differ_in_the_order_of_outputs_and_constants_have_code_of_their_own():
    """PyTensor's own key of compiled code is the same for both."""
    x = pt.dvector("x")
    more = x + np.array([1.0, 2.0])
    less = more * np.array([3.0, 4.0])
    outputs, values = (more, less), (np.array([6.0, 8.0]), np.array([18.0, 32.0]))
    for order in ((0, 1), (1, 0)):
        found = C.function([x], [outputs[i] for i in order])(np.array([5.0, 6.0]))
        np.testing.assert_array_equal(found, [values[i] for i in order])
