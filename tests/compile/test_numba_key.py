"""Code that Numba has compiled is stored under a key of its source and place."""

import sys
from types import SimpleNamespace

import pytest

from pymc_sgmcmc.compile import numba_key as of_keys
from pymc_sgmcmc.compile.numba_key import numba_key


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module whose file has the text that is given, under the name that is given."""

    def made(name, text):
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(__file__=str(path)))
        of_keys.version_of.cache_clear()
        return name

    return made


def test_other_text_another_place_and_other_parts_have_another_key(module):
    keys = [
        numba_key(module("here", "x = 1")),
        numba_key(module("here", "x = 2")),
        numba_key(module("there", "x = 1")),
        numba_key(module("here", "x = 1"), 2),
        numba_key(module("here", "x = 1"), 2, "float32"),
    ]
    assert len(set(keys)) == 5
    assert numba_key(module("here", "x = 1")) == keys[0]
