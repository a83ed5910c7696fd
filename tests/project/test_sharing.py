"""Processes that share tests: each test runs once, and one that comes too late fails."""

import os
import subprocess
import sys
import time

import pytest

from tests.project.test_documentation import ROOT

pytestmark = pytest.mark.statistics

TESTS = "def test_a(): pass\ndef test_b(): pass\n"


@pytest.fixture
def run(tmp_path):
    (tmp_path / "test_shared.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    def run(until, *names):
        command = [sys.executable, "-m", "pytest", "-p", "tests.sharing", "-p", "no:cacheprovider"]
        own = {"PYTHONPATH": str(ROOT), "TESTS_UNTIL": str(until),
               "SHARED_TESTS": str(tmp_path / "begun")}  # fmt: skip
        found = subprocess.run(
            [*command, *(f"test_shared.py::{name}" for name in names)],
            cwd=tmp_path, env=os.environ | own, capture_output=True, text=True,
        )  # fmt: skip
        return found.returncode, found.stdout

    return run


def test_what_one_has_begun_the_other_leaves(run):
    later = time.time() + 600
    status, said = run(later, "test_b")
    assert status == 0 and "1 passed" in said
    status, said = run(later)
    assert status == 0 and "1 passed, 1 skipped" in said


def test_what_none_has_begun_in_time_fails(run):
    status, said = run(time.time() - 1)
    assert status == 1 and "2 errors" in said and "NOT RUN: no time left" in said
