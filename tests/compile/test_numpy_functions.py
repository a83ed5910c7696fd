"""What NumPy computes in one call is what PyTensor computes entry by entry."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode

from pymc_sgmcmc.compile.evaluate import evaluate
from pymc_sgmcmc.compile.in_python import interpreted
from pymc_sgmcmc.compile.numpy_functions import by_numpy

pytestmark = pytest.mark.unit

FAR = np.array([-800.0, -38.0, -37.0, -0.7, -0.693, -1e-9, 0.0, 0.3, 17.9, 18.1, 33.4, 800.0])
NEGATIVE = -np.abs(FAR)


def filled(x):
    return pt.second(x[:, None], x[None] + 1.0)


GRAPHS = {
    "softplus": (pt.softplus, FAR),
    "softplus of integers": (pt.softplus, np.arange(-40, 40, 7)),
    "log1mexp": (pt.log1mexp, NEGATIVE),
    "clip": (lambda x: pt.clip(x, -1.0, 2.0), FAR),
    "clip with limits the wrong way round": (lambda x: pt.clip(x, 2.0, -1.0), FAR),
    "clip of nan": (lambda x: pt.clip(x, -1.0, 2.0), np.array([np.nan, 3.0])),
    "integers": (lambda x: x.astype("int64"), FAR),
    "truth values": (lambda x: x.astype("bool"), FAR),
    "single precision": (lambda x: x.astype("float32"), FAR),
    "fill": (filled, FAR),
    "fill with a number": (lambda x: pt.second(x, 2.5), FAR),
    "fill a number": (lambda x: pt.second(x.sum(), x), FAR),
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", GRAPHS)
def test_values_and_types(name, dtype):
    build, values = GRAPHS[name]
    values = values.astype(dtype) if values.dtype.kind == "f" else values
    x = pt.vector(dtype=values.dtype)
    graph = build(x)
    expected = pytensor.function([x], graph, mode=Mode("py", None))(values)
    precision = 8 * np.finfo(expected.dtype).eps if expected.dtype.kind == "f" else 0
    for found in (interpreted([x], [graph])(values)[0], evaluate([graph], {x: values})[0]):
        assert found.dtype == expected.dtype and found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=precision, atol=0)


@pytest.mark.parametrize("name", ["softplus", "log1mexp", "clip", "integers", "fill"])
def test_no_entry_has_a_call_of_its_own(name):
    build, _ = GRAPHS[name]
    x = pt.dvector()
    nodes = interpreted([x], [build(x)]).maker.fgraph.toposort()
    assert any(type(node.op).__name__ == "_ByNumPy" for node in nodes)
    assert not any(by_numpy(node.op) is not node.op for node in nodes)
