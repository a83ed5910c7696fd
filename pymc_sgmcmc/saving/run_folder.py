"""A folder of segments of a run, each written whole or not at all.

A segment is a folder with one netCDF file for each group of draws; ``layout.json``, which says what
is in them; ``state.json``, with the snapshot of each chain and what it sampled; and
``manifest.json``, with the SHA-256 of each file, of the manifest before, and of itself. It is
written under another name and renamed, so that a process killed at any moment leaves the segments
before it intact. Nothing in it is code.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xarray as xr

from pymc_sgmcmc.saving.lazy_groups import check_layout, join_groups
from pymc_sgmcmc.saving.stored_files import DamagedRun, StoredFile, digest_of
from pymc_sgmcmc.saving.stored_groups import write_group

try:
    import fcntl
except ImportError:  # Windows: nothing keeps two processes from writing at once
    fcntl = None

__all__ = ["DRAWS", "Segment", "StoredSegment", "append_segment", "check_writable", "join_segments",
           "read_segments"]  # fmt: skip

FORMAT = "pymc_sgmcmc run"
VERSION = 2
MANIFEST, LAYOUT, STATE = "manifest.json", "layout.json", "state.json"
DRAWS = ("posterior", "sample_stats")
"""Groups that every segment has."""
UNFINISHED = "unfinished-"
MALFORMED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What reading JSON raises that is not what this package writes."""


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
        What was sampled; the same in all segments.
    """

    groups: Mapping[str, xr.Dataset]
    snapshots: Sequence[str]
    repeats: int
    identity: Mapping[str, Any]


class StoredSegment:
    """A segment in its folder. Its files are read, and checked, when they are asked for.

    Parameters
    ----------
    path : Path
        Of its folder.
    before : StoredSegment or None

    Raises
    ------
    DamagedRun
        Here and later: if a file is missing, altered, or of another run or kind.
    """

    def __init__(self, path: Path, before: "StoredSegment | None"):
        self.path = path
        manifest = StoredFile(path / MANIFEST, "")
        content, self.digest = _read_manifest(manifest)
        if content["previous"] != (before.digest if before else ""):
            raise manifest.damaged("does not follow the segment before it: it is of another run")
        self._files = {name: StoredFile(path / name, content["files"][name])
                       for name in content["files"]}  # fmt: skip
        for name in (LAYOUT, STATE):
            if name not in self._files:
                raise manifest.damaged(f"knows no {name}")
        for file in self._files.values():
            if not file.path.is_file():
                raise file.damaged("is missing")

    def check(self) -> None:
        """Read all of its files, and raise unless they are what was written."""
        for file in self._files.values():
            file.check()

    def damaged(self, error: Exception) -> DamagedRun:
        """Return the error if it names a file, else one that says that the layout is wrong."""
        return _unless_damaged(error, self._files[LAYOUT])

    @property
    def parts(self) -> dict[str, tuple[StoredFile, Mapping[str, Any]]]:
        """The file of each group, and its layout."""
        layout = self._files[LAYOUT]
        try:
            groups = _json_of(layout)
            for group in [*(groups[name] for name in DRAWS), *groups.values()]:
                check_layout(group)
            return {name: (self._files[f"{name}.nc"], group) for name, group in groups.items()}
        except MALFORMED as error:
            raise _unless_damaged(error, layout) from error

    @property
    def groups(self) -> dict[str, xr.Dataset]:
        """Its draws, which are read when they are asked for."""
        return {name: join_groups([part]) for name, part in self.parts.items()}

    def state(self) -> tuple[list[str], int, dict[str, Any]]:
        """Return the snapshot of each chain, the draws after it, and what was sampled."""
        file = self._files[STATE]
        try:
            state = _json_of(file)
            snapshots, repeats, identity = (state[n] for n in ("snapshots", "repeats", "identity"))
            if not (all(isinstance(s, str) for s in snapshots) and snapshots):
                raise ValueError("snapshots are texts")
            if type(repeats) is not int or repeats < 0 or not isinstance(identity, dict):
                raise ValueError(f"repeats={repeats!r}")
        except MALFORMED as error:
            raise _unless_damaged(error, file) from error
        return list(snapshots), repeats, identity


def read_segments(folder: Path) -> list[StoredSegment]:
    """Return all segments, in order; of their files, only the manifests are read.

    Raises
    ------
    FileNotFoundError
        If there is none.
    DamagedRun
        If a file is missing, or a manifest altered, or of another run or kind.
    """
    names = sorted(path.name for path in folder.glob("*") if re.fullmatch(r"\d{6,}", path.name))
    if not names:
        raise FileNotFoundError(f"{str(folder)!r} holds no saved run: start one with save().")
    segments: list[StoredSegment] = []
    for index, name in enumerate(names):
        if name != _name(index):
            raise DamagedRun(f"{str(folder)!r} is damaged: segment {_name(index)} is missing.")
        segments.append(StoredSegment(folder / name, segments[-1] if segments else None))
    return segments


def join_segments(segments: Sequence[StoredSegment]) -> dict[str, xr.Dataset]:
    """Return the groups of a run, whose draws are read when they are asked for.

    Groups without draws in later segments are those of the first.
    """
    parts = [segment.parts for segment in segments]
    return {name: join_groups([part[name] for part in parts if name in part]) for name in parts[0]}


def append_segment(
    folder: Path, segment: Segment, before: Sequence[StoredSegment]
) -> StoredSegment:
    """Write a segment after those `before` it, and return it.

    Raises
    ------
    FileExistsError
        If that segment is there: another process has continued the run.
    NotStorable, OSError
        If it cannot be written. The folder is then as it was.
    """
    if before and not before[-1].path.is_dir():
        raise FileNotFoundError(f"{str(before[-1].path)!r} is not there any more")
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
            _write(unfinished, segment, before[-1].digest if before else "")
            os.rename(unfinished, target)
            _sync(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return StoredSegment(target, before[-1] if before else None)


def check_writable(folder: Path) -> None:
    """Raise OSError if no segment can be written to a folder."""
    with _locked(folder):
        os.rmdir(tempfile.mkdtemp(prefix=UNFINISHED, dir=folder))


def _name(index: int) -> str:
    return f"{index:06d}"


def _write(path: Path, segment: Segment, previous: str) -> None:
    layout = {name: write_group(path / f"{name}.nc", data) for name, data in segment.groups.items()}
    state = {"snapshots": list(segment.snapshots), "repeats": segment.repeats}
    (path / LAYOUT).write_text(json.dumps(layout), encoding="utf-8")
    state["identity"] = segment.identity
    (path / STATE).write_text(json.dumps(state), encoding="utf-8")
    content = {
        "format": FORMAT,
        "version": VERSION,
        "previous": previous,
        "files": {file.name: digest_of(file) for file in sorted(path.iterdir())},
    }
    manifest = {"content": content, "sha256": _digest(content)}
    (path / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    for file in path.iterdir():
        _sync(file)
    _sync(path)


def _read_manifest(file: StoredFile) -> tuple[dict[str, Any], str]:
    """Return what a manifest says, and its digest."""
    try:
        manifest = json.loads(file.path.read_bytes())
        content, digest = manifest["content"], manifest["sha256"]
        known = content["format"] == FORMAT and digest == _digest(content)
        version = content["version"]
        if known and version != VERSION:
            raise file.damaged(
                f"says that the run was saved in version {version!r} of the format "
                f"{FORMAT!r}, and this package reads version {VERSION}: resume it with the version "
                "of this package that saved it"
            )
        files = content["files"]
        if not (known and isinstance(content["previous"], str) and isinstance(files, dict)):
            raise ValueError("altered")
        for name, expected in files.items():
            if not isinstance(expected, str) or Path(name).name != name:
                raise ValueError(f"{name!r} is no file")
    except (OSError, *MALFORMED) as error:
        raise _unless_damaged(error, file) from error
    return content, digest


def _json_of(file: StoredFile) -> Any:
    return json.loads(file.check().read_bytes())


def _unless_damaged(error: Exception, file: StoredFile) -> DamagedRun:
    """Return the error if it names a file, else one that names `file`."""
    if isinstance(error, DamagedRun):
        return error
    return file.damaged(f"is missing, torn, altered, or not of this package ({error!r:.200})")


def _digest(content: Any) -> str:
    return hashlib.sha256(_canonical(content)).hexdigest()


def _canonical(content: Any) -> bytes:
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
