"""The tests make thousands of graphs beside a large heap: what is not to be searched or noted."""

import gc

import pytensor
import pytest

pytensor.config.traceback__limit = 0  # where each variable of a graph was made


@pytest.fixture(autouse=True, scope="module")
def frozen_heap():
    """What PyMC imports, and earlier files leave, is not searched for cycles again and again."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure():
    gc.freeze()  # nor all that is left, when the interpreter ends
