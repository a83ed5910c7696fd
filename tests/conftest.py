"""The tests make many graphs beside a large heap: what PyMC imports is not searched for cycles."""

import gc

import pymc  # noqa: F401


def pytest_collection_finish():
    gc.collect()
    gc.freeze()


def pytest_unconfigure():
    gc.freeze()  # nor all that is left, when the interpreter ends
