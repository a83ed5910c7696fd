"""Numbers that Numba's scans hand to each step."""

import pickle
from importlib.util import find_spec

import numpy as np
import pytensor.tensor as pt
import pytest
from pytensor.scan.op import Scan
from pytensor.tensor.type import TensorType

from pymc_sgmcmc.compile.backend import Backend
from pymc_sgmcmc.compile.compiled_graph import CompiledGraph
from pymc_sgmcmc.compile.in_python import interpreted
from pymc_sgmcmc.compile.pytensor_versions import scan
from tests.tiers import statistics_but

pytestmark = pytest.mark.additions

NUMBA = Backend("numba")

TENSORS = {
    "number": ((), "float64"),
    "vector of one": ((1,), "float64"),
    "matrix of one": ((1, 1), "float32"),
    "integer": ((), "int64"),
    "truth": ((), "bool"),
    "vector": ((3,), "float64"),
}


def given():
    return {name: pt.tensor(name, shape=s, dtype=dtype) for name, (s, dtype) in TENSORS.items()}


def paths(x, steps, given):
    """Of vectors and of numbers, with all that is given to each step, and one that is it."""

    def step(h, q, p, _, number, one, matrix, integer, truth, vector):
        inner = scan(
            lambda r, b: r * b, outputs_info=[number * p], n_steps=3, non_sequences=[one[0]]
        )
        moved = q + h * vector * number + matrix[0] * pt.switch(truth, integer, one)
        return moved, p * number + inner[0][-1] + moved.sum(), number

    start = [x, x.sum(), pt.zeros(())]
    return scan(step, sequences=[steps], outputs_info=start, non_sequences=[*given.values()])


def arrays_of_one(function):
    """How many arrays of one number its scans hand to each step."""
    scans = [n for n in function.maker.fgraph.toposort() if isinstance(n.op, Scan)]
    handed = [x.type for n in scans for x in n.op.outer_non_seqs(n.inputs)]
    return sum(isinstance(t, TensorType) and all(t.broadcastable) for t in handed)


@pytest.mark.statistics
def test_they_are_numbers_and_the_paths_are_the_same():
    x, steps, some = pt.dvector("x"), pt.dvector("steps"), given()
    made = paths(x, steps, some)
    inputs = [x, steps, *some.values()]
    ours, own = NUMBA.function(inputs, made), interpreted(inputs, made)
    if find_spec("pytensor.tensor.rewriting.scalarize"):
        assert arrays_of_one(ours) == 0 < arrays_of_one(own)
    rng = np.random.default_rng(1)
    values = [np.asarray(3 * rng.normal(size=s), dtype) for s, dtype in TENSORS.values()]
    for truth in (True, False):
        values[list(TENSORS).index("truth")] = np.asarray(truth)
        arguments = [np.ones(3), np.linspace(0, 1, 5), *values]
        for found, expected in zip(ours(*arguments), own(*arguments), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.compiled
@pytest.mark.parametrize("name", statistics_but(["number"], TENSORS))
def test_one_alone(name):
    x, some = pt.dvector("x"), given()[name]
    [path] = scan(lambda q, c: q + c.sum(), outputs_info=[x], non_sequences=[some], n_steps=4)
    graph = CompiledGraph([x, some], [path[-1]], NUMBA)
    shape, dtype = TENSORS[name]
    value = np.full(shape, 2, dtype)
    for function in (graph, pickle.loads(pickle.dumps(graph))):
        [end] = function(np.zeros(2), value)
        np.testing.assert_allclose(end, 4.0 * value.sum())
