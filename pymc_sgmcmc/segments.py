"""A folder of segments of a run, each written whole or not at all.

A segment is a folder with one netCDF file for each group of draws, ``state.json`` with the snapshot
of each chain, and ``manifest.json`` with the SHA-256 of each file, of the manifest before, and of
itself. It is written under another name and renamed, so that a process killed at any moment leaves
the segments before it intact. Nothing in it is code.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import xarray as xr

try:
    import fcntl
except ImportError:  # Windows: nothing keeps two processes from writing at once
    fcntl = None

__all__ = ["Segment", "append_segment", "read_segments"]

FORMAT = "pymc_sgmcmc run"
VERSION = 1
MANIFEST, STATE = "manifest.json", "state.json"
UNFINISHED = "unfinished-"


@dataclass(frozen=True)
class Segment:
    """Consecutive draws of all chains, and where the chains go on.

    Attributes
    ----------
    groups : dict of str to xarray.Dataset
    snapshots : list of str
        The last snapshot of each chain.
    repeats : int
        Draws after the snapshot: they come first when the chains go on from it.
    identity : dict
        What the run is of; the same in all segments.
    digest : str
        SHA-256 of the manifest.
    """

    groups: Mapping[str, xr.Dataset]
    snapshots: Sequence[str]
    repeats: int
    identity: Mapping[str, Any]
    digest: str = ""


def read_segments(folder: Path) -> list[Segment]:
    """All segments, in order.

    Raises
    ------
    FileNotFoundError
        If there is none.
    ValueError
        If a file is missing, altered, or of another run or kind; the message names it.
    """
    names = sorted(path.name for path in folder.glob("*") if re.fullmatch(r"\d{6}", path.name))
    if not names:
        raise FileNotFoundError(f"{str(folder)!r} holds no saved run: start one with save().")
    segments: list[Segment] = []
    for index, name in enumerate(names):
        if name != _name(index):
            raise ValueError(f"{str(folder)!r} is damaged: segment {_name(index)} is missing.")
        segments.append(_read(folder / name, segments[-1] if segments else None))
    return segments


def append_segment(folder: Path, segment: Segment, before: Sequence[Segment]) -> Segment:
    """Write a segment after those `before` it, and return it with its digest.

    Raises
    ------
    FileExistsError
        If that segment is there: another process has continued the run.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        for left in folder.glob(f"{UNFINISHED}*"):  # by processes that were killed
            shutil.rmtree(left, ignore_errors=True)
        target = folder / _name(len(before))
        if target.exists():
            raise FileExistsError(
                f"{str(target)!r} exists: another process has written to this run, or it is an "
                "older one. Choose another folder, or resume() it."
            )
        unfinished = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=folder))
        try:
            digest = _write(unfinished, segment, before[-1].digest if before else "")
            os.rename(unfinished, target)
            _sync(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return replace(segment, digest=digest)


def _name(index: int) -> str:
    return f"{index:06d}"


def _write(path: Path, segment: Segment, previous: str) -> str:
    dtypes = {}
    for group, data in segment.groups.items():
        # netCDF 3, which SciPy writes: every reader knows it, and it needs nothing installed.
        _plain_attributes(data).to_netcdf(path / f"{group}.nc", engine="scipy")
        dtypes[group] = {str(name): variable.dtype.str for name, variable in data.variables.items()}
    (path / STATE).write_text(json.dumps(list(segment.snapshots)), encoding="utf-8")
    content = {
        "format": FORMAT,
        "version": VERSION,
        "previous": previous,
        "identity": segment.identity,
        "repeats": segment.repeats,
        "dtypes": dtypes,
        "files": {file.name: _digest(file.read_bytes()) for file in sorted(path.iterdir())},
    }
    manifest = {"content": content, "sha256": _digest(_canonical(content))}
    (path / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    for file in path.iterdir():
        _sync(file)
    _sync(path)
    return manifest["sha256"]


def _plain_attributes(data: xr.Dataset) -> xr.Dataset:
    """Without those attributes that netCDF 3 cannot hold."""
    kept = {name: v for name, v in data.attrs.items() if isinstance(v, str | int | float)}
    return data.drop_attrs().assign_attrs(kept)


def _read(path: Path, before: Segment | None) -> Segment:
    def refuse(why: str) -> ValueError:
        return ValueError(
            f"{str(path)!r} cannot be resumed: {why}. The segments before it are not affected: "
            "move this one and those after it away to go on from there."
        )

    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        content, digest = manifest["content"], manifest["sha256"]
        known = content["format"] == FORMAT
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise refuse(f"{MANIFEST} is missing, torn, or not of this package ({error!r})") from error
    if not known or digest != _digest(_canonical(content)):
        raise refuse(f"{MANIFEST} is altered, or not of this package")
    if content["version"] != VERSION:
        raise refuse(
            f"its format is version {content['version']!r}, and this package reads {VERSION}"
        )
    if content["previous"] != (before.digest if before else ""):
        raise refuse("it does not follow the segment before it: it is of another run")
    for name, expected in content["files"].items():
        file = path / name
        if not file.is_file() or _digest(file.read_bytes()) != expected:
            raise refuse(f"{name} is missing, torn or altered")
    groups = {}
    for group, dtypes in content["dtypes"].items():
        data = xr.load_dataset(path / f"{group}.nc", engine="scipy")
        # netCDF 3 has no 64-bit integers.
        groups[group] = data.assign(
            {name: data[name].astype(dtypes[str(name)]) for name in data.variables}
        )
    snapshots = json.loads((path / STATE).read_text(encoding="utf-8"))
    return Segment(groups, snapshots, content["repeats"], content["identity"], digest)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _canonical(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def _sync(path: Path) -> None:
    """Force a file or a folder to the disk, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One writer at a time; the system frees the lock of a process that dies."""
    with open(folder / "lock", "a") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
