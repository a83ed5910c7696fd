"""What a chain says of itself while it samples: each alarm with its planted cause, no other."""

import logging
from dataclasses import replace

import numpy as np
import pymc as pm
import pytest

from pymc_sgmcmc import (
    SGHMC,
    SGLD,
    SGNHT,
    CyclicalCosine,
    PowerAnnealing,
    Santa,
    check,
    running_sums,
)
from pymc_sgmcmc._utils.alarm import Alarm
from pymc_sgmcmc.chain.alarms import _centre
from pymc_sgmcmc.chain.evidence import Evidence
from tests.cases import sample
from tests.tiers import statistics_but

PRECISIONS = np.array([1.0, 4.0, 25.0])
"""Precisions of a Gaussian."""


def gaussian():
    with pm.Model() as model:
        pm.Normal("q", 0.0, 1 / np.sqrt(PRECISIONS), shape=3)
    return model


def means(n_rows=400, noise=(1.0, 1.0, 1.0)):
    """Means of rows; batches of ten give gradients of variances `noise` where sds are one."""
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((n_rows, 3))
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    scale = np.sqrt(n_rows)
    with pm.Model() as model:
        q = pm.Normal("q", 0.0, 100.0, shape=3)
        data = pm.Data("data", rows * np.sqrt(10 * np.array(noise)))
        pm.Normal("y", q, scale, observed=data)
    return model


def warnings_of(idata):
    stored = idata.sample_stats["warning"].values
    return [
        [(draw, warning) for draw, warning in enumerate(chain) if warning is not None]
        for chain in stored.reshape(len(stored), -1)
    ]


def watched(step, **kwargs):
    settings = {"draws": 600, "tune": 100, "keep_warning_stat": True, "random_seed": 4} | kwargs
    return sample(step, **settings)


@pytest.mark.compiled
def test_a_healthy_chain_says_nothing():
    with gaussian() as model:
        idata = watched(SGHMC(step_size=0.2, friction=2.0), draws=2000)
        assert warnings_of(idata) == [[], []]
        result = check(idata, model)
    assert result.alarms == () and result.conclusive
    assert "Width        PASS" in str(result)
    assert (np.abs(result.dataset.width - 1) < 4 * result.dataset.width_error).all()
    assert (result.dataset.width_error < 0.06).all()


@pytest.mark.compiled
@pytest.mark.parametrize("cores", statistics_but([1], [1, 2]))
def test_a_step_that_is_too_long_is_said_once(cores):
    """Var = 1 / (1 - h a / 2) = 1.33 at the narrowest coordinate, and no other is 10 % off."""
    with gaussian() as model:
        idata = watched(SGLD(step_size=0.02, steps_per_draw=50), draws=1100, cores=cores)
        result = check(idata, model)
    for chain in warnings_of(idata):
        ((draw, warning),) = chain
        assert draw == 249 and warning.extra == "width" and warning.level == "warn"
        assert "sgld, draw 349: the draws are too wide" in warning.message
        assert "variance along q[2] is 1.3" in warning.message
        assert "the sd +1" in warning.message and "halve step_size" in warning.message
    (alarm,) = [alarm for alarm in result.alarms if alarm.kind == "width"]
    assert "that along q[2] is 1.3" in alarm.text and "q[1]" not in alarm.text
    sums = running_sums(idata)
    assert (sums.steps == 1100 * 50).all() and (sums.freedom >= 19).all()
    ratio = (sums.qg - sums.q * sums.g_at_q).values
    expected = 1 / (1 - 0.02 * PRECISIONS / 2)
    # Errors of one chain: by batch means, and from the exact autocorrelation of q^2.
    error = (sums.direct_spread / np.sqrt(sums.steps)).values
    # Coordinates come by in turn, and the metric is none: place is the coordinate.
    np.testing.assert_array_equal(sums.place.values, [[0, 1, 2]] * 2)
    assert (np.abs(ratio - expected) < 4.5 * error).all() and (error < 0.08).all()
    np.testing.assert_allclose(sums.virial, np.tile(expected, (2, 1)), rtol=0.02)


@pytest.mark.statistics
def test_the_sums_do_not_depend_on_the_cores():
    with gaussian():
        one, two = (watched(SGNHT(step_size=0.1), draws=300, cores=cores) for cores in (1, 2))
    np.testing.assert_array_equal(
        one.sample_stats["running_sums"].values, two.sample_stats["running_sums"].values
    )
    assert np.isfinite(running_sums(two).direct_spread).all()


@pytest.mark.compiled
def test_gradient_noise_is_named_with_its_size():
    """Noise h V / (2 C) = 0.1 * 10 / 2 = 0.5 widens the variance, and the alarm says it."""
    with means(noise=(10.0, 10.0, 10.0)) as model:
        step = SGHMC(step_size=0.1, batch_size=10, steps_per_draw=20)
        idata = watched(step, draws=1000)
        result = check(idata, model)
    first = warnings_of(idata)[0][0][1].message
    assert "Gradient noise accounts for +0." in first and "control_variate" in first
    np.testing.assert_allclose(running_sums(idata).noise, 0.5, rtol=0.4)  # 64 batches, and n / N
    text = next(alarm.text for alarm in result.alarms if alarm.kind == "width")
    assert "Gradient noise accounts for +0." in text and "control_variate" in text


@pytest.mark.statistics
def test_noise_that_differs_between_coordinates_asks_for_a_thermostat_each():
    with means(noise=(12.0, 0.01, 0.01)):
        settings = {"step_size": 0.1, "batch_size": 10, "steps_per_draw": 30}
        scalar = watched(SGNHT(**settings), draws=1000)
        each = watched(SGNHT(thermostat="coordinate", **settings), draws=1000)
    messages = [warning.message for chain in warnings_of(scalar) for _, warning in chain]
    assert messages and all("Gradient noise accounts for" in message for message in messages)
    assert any("thermostat='coordinate'" in message for message in messages) or all(
        "too wide" in message for message in messages
    )
    assert warnings_of(each) == [[], []]


@pytest.mark.compiled
def test_a_temperature_is_said_at_construction_and_by_the_draws(caplog):
    with gaussian() as model:
        with caplog.at_level(logging.WARNING, logger="pymc.sgmcmc"):
            step = SGHMC(step_size=0.2, temperature=0.6, steps_per_draw=20)
        assert "temperature=0.6: the draws are from exp(-U / 0.6)" in caplog.text
        idata = watched(step)
        result = check(idata, model)
    for chain in warnings_of(idata):
        assert "That is what temperature=0.6 asks for" in chain[0][1].message
    assert "That is what temperature=0.6 asks for" in result.alarms[0].text


@pytest.mark.parametrize("settings", [
    {"batches": "epochs"},
    pytest.param({"step_size": CyclicalCosine(0.2, 40)}, marks=pytest.mark.statistics),
])  # fmt: skip
@pytest.mark.compiled
def test_what_the_width_does_not_hold_for_is_not_judged_by_it(settings):
    with means() as model:
        step = SGHMC(**{"step_size": 0.3, "batch_size": 20} | settings)
        idata = watched(step)
        report = str(check(idata, model))
    assert warnings_of(idata) == [[], []]
    assert "Width        NOT DONE" in report and "batches='epochs'" in report


@pytest.mark.statistics
def test_an_optimiser_is_not_judged_by_its_width():
    with gaussian(), pytest.warns(UserWarning, match="is an optimiser"):
        idata = watched(Santa(step_size=0.1, annealing=PowerAnnealing(0.1)))
    assert warnings_of(idata) == [[], []]
    assert (running_sums(idata).freedom == 0).all()


def walk(step, point, draws):
    """Draws by hand: the warnings."""
    warnings = []
    for _ in range(draws):
        point, (stats,) = step.step(point)
        warnings.append(stats["warning"])
    return point, warnings


def begun(step, model, tune=10):
    step.start_chain(np.random.default_rng(3))
    point, _ = walk(step, model.initial_point(), tune)
    step.stop_tuning()
    return point


def kinds(warnings):
    return [warning.extra for warning in warnings if warning is not None]


@pytest.mark.compiled
@pytest.mark.parametrize("cls", [SGHMC, SGNHT, Santa])
def test_one_excursion_is_seen_at_the_next_look(cls):
    with gaussian() as model:
        step = cls(step_size=0.1, metric=1 / PRECISIONS)
    point, warnings = walk(step, begun(step, model), 100)
    assert kinds(warnings) == []
    first, *others = step.state.carried
    step.state.carried = (first + 6.5, *others)  # less than a divergence
    point, warnings = walk(step, point, 160)
    assert "excursion" in kinds(warnings) and kinds(warnings[:149]) == []
    (text,) = [warning.message for warning in warnings if warning and warning.extra == "excursion"]
    assert "the chain was thrown off" in text and "times the mean" in text
    _, warnings = walk(step, point, 300)
    assert "excursion" not in kinds(warnings)


@pytest.mark.compiled
def test_several_alarms_are_told_one_a_draw():
    with gaussian() as model:
        step = SGLD(step_size=0.02, steps_per_draw=30)
    point, _ = walk(step, begun(step, model), 100)
    queue = Alarm("a", "first"), Alarm("b", "second")
    step.state.evidence = replace(step.state.evidence, queue=queue)
    _, warnings = walk(step, point, 200)
    assert [warning.message for warning in warnings[:2]] == ["first", "second"]
    assert kinds(warnings[2:]) == ["width"]


@pytest.mark.compiled
def test_a_thermostat_that_noise_does_not_explain():
    """Late in tuning, and later: a mass that does not let it settle, from far away."""
    with gaussian() as model:
        step = SGNHT(step_size=0.1, thermal_mass=1e9)
    step.start_chain(np.random.default_rng(3))
    point, _ = walk(step, model.initial_point(), 10)
    step.state.carried = (step.state.carried[0], np.array(5.0))
    point, _ = walk(step, point, 60)
    step.stop_tuning()
    _, warnings = walk(step, point, 2)
    assert kinds(warnings) == ["thermostat"]
    assert "friction is 5 times what the injected and the gradient noise ask for" in (
        warnings[0].message
    )


@pytest.mark.statistics
@pytest.mark.compiled
def test_a_thermostat_has_time_to_wander():
    """Chains of a short while after tuning; and the mean of a friction errs as is allowed for."""
    with gaussian() as model:
        step = SGNHT(step_size=0.1, metric=1 / PRECISIONS, steps_per_draw=10)
    frictions = []
    for seed in range(60):
        step.start_chain(np.random.default_rng(seed))
        point, _ = walk(step, model.initial_point(), 6)
        step.stop_tuning()
        point, warnings = walk(step, point, 40)
        assert kinds(warnings) == []
        frictions.append(step.state.running_sums.mean("xi").mean())
    ratio = np.std(frictions) / np.sqrt(2 * 1.0 / (3 * 40.0))
    assert abs(ratio - 1) < 4 / np.sqrt(2 * 60)


@pytest.mark.statistics
@pytest.mark.compiled
def test_gradient_noise_is_no_reason_for_a_thermostat_alarm():
    """The friction settles at A + h V / 2, six times A."""
    with means(noise=(100.0, 100.0, 100.0)):
        step = SGNHT(step_size=0.1, batch_size=10, steps_per_draw=50)
        idata = watched(step, draws=300, tune=300)
    assert idata.sample_stats["thermostat"].mean() > 4
    assert all("thermostat" not in [w.extra for _, w in chain] for chain in warnings_of(idata))


@pytest.mark.statistics
def test_a_centre_that_costs_noise():
    with means() as model:
        step = SGHMC(step_size=0.05, batch_size=10, gradient="control_variate", metric=np.ones(3))
    assert step.chain.parts.tuner is not None
    point = begun(step, model)
    inputs = step.chain._monitor.inputs(
        step.state, step.chain.frame, np.concatenate([value.ravel() for value in point.values()])
    )
    assert inputs.plain_noise is None or inputs.plain_noise >= 1
    far = replace(inputs, plain_noise=0.25)
    (alarm,) = Evidence.empty(3).with_alarms([_centre(far)]).queue
    assert "4 times that of plain ones" in alarm.text


@pytest.mark.parametrize(
    ("cls", "settings", "longest"),
    [
        (SGLD, {"step_size": 0.085}, 0.08),
        pytest.param(SGHMC, {"step_size": 0.42}, 0.4, marks=pytest.mark.statistics),
        (SGHMC, {"step_size": 0.40, "integrator": "euler", "friction": 2.0}, 0.33),
        pytest.param(
            SGNHT, {"step_size": 0.30, "integrator": "euler", "diffusion": 2.0}, 0.25,
            marks=pytest.mark.statistics,
        ),
    ],
)  # fmt: skip
@pytest.mark.compiled
def test_a_step_size_beyond_stability_is_said_at_construction(cls, settings, longest):
    match = rf"not stable at the model's initial point: .* up to 25, .* step is {longest:.2g}\."
    with gaussian():
        with pytest.warns(UserWarning, match=match):
            cls(**settings)
        cls(**settings | {"step_size": 0.9 * longest})  # an error if it warned
