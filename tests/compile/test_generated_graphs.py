"""Random graphs: `python -m tests.generated_graphs --count 2000` compiles many more."""

import numpy as np
import pytensor.tensor as pt
import pytest

from tests.generated_graphs import Compiler, failures
from tests.rounding import Reference, agree

pytestmark = pytest.mark.additions


@pytest.mark.parametrize(
    "backend, seed, count",
    [
        ("c", 3, 6),
        *(pytest.param("c", seed, 50, marks=pytest.mark.statistics) for seed in range(10, 14)),
        pytest.param("numba", 20, 10, marks=pytest.mark.statistics),
    ],
)
@pytest.mark.compiled
def test_random_graphs_are_those_of_python(backend, seed, count):
    """PyTensor's own mode may differ from Python too: ours is then the same as that."""
    found = [text for text in failures(Compiler(backend), seed, count) if text[:3] != "own"]
    assert not found, "\n".join(found)


def test_rounding_is_told_from_mistakes():
    x, y = pt.dvector("x"), pt.dvector("y")
    outputs = [pt.exp(x), (x + y) - y, pt.log(x - 2), x > y]
    reference = Reference([x, y], outputs)
    values = [np.array([0.5, 1.0, 3.0]), np.array([1e9, 1e-3, 3.0])]
    exact = list(reference.bounds(values, seed=0))
    for value, bounds in exact:
        assert agree(value, value, bounds)
    exponential, difference, logarithm, larger = exact
    assert not agree(exponential[0] * (1 + 1e-12), *exponential)
    assert not agree(exponential[0].astype("float32"), *exponential)
    assert not agree(exponential[0][:2], *exponential)
    assert not agree(np.nan_to_num(logarithm[0]), *logarithm)
    assert not agree(larger[0] ^ [False, True, False], *larger)
    # What adding 1e9 loses may be lost in another way, but only there.
    lost = difference[0] + [1e-7, 0, 0]
    assert agree(lost, *difference)
    assert not agree(difference[0] + [0, 1e-7, 0], *difference)
