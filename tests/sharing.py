"""A plugin of pytest: several processes share the tests, until it is too late to begin one.

SHARED_TESTS is a folder that the first of them makes; TESTS_UNTIL is in seconds since 1970.
"""

import os
import time
from pathlib import Path
from urllib.parse import quote

import pytest

FOLDER, UNTIL = Path(os.environ["SHARED_TESTS"]), float(os.environ["TESTS_UNTIL"])


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Of two processes, the second begins with the last test: they meet once.

    Taking turns, both would compile what the tests of a file have in common.
    """
    try:
        FOLDER.mkdir()
    except FileExistsError:
        items.reverse()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Skip what another process has begun; fail what none has in time: one says so of each."""
    try:
        (FOLDER / quote(item.nodeid, safe="")).mkdir()
    except FileExistsError:
        pytest.skip("another process has it")
    if time.time() > UNTIL:
        pytest.fail("NOT RUN: no time left", pytrace=False)
