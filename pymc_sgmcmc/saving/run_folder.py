"""Folder with the segments of a run, each written whole or not at all.

A segment is written under another name and then renamed, so that a process killed at any moment
leaves the earlier segments intact.
"""

import contextlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import xarray as xr

from pymc_sgmcmc.saving.lazy_groups import join_groups
from pymc_sgmcmc.saving.stored_files import DamagedRun, digest_of
from pymc_sgmcmc.saving.stored_groups import write_group
from pymc_sgmcmc.saving.stored_segment import (
    FORMAT,
    LAYOUT,
    MANIFEST,
    STATE,
    VERSION,
    Segment,
    StoredSegment,
    digest_of_content,
)

try:
    import fcntl
except ImportError:  # Windows: two processes may write at once
    fcntl = None  # type: ignore[assignment]  # a module elsewhere

__all__ = ["append_segment", "check_writable", "join_segments", "read_segments"]

UNFINISHED = "unfinished-"


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
    manifest = {"content": content, "sha256": digest_of_content(content)}
    (path / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    for file in path.iterdir():
        _sync(file)
    _sync(path)


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
