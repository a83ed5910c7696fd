"""Draws of `pm.sample` as segments of a run, and segments as draws."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from pymc_sgmcmc._utils.groups import from_groups
from pymc_sgmcmc.saving.identity import check_identity, declare
from pymc_sgmcmc.saving.resumable import sampled_identity
from pymc_sgmcmc.saving.run_folder import append_segment, join_segments
from pymc_sgmcmc.saving.stored_groups import NotStorable, encode
from pymc_sgmcmc.saving.stored_segment import DRAWS, Segment, StoredSegment

__all__ = ["DrawsNotSaved", "append_draws", "join_draws", "load_end", "make_segment"]

_log = logging.getLogger("pymc.sgmcmc")

WARMUP = ("warmup_posterior", "warmup_sample_stats")


class DrawsNotSaved(OSError):
    """Error for draws that could not be written.

    Attributes
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        The draws, with the snapshots of the chains. ``save(error.idata, step, folder)`` saves them
        as a new run, which can be resumed.
    """

    def __init__(self, folder: Path, error: Exception, idata: Any):
        super().__init__(
            f"{str(folder)!r} could not be written to ({error}). The draws are in the attribute "
            "`idata` of this error: save(error.idata, step, another_folder), with room for them, "
            "starts a run from them."
        )
        self.idata = idata


def make_segment(groups: Mapping[str, xr.Dataset], declared: str | None) -> Segment:
    """Return a segment of `groups` with the last snapshot of each chain and their identity."""
    stored = groups["sample_stats"].get("snapshot")
    texts = None if stored is None else stored.values.reshape(*stored.shape[:2], -1)[..., 0]
    if texts is None or not (texts != "").any(axis=1).all():
        raise ValueError(
            "idata holds no snapshots: it must be what pm.sample(step=Resumable(...)) returned, "
            "with at least one draw."
        )
    at = int(np.flatnonzero(texts[0] != "")[-1])
    kept = {name: _storable(groups[name]) for name in (*DRAWS, *WARMUP) if name in groups}
    snapshots = texts[:, at].tolist()
    first, *others = (declare(sampled_identity(text), declared) for text in snapshots)
    for chain, other in enumerate(others, 1):
        what = f"Chain 0 of idata is not of the run of chain {chain}: it"
        check_identity(first, other, what, "Sample all chains of the same model and data.")
    return Segment(kept, snapshots, texts.shape[1] - 1 - at, first)


def join_draws(segments: Sequence[StoredSegment], others: Mapping[str, xr.Dataset]) -> Any:
    """Return all draws of a run, whose arrays are read when they are used, and `others`."""
    groups = join_segments(segments)
    try:
        return from_groups({**groups, **others})
    except ValueError as error:  # a name is not valid in a tree of groups
        raise segments[0].damaged(error) from error


def load_end(stored: StoredSegment) -> Segment:
    """Return a segment with the draws after its snapshots, but at least one, in memory."""
    snapshots, repeats, identity = stored.state()
    posterior = stored.groups["posterior"].isel(draw=slice(-max(repeats, 1), None)).load()
    return Segment({"posterior": posterior}, snapshots, repeats, identity)


def _storable(group: xr.Dataset) -> xr.Dataset:
    """Return a group without snapshots, warnings, and stats of types that cannot be stored."""
    group = group.drop_vars(["snapshot", "warning"], errors="ignore")
    for name in [name for name, stat in group.data_vars.items() if stat.dtype.hasobject]:
        try:
            encode(name, group[name].values)
        except NotStorable as error:
            _log.warning(f"Sample stat {error} It is left out.")
            group = group.drop_vars([name])
    return group


def append_draws(
    folder: Path, segment: Segment, before: Sequence[StoredSegment], idata: Any
) -> StoredSegment:
    """Write a segment; if that fails, raise DrawsNotSaved with the draws `idata`."""
    try:
        return append_segment(folder, segment, before)
    except FileExistsError:
        raise
    except (OSError, RuntimeError, TypeError, ValueError) as error:
        raise DrawsNotSaved(folder, error, idata) from error
