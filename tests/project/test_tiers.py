"""A unit that compiles is seen, in C and by Numba, and names of tests hold no addresses."""

import numpy as np
import pytensor.tensor as pt
import pytest

from pymc_sgmcmc.compile.backend import Backend
from tests.conftest import compilations
from tests.helpers import INTERPRETED
from tests.tiers import name_of


def add_one(backend):
    x = pt.vector("x", dtype="float64")
    return backend.function([x], [x + 1])(np.ones(1))


@pytest.mark.compiled
@pytest.mark.parametrize(("backend", "language"), [("c", "C"), ("numba", "Numba")])
def test_the_compilers_are_watched(backend, language):
    if backend == "numba":
        import numba  # noqa: F401  # it is watched where it was there when the test began
    compilations.begin()
    assert add_one(Backend(backend))[0] == [2.0]
    assert any(entry.startswith(language) for entry in compilations.seen)


def test_what_is_interpreted_is_not_compiled():
    assert add_one(INTERPRETED)[0] == [2.0]
    assert not compilations.seen


def test_names_are_the_same_in_every_process():
    assert name_of({"logp": add_one}) == "{'logp': <function add_one>}"
