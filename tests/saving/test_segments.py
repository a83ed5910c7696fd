"""Files of runs: everything comes back as it was, or is refused. Nothing is sampled or compiled."""

import json
import os
import shutil
import time
import tracemalloc
from datetime import UTC, date, datetime
from fractions import Fraction
from zoneinfo import ZoneInfo

import h5py
import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr

from pymc_sgmcmc import Gibbs, Resumable, load, resume, save
from pymc_sgmcmc.saving import run_folder, stored_segment
from pymc_sgmcmc.saving.labels import label_from_text, label_to_text
from pymc_sgmcmc.saving.run_folder import append_segment, join_segments, read_segments
from pymc_sgmcmc.saving.saved_runs import DrawsNotSaved
from pymc_sgmcmc.saving.stored_files import DamagedRun
from pymc_sgmcmc.saving.stored_segment import Segment
from tests.cases import sample

CHAINS = 2
STATE = (["snapshot"] * CHAINS, 0, {"PyMC": "6"})
DTYPES = ["f8", "f4", "f2", "g", "?", "i1", "i8", "u1", "u8", "F", "D", ">f8", "M8[s]", "m8[ns]"]
NAMES = ["β", "x\\y", "a b", "😀", "chains", ".", " ", "mu::log", "L" * 500, "_u", "variable_3",
         "\ud800", "", "e\u0301", "\u00e9", "name[0]", "draw_"]  # fmt: skip


def numbers(rng, dtype, shape):
    raw = rng.integers(0, 255, size=(*shape, np.dtype(dtype).itemsize), dtype=np.uint8)
    if np.dtype(dtype).kind in "fc" or dtype == "?":
        return rng.normal(size=shape).astype(dtype)
    return raw.view(dtype)[..., 0]


def objects(items, shape):
    array = np.empty(int(np.prod(shape)), dtype=object)
    for i in range(array.size):
        array[i] = items[i % len(items)]
    return array.reshape(shape)


BERLIN = ZoneInfo("Europe/Berlin")
LABELS = [None, "a", ("a", (1, None)), 10**30, 1.5, pd.NaT, pd.NA, Fraction(1, 3), date(2024, 1, 1),
          datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN, fold=1),
          pd.Timestamp("2024-10-27 01:30", tz="UTC").tz_convert(BERLIN), pd.Period("2024Q1"),
          pd.Interval(0, 1), pd.Timedelta("3h"), np.int8(3), b"a", "β\0", True, 1j]  # fmt: skip


def group(n, start=0, seed=0):
    """Draws of all types, under all names."""
    rng, shape = np.random.default_rng((seed, start)), (CHAINS, n)
    arrays = [numbers(rng, dtype, shape) for dtype in DTYPES]
    arrays += [np.full(shape, np.nan), objects(LABELS, shape), np.array(["β", "b\0c"] * n)
               .reshape(shape)]  # fmt: skip
    variables = {
        name: (("chain", "draw"), array) for name, array in zip(NAMES, arrays, strict=True)
    }
    return xr.Dataset(
        variables
        | {
            "vector": (("chain", "draw", "per"), rng.normal(size=(*shape, 3))),
            "last": (("per", "chain", "draw"), rng.normal(size=(3, *shape))),
            "empty": (("chain", "draw", "no"), np.empty((*shape, 0))),
            "texts": (("chain", "draw"), np.array([["a" * (1 + start)] * n] * CHAINS)),
            "scalar": ((), 3.5),
        },
        coords={
            "chain": np.arange(CHAINS),
            "draw": np.arange(start, start + n),
            "per": objects(list(pd.period_range("2024", periods=3, freq="M")), (3,)),
            "where": ("per", ["a", "b", "β"]),
        },
        attrs={"kept": 1, "list": [1]},
    )


def segment(n, start=0):
    stats = xr.Dataset({"accept": (("chain", "draw"), np.arange(n * CHAINS).reshape(CHAINS, n))})
    return Segment({"posterior": group(n, start), "sample_stats": stats}, *STATE)


def write(folder, sizes=(5, 1, 7)):
    before, start = [], 0
    for n in sizes:
        before.append(append_segment(folder, segment(n, start), before))
        start += n
    return before


def assert_same(actual, expected):
    assert set(actual.variables) == set(expected.variables)
    for name, want in expected.variables.items():
        got = actual.variables[name]
        assert got.dtype == want.dtype and got.dims == want.dims, name
        if want.dtype == object:
            assert [*map(repr, got.values.flat)] == [*map(repr, want.values.flat)], name
        else:
            np.testing.assert_array_equal(got.values, want.values, err_msg=repr(name))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    write(folder)
    data = [group(5), group(1, 5), group(7, 6)]
    how = dict(data_vars="all", coords="minimal", compat="override", join="override")
    whole = xr.concat([part.drop_vars("scalar") for part in data], dim="draw", **how)
    return folder, whole.assign(scalar=3.5).assign_attrs(kept=1)


def test_everything_comes_back(run):
    folder, whole = run
    idata = load(folder)
    assert_same(idata.posterior, whole)
    assert idata.posterior.attrs["kept"] == 1 and list(idata.posterior.coords) == list(whole.coords)


@pytest.mark.parametrize(
    "part", [np.s_[0], np.s_[:, 3], np.s_[:, -1], np.s_[:, 2:11:3], np.s_[:, ::-2], np.s_[:, 6:6],
             np.s_[1, 10:2:-3, ::-1], np.s_[:, 5], np.s_[..., 2], np.s_[::-1, 5:6], [1, 0]],
    ids=str,
)  # fmt: skip
def test_parts_of_arrays(part, run):
    folder, whole = run
    vector = join_segments(read_segments(folder))["posterior"]["vector"]
    np.testing.assert_array_equal(vector[part].values, whole["vector"][part].values)


def test_arrays_are_read_when_they_are_asked_for(run, monkeypatch):
    folder, _ = run
    opened = []
    real = h5py.File.__getitem__

    def getitem(file, name):
        opened.append((os.path.basename(os.path.dirname(file.filename)), name))
        return real(file, name)

    monkeypatch.setattr(h5py.File, "__getitem__", getitem)
    draws = load(folder).posterior
    assert {name for _, name in opened} <= {"chain", "draw", "per"}  # which xarray indexes
    opened.clear()
    draws["vector"].variable.isel(draw=slice(6, 9)).load()
    assert set(opened) == {("000002", "vector")}


def test_readers_of_netcdf_know_the_files(run):
    folder, whole = run
    for engine in ("h5netcdf", "netcdf4"):
        pytest.importorskip({"netcdf4": "netCDF4"}.get(engine, engine), exc_type=ImportError)
        with xr.open_dataset(folder / "000002" / "posterior.nc", engine=engine) as data:
            np.testing.assert_array_equal(data["β"], whole["β"][:, 6:])
            np.testing.assert_array_equal(data["vector"], whole["vector"][:, 6:])
            assert data["vector"].dims == ("chain", "draw", "per")


def test_a_folder_that_is_replaced_does_not_pass_for_the_run(tmp_path):
    write(tmp_path / "run", [3])
    draws = load(tmp_path / "run").posterior
    shutil.rmtree(tmp_path / "run")
    append_segment(tmp_path / "run", segment(3, start=1), [])
    with pytest.raises(DamagedRun, match=r"000000' cannot be read: posterior.nc is torn"):
        draws["vector"].load()
    shutil.rmtree(tmp_path / "run")
    with pytest.raises(DamagedRun, match=r"posterior.nc is missing"):
        draws["last"].load()


@pytest.mark.parametrize("label", [*LABELS, float("nan"), frozenset([1, 2]), np.datetime64("2024")],
                         ids=repr)  # fmt: skip
def test_labels_come_back(label):
    back = label_from_text(label_to_text(label))
    assert type(back) is type(label) and repr(back) == repr(label)


@pytest.mark.parametrize(
    "text", ["[1]", "1", '{"Period":["x","M"]}', '{"int":"zz"}', "[" * 100_000, '{"bytes":[1]}',
             '{"Timestamp":["1","s","no/zone"]}', '{"datetime":["2024-01-01","../etc",0]}',
             '{"scalar":["O","00"]}', '{"Decimal":"x"}', '{"Fraction":"1/0"}', '{"complex":[1]}',
             '{"timedelta":["a"]}', '{"missing":[1]}', '{"function":"print"}'],
    ids=lambda text: text[:20],
)  # fmt: skip
def test_what_is_no_label_is_refused(text):
    with pytest.raises(ValueError):
        label_from_text(text)


# Damage.


def files_of(folder):
    return sorted(path for path in folder.rglob("*.*") if path.is_file())


def seal(folder, segment):
    """Make the checksums of a segment those of its files, and the chain of manifests whole."""
    file = folder / segment / "manifest.json"
    content = json.loads(file.read_text())["content"]
    for name in content["files"]:
        content["files"][name] = run_folder.digest_of(folder / segment / name)
    file.write_text(
        json.dumps({"content": content, "sha256": stored_segment.digest_of_content(content)})
    )


def forge(folder, rng):
    """Change something in a JSON file, and recompute the checksums."""
    segment = str(rng.choice(["000000", "000001", "000002"]))
    name = str(rng.choice(["manifest.json", "layout.json", "state.json"]))
    file = folder / segment / name
    data = json.loads(file.read_text())
    where = data["content"] if name == "manifest.json" else data
    while True:  # a random place in the tree
        keys = list(where) if isinstance(where, dict) else list(range(len(where)))
        key = keys[rng.integers(len(keys))]
        if not (isinstance(where[key], dict | list) and where[key]) or rng.random() < 0.2:
            break
        where = where[key]
    wrong = [None, -1, 10**400, 1e999, "", "../x", [], {}, [[]], True, "O", "posterior.nc"]
    if rng.random() < 0.3:
        del where[key]
    else:
        where[key] = wrong[rng.integers(len(wrong))]
    if name == "manifest.json":
        data["sha256"] = stored_segment.digest_of_content(data["content"])
    text = json.dumps(data)
    if rng.random() < 0.1:
        text = text[:-1] + ', "more": ' + "[" * 100_000 + "]" * 100_000 + text[-1]
    file.write_text(text)
    if name != "manifest.json":
        seal(folder, segment)


def damage(folder, rng):
    """Do one thing to the files of a run, and say what."""
    files = files_of(folder)
    one, two = (files[i] for i in rng.choice(len(files), size=2, replace=False))
    content, kind = bytearray(one.read_bytes()), int(rng.integers(8))
    if kind == 0:
        place = rng.integers(len(content))
        content[place] ^= 1 << int(rng.integers(8))
        one.write_bytes(content)
    elif kind == 1:
        one.write_bytes(content[: rng.integers(len(content))])
    elif kind == 2:
        one.unlink()
    elif kind == 3:
        one.write_bytes(two.read_bytes())
    elif kind == 4:
        other = two.read_bytes()
        two.write_bytes(content)
        one.write_bytes(other)
    elif kind == 5:
        shutil.rmtree(one.parent)
        shutil.copytree(folder / "000001", one.parent) if one.parent.name != "000001" else None
    elif kind == 6:
        one.write_bytes(rng.bytes(len(content)))
    else:
        forge(folder, rng)
    return kind, one


def survive(folder, whole, tmp_path, count, seed):
    """Load damaged copies of a run: all that loads is right, all else is one error."""
    rng, refused = np.random.default_rng(seed), 0
    for i in range(count):
        copy = shutil.copytree(folder, tmp_path / str(i))
        what = damage(copy, rng)
        try:
            draws = load(copy).posterior.load()
        except DamagedRun as error:
            refused += 1
            assert any(f"{name}." in str(error) or "is missing" in str(error)
                       for name in ("manifest", "layout", "state", "posterior", "sample_stats")
                       ), (what, error)  # fmt: skip
        else:
            assert set(draws.variables) <= set(whole.variables), what
            assert_same(draws, whole[list(draws.data_vars)].assign_coords(draws.coords))
            np.testing.assert_array_equal(draws["where"], whole["where"])
        shutil.rmtree(copy)
    return refused


def test_damaged_runs_do_not_load(run, tmp_path):
    assert survive(*run, tmp_path, count=60, seed=1) > 45


@pytest.mark.statistics
def test_five_hundred_corruptions(run, tmp_path):
    assert survive(*run, tmp_path, count=500, seed=2) > 400


def test_runs_of_an_earlier_format_are_refused(run, tmp_path):
    folder = shutil.copytree(run[0], tmp_path / "run")
    file = folder / "000000" / "manifest.json"
    content = json.loads(file.read_text())["content"] | {"version": 1}
    file.write_text(
        json.dumps({"content": content, "sha256": stored_segment.digest_of_content(content)})
    )
    with pytest.raises(DamagedRun, match=r"saved in version 1 of the format .* reads version 2"):
        load(folder)


# Time and memory.


@pytest.mark.statistics
def test_a_segment_beyond_two_gigabytes(tmp_path):
    draws = xr.Dataset({"w": (("chain", "draw", "k"), np.zeros((4, 1000, 67_200)))})
    draws["w"].values[3, 999, -1] = 1
    tracemalloc.start()
    stored = append_segment(
        tmp_path, Segment({"posterior": draws, "sample_stats": xr.Dataset()}, *STATE), []
    )
    read = stored.groups["posterior"]["w"]
    assert read.shape == (4, 1000, 67_200) and read.dtype == float
    np.testing.assert_array_equal(read[3, 998:, -2:], [[0, 0], [0, 1]])
    assert tracemalloc.get_traced_memory()[1] < 100e6
    tracemalloc.stop()


def test_appending_reads_no_earlier_draws(tmp_path, monkeypatch):
    before = write(tmp_path, [3] * 4)
    monkeypatch.setattr(h5py.Dataset, "__getitem__", None)
    monkeypatch.setattr(stored_segment.StoredFile, "check", None)
    append_segment(tmp_path, segment(3, start=12), before)
    assert len(read_segments(tmp_path)) == 5


@pytest.mark.statistics
def test_the_time_to_append_does_not_grow(tmp_path):
    def stretch(count):
        start = time.perf_counter()
        for _ in range(count):
            before.append(append_segment(tmp_path, segment(3, 3 * len(before)), before))
        return time.perf_counter() - start

    before = []
    times = [stretch(15) for _ in range(6)]
    assert min(times[3:]) < 1.5 * min(times[:3])


# What is known to fail is said before it is sampled, and what fails all the same loses nothing.


def step_on(labels=(1, 2), name="β 😀"):
    with pm.Model(coords={"d": labels}) as model:
        variable = pm.Normal(name, dims="d")
        step = Resumable([Gibbs(variable, lambda point, rng: rng.normal(size=len(labels)))])
    return model, step


@pytest.mark.parametrize(
    "labels",
    [
        pd.date_range("2024", periods=2, tz="Europe/Berlin"),
        pd.period_range("2024-01", periods=2, freq="M"),
        [None, "a"],
        [10**12, 10**12 + 1],
        [10**30, 1],
        ["a\0b", "c"],
        [b"a", b"b"],
        [1j, 2],
        [],
    ],
    ids=str,
)
@pytest.mark.compiled
def test_labels_are_saved_and_kept(labels, tmp_path):
    model, step = step_on(labels)
    idata = sample(step, model=model, draws=3, tune=1)
    save(idata, step, tmp_path)
    assert_same(load(tmp_path).posterior, idata.posterior)
    quiet = dict(progressbar=False, cores=1, compute_convergence_checks=False)
    assert_same(resume(tmp_path, step, 4, every=3, **quiet).posterior, load(tmp_path).posterior)


@pytest.mark.parametrize(
    ("labels", "name", "match"),
    [
        ([(1, 2), (3, 4)], "a", "coordinate 'd' has labels .* sequences"),
        ([(1,), (2, 3)], "a", "coordinate 'd' has labels"),
        ([object(), object()], "a", "coordinate 'd' has labels .*object is not known"),
        ([1, 2], "draw", "cannot be called 'draw'"),
        ([1, 2], "chain", "cannot be called 'chain'"),
        ([1, 2], "a" * 1001, "name of 1001 letters"),
    ],
)
def test_what_cannot_be_saved_is_said_before_sampling(labels, name, match):
    with pytest.raises(ValueError, match=match):
        step_on(labels, name)


@pytest.mark.compiled
def test_draws_that_are_not_written_are_not_lost(tmp_path, monkeypatch):
    model, step = step_on()
    idata = sample(step, model=model, draws=3, tune=1)
    quiet = dict(progressbar=False, cores=1, compute_convergence_checks=False)

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(run_folder, "write_group", full)
        with pytest.raises(DrawsNotSaved, match=r"No space.*attribute `idata`") as caught:
            save(idata, step, tmp_path / "run")
        assert caught.value.idata is idata
    save(idata, step, tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(run_folder.os, "rename", full)
        with pytest.raises(DrawsNotSaved, match="No space") as caught:
            resume(tmp_path / "run", step, 4, **quiet)
    save(caught.value.idata, step, tmp_path / "rest")
    whole = resume(tmp_path / "run", step, 4, **quiet).posterior
    assert_same(load(tmp_path / "rest").posterior, whole.isel(draw=slice(3, None)))


@pytest.mark.compiled
def test_a_folder_that_cannot_be_written_is_found_before_sampling(tmp_path, monkeypatch):
    model, step = step_on()
    save(sample(step, model=model, draws=3, tune=1), step, tmp_path)

    def deny(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(run_folder.tempfile, "mkdtemp", deny)
    monkeypatch.setattr(pm, "sample", None)
    with pytest.raises(OSError, match=r"cannot be written to.*Permission"):
        resume(tmp_path, step, 4)


@pytest.mark.compiled
def test_a_folder_that_is_deleted_meanwhile(tmp_path):
    model, step = step_on()
    folder = tmp_path / "run"
    save(sample(step, model=model, draws=3, tune=1), step, folder)

    def delete(trace, draw):
        shutil.rmtree(folder, ignore_errors=True)

    with pytest.raises(DrawsNotSaved) as caught:
        resume(folder, step, 4, callback=delete, progressbar=False, cores=1)
    assert caught.value.idata.posterior.sizes["draw"] == 4
