"""What every sampler must do: what `check_sampler` asks, schedules, data that change, faults."""

import re
from contextlib import nullcontext
from types import SimpleNamespace

import cloudpickle
import numpy as np
import pymc as pm
import pytest
import xarray as xr
from pymc.exceptions import SamplingError
from pymc.sampling.parallel import ParallelSamplingError
from pytensor import config
from pytensor.graph.traversal import ancestors

from pymc_sgmcmc import GMC, SGHMC, SGRHMC, SGRLD, CyclicalCosine, Polynomial, Santa, running_sums
from pymc_sgmcmc.conformance.subject import Subject
from pymc_sgmcmc.conformance.update_checks import BareUpdate, NormalGradient
from pymc_sgmcmc.dynamics.schedules import as_schedule
from pymc_sgmcmc.dynamics.setting import Context
from tests.cases import (
    CASES,
    DEFAULTS,
    N_ROWS,
    OTHERS,
    TYPICAL,
    begin,
    built,
    draws,
    optimisers,
    regression,
    sample,
    walk,
)
from tests.helpers import change_part, draw_rows_of
from tests.tiers import statistics_but

each = pytest.mark.parametrize("case", statistics_but([TYPICAL], CASES), ids=str)
KINDS = [case for case in DEFAULTS if case.cls is not SGHMC]
"""Without momenta, with a thermostat, and with a metric of its own: SGHMC has less than SGNHT."""
each_sampler = pytest.mark.parametrize("case", statistics_but([TYPICAL], KINDS), ids=str)
typical = pytest.mark.parametrize("case", [TYPICAL], ids=str)


@pytest.fixture(scope="module")
def model():
    return regression()


@pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS")  # where one looks for it
@pytest.mark.compiled
@each
def test_what_check_sampler_asks(case):
    # A loop that is no single C function, as of eigh, is linked anew without our BLAS where it is
    # unpickled: that fails where PyTensor has found none.
    unlinked = {"pickles"} if "matrix" in str(case) and not config.blas__ldflags else set()
    report = case.check()
    assert set(report.failed) <= unlinked, str(report)


BY_NUMBA = [case for case in DEFAULTS + OTHERS if case.cls in (Santa, SGRLD, SGRHMC, GMC)]
BY_NUMBA += [case for case in OTHERS if "matrix" in str(case)]
"""The cases that Numba compiles, at 20 s each: between them they have the operations of all."""


@pytest.mark.statistics
@pytest.mark.parametrize("case", BY_NUMBA, ids=str)
def test_numba_agrees(case):
    report = case.check(backends="numba", only=("update", "construction", "stats", "backends"))
    assert report.passed, str(report)


def operations(case):
    """The names of a case's model, of the operations of its update, and whether it accepts."""
    with optimisers():
        bare = Subject(case.cls, case.arguments(), case.model).bare
    size, rng = bare.size, np.random.default_rng(3)
    context = Context(step_size=case.settings["step_size"], noise=np.zeros(size), n_rows=N_ROWS)
    planned = bare.planned(np.arange(1), tuning=False)
    given = {name: values[0] for name, values in planned.items()} | bare.coefficients(context)
    state, gradient = bare.initial_state(rng, context), NormalGradient(np.eye(size), np.ones(size))
    nodes = {v.owner for v in ancestors(BareUpdate(bare, state, given, gradient).new) if v.owner}
    inner = [getattr(n.op, "scalar_op", getattr(n.op, "core_op", n.op)) for n in nodes]
    return {case.model.__name__, bare.has_accept_step, *(type(op).__name__ for op in inner)}


def test_what_numba_is_compared_on_has_the_operations_of_all_cases():
    found = {str(case): operations(case) for case in CASES}
    compared = set().union(*(found[str(case)] for case in BY_NUMBA))
    missing = {name: names - compared for name, names in found.items()}
    assert not any(missing.values()), missing


@pytest.mark.compiled
@typical
def test_the_state_round_trips_in_the_midst_of_an_epoch(case):
    model, step = built(case, batches="epochs")
    begin(step)
    start = model.initial_point()
    _, whole = walk(step, start, 10)
    begin(step)
    point, half = walk(step, start, 5)
    state = cloudpickle.loads(cloudpickle.dumps(step.sampling_state))
    walk(step, point, 7)
    step.sampling_state = state
    _, rest = walk(step, point, 5)
    np.testing.assert_array_equal(whole, np.concatenate([half, rest]))


@pytest.mark.compiled
@each_sampler
def test_the_progress_bar_shows_the_chain_and_does_not_change_it(case):
    model, step = built(case)
    with model:
        quiet, shown = sample(step), sample(step, progressbar=True)
    np.testing.assert_array_equal(draws(quiet), draws(shown))
    columns, starts = step._progressbar_config(n_chains=2)
    headers = [column.get_table_column().header for column in columns]
    momentum = ["Temperature"] if "kinetic_temperature" in step.algorithm.stats else []
    assert headers == ["Divergences", "Step size", *momentum]
    begin(step)
    (update,) = step._make_progressbar_update_functions()
    shown = update(step.step(model.initial_point())[1][0])
    assert set(shown) == {*starts, "failing"} and not shown["failing"]


@pytest.mark.compiled
@each_sampler
def test_running_sums_are_the_sums_over_the_draws_after_tuning(case, model):
    with model:
        step = case.step(steps_per_draw=1)
        idata = sample(step, draws=30, tune=7, initvals={"beta": [0.0, 0.1]})
        again = sample(step, draws=30, tune=7, discard_tuned_samples=False,
                       initvals={"beta": [0.0, 0.1]})  # fmt: skip
    stats = idata.sample_stats
    assert all(stats[name].dtype.kind in "fib" for name in stats), "file formats hold no objects"
    sums = running_sums(idata)
    assert (sums.steps == 30).all()
    # With one inner step a draw, q before the step is the draw before.
    before = draws(idata)[:, :-1].sum(axis=1)
    first = 30 * (sums.q + sums.origin).values - before
    assert (np.abs(first) < np.abs(draws(idata)).max() + 1).all()
    np.testing.assert_allclose(first, again.warmup_posterior["beta"].values[:, -1], atol=1e-9)


LAST_DRAWS = {
    "SGLD": [
        [0.7468348094797419, -0.4306498365587794],
        [0.8235863902926394, -0.9823365756194302],
    ],
    "SGHMC": [
        [1.0791112016884856, -0.8108974968152025],
        [0.9561565970269814, -0.9461544017836033],
    ],
    "SGNHT": [
        [1.02926995013278, -0.708558679416946],
        [0.9292559163814995, -0.8786703245392633],
    ],
    "Santa": [
        [1.0518025139233156, -0.8278897861190567],
        [1.0548203658752495, -0.8173751641275424],
    ],
    "PSGLD": [
        [0.8631196990391795, -0.3262708074407697],
        [0.9275730384602123, -0.9854414641643149],
    ],
    "PSGLD-gamma": [
        [1.2579918236046206, -0.9351454854442481],
        [1.2525076410512765, -0.19022532335854866],
    ],
    "PSGHMC": [
        [0.8686277356506706, -0.6075908733080055],
        [0.714709248078839, -0.7167391426177315],
    ],
    "SGFS": [
        [0.7990236261594137, -0.4087136234319473],
        [0.7770163214396376, -0.9729835804477603],
    ],
    "SGRHMC": [
        [1.1559144176442597, -0.5969129999154578],
        [0.8438447030552847, -1.5615149163637205],
    ],
    "SGD": [
        [0.5634831347980808, -0.5610242981839583],
        [1.0114451841502878, -0.6394733777857253],
    ],
    "SGHMC-UBU": [
        [0.6448098972787731, -0.4216303677862245],
        [1.0515283461934801, -1.0995364790102917],
    ],
    "SGNHT-matrix": [
        [1.029907030311399, -0.7321610087247377],
        [0.9305257148024331, -0.8760015552228829],
    ],
    "SGRLD": [
        [2.961881808573146, 5.098712899747677],
        [2.8134429716993403, 4.249519110817658],
    ],
    "Recipe": [
        [0.7508856894137659, -0.4570575899483678],
        [0.7563348658855252, -0.9605742917946011],
    ],
    "MALA": [
        [0.6104940965114285, -0.5880374861642051],
        [1.0623594945862123, -0.6046245765172281],
    ],
    "GMC": [
        [0.7075429296486963, 0.7066703635388568],
        [0.710903375748638, 0.7032896916272773],
    ],
    "AMAGOLD": [
        [0.9748173874507334, -0.5687605240141468],
        [1.2030838693849761, -0.45904304397456897],
    ],
    "SGGMC": [
        [0.6662297946657443, 0.7457465123617008],
        [0.7331795427061335, 0.6800351153853931],
    ],
    "gSGNHT": [
        [0.6086505886872703, 0.7934383787608457],
        [0.7166357266058515, 0.6974476577866638],
    ],
}
"""Draws at seed 3, the same on every version of PyMC: they change with the order of the random
numbers only, which is documented."""


@pytest.mark.compiled
@pytest.mark.parametrize("case", statistics_but([TYPICAL], DEFAULTS + OTHERS), ids=str)
def test_a_seed_gives_the_draws_that_it_gave(case):
    model, step = built(case)
    with model:
        last = draws(sample(step, draws=50))[:, -1]
    np.testing.assert_allclose(last, LAST_DRAWS.get(str(case), np.nan), rtol=0, atol=1e-8)


@pytest.mark.compiled
@typical
@pytest.mark.parametrize("batches", ["random", "epochs"])
def test_all_rows_are_seen(case, batches):
    _, step = built(case, batches=batches)
    begin(step)
    seen = [draw_rows_of(step, 8)[0] for _ in range(20)]
    assert all(rows.shape == (8, 5) for rows in seen)
    counts = np.bincount(np.concatenate(seen).ravel(), minlength=40)
    assert (counts == 20).all() if batches == "epochs" else 0 < counts.min() < counts.max()


@pytest.mark.compiled
@each_sampler
def test_exact_gradient_and_schedules(case, model):
    schedule = Polynomial(a=case.settings["step_size"], b=10.0, gamma=0.6)
    with model:
        step = case.step(batch_size=None, step_size=schedule)
        stats = sample(step, tune=0).sample_stats
        steps = 10 * np.arange(1, 21) - 1
        np.testing.assert_allclose(stats.step_size[0], schedule(steps))
        cycle = CyclicalCosine(initial=case.settings["step_size"], cycle=30)
        change_part(step, schedule=cycle)
        stats = sample(step, tune=0).sample_stats
        np.testing.assert_allclose(stats.step_size[1], cycle(steps))


@pytest.mark.statistics
@typical
def test_one_step_for_each_variable(case):
    with pm.Model():
        a, b = pm.Normal("a"), pm.HalfNormal("b")
        pm.Normal("obs", a, b, observed=np.linspace(-1, 1, 30))
        step = case.cls([a, b], blocked=False, **case.settings)
        assert [len(method.vars) for method in step.methods] == [1, 1]
        idata = sample(step)
    assert (draws(idata, "b") > 0).all()
    assert running_sums(idata, sampler=1).sizes["coordinate"] == 1


@pytest.mark.statistics
@typical
def test_other_variables_belong_to_other_step_methods(case):
    rng = np.random.default_rng(1)
    data = np.concatenate([rng.normal(-2, 1, 60), rng.normal(2, 1, 60)])
    with pm.Model():
        mu = pm.Normal("mu", [-1.0, 1.0], 2.0)
        z = pm.Categorical("z", [0.5, 0.5], shape=len(data))
        pm.Normal("obs", mu[z], 1.0, observed=data)
        step = case.step(vars=[mu], step_size=0.1 * case.settings["step_size"], batch_size=20)
        idata = sample([step, pm.CategoricalGibbsMetropolis([z])], draws=200, tune=50)
    means = draws(idata, "mu").mean(axis=(0, 1))
    np.testing.assert_allclose(means, [-2, 2], atol=0.6)


@pytest.mark.compiled
@typical
def test_chains_start_apart_unless_told(case, model):
    with model:
        step = case.step(step_size=1e-9)
        apart = draws(sample(step, tune=0, draws=2))[:, 0]
        assert (np.abs(apart) < 1.0001).all() and np.ptp(apart, axis=0).min() > 1e-3
        together = draws(sample(case.step(step_size=1e-9, jitter=False), tune=0, draws=2))
        np.testing.assert_allclose(together, 0, atol=1e-3)
        given = sample(step, tune=0, draws=2, initvals={"beta": [3.0, 4.0]})
        np.testing.assert_allclose(draws(given)[:, 0], [[3, 4], [3, 4]], atol=1e-3)


@pytest.mark.compiled
@typical
def test_set_data_with_another_length(case, model):
    model = regression()
    with model:
        step = case.step()
        rng = np.random.default_rng(0)
        pm.set_data({"x": rng.normal(size=(12, 2)), "y": rng.normal(size=12)},
                    coords={"row": range(12)})  # fmt: skip
        begin(step)
        assert draw_rows_of(step, 10)[0].max() < 12 and list(step.chain._lengths) == [12]
        pm.set_data({"x": rng.normal(size=(3, 2)), "y": rng.normal(size=3)},
                    coords={"row": range(3)})  # fmt: skip
        with pytest.raises(ValueError, match="batch_size=5 is larger than the 3 rows"):
            begin(step)


@pytest.mark.compiled
@typical
def test_a_divergence_is_told_and_the_sums_begin_anew(case):
    """The kernel is made to fail twice."""
    model, step = built(case)
    begin(step)
    point, _ = walk(step, model.initial_point(), 3)
    schedule = step.chain.parts.schedule
    change_part(step, schedule=as_schedule(1e200))
    for failures in (1, 2):
        _, (stats,) = step.step(point)
        assert stats["divergences"] == failures
        assert "non-finite at step_size 1e+200" in stats["warning"].message
        assert step.state.running_sums.steps == 0
    change_part(step, schedule=as_schedule(1e-3))
    _, (stats,) = step.step(point)
    change_part(step, schedule=schedule)
    assert stats["warning"] is None and step.state.running_sums.steps == 10


@pytest.mark.compiled
@each_sampler
def test_ten_divergences_in_a_row_end_the_chain(case, model):
    match = r"draw 9: .*step_size 1e\+160, 10 draws in a row.*largest in beta\[[01]\].*smaller step"
    unstable = nullcontext() if case.cls is Santa else pytest.warns(match="not stable at the model")
    with model:
        with unstable:
            step = case.step(step_size=1e160)
        for cores in (1, 2):
            with pytest.raises((SamplingError, ParallelSamplingError)) as caught:
                sample(step, cores=cores, tune=0)
            assert re.search(match, str(caught.value), flags=re.DOTALL)


@pytest.mark.compiled
@each_sampler
def test_a_scale_driven_out_of_range_is_a_divergence(case):
    """PyMC raises for sigma <= 0; inside the kernel it is a state to roll back."""
    x = np.linspace(0, 1, 20)
    with pm.Model():
        slope = pm.Normal("slope", 0, 1)
        pm.Normal("y", 0, 1 + slope * x, observed=x)
        step = case.step()
    begin(step)
    start = {"slope": np.array(-0.5)}
    step.step(start)
    change_part(step, schedule=as_schedule(50.0))
    stuck = [step.step(start) for _ in range(5)]
    assert any(stats["diverging"] for _, (stats,) in stuck)
    assert all(point["slope"] == -0.5 for point, (stats,) in stuck if stats["diverging"])


@pytest.mark.compiled
@each_sampler
def test_leaving_the_support_is_a_divergence(case):
    with pm.Model():
        pm.HalfNormal("s", default_transform=None, initval=0.3)
        step = case.step(step_size=0.05, batch_size=None, steps_per_draw=1)
        idata = sample(step, draws=200, tune=0)
    stats = idata.sample_stats
    assert (draws(idata, "s") >= 0).mean() > 0.9 and stats.diverging.any()


@pytest.mark.statistics
def test_running_sums_restart_at_a_divergence():
    model, step = built(DEFAULTS[1])
    schedule = step.chain.parts.schedule
    begin(step)
    point, rows = model.initial_point(), []
    for draw in range(12):
        change_part(step, schedule=as_schedule(1e200 if draw == 7 else 0.01))
        point, (stats,) = step.step(point)
        rows.append(stats["running_sums"])
    change_part(step, schedule=schedule)
    stored = xr.DataArray(np.array([rows]), dims=("chain", "draw", "row", "turn"))
    sums = running_sums(SimpleNamespace(sample_stats={"running_sums": stored}))
    assert (sums.steps == 40).all() and sums.sizes["coordinate"] == 2
    assert np.isfinite(sums.q).all() and np.isnan(sums.xi).all()


def test_running_sums_that_are_not_there_are_said():
    with pytest.raises(ValueError, match=r"sampler=1: idata holds .* of 0 step methods"):
        running_sums(SimpleNamespace(sample_stats={}), sampler=1)


@pytest.mark.compiled
def test_ctrl_c_keeps_the_draws():
    def interrupt(trace, draw):
        if draw.draw_idx == 12:
            raise KeyboardInterrupt

    model, step = built(DEFAULTS[2])
    with model:
        idata = sample(step, tune=5, draws=50, chains=1, callback=interrupt)
    assert 5 <= draws(idata).shape[1] <= 8


@pytest.mark.statistics
@pytest.mark.compiled
def test_pymc_never_assigns_these_samplers_by_itself(model):
    with model:
        idata = pm.sample(draws=5, tune=5, chains=1, progressbar=False,
                          compute_convergence_checks=False)  # fmt: skip
    assert "minibatch_logp" not in idata.sample_stats
