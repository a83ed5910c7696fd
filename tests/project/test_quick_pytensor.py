"""What the tests do without in PyTensor changes nothing."""

import numpy as np
import pytensor.tensor as pt
import pytest

NUMBERS = [0.0, 1.0, -1.0, np.nan, np.inf, -np.inf]


@pytest.mark.parametrize("one", NUMBERS)
@pytest.mark.parametrize("other", NUMBERS)
def test_numbers_are_equal_as_numpy_has_it(one, other):
    """Not a number is the same as itself, so that constants are merged."""
    one, other = pt.constant(one), pt.constant(other)
    assert one.equals(other) == np.array_equal(one.data, other.data, equal_nan=True)


def test_constants_of_other_types_and_shapes_differ():
    one, row = pt.constant(1, dtype="int64"), pt.constant([1], dtype="int64")
    assert one.equals(pt.constant(1, dtype="int64"))
    assert row.equals(pt.constant([1], dtype="int64"))
    for other in (pt.constant(1, dtype="int8"), pt.constant(1.0), row, pt.constant([2], "int64")):
        assert not one.equals(other)
        assert not other.equals(one)


def test_no_lines_are_remembered():
    x = pt.vector("x")
    assert x.tag.trace == [] and (x + 1).owner.inputs[0].tag.trace == []
