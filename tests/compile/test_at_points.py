"""Graphs at many points at once: what they are at each by itself, whatever the operation."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.graph.replace import _vectorize_node

from pymc_sgmcmc.compile import at_points as room
from pymc_sgmcmc.compile.at_points import at_points
from pymc_sgmcmc.compile.in_python import interpreted

pytestmark = pytest.mark.unit

Q = pt.vector("q", dtype=pytensor.config.floatX, shape=(4,))
POINTS = np.random.default_rng(3).normal(size=(7, 4)).astype(Q.dtype)
START = np.zeros(4)
EPS = 100 * np.finfo(Q.dtype).eps


class Reversed(Op):
    """The entries of a vector in reverse, of each row of a matrix; or of its rows, by mistake."""

    __props__ = ()

    def __init__(self, mistake: bool):
        self.mistake, self.calls = mistake, 0

    def make_node(self, x):
        return Apply(self, [x], [x.type()])

    def perform(self, node, inputs, outputs):
        self.calls += 1
        (x,) = inputs
        outputs[0][0] = x[::-1, ::-1] if self.mistake and x.ndim == 2 else x[..., ::-1]


@_vectorize_node.register(Reversed)
def _(op, node, x):
    return op.make_node(x)


def numbers_vectors_and_matrices():
    L = pm.math.expand_packed_triangular(2, pt.exp(Q[:3]))
    return [
        pt.sum(Q**2),
        Q[:, None] * Q[None],
        Q[np.array([3, 0, 0])],
        pt.set_subtensor(pt.zeros(5)[1:4], Q[:3]),
        pt.linalg.cholesky(pt.outer(Q, Q) + 3 * pt.eye(4)),
        pt.constant(np.arange(3.0)),
        pt.cumsum(Q),
        L @ L.T,
        pytensor.grad(pt.sum(pt.special.log_softmax(Q)[:2]), Q),
    ]


def one_by_one(graphs):
    function = interpreted([Q], graphs)
    return [np.stack(values) for values in zip(*map(function, POINTS), strict=True)]


def check(graphs):
    function = at_points(Q, graphs, START)
    for found, expected in zip(function(POINTS), one_by_one(graphs), strict=True):
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=EPS, atol=EPS)


@pytest.mark.parametrize("numbers", [1, 8, 2**17])
def test_graphs_are_what_they_are_at_each_point(numbers, monkeypatch):
    monkeypatch.setattr(room, "NUMBERS", numbers)
    check(numbers_vectors_and_matrices())


@pytest.mark.planted
@pytest.mark.parametrize(("mistake", "calls"), [(False, 1), (True, len(POINTS))])
def test_points_that_an_operation_mixes_up_take_turns(mistake, calls):
    op = Reversed(mistake)
    function = at_points(Q, [op(Q)], START)
    op.calls = 0
    np.testing.assert_array_equal(function(POINTS)[0], POINTS[:, ::-1])
    assert op.calls == calls
