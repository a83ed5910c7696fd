"""What is true of all tests: graphs are many, and small."""

import gc
import os
import sys

from tests.memory import THRESHOLDS, Growth, can_measure
from tests.precompiled import precompile, with_headers

# Most of the time would go to the compilers: they take twice as long to optimise, and twice as long
# to read headers each time.
flags = os.environ.get("PYTENSOR_FLAGS", "")
if "cxxflags" not in flags:
    flags = f"{flags},gcc__cxxflags=-g0 -O0".lstrip(",")
os.environ["PYTENSOR_FLAGS"] = with_headers(flags)
os.environ.setdefault("NUMBA_OPT", "1")

import hypothesis
import pytensor
import pytest

from tests.quick_pytensor import hasten
from tests.tiers import Compilations, sort_into_tiers

precompile()
if can_measure():  # the collector took a fifth of the time to free the cycles of graphs
    gc.set_threshold(*THRESHOLDS)
pytensor.config.on_opt_error = "raise"  # else a failed rewrite is a traceback on the user's screen
hasten()
# The same examples each time, however slow the machine is.
hypothesis.settings.register_profile("same", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("same")


@pytest.fixture(autouse=True, scope="session")
def frozen_heap():
    """What PyMC imports is not searched for cycles again and again."""
    gc.collect()
    gc.freeze()


compilations = Compilations()
growth = Growth()


def pytest_collection_modifyitems(items):
    """Units first."""
    sort_into_tiers(items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Watch the compilers, before the fixtures of a test are set up."""
    compilations.begin()
    growth.collect_where_large()
    return (yield)


@pytest.fixture(autouse=True)
def units_compile_nothing(request):
    """Compilers take seconds: what needs them has the mark."""
    yield
    if request.node.get_closest_marker("unit"):
        assert not compilations.seen, "it compiles: mark it with pytest.mark.compiled"


def pytest_runtest_setup(item):
    """Skip what is about our additions to PyTensor where they are left out."""
    if item.get_closest_marker("additions"):
        from pymc_sgmcmc.compile.additions import is_plain

        if is_plain():
            pytest.skip("PYMC_SGMCMC_PLAIN leaves out what this tests")


@pytest.fixture(autouse=True)
def no_fallback():
    """Nothing but tests of the fallback has it: they take back what it said."""
    yield
    ours = sys.modules.get("pymc_sgmcmc.compile.additions")
    said = ours.SAID.copy() if ours else ()
    if ours:
        ours.SAID.clear()
    assert not said


def pytest_unconfigure():
    gc.freeze()  # nor all that is left, when the interpreter ends
