"""Whole graphs as one function in C, whose compiled code is used again where graphs are alike."""

from ast import literal_eval

import numpy as np
import pytensor.tensor as pt
import pytest
from pytensor.graph.basic import Apply
from pytensor.graph.fg import FunctionGraph
from pytensor.link.c.op import COp

from pymc_sgmcmc.compile.backend import Backend
from pymc_sgmcmc.compile.c_linker import OneFunction
from pymc_sgmcmc.compile.compiling import compiling

pytestmark = pytest.mark.additions

C = Backend("c")


@pytest.mark.compiled
def test_graphs_that_differ_in_the_order_of_outputs_and_constants_have_code_of_their_own():
    """PyTensor's own key of compiled code is the same for both."""
    x = pt.dvector("x")
    more = x + np.array([1.0, 2.0])
    less = more * np.array([3.0, 4.0])
    outputs, values = (more, less), (np.array([6.0, 8.0]), np.array([18.0, 32.0]))
    for order in ((0, 1), (1, 0)):
        found = C.function([x], [outputs[i] for i in order])(np.array([5.0, 6.0]))
        np.testing.assert_array_equal(found, [values[i] for i in order])


class Scaled(COp):
    """A number by a factor that is in the code beside the function alone."""

    def __init__(self, factor):
        self.factor = factor

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        raise NotImplementedError

    def c_support_code(self, **kwargs):
        return f"static double pymc_sgmcmc_scaled(double x) {{ return {self.factor} * x; }}"

    def c_code(self, node, name, inputs, outputs, sub):
        (x,), (out,) = inputs, outputs
        return f"""
        Py_XDECREF({out});
        {out} = (PyArrayObject*) PyArray_SimpleNew(0, NULL, NPY_FLOAT64);
        if (!{out}) {{ {sub["fail"]} }}
        *(double*) PyArray_DATA({out}) = pymc_sgmcmc_scaled(*(double*) PyArray_DATA({x}));
        """

    def c_code_cache_version(self):
        return (1,)


@pytest.mark.compiled
def test_functions_that_differ_in_what_they_call_have_code_of_their_own():
    x = pt.dscalar("x")
    for factor in (2, 3):
        assert C.function([x], [Scaled(factor)(x)])(np.array(5.0))[0] == 5.0 * factor


def test_keys_of_compiled_code_hold_no_operations():
    """A process reads those of all modules in the cache when it first compiles."""
    x = pt.dvector("x")
    with compiling():
        linker = OneFunction().accept(FunctionGraph([x], [pt.exp(x) + np.arange(5.0)]))
        key = linker.cmodule_key()
    assert literal_eval(repr(key)) == key


@pytest.mark.compiled
def test_an_input_that_pytensor_has_forgotten():
    """Rewriting the loop of a Gaussian process, PyTensor 2 forgot an input that was not used."""
    x, unused = pt.dvector("x"), pt.dvector("unused")
    fgraph = FunctionGraph([x, unused], [x + 1], clone=False)
    del fgraph.clients[unused]
    with compiling():
        function, (given, _), (result,) = OneFunction().accept(fgraph).make_thunk()[:3]
    given.storage[0] = np.array([1.0, 2.0])
    function()
    np.testing.assert_array_equal(result.storage[0], [2.0, 3.0])
