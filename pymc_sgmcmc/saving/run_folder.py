"""Folder with the segments of a run, each written whole or not at all.

A segment is a folder with these files: one netCDF file for each group of draws; ``layout.json``,
which describes their contents; ``state.json``, with the snapshot of each chain and the identity of
the run; and ``manifest.json``, with the SHA-256 of each file, of the previous manifest, and of its
own content. The folder is written under another name and then renamed, so that a process killed at
any moment leaves the earlier segments intact. No file contains code.
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
except ImportError:  # Windows: two processes may write at once
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
"""Errors of reading JSON that this package did not write."""


@dataclass(frozen=True)
class Segment:
    """Consecutive draws of all chains, and the state from which the chains continue.

    Attributes
    ----------
    groups : dict of str to xarray.Dataset
    snapshots : list of str
        The last snapshot of each chain.
    repeats : int
        Number of draws after the snapshot. Chains that continue from the snapshot repeat them.
    identity : dict
        Identity of the run, the same in all segments.
    """

    groups: Mapping[str, xr.Dataset]
    snapshots: Sequence[str]
    repeats: int
    identity: Mapping[str, Any]


class StoredSegment:
    """A segment in its folder. Its files are read and checked when they are used.

    Parameters
    ----------
    path : Path
        The segment's folder.
    before : StoredSegment or None
        The previous segment.

    Raises
    ------
    DamagedRun
        If a file is missing, altered, or of another run or kind. Methods raise this error too.
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
        """Read all files, and raise DamagedRun if one has changed since it was written."""
        for file in self._files.values():
            file.check()

    def damaged(self, error: Exception) -> DamagedRun:
        """Return `error` if it is a DamagedRun, else a DamagedRun about the layout file."""
        return _unless_damaged(error, self._files[LAYOUT])

    @property
    def parts(self) -> dict[str, tuple[StoredFile, Mapping[str, Any]]]:
        """File and layout of each group."""
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
        """Groups of draws, whose arrays are read when they are used."""
        return {name: join_groups([part]) for name, part in self.parts.items()}

    def state(self) -> tuple[list[str], int, dict[str, Any]]:
        """Return the snapshots of the chains, the number of draws after them, and the identity."""
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
    """Return all segments, in order. Only their manifests are read.

    Raises
    ------
    FileNotFoundError
        If there is no segment.
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
    """Return the groups of a run, whose arrays are read when they are used.

    The groups are those of the first segment. A group may be missing in later segments.
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
        If the segment exists already: another process has continued the run.
    FileNotFoundError
        If the folder of the previous segment does not exist any more.
    NotStorable, OSError
        If the segment cannot be written. The folder is then unchanged.
    """
    if before and not before[-1].path.is_dir():
        raise FileNotFoundError(f"{str(before[-1].path)!r} is not there any more")
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        for left in folder.glob(f"{UNFINISHED}*"):  # left by killed processes
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
    """Return the content of a manifest and its digest; raise DamagedRun if it is not valid."""
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
    """Return `error` if it is a DamagedRun, else a DamagedRun that names `file`."""
    if isinstance(error, DamagedRun):
        return error
    return file.damaged(f"is missing, torn, altered, or not of this package ({error!r:.200})")


def _digest(content: Any) -> str:
    return hashlib.sha256(_canonical(content)).hexdigest()


def _canonical(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def _sync(path: Path) -> None:
    """Force a file or a folder to the disk, if the system supports it."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock a folder for one writer at a time. The system frees the lock of a dead process."""
    with open(folder / "lock", "a") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
