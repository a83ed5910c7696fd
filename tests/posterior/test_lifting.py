"""Selections inside elementwise operations: the same numbers, from fewer of them."""

import numpy as np
import pytensor.tensor as pt
import pytest
from pytensor.graph.traversal import ancestors
from pytensor.tensor.elemwise import Elemwise

from pymc_sgmcmc.compile.evaluate import evaluate
from pymc_sgmcmc.compile.pytensor_versions import GATHERS
from pymc_sgmcmc.posterior.lifting import lifted

z, r, t, m = pt.vector("z"), pt.vector("r"), pt.scalar("t"), pt.matrix("m")
g, h = pt.lvector("g"), pt.lvector("h")
VARS = [z, r, t, m]
VALUES = {
    z: np.array([0.3, -1.0, 2.0, 0.7]), r: np.array([1.0, -0.5, 0.2]), t: np.array(1.3),
    m: np.arange(12.0).reshape(4, 3) / 7,
    g: np.array([0, 3, 2, 2, 1]), h: np.array([0, 2, 1, 1, 0]),
}  # fmt: skip
GRAPHS = {
    "a scale": (t * z)[g],
    "a function": pt.exp(z)[g] * t,
    "a sum of products": (t + 2 * z * pt.exp(t))[g],
    "rows": (m * r[None, :])[g],
    "rows, one of each": (m * z[:, None])[g],
    "two indices": (m * z[:, None])[g, h],
    "two indices, of all rows": (m * pt.exp(r)[None, :])[g, h],
    "an index and a number": (m * pt.exp(r)[None, :])[g, 0],
    "columns": (m * t)[:, h],
    "a slice": (m * t)[1:],
    "a number": (z * t)[0],
    "one number": (z * t)[2:3],
    "transposed": (m * t).T[h],
    "twice": ((m * r)[g] * 2)[:, 1],
    "a stack": pt.stack([z * t, pt.exp(z)])[1, g],
    "a stack, and more": (1 + t * pt.stack([z * t, pt.exp(z)]))[0, g],
    "a stack of columns": pt.stack([z * t, pt.exp(z)], axis=1)[g, 0],
    "a stack, turned": (2 * pt.stack([z * t, pt.exp(z)])).T[g, 1],
    "a stack, summed": (pt.stack([z * t, pt.exp(z)], axis=1)[g] * m[1, :2]).sum(axis=1),
    "a stack, spread": pt.alloc(pt.stack([z * t, pt.exp(z)]), 2, 4)[1, g],
    "a new axis": (m * r)[:, None, h],
}


@pytest.mark.parametrize("name", GRAPHS)
def test_values_are_the_same(name):
    (inside,) = lifted([GRAPHS[name]], VARS)
    expected, found = evaluate([GRAPHS[name], inside], VALUES)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert inside.type.ndim == GRAPHS[name].type.ndim


@pytest.mark.parametrize("name", [name for name in GRAPHS if name != "a new axis"])
def test_no_result_is_selected(name):
    (inside,) = lifted([GRAPHS[name]], VARS)
    nodes = {x.owner for x in ancestors([inside]) if x.owner}
    wholes = [node.inputs[0] for node in nodes if isinstance(node.op, GATHERS)]
    assert not [x for x in wholes if x.owner and isinstance(x.owner.op, Elemwise)]


def test_what_does_not_depend_stays():
    graph = (z * 2)[g]
    assert lifted([graph], [t]) == [graph]
    (inside,) = lifted([graph + t], [t])
    assert inside.owner.inputs[0] is graph


def test_a_variable_that_occurs_twice_is_one_variable():
    (inside,) = lifted([(pt.exp(z) * (1 + z))[g]], VARS)
    selected = {x for x in ancestors([inside]) if x.owner and isinstance(x.owner.op, GATHERS)}
    assert len(selected) == 1
