"""What type checkers are told of a sampler's arguments, against what it takes."""

import ast
import inspect
from dataclasses import fields
from typing import get_args, get_type_hints

import pytest

import pymc_sgmcmc
from pymc_sgmcmc import samplers
from pymc_sgmcmc._utils.arguments import rows_of
from pymc_sgmcmc._utils.constraints import NotTaken
from pymc_sgmcmc.compile.backend import BACKENDS
from pymc_sgmcmc.posterior.batch_sources import SOURCES
from pymc_sgmcmc.step import keywords
from pymc_sgmcmc.step.arguments import GRADIENTS, Arguments


def told(cls):
    """Return the `__init__` that checkers see: runtime has none."""
    (node,) = ast.parse(inspect.getsource(cls)).body
    (block,) = (part for part in node.body if isinstance(part, ast.If))
    assert ast.unparse(block.test) == "TYPE_CHECKING"
    (function,) = block.body
    assert function.name == "__init__"
    return function.args


def others(arguments):
    """Return the names of the shared arguments that ``**others`` stands for."""
    name = ast.unparse(arguments.kwarg.annotation).removeprefix("Unpack[").removesuffix("]")
    return set(get_type_hints(getattr(keywords, name)))


@pytest.mark.parametrize("name", samplers.__all__)
def test_checkers_know_what_it_takes(name):
    cls = getattr(pymc_sgmcmc, name)
    arguments = told(cls)
    named = {one.arg for one in arguments.kwonlyargs}
    shared = others(arguments)
    assert not named & shared
    rows = rows_of(cls)
    taken = {name for name, row in rows.items() if not isinstance(row, NotTaken)}
    assert {"vars"} | named | shared == taken


@pytest.mark.parametrize("name", samplers.__all__)
def test_checkers_know_its_defaults(name):
    cls = getattr(pymc_sgmcmc, name)
    parameters = inspect.signature(cls).parameters
    arguments = told(cls)
    for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if one.arg not in parameters:
            continue
        wanted = parameters[one.arg].default
        if default is None:
            assert wanted is inspect.Parameter.empty, one.arg
        else:
            assert ast.literal_eval(default) == wanted, one.arg


def test_checkers_know_all_shared_arguments():
    shared = {one.name for one in fields(Arguments)}
    assert shared == {"step_size", *get_type_hints(keywords.Shared)}


def test_checkers_know_the_words():
    told_of = get_type_hints(keywords.Shared)
    assert set(get_args(told_of["gradient"])) == set(GRADIENTS)
    assert set(get_args(told_of["batches"])) == {"auto", *SOURCES}
    assert set(get_args(told_of["backend"])) == set(BACKENDS)
