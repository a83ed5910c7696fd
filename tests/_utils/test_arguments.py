"""Every argument of every public name has a row in the table; bad values are refused by name."""

import dataclasses
import inspect
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import pymc_sgmcmc
import pymc_sgmcmc.compile.backend
from pymc_sgmcmc import (
    PSGLD,
    SGHMC,
    SGLD,
    SGMCMC,
    SGNHT,
    Check,
    CyclicalCosine,
    Polynomial,
    Resumable,
    check,
    distributions,
    ksd,
    weighted_quantile,
)
from pymc_sgmcmc._utils.argument_rows import BATCH_SIZE, METRIC
from pymc_sgmcmc._utils.arguments import CheckedArguments, check_given, rows_of
from pymc_sgmcmc._utils.constraints import Either, NotTaken, Optional, Positive, Whole, Word
from pymc_sgmcmc._utils.validation import shortened
from pymc_sgmcmc.step.arguments import Arguments

FOUND = {"Algorithm", "Check", "SteinDiscrepancy"}
"""What functions return, or users derive from, and no user makes."""
FREE = {"sample_kwargs", "settings"}
"""Handed on to PyMC, or to a step method."""
NAMES = [name for name in pymc_sgmcmc.__all__ if name not in FOUND]
SAMPLERS = pymc_sgmcmc.samplers.__all__
EMBEDDED = ["RootDirichlet", "UniformSphere", "UniformStiefel", "VonMisesFisher"]


@pytest.fixture(autouse=True)
def nothing_is_done(monkeypatch):
    """No model is looked at, and nothing is compiled."""

    def function(*args, **kwargs):
        raise AssertionError("too late")

    monkeypatch.setattr(pymc_sgmcmc.compile.backend.Backend, "function", function)
    monkeypatch.setattr(pm.Model, "initial_point", function)


def arguments_of(public):
    """Those that it takes, of bases too."""
    if inspect.isclass(public) and issubclass(public, CheckedArguments):
        return public.argument_names()
    kinds = inspect.signature(public).parameters
    return [name for name in kinds if name not in FREE]


@pytest.mark.parametrize("name", NAMES)
def test_each_argument_has_a_row(name):
    public = getattr(pymc_sgmcmc, name)
    assert set(arguments_of(public)) == set(rows_of(public))


@pytest.mark.parametrize("name", EMBEDDED)
def test_each_parameter_of_a_distribution_has_a_row(name):
    public = getattr(distributions, name)
    own = set(inspect.signature(public.dist).parameters) - {"kwargs"}
    assert own == set(rows_of(public))
    others = {n for n in distributions.__all__ if not n.endswith(("RV", "Error"))}
    assert others == set(EMBEDDED)


@pytest.mark.parametrize("name", NAMES)
def test_defaults_are_accepted(name):
    public = getattr(pymc_sgmcmc, name)
    rows = rows_of(public)
    for parameter in inspect.signature(public).parameters.values():
        if parameter.default is not parameter.empty:
            rows[parameter.name].check(parameter.name, parameter.default)


DRAWN = SimpleNamespace(posterior=xr.Dataset(), sample_stats=xr.Dataset())


def required(public, name):
    """Good values of the arguments that must be given, but for `name`."""
    good = {
        "step_size": 0.1, "root": len, "D": dict, "vars": None, "conditional": len, "sampler": SGLD,
        "steps": object.__new__(SGLD),
        "a": 1.0, "initial": 1.0, "cycle": 5, "final": 2.0, "length": 9, "q": 0.5, "folder": "x",
        "draws": 5, "step": object.__new__(Resumable),
        "found": object.__new__(Check), "idata": DRAWN, "reference": DRAWN,
    }  # fmt: skip
    parameters = inspect.signature(public).parameters.values()
    return {
        p.name: good[p.name]
        for p in parameters
        if p.default is p.empty and p.name in good and p.name != name
    }


def bad_values():
    for name in NAMES:
        for argument, row in rows_of(getattr(pymc_sgmcmc, name)).items():
            for value in row.bad():
                yield name, argument, value


BAD = list(bad_values())


def test_there_are_many_bad_values():
    assert len(BAD) > 2000
    bare = [
        (name, argument)
        for name in NAMES
        for argument, row in rows_of(getattr(pymc_sgmcmc, name)).items()
        if len(row.bad()) < 3 and not isinstance(row, NotTaken)
    ]
    assert bare == []


@pytest.mark.parametrize("name", NAMES)
def test_bad_values_are_refused_by_name(name):
    public = getattr(pymc_sgmcmc, name)
    for argument, row in rows_of(public).items():
        for value in row.bad():
            given = required(public, argument)
            first = [] if argument != "others" else [given.pop("reference"), *value]
            keywords = given if argument == "others" else given | {argument: value}
            with pytest.raises((TypeError, ValueError)) as raised:
                public(*first, **keywords)
            said = str(raised.value)
            assert argument in said and "too late" not in said, (argument, value, said)
            assert len(said) < 500 and "\n" not in said


@pytest.mark.parametrize("name", EMBEDDED)
def test_bad_parameters_of_distributions(name):
    public = getattr(distributions, name)
    good = {"alpha": np.ones(3), "mu": np.array([1.0, 0.0]), "kappa": 1.0, "shape": (3, 2)}
    rows = rows_of(public)
    for argument, row in rows.items():
        for value in row.bad():
            given = {k: v for k, v in good.items() if k in rows} | {argument: value}
            with pytest.raises((TypeError, ValueError), match=argument):
                public.dist(**given)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: SGNHT(stepsize=0.1), "SGNHT.. takes no argument 'stepsize': did you mean step_s"),
        (lambda: SGHMC(frictoin=1.0), "'frictoin': did you mean friction"),
        (lambda: SGNHT(draws=10), "'draws': pass it to pm.sample"),
        (lambda: SGNHT(target_accept=0.9), "'target_accept': NUTS has it. Here bias_tolerance"),
        (lambda: PSGLD(xyz=1.0), "takes no argument 'xyz': it takes vars, decay"),
        (lambda: check(None, progresbar=True), "check.. takes no .*did you mean progressbar"),
        (lambda: ksd(), r"ksd\(\): missing a required argument: 'idata'"),
        (lambda: PSGLD(gamma="False"), "gamma='False' is not accepted: pass True or False"),
        (lambda: SGLD(jitter="no"), "jitter='no' is not accepted: pass True or False"),
        (lambda: SGLD(blocked="x"), "blocked='x' is not accepted: pass True or False"),
        (lambda: SGNHT(diffusion="x"), "diffusion='x' is not a number or an array of numbers"),
        (lambda: SGHMC(integrator=np.ones(20)), "integrator=array of shape .20,. is unknown"),
        (lambda: SGLD("a"), "vars='a' is not a list of random variables.*not their names"),
        (lambda: SGLD(temperature=np.ones((50, 50))), "temperature=.* is not a number"),
        (lambda: SGLD(step_size=0.1), "There is no model: pass model="),
    ],
)
def test_messages(call, match):
    with pytest.raises((TypeError, ValueError), match=match):
        call()


@pytest.mark.parametrize("value", [
    np.float32(0.1), np.array(0.1), 1, np.int64(1), Polynomial(0.1), CyclicalCosine(0.1, 5),
])  # fmt: skip
def test_numbers_of_numpy_are_numbers(value):
    rows_of(SGLD)["step_size"].check("step_size", value)


def test_what_is_accepted():
    for value in (np.int32(3), 10**30, "auto", {"row": None}, {"row": np.int64(2)}, None):
        BATCH_SIZE.check("batch_size", value)
    for value in ("diag", None, [1.0, 2.0], np.eye(3), ((1, 0), (0, 1))):
        METRIC.check("metric", value)
    for value in (np.True_, False):
        rows_of(SGLD)["jitter"].check("jitter", value)
    for value in (0.5, [0.1, 0.9], np.array(0.0)):
        rows_of(weighted_quantile)["q"].check("q", value)


def test_constraints_compose():
    both = Either(Word("auto"), Positive())
    assert both.words == "'auto' or a positive number"
    assert both.accepts("auto") and both.accepts(2.0) and not both.accepts(None)
    assert Optional(both).accepts(None) and all(value is not None for value in Optional(both).bad())
    assert not any(both.accepts(value) for value in both.bad())
    assert Whole(0).accepts(0) and not Whole(0).accepts(True)
    assert shortened(np.ones((50, 2))) == "array of shape (50, 2)"
    assert len(shortened("a" * 500)) == 80


def test_a_row_that_is_missing_is_seen():
    class Careless(CheckedArguments):
        def __init__(self, vars=None, *, pace=1.0):
            pass

    assert set(arguments_of(Careless)) - set(rows_of(Careless)) == {"vars", "pace"}


@pytest.mark.parametrize("public", [SGMCMC, *(getattr(pymc_sgmcmc, name) for name in SAMPLERS)])
def test_each_field_has_a_constraint(public):
    """But for what a sampler sets itself."""
    fields = dataclasses.fields(public.algorithm_class or Arguments)
    bare = {one.name for one in fields if "constraint" not in one.metadata}
    assert bare <= {"setting", "subtracts"}


def test_functions_stay_what_they_are():
    assert inspect.signature(check).parameters.keys() == {"idata", "model", "progressbar"}
    assert check.__module__ == "pymc_sgmcmc.results.check" and check.__doc__.startswith("Look for")
    assert check.__globals__ is inspect.getmodule(check).__dict__  # where doctest looks
    with pytest.raises(TypeError, match="temperature=0j is not a number"):
        check_given(SGLD, temperature=0j)
