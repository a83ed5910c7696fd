"""A run that is saved, killed and resumed gives the draws of one that was never interrupted."""

import contextlib
import json
import logging
import multiprocessing
import os
import pickle
import signal
import time
import warnings

import cloudpickle
import h5py
import numpy as np
import pymc as pm
import pytest
from pymc.step_methods.compound import CompoundStep

from pymc_sgmcmc import (
    AMAGOLD,
    GMC,
    MALA,
    PSGHMC,
    PSGLD,
    SGHMC,
    SGLD,
    SGNHT,
    Resumable,
    Santa,
    load,
    resume,
    save,
)
from pymc_sgmcmc.saving.run_folder import read_segments
from pymc_sgmcmc.saving.state_text import state_from_text, state_to_text
from tests.cases import CASES, DEFAULTS, TYPICAL, built, regression, sample
from tests.helpers import change_part
from tests.tiers import name_of, statistics_but

QUIET = {"progressbar": False, "compute_convergence_checks": False}


def assert_same_draws(actual, expected):
    for name in expected.posterior.data_vars:
        ours, theirs = actual.posterior[name], expected.posterior[name]
        np.testing.assert_array_equal(ours, theirs, err_msg=name)
        assert ours.dtype == theirs.dtype and ours.dims == theirs.dims, name
    np.testing.assert_array_equal(actual.posterior.draw, expected.posterior.draw)


def begun(case, folder, **kwargs):
    """A saved run of 13 draws, its step method, and the run of 40 draws that it is the start of."""
    model, step = built(case, **kwargs)
    with model:
        step = Resumable(step, every=5)
        whole = sample(step, draws=40, tune=6)
        save(sample(step, draws=13, tune=6), step, folder)
    return model, step, whole


OWN = (SGLD, SGHMC, SGNHT, Santa, PSGLD, PSGHMC, MALA, GMC, AMAGOLD)
STATES = [
    case for case in CASES if case.cls in OWN and not {"integrator", "gamma"} & set(case.settings)
]
"""One case of each kind of state: what the other cases carry has the names and shapes of one of
these, and `check_sampler` sets all of them back to an earlier state."""


@pytest.mark.compiled
@pytest.mark.parametrize("case", statistics_but([TYPICAL], STATES), ids=str)
def test_resumed_draws_and_stats_are_those_of_one_run(case, tmp_path):
    model, step, whole = begun(case, tmp_path, batches="epochs")
    with model:
        idata = resume(tmp_path, step, draws=27, every=10, cores=1, **QUIET)
    assert_same_draws(idata, whole)
    for name in ("minibatch_logp", "step_size", "running_sums", "divergences"):
        np.testing.assert_array_equal(idata.sample_stats[name], whole.sample_stats[name])
    assert_same_draws(load(tmp_path), whole)


@pytest.mark.statistics
@pytest.mark.parametrize("mp_ctx", ["fork", "spawn"])
def test_resuming_on_other_cores(mp_ctx, tmp_path):
    model, step, whole = begun(DEFAULTS[1], tmp_path)
    with model:
        idata = resume(tmp_path, step, draws=27, cores=2, mp_ctx=mp_ctx, **QUIET)
    assert_same_draws(idata, whole)
    assert {"observed_data", "constant_data"} <= set(dict(idata.items()))


def mixed_model():
    with regression() as model:
        mu = pm.Normal("mu", [-1, 1], 1)
        z = pm.Categorical("z", [0.5, 0.5], shape=3)
        b = pm.Bernoulli("b", 0.3, shape=2)
        s, h, u = pm.HalfNormal("s"), pm.Normal("h"), pm.Normal("u", shape=2)
        k = pm.Poisson("k", 3)
        centre = mu[z] + h + u.sum() + b.sum() + k
        pm.Normal("exact", centre, s, observed=np.linspace(-2, 2, 3))
    return model


def mixed_steps(model):
    """Step methods of PyMC keep what they tuned from run to run: fresh ones for each."""
    case = DEFAULTS[1]
    with model, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "This step method does not sample")
        ours = case.step(vars=[model["beta"], model["mu"]], batch_size={"obs": 5})
        return Resumable(
            [
                ours,
                pm.CategoricalGibbsMetropolis([model["z"]]),
                pm.BinaryGibbsMetropolis([model["b"]]),
                pm.Metropolis([model["s"]]),
                pm.Slice([model["h"]]),
                CompoundStep([pm.NUTS([model["u"]]), pm.Metropolis([model["k"]])]),
            ],
            every=7,
        )


@pytest.mark.statistics
def test_step_methods_of_pymc_resume_too(tmp_path):
    model = mixed_model()
    whole = sample(mixed_steps(model), model=model, draws=50, tune=20)
    step = mixed_steps(model)
    save(sample(step, model=model, draws=18, tune=20), step, tmp_path, model=model)
    idata = resume(tmp_path, mixed_steps(model), draws=32, every=9, model=model, cores=1, **QUIET)
    assert_same_draws(idata, whole)
    stored = [s.groups["posterior"].sizes["draw"] for s in read_segments(tmp_path)]
    assert stored == [18, 9, 9, 9, 5]


@pytest.mark.statistics
@pytest.mark.parametrize("other", [pm.HamiltonianMC, pm.BinaryMetropolis])
def test_other_step_methods_of_pymc(other, tmp_path):
    with pm.Model() as model:
        mu = pm.Normal("mu")
        b = pm.Bernoulli("b", 0.4) if other is pm.BinaryMetropolis else pm.Normal("b", shape=2)
        pm.Normal("obs", mu + pm.math.sum(b), 1.0, observed=np.linspace(0, 2, 20))

    def steps():
        with model, warnings.catch_warnings():
            warnings.filterwarnings("ignore", "This step method does not sample")
            return Resumable([DEFAULTS[0].step(vars=[mu]), other([b])], every=4)

    whole = sample(steps(), model=model, draws=30, tune=20)
    step = steps()
    save(sample(step, model=model, draws=10, tune=20), step, tmp_path, model=model)
    assert_same_draws(resume(tmp_path, steps(), draws=20, model=model, cores=1, **QUIET), whole)


@pytest.mark.compiled
def test_tuning_draws_and_chosen_variables_are_kept(tmp_path):
    with regression() as model:
        pm.Deterministic("double", 2 * model["beta"])
        step = Resumable(DEFAULTS[1].step(), every=50)
        first = sample(step, discard_tuned_samples=False, var_names=["double"])
        save(first, step, tmp_path)
        idata = resume(tmp_path, step, draws=3, cores=1, **QUIET)
    assert list(idata.posterior) == ["double"] and idata.posterior.sizes["draw"] == 23
    np.testing.assert_array_equal(
        idata.warmup_posterior["double"], first.warmup_posterior["double"]
    )
    assert "snapshot" not in idata.sample_stats


@pytest.mark.compiled
def test_an_interrupted_resume_keeps_its_segments(tmp_path, caplog):
    def interrupt(trace, draw):
        if draw.chain == 1 and draw.draw_idx == 4 and len(read_segments(tmp_path)) == 3:
            raise KeyboardInterrupt

    model, step, whole = begun(DEFAULTS[0], tmp_path)
    with model, caplog.at_level(logging.WARNING, logger="pymc.sgmcmc"):
        idata = resume(tmp_path, step, draws=27, every=9, cores=1, callback=interrupt, **QUIET)
        assert "Interrupted" in caplog.text
        assert idata.posterior.sizes["draw"] == 13 + 2 * 9
        assert_same_draws(resume(tmp_path, step, draws=9, cores=1, **QUIET), whole)


# Killed by the system.


def run_to_the_end(model, step, folder, draws, cores, *, group=False):
    if group:
        os.setpgrp()  # PyMC's workers outlive a process that is killed: they go with the group
    with model:
        done = load(folder).posterior.sizes["draw"]
        if done < draws:
            resume(folder, step, draws=draws - done, every=5, cores=cores, **QUIET)


def kill_often(tmp_path, kills, cores, seed, draws=400):
    """Kill processes that resume a run, at random moments; what each had saved must stay."""
    rng = np.random.default_rng(seed)
    model, step = built(DEFAULTS[1])
    with model:
        step = Resumable(step, every=3)
        whole = sample(step, draws=draws)
        start = sample(step, draws=4)
    folder, killed, lifetime, rounds = None, 0, 0.3, 0
    while killed < kills:
        if folder is None:
            folder, done = tmp_path / str(rounds), 4
            rounds += 1
            save(start, step, folder, model=model)
        child = multiprocessing.get_context("fork").Process(
            target=run_to_the_end, args=(model, step, folder, draws, cores), kwargs={"group": True}
        )
        child.start()
        time.sleep(rng.uniform(0, lifetime))
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        killed += child.exitcode == -signal.SIGKILL
        saved = load(folder)
        now = saved.posterior.sizes["draw"]
        assert now >= done, "saved draws were lost"
        # Long enough to reach the segments that a process writes, after it has read the others.
        lifetime = lifetime if now > done else min(2.0, 1.2 * lifetime)
        done = now
        assert_same_draws(saved, whole.isel(draw=slice(done)))
        if done == draws or killed == kills:
            run_to_the_end(model, step, folder, draws, cores=1)
            assert_same_draws(load(folder), whole)
            assert not list(folder.glob("unfinished-*"))
            folder = None
    return killed, rounds


@pytest.mark.statistics
@pytest.mark.parametrize("cores", [1, 2])
def test_killed_processes_lose_nothing_that_was_saved(cores, tmp_path):
    kill_often(tmp_path, kills=8, cores=cores, seed=cores, draws=100)


@pytest.mark.statistics
def test_sixty_kills(tmp_path):
    killed, _ = kill_often(tmp_path, kills=60, cores=1, seed=5)
    assert killed == 60


@pytest.mark.compiled
@pytest.mark.parametrize(
    "moment", statistics_but(["rename"], ["create_dataset", "write_text", "rename"])
)
def test_a_segment_that_was_not_finished_is_not_there(moment, tmp_path, monkeypatch):
    """Stopped at each stage of writing: the run is as before, and goes on."""
    model, step, whole = begun(DEFAULTS[0], tmp_path)
    where = {"create_dataset": h5py.File, "rename": os}.get(moment, type(tmp_path))

    def stop(*args, **kwargs):
        raise OSError("no space left on device")

    with model:
        with monkeypatch.context() as patch, pytest.raises(OSError, match="no space"):
            patch.setattr(where, moment, stop)
            resume(tmp_path, step, draws=7, cores=1, **QUIET)
        assert len(read_segments(tmp_path)) == 1
        assert_same_draws(resume(tmp_path, step, draws=27, cores=1, **QUIET), whole)


# Files that must be refused.


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    model, step, _ = begun(DEFAULTS[1], folder)
    with model:
        resume(folder, step, draws=4, cores=1, **QUIET)
    return model, step, folder


def copy_of(folder, target):
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            new = target / file.relative_to(folder)
            new.parent.mkdir(parents=True, exist_ok=True)
            new.write_bytes(file.read_bytes())
    return target


@pytest.mark.parametrize(
    "name", ["manifest.json", "layout.json", "state.json", "posterior.nc", "sample_stats.nc"]
)
@pytest.mark.compiled
@pytest.mark.parametrize("segment", ["000000", "000001"])
@pytest.mark.parametrize("damage", ["missing", "empty", "torn", "altered"])
def test_damaged_files_are_refused(name, segment, damage, saved, tmp_path):
    model, step, folder = saved
    folder = copy_of(folder, tmp_path)
    file = folder / segment / name
    content = bytearray(file.read_bytes())
    if damage == "missing":
        file.unlink()
    else:
        if damage == "altered":
            middle = content.index(b"PCG64") if name == "state.json" else len(content) // 2
            content[middle] ^= 1
        file.write_bytes({"empty": b"", "torn": content[:-7]}.get(damage, content))
    if segment == "000001" or damage == "missing" or name == "manifest.json":
        with pytest.raises(ValueError, match=f"{segment}' cannot be read: {name}"):
            resume(folder, step, draws=5, model=model)
    with pytest.raises(ValueError, match=f"{segment}' cannot be read: {name}"):
        load(folder)


@pytest.mark.compiled
def test_segments_of_other_runs_are_refused(saved, tmp_path):
    _, _, folder = saved
    begun(DEFAULTS[1], tmp_path / "other", steps_per_draw=3)
    mixed = copy_of(folder, tmp_path / "mixed")
    copy_of(tmp_path / "other" / "000000", mixed / "000002")
    with pytest.raises(ValueError, match=r"000002' cannot be read: manifest.json does not follow"):
        load(mixed)
    (mixed / "000002").rename(mixed / "000004")
    with pytest.raises(ValueError, match="segment 000002 is missing"):
        load(mixed)


@pytest.mark.compiled
def test_other_folders_are_refused(saved, tmp_path):
    model, step, folder = saved
    with pytest.raises(FileNotFoundError, match="holds no saved run: start one with save"):
        resume(tmp_path / "nowhere", step, draws=5, model=model)
    (tmp_path / "000000").mkdir()
    (tmp_path / "000000" / "manifest.json").write_text(json.dumps({"content": {}, "sha256": ""}))
    with pytest.raises(ValueError, match="not of this package"):
        load(tmp_path)
    idata = sample(step, model=model)
    with pytest.raises(FileExistsError, match="Choose another folder, or resume"):
        save(idata, step, folder, model=model)


def altered(**changes):
    with regression() as model:
        if "data" in changes:
            pm.set_data({"y": model["y"].get_value() + 1e-9})
        if "prior" in changes:
            pm.Potential("more", -model["beta"].sum())
        settings = changes.get("settings", {})
        return model, Resumable(changes.get("case", DEFAULTS[1]).step(**settings), every=5)


@pytest.mark.parametrize(
    "changes, match",
    [
        ({"data": True}, "other data .y.: float64"),
        ({"prior": True}, "other log-density .more."),
        (
            {"settings": {"step_size": 0.051}},
            r"other step methods: SGHMC of beta, 'step_size': 0.05,.*0.051",
        ),
        ({"settings": {"batch_size": 6}}, "other step methods"),
        ({"case": DEFAULTS[0]}, r"other step methods.*SGHMC.*SGLD"),
    ],
    ids=name_of,
)
@pytest.mark.compiled
def test_runs_of_other_models_are_refused(changes, match, saved):
    _, _, folder = saved
    model, step = altered(**changes)
    with pytest.raises(ValueError, match=match):
        resume(folder, step, draws=5, model=model)


@pytest.mark.compiled
def test_draws_that_do_not_repeat_are_refused(saved, tmp_path):
    """What no description of the model shows: here a step method that was tampered with."""
    model, step, folder = saved
    folder = copy_of(folder, tmp_path)
    with model:
        resume(folder, step, draws=3, cores=1, **QUIET)  # snapshot at its end
        save(sample(step, draws=13), step, tmp_path / "run")
        steps = step.methods[0].chain.parts.steps
        change_part(step.methods[0], steps=steps + 1)
        try:
            with pytest.raises(
                ValueError, match=r"last draws of 'beta' .* do not come out the same"
            ):
                resume(tmp_path / "run", step, draws=3, cores=1, **QUIET)
        finally:
            change_part(step.methods[0], steps=steps)


@pytest.mark.compiled
def test_two_processes_cannot_continue_one_run(saved, tmp_path):
    model, step, folder = saved
    folder = copy_of(folder, tmp_path)

    def meanwhile(trace, draw):
        if draw.draw_idx == 2 and draw.chain == 0:
            copy_of(folder / "000001", folder / "000002")

    with pytest.raises(FileExistsError, match="another process has written"):
        resume(folder, step, draws=5, model=model, cores=1, callback=meanwhile, **QUIET)


@pytest.mark.compiled
def test_wrong_arguments(saved, tmp_path):
    model, step, folder = saved
    plain = step.methods[0]
    with pytest.raises(TypeError, match=r"keeps no snapshots.*Resumable\(step\)"):
        resume(folder, plain, draws=5, model=model)
    with pytest.raises(ValueError, match=r"idata holds no snapshots.*Resumable"):
        save(sample(plain, model=model), step, tmp_path, model=model)
    with pytest.raises(TypeError, match=r"takes no \['random_seed', 'tune'\]"):
        resume(folder, step, draws=5, tune=3, random_seed=3, model=model)
    for name in ("draws", "every"):
        with pytest.raises(ValueError, match=f"{name}=0"):
            resume(folder, step, **({"draws": 5} | {name: 0}), model=model)
    with model, pytest.raises(ValueError, match="every=0"):
        Resumable(plain, every=0)
    with mixed_model() as model, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "This step method does not sample")
        ours = DEFAULTS[0].step(vars=[model["beta"]], batch_size={"obs": 5})
        with pytest.raises(
            ValueError, match=r"lacks a step method for \['mu', 'z', 'b', 's_log__'"
        ):
            Resumable(ours)


# Snapshots.


@pytest.mark.compiled
def test_reading_runs_no_code(saved, monkeypatch):
    def forbidden(*args, **kwargs):
        raise AssertionError("a file was unpickled")

    _, step, folder = saved
    for module, name in [(pickle, "load"), (pickle, "loads"), (pickle, "Unpickler"),
                         (cloudpickle, "load"), (cloudpickle, "loads")]:  # fmt: skip
        monkeypatch.setattr(module, name, forbidden)
    load(folder)
    for segment in read_segments(folder):
        state_from_text(segment.state()[0][0], {"state": step.sampling_state})


@pytest.mark.parametrize("kind", ["object", "O", "V8", "U4", "M8[s]"])
def test_arrays_of_objects_are_refused(kind):
    text = json.dumps({"array": [kind, [1], "gASVAAAAAA=="]})
    with pytest.raises(ValueError, match=r"array of type|does not fit"):
        state_from_text(text, None)


def test_text_keeps_every_bit():
    rng = np.random.default_rng(1)
    state = {
        "numbers": [0.1, -0.0, np.pi, float("inf"), 5e-324, 2**127 + 1, True, None, "a"],
        "arrays": (rng.normal(size=(2, 3)), np.float32(rng.normal(size=4)), np.array(3)),
        "scalars": (np.float64(0.1), np.float32(0.1), np.int8(3), np.bool_(True)),
        3: {},
    }
    back = state_from_text(state_to_text(state), None)
    assert back["numbers"] == state["numbers"] and list(back) == list(state)
    for kind in ("arrays", "scalars"):
        for new, old in zip(back[kind], state[kind], strict=True):
            assert type(new) is type(old) and new.dtype == old.dtype
            np.testing.assert_array_equal(new, old)
    assert np.isnan(state_from_text(state_to_text(float("nan")), None))
    back["arrays"][0][:] = 0  # writable
    with pytest.raises(TypeError, match="holds a function cannot be saved"):
        state_to_text({"f": test_text_keeps_every_bit})


@pytest.mark.compiled
def test_a_state_of_another_step_method_does_not_fit(saved):
    _, step, _ = saved
    _, other = built(DEFAULTS[2])
    text = state_to_text(step.methods[0].sampling_state)
    with pytest.raises(ValueError, match=r"does not fit|has fields"):
        other.sampling_state = state_from_text(text.replace("batch_states", "rows"),
                                               other.sampling_state)  # fmt: skip
