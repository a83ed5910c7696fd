import re
import warnings

import numpy as np
import pymc as pm
import pytest
from pymc.exceptions import ImputationWarning

import pymc_sgmcmc.compile.backend
from pymc_sgmcmc import (
    PSGHMC,
    PSGLD,
    SGHMC,
    SGLD,
    SGNHT,
    CyclicalCosine,
    GeometricAnnealing,
    Polynomial,
    PowerAnnealing,
    Santa,
)
from pymc_sgmcmc.model.errors import RowsDoNotSeparate

N = 6
SAMPLERS = [SGLD, SGHMC, SGNHT, Santa, PSGLD, PSGHMC]
NOT_POSITIVE = [0.0, -1.0, np.nan, np.inf]


class Compiled(Exception):
    pass


@pytest.fixture(autouse=True)
def nothing_is_compiled(monkeypatch):
    def function(self, inputs, outputs):
        raise Compiled("compiles")

    monkeypatch.setattr(pymc_sgmcmc.compile.backend.Backend, "function", function)


def regression(**data):
    values = {"x": np.linspace(-1, 1, N), "labels": np.arange(N) / 2} | data
    with pm.Model(coords={"row": range(N)}) as model:
        x = pm.Data("x", values["x"], dims="row")
        a, b = pm.Normal("a"), pm.Normal("b")
        pm.Normal("y", a + b * x, observed=values["labels"], dims="row")
    return model


def check_refused(error, match, model=None, sampler=SGLD, **kwargs):
    model = regression() if model is None else model
    with pytest.raises(error, match=match):
        sampler(model=model, **{"step_size": 0.01, "batch_size": 2} | kwargs)


@pytest.mark.compiled
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_good_call_reaches_the_compiler(sampler):
    check_refused(Compiled, "compiles", sampler=sampler)


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize(
    ("batch_size", "error", "match"),
    [
        (7, ValueError, "batch_size=7 is larger than the 6 rows of y: choose at most 6"),
        (0, ValueError, "batch_size=0 must be at least 1"),
        (-2, ValueError, "batch_size=-2 must be at least 1"),
        (2.5, TypeError, "batch_size=2.5 is not an integer"),
        (True, TypeError, "batch_size=True is not an integer"),
        ("a", TypeError, "batch_size='a' is not an integer"),
        ({"row": 0}, ValueError, r"batch_size\['row'\]=0 must be at least 1"),
        ({"y": 2.5}, TypeError, r"batch_size\['y'\]=2.5 is not an integer"),
        ({"rows": 2}, ValueError, r"names 'rows'.*choose from \['y', 'row'\]"),
        ({"a": 2}, ValueError, r"names 'a'.*choose from \['y', 'row'\]"),
    ],
)
def test_batch_size(sampler, batch_size, error, match):
    check_refused(error, match, sampler=sampler, batch_size=batch_size)


@pytest.mark.parametrize("observed", [None, 1.0])
def test_batch_size_without_rows(observed):
    with pm.Model() as model:
        a = pm.Normal("a")
        pm.Normal("y", a, observed=observed)
    check_refused(ValueError, "batch_size=2 .*no observed variable with rows", model)
    check_refused(ValueError, "names 'y', which is neither", model, batch_size={"y": 2})


def test_two_batch_sizes_for_the_same_rows():
    model = regression()
    with model:
        pm.Normal("z", model["a"], observed=np.zeros(N), dims="row")
    check_refused(
        ValueError, r"batch_size=\{'y': 2, 'z': 3\}.*share", model, batch_size={"y": 2, "z": 3}
    )


def test_no_rows_at_all():
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("a"), observed=np.zeros(0))
    check_refused(ValueError, "batch_size=2 is larger than the 0 rows of y", model)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_rows_that_do_not_separate(sampler):
    with pm.Model() as model:
        pm.MvNormal("y", pm.Normal("a") * np.ones(N), np.eye(N), observed=np.zeros(N))
    check_refused(RowsDoNotSeparate, "rows of 'y' do not separate", model, sampler=sampler)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_discrete_variables(sampler):
    model = regression()
    with model:
        z = pm.Bernoulli("z", 0.5)
    with pytest.raises(ValueError, match=r"discrete variables \['z'\].*pm.sample\(step="):
        sampler([model["a"], z], step_size=0.1, model=model)


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("name", ["step_size", "temperature"])
def test_positive_numbers(sampler, name):
    for value in NOT_POSITIVE:
        check_refused(
            ValueError, f"{name}={value} must be positive", sampler=sampler, **{name: value}
        )
    wrong = ["a", True, np.ones(2), 1j] + [None] * (name != "step_size")
    for value in wrong:
        check_refused(TypeError, f"^{name}=.* is not a number", sampler=sampler, **{name: value})


@pytest.mark.parametrize(
    ("sampler", "name"),
    [(SGHMC, "friction"), (SGHMC, "noise_estimate"), (SGNHT, "diffusion")],
)
@pytest.mark.compiled
def test_rates(sampler, name):
    zero = name == "noise_estimate"
    for value in NOT_POSITIVE[zero:]:
        check_refused(ValueError, f"{name}={value} must be", sampler=sampler, **{name: value})
    value = [1.0, -1.0]
    check_refused(ValueError, rf"{name}=\[1.0, -1.0\] must be", sampler=sampler, **{name: value})
    for value in (np.ones(3), np.ones((2, 2))):
        check_refused(ValueError, rf"{name} has shape .*\(2,\)", sampler=sampler, **{name: value})
    for value in ("a", [1.0, "b"], {}):
        check_refused(TypeError, f"{name}=.* is not a number", sampler=sampler, **{name: value})
    own = {"thermostat": "coordinate"} if sampler is SGNHT else {}
    check_refused(Compiled, "compiles", sampler=sampler, **{name: [0.1, 0.2]}, **own)


def test_thermal_mass():
    for value in NOT_POSITIVE:
        match = f"thermal_mass={value} must be positive"
        check_refused(ValueError, match, sampler=SGNHT, thermal_mass=value)
    for value in ("heavy", None, True):
        match = f"thermal_mass={value!r} is not a number"
        check_refused(TypeError, match, sampler=SGNHT, thermal_mass=value)


@pytest.mark.compiled
def test_noise_estimate_above_the_friction():
    match = "noise_estimate=1.5 exceeds friction x temperature = 2.0 x 0.5"
    kwargs = {"friction": 2.0, "temperature": 0.5, "sampler": SGHMC}
    check_refused(ValueError, match, noise_estimate=1.5, **kwargs)
    check_refused(Compiled, "compiles", noise_estimate=1.0, **kwargs)


@pytest.mark.parametrize(
    ("sampler", "name", "choice"),
    [
        *((sampler, "backend", "c") for sampler in SAMPLERS),
        *((sampler, "batches", "random") for sampler in SAMPLERS),
        *((sampler, "gradient", "plain") for sampler in SAMPLERS),
        *((sampler, "metric", "None") for sampler in SAMPLERS),
        (SGNHT, "thermostat", "scalar"),
    ],
)
def test_choices(sampler, name, choice):
    for value in ("nonsense", 3, ["c"]):
        match = rf"{name}=.* is unknown: choose from \[.*{choice}"
        check_refused(ValueError, match, sampler=sampler, **{name: value})


@pytest.mark.parametrize(
    ("sampler", "integrator", "match"),
    [
        (SGHMC, "leapfrog", "is unknown: a splitting is a word of the letters A, B, O, U"),
        (SGHMC, "", "is unknown"),
        (SGHMC, 3, "is unknown"),
        (SGHMC, ["BAOAB"], "is unknown"),
        (SGHMC, "BADODAB", "is unknown.*letters A, B, O, U"),
        (SGHMC, "AFKFA", "is unknown"),
        (SGHMC, "BAB", "lacks O or U"),
        (SGHMC, "AOA", "lacks B"),
        (SGHMC, "BOB", "lacks A or U"),
        (SGHMC, "ABAOABA", "kicks at several positions: an inner step has one gradient"),
        (SGHMC, "UABAU", "has U, which is a drift with friction and noise already"),
        (SGHMC, "OUBUO", "has U, which is"),
        (SGHMC, "BAO", "is not symmetric, and so of first order only.*a word: BAOAB, ABOBA"),
        (SGHMC, "AOABO", "is not symmetric"),
        (SGNHT, "ABOBA", "lacks D.*a word: BADODAB, ABDODBA"),
        (SGNHT, "BADOAB", "is not symmetric"),
    ],
)
def test_splittings(sampler, integrator, match):
    match = rf"integrator={re.escape(repr(integrator))} {match}"
    check_refused(ValueError, match, sampler=sampler, integrator=integrator)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_steps_per_draw(sampler):
    for value in (0, -1):
        match = f"steps_per_draw={value} must be at least 1"
        check_refused(ValueError, match, sampler=sampler, steps_per_draw=value)
    for value in (1.5, True, "a", None):
        match = f"steps_per_draw={value!r} is not an integer"
        check_refused(TypeError, match, sampler=sampler, steps_per_draw=value)


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("name", ["batchsize", "learning_rate", "target_accept"])
def test_unknown_arguments(sampler, name):
    check_refused(TypeError, name, sampler=sampler, **{name: 2})


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_the_initial_point(value):
    point = {"a": np.array(value), "b": np.array(0.0)}
    check_refused(ValueError, "'a' is not finite at the initial point", initial_point=point)


def test_the_initial_point_is_incomplete():
    check_refused(ValueError, r"initial_point.* lacks \['b'\]", initial_point={"a": np.array(0.0)})


def test_data_outside_the_support():
    with pm.Model() as model:
        pm.Exponential("y", pm.HalfNormal("rate"), observed=[1.0, -1.0, 2.0])
    match = r"data of 'y' are outside the support of .* Exponential, in 1 of 3 rows: row 1 \(-1\.\)"
    check_refused(ValueError, match, model)


def test_missing_covariates():
    x = np.linspace(-1, 1, N)
    x[2] = np.nan
    model = regression()
    model["x"].set_value(x)
    for batch_size in (2, None):
        check_refused(ValueError, "The data x of 'y' hold 1 NaN", model, batch_size=batch_size)
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("a") * x, observed=np.zeros(N))
    check_refused(ValueError, "of 'y' hold 1 NaN", model)


@pytest.mark.compiled
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("batch_size", [2, None])
def test_missing_observations_are_imputed(masked, batch_size):
    labels = np.arange(N) / 2
    if masked:
        labels = np.ma.masked_array(labels, labels > 2)
    else:
        labels[3] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ImputationWarning)
        model = regression(labels=labels)
    check_refused(Compiled, "compiles", model, batch_size=batch_size)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_nothing_to_sample(sampler):
    with pm.Model() as model:
        pass
    check_refused(ValueError, "to sample", model, sampler=sampler, batch_size=None)
    with model:
        pm.Bernoulli("z", 0.5)
    check_refused(ValueError, "to sample", model, sampler=sampler, batch_size=None)
    check_refused(ValueError, "to sample", sampler=sampler, vars=[])


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_outside_a_model(sampler):
    with pytest.raises(TypeError, match="model"):
        sampler(step_size=0.1)


def batched(size=2, **kwargs):
    with pm.Model() as model, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "total_size not provided")
        y = pm.Minibatch(np.arange(N) / 2, batch_size=size)
        pm.Normal("y", pm.Normal("a"), observed=y, **kwargs)
    return model


def of_two_minibatches():
    with pm.Model() as model:
        x, y = (pm.Minibatch(np.arange(N) / 2, batch_size=2) for _ in range(2))
        pm.Normal("y", pm.Normal("a") * x, observed=y, total_size=N)
    return model


def of_a_part(build):
    with pm.Model() as model:
        x, y = pm.Minibatch(np.ones((N, 3)), np.arange(N) / 2, batch_size=2)
        build(pm.Normal("a"), x, y)
    return model


def local(a, x, y):
    pm.Normal("y", pm.Normal("b", a, shape=y.shape), observed=y, total_size=N)


def potential(a, x, y):
    pm.Potential("y", -((a - y) ** 2))


def fixed_shape(a, x, y):
    pm.Normal("y", a, observed=y, shape=2, total_size=N)


def columns(a, x, y):
    pm.Normal("y", a, observed=x, total_size=[N, 9])


def drawn_by_hand():
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("a"), observed=np.zeros(3), total_size=N)
    return model


@pytest.mark.parametrize(
    ("model", "batch_size", "match"),
    [
        (
            lambda: batched(total_size=N),
            3,
            r"batch_size=3 is given .* of its own \(2\): leave it out",
        ),
        (batched, None, rf"'y' depends on a pm.Minibatch and has no total_size.*total_size={N}"),
        (lambda: batched(total_size=7), None, rf"total_size=7 of 'y' is not .* rows, {N}: give it"),
        (of_two_minibatches, None, r"'y' mixes 2 calls of pm.Minibatch.*Draw its data together"),
        (lambda: of_a_part(local), None, "free variable 'b' depends on a pm.Minibatch.*Marginalis"),
        (lambda: of_a_part(potential), None, "Potential 'y' depends on a pm.Minibatch.*CustomDist"),
        (lambda: of_a_part(fixed_shape), None, "'y' cannot be built on all rows.*Do not write the"),
        (lambda: of_a_part(columns), None, "total_size=9 on axis 1 of 'y', which has length 3: on"),
        (
            lambda: batched(size=7, total_size=N),
            None,
            f"batch_size=7 is larger than the {N} rows of y: choose at most {N}, or write the mod",
        ),
        (drawn_by_hand, None, rf"total_size={N} of 'y' is not .* rows, 3: .*use pm.Minibatch"),
        (drawn_by_hand, 2, rf"total_size={N} of 'y' is not the number of its rows, 3"),
    ],
)
def test_minibatch_and_total_size(model, batch_size, match):
    check_refused(ValueError, match, model(), batch_size=batch_size)


@pytest.mark.parametrize(
    ("schedule", "kwargs", "error", "match"),
    [
        (Polynomial, {"a": 0.0}, ValueError, "a=0.0 must be positive"),
        (Polynomial, {"a": "x"}, TypeError, "a='x' is not a number"),
        (Polynomial, {"a": 0.1, "b": -1.0}, ValueError, "b=-1.0 must be positive"),
        (Polynomial, {"a": 0.1, "gamma": 0.0}, ValueError, "gamma=0.0 must be positive"),
        (Polynomial, {"a": 0.1, "gamma": 1.5}, ValueError, "gamma=1.5 must be at most 1"),
        (CyclicalCosine, {"initial": np.nan, "cycle": 5}, ValueError, "initial=nan must be"),
        (CyclicalCosine, {"initial": 0.1, "cycle": 0}, ValueError, "cycle=0 must be at least 1"),
        (CyclicalCosine, {"initial": 0.1, "cycle": 2.5}, TypeError, "cycle=2.5 is not an integer"),
        (PowerAnnealing, {"a": 0.0}, ValueError, "a=0.0 must be positive"),
        (PowerAnnealing, {"a": 1.0, "gamma": -1.0}, ValueError, "gamma=-1.0 must be positive"),
        (
            GeometricAnnealing,
            {"initial": 1.0, "final": 0.5, "length": 9},
            ValueError,
            "final=0.5 must exceed initial=1.0.*grow",
        ),
        (
            GeometricAnnealing,
            {"initial": 1.0, "final": 2.0, "length": 0},
            ValueError,
            "length=0 must",
        ),
    ],
)
def test_schedules(schedule, kwargs, error, match):
    with pytest.raises(error, match=match):
        schedule(**kwargs)


@pytest.mark.compiled
@pytest.mark.parametrize("how", ["dims", "shape", "unknown"])
def test_a_deterministic_of_the_rows_is_warned_of(how):
    model = regression()
    with model:
        mean = model["a"] * model["x"]
        if how == "shape":
            mean = model["a"] * np.arange(N)
        pm.Deterministic("mean", mean, dims="row" if how == "dims" else None)
        pm.Deterministic("short", model["a"] * np.ones(3))
    with pytest.warns(UserWarning, match="'mean' has one value for each of 6 rows") as record:
        check_refused(Compiled, "compiles", model)
    assert len(record) == 1


@pytest.mark.compiled
def test_leftover_variables_are_warned_of():
    model = regression()
    with pytest.warns(UserWarning, match=r"does not sample \['b'\].*NUTS"):
        check_refused(Compiled, "compiles", model, vars=[model["a"]])
    check_refused(Compiled, "compiles", model, vars=[model["a"]], batch_size=None)


def test_a_scalar_thermostat_takes_one_diffusion():
    check_refused(
        ValueError, "thermostat='coordinate'", sampler=SGNHT, diffusion=np.array([1.0, 2.0])
    )


@pytest.mark.parametrize(
    ("wrong", "error", "match"),
    [
        ({"decay": 1.0}, ValueError, "decay=1.0 must be below 1"),
        ({"decay": 0}, ValueError, "decay=0 must be positive"),
        ({"damping": 0.0}, ValueError, "damping=0.0 must be positive"),
        ({"thermal_mass": "big"}, TypeError, "thermal_mass='big' is not a number"),
        ({"diffusion": "g"}, TypeError, "diffusion='g' is not a number"),
        ({"diffusion": np.ones(3)}, ValueError, r"diffusion has shape \(3,\).*2 coordinates"),
        ({"integrator": "BAOAB"}, ValueError, "integrator='BAOAB' is unknown: choose from"),
        ({"annealing": 0.5}, TypeError, r"annealing=0.5 is not a schedule.*PowerAnnealing"),
        ({"annealing": Polynomial(0.1)}, TypeError, "is not a schedule of inverse temperatures"),
        ({"exploration": 100}, ValueError, "exploration=100 says when.*annealing=PowerAnnealing"),
        ({"annealing": PowerAnnealing(0.1), "exploration": 0}, ValueError, "exploration=0 must be"),
        (
            {"step_size": PowerAnnealing(0.1)},
            TypeError,
            "step_size=PowerAnnealing.*is not a number",
        ),
    ],
)
def test_santa(wrong, error, match):
    check_refused(error, match, sampler=Santa, **wrong)


@pytest.mark.parametrize("wrong", [
    {"batch_size": None},
    {"batch_size": N},
    {"batch_size": N, "batches": "blocks"},
    {"batch_size": 3, "batches": "epochs"},
], ids=str)  # fmt: skip
def test_noise_estimates_are_for_independent_batches(wrong):
    check_refused(ValueError, "noise_estimate=0.5", sampler=SGHMC, noise_estimate=0.5, **wrong)
