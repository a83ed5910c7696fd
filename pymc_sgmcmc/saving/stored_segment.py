"""A segment of a run: consecutive draws and the state of the chains after them, and its files.

A segment is a folder with these files: one netCDF file for each group of draws; ``layout.json``,
which describes their contents; ``state.json``, with the snapshot of each chain and the identity of
the run; and ``manifest.json``, with the SHA-256 of each file, of the previous manifest, and of its
own content. No file contains code.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xarray as xr

from pymc_sgmcmc.saving.lazy_groups import check_layout, join_groups
from pymc_sgmcmc.saving.stored_files import DamagedRun, StoredFile

__all__ = ["DRAWS", "FORMAT", "LAYOUT", "MANIFEST", "STATE", "VERSION", "Segment", "StoredSegment",
           "digest_of_content"]  # fmt: skip

FORMAT = "pymc_sgmcmc run"
VERSION = 2
MANIFEST, LAYOUT, STATE = "manifest.json", "layout.json", "state.json"
DRAWS = ("posterior", "sample_stats")
"""Groups that every segment has."""
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


def _read_manifest(file: StoredFile) -> tuple[dict[str, Any], str]:
    """Return the content of a manifest and its digest; raise DamagedRun if it is not valid."""
    try:
        manifest = json.loads(file.path.read_bytes())
        content, digest = manifest["content"], manifest["sha256"]
        known = content["format"] == FORMAT and digest == digest_of_content(content)
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


def digest_of_content(content: Any) -> str:
    """Return the SHA-256 of JSON, in hexadecimal digits."""
    return hashlib.sha256(_canonical(content)).hexdigest()


def _canonical(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
