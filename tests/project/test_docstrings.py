"""Public docstrings: each has an example that runs, and documents arguments that there are.

`pytest --doctest-modules pymc_sgmcmc` runs the examples; Sphinx finds arguments that are left out.
"""

import inspect
import re

import pytest

import pymc_sgmcmc
from pymc_sgmcmc.step.step_method import SGMCMC

PUBLIC = [getattr(pymc_sgmcmc, name) for name in pymc_sgmcmc.__all__]


def documented(text):
    """The names in the Parameters section of a numpydoc docstring."""
    _, _, section = text.partition("Parameters\n----------\n")
    section = re.split(r"\n\n\w+\n--+\n", section)[0]
    lines = re.findall(r"^(\*{0,2}\w+(?:, \w+)*)(?: :|$)", section, re.M)
    return {name.strip("*") for line in lines for name in line.split(", ")}


def taken(obj):
    """The names of the arguments of a function or class; a step method's, also by **kwargs."""
    names = set(inspect.signature(obj).parameters)
    if inspect.isclass(obj) and issubclass(obj, SGMCMC):
        names |= set(inspect.signature(SGMCMC).parameters)
    return names


@pytest.mark.parametrize("obj", PUBLIC, ids=lambda obj: obj.__name__)
def test_has_an_example_that_runs(obj):
    assert ">>> " in obj.__doc__ and "+SKIP" not in obj.__doc__


@pytest.mark.parametrize("obj", PUBLIC, ids=lambda obj: obj.__name__)
def test_documents_no_argument_that_is_not_there(obj):
    assert documented(inspect.getdoc(obj)) <= taken(obj)


def test_reads_the_parameters_of_a_docstring():
    text = "Do.\n\nParameters\n----------\na, b : int\n    From c : to d.\n**rest\n    More.\n\n"
    assert documented(text + "Returns\n-------\ne : int\n    F.\n") == {"a", "b", "rest"}


def test_help_shows_the_arguments_of_step_methods():
    names = list(inspect.signature(SGMCMC).parameters)
    assert names == SGMCMC.argument_names() and names[1:3] == ["algorithm", "step_size"]
    own = ["vars", "diffusion", "thermal_mass", "thermostat", "integrator", "kwargs"]
    assert list(inspect.signature(pymc_sgmcmc.SGNHT).parameters) == own
    assert next(iter(inspect.signature(pymc_sgmcmc.gSGNHT).parameters.values())).name == "vars"
    assert list(inspect.signature(pymc_sgmcmc.Gibbs).parameters)[:2] == ["vars", "conditional"]
