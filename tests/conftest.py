"""What is true of all tests: graphs are many, and several processes may share the tests."""

import gc
import os
import time
from pathlib import Path
from urllib.parse import quote

import pytensor
import pytest

gc.set_threshold(100_000, 20, 50)  # the collector took a fifth of the time
pytensor.config.traceback__limit = 0  # where each variable of a graph was made
pytensor.config.on_opt_error = "raise"  # else a failed rewrite is a traceback on the user's screen


@pytest.fixture(autouse=True, scope="module")
def frozen_heap():
    """What PyMC imports, and earlier files leave, is not searched for cycles again and again."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure():
    gc.freeze()  # nor all that is left, when the interpreter ends


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Of two processes that share tests, the second begins with the last: they meet once.

    Taking turns, both would compile what the tests of a file have in common.
    """
    if (folder := os.environ.get("SHARED_TESTS")) is not None:
        try:
            Path(folder).mkdir()
        except FileExistsError:
            items.reverse()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Skip what another process has begun that has the same folder in SHARED_TESTS.

    And what has not begun by TESTS_UNTIL, in seconds since 1970: one process says so of each.
    """
    if (folder := os.environ.get("SHARED_TESTS")) is not None:
        try:
            Path(folder, quote(item.nodeid, safe="")).mkdir()
        except FileExistsError:
            pytest.skip("another process has it")
    if time.time() > float(os.environ.get("TESTS_UNTIL", "inf")):
        pytest.skip("NOT RUN: no time left")
