"""Save a run, and continue it later as if it had never stopped."""

import logging
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from pymc import Model
from pymc.stats.convergence import log_warnings, run_convergence_checks

from pymc_sgmcmc._utils.argument_rows import DRAWS_OF, FLAG, FOLDER, MODEL
from pymc_sgmcmc._utils.arguments import takes
from pymc_sgmcmc._utils.compat import from_groups, to_groups
from pymc_sgmcmc._utils.constraints import Instance, Optional, Ruled, Whole
from pymc_sgmcmc._utils.context import model_of
from pymc_sgmcmc._utils.validation import natural
from pymc_sgmcmc.saving.identity import NOW, check_identity, declare
from pymc_sgmcmc.saving.resumable import Resumable, sampled_identity
from pymc_sgmcmc.saving.run_folder import (
    DRAWS,
    Segment,
    StoredSegment,
    append_segment,
    check_writable,
    join_segments,
    read_segments,
)
from pymc_sgmcmc.saving.stored_groups import NotStorable, encode

__all__ = ["DrawsNotSaved", "load", "resume", "save"]

_log = logging.getLogger("pymc.sgmcmc")

WARMUP = ("warmup_posterior", "warmup_sample_stats")
OURS = ("draws", "step", "tune", "chains", "random_seed", "initvals", "start", "trace", "var_names",
        "discard_tuned_samples", "return_inferencedata", "nuts_sampler")  # fmt: skip
"""Arguments of `pm.sample` that a run has already, or that would leave it."""
START_ANEW = "Resume it with what it was started with, or start a new one."


class DrawsNotSaved(OSError):
    """Draws could not be written.

    Attributes
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        The draws, with the snapshots of the chains: ``save(error.idata, step, folder)`` makes them
        a run of their own, which can be resumed.
    """

    def __init__(self, folder: Path, error: Exception, idata: Any):
        super().__init__(
            f"{str(folder)!r} could not be written to ({error}). The draws are in the attribute "
            "`idata` of this error: save(error.idata, step, another_folder), with room for them, "
            "starts a run from them."
        )
        self.idata = idata


RESUMABLE = Ruled("Resumable(step)", lambda name, value: _resumable(value), lambda: [None, 3, "x"])
IDENTITY = Optional(Instance(str, "a string that stands for functions which cannot be identified"))


@takes(idata=DRAWS_OF, step=RESUMABLE, folder=FOLDER, identity=IDENTITY, model=MODEL)
def save(
    idata: Any,
    step: Resumable,
    folder: str | Path,
    *,
    identity: str | None = None,
    model: Any = None,
) -> None:
    """Save what `pm.sample` returned, and where its chains stopped, as the start of a run.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        From ``pm.sample(step=step)``.
    step : Resumable
        The step methods that the draws are from.
    folder : path
        New, or without a run in it. The draws are in its ``000000/posterior.nc``, which every
        reader of netCDF-4 knows.
    identity : str, optional
        Your own text for what the functions among the settings are, in place of their code: needed
        where that cannot be read, and to be given to `resume` again.
    model : pymc.Model, optional
        That of `step`, which is the default.

    Raises
    ------
    TypeError
        If `step` is not `Resumable`.
    ValueError
        If `idata` does not come from `step`, or a function cannot be identified; the message names
        what differs. Data may have changed since: the run is of those that were sampled.
    FileExistsError
        If the folder holds a run.
    DrawsNotSaved
        If the folder cannot be written to: an OSError that has the draws.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from pymc_sgmcmc import SGHMC, Resumable, load, save
    >>> with pm.Model():
    ...     y = pm.Normal("y", pm.Normal("mu"), observed=np.arange(10.0))
    ...     step = Resumable(SGHMC())
    ...     idata = pm.sample(step=step, progressbar=False, random_seed=1)
    ...     save(idata, step, "run")
    >>> load("run").posterior.equals(idata.posterior)
    True
    """
    _model_of(_resumable(step), model)
    segment = _segment(to_groups(idata), identity)
    here, cure = (
        declare(step.identity(), identity),
        "Save it with the step that it was sampled with.",
    )
    check_identity(segment.identity, here, "idata does not come from this step: it", cure, but=NOW)
    _append(Path(folder), segment, [], idata)


@takes(folder=FOLDER)
def load(folder: str | Path) -> Any:
    """The draws and sample stats of a saved run, as `pm.sample` returns them.

    Needs neither the model nor the step methods, and so lacks the observed data.

    Parameters
    ----------
    folder : path
        Of a run that `save` started.

    Returns
    -------
    arviz.InferenceData or xarray.DataTree
        All draws since the run began, with those of tuning if they were kept. Checksums of all
        files are compared now; arrays are read when they are used.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no run, or it is damaged; the message names the file.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from pymc_sgmcmc import SGHMC, Resumable, load, save
    >>> with pm.Model():
    ...     y = pm.Normal("y", pm.Normal("mu"), observed=np.arange(10.0))
    ...     step = Resumable(SGHMC())
    ...     idata = pm.sample(step=step, progressbar=False, random_seed=1)
    ...     save(idata, step, "run")
    >>> float(load("run").posterior["mu"].mean().round(1))
    4.1
    """
    segments = read_segments(Path(folder))
    for segment in segments:
        segment.check()
    return _whole(segments, {})


@takes(
    folder=FOLDER,
    step=RESUMABLE,
    draws=Whole(),
    every=Optional(Whole()),
    identity=IDENTITY,
    model=MODEL,
    compute_convergence_checks=FLAG,
)
def resume(
    folder: str | Path,
    step: Resumable,
    draws: int,
    *,
    every: int | None = None,
    identity: str | None = None,
    model: Any = None,
    compute_convergence_checks: bool = True,
    **sample_kwargs,
) -> Any:
    """Continue a saved run by more draws, and return all of it.

    The draws are those of a run that was never interrupted, bit by bit on the same machine.
    A process killed while it resumes loses the draws since its last segment, and nothing else.

    Parameters
    ----------
    folder : path
        Of a run that `save` started.
    step : Resumable
        The same step methods, on the same model and data.
    draws : int
        How many more of each chain. ``load(folder).posterior.sizes["draw"]`` says how many there
        are.
    every : int, optional
        Draws of a segment, which is saved when all chains have reached its end. Default `draws`.
    identity : str, optional
        What `save` was given.
    model : pymc.Model, optional
        That of `step`, which is the default.
    compute_convergence_checks : bool
        Of the whole run, at its end.
    **sample_kwargs
        For `pm.sample`: cores, mp_ctx, progressbar, callback, and the like.

    Returns
    -------
    arviz.InferenceData or xarray.DataTree
        All draws since the run began. Arrays are read from the folder when they are used.

    Raises
    ------
    FileNotFoundError
        If there is no run.
    DrawsNotSaved
        If a segment cannot be written: an OSError whose `idata` has the draws of that segment.
    TypeError
        If `step` is not `Resumable`, or `sample_kwargs` has what a run keeps from its start.
    ValueError
        If a file is damaged, or the model, data, functions or settings are not those of the run.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from pymc_sgmcmc import SGHMC, Resumable, resume, save
    >>> with pm.Model():
    ...     y = pm.Normal("y", pm.Normal("mu"), observed=np.arange(10.0))
    ...     step = Resumable(SGHMC())
    ...     save(pm.sample(step=step, progressbar=False, random_seed=1), step, "run")
    ...     idata = resume("run", step, draws=1000, every=500, progressbar=False)
    >>> idata.posterior.sizes["draw"]
    2000
    """
    folder, model = Path(folder), _model_of(_resumable(step), model)
    draws = natural("draws", draws)
    every = draws if every is None else natural("every", every)
    taken = sorted(set(sample_kwargs).intersection(OURS))
    if taken:
        raise TypeError(f"resume() takes no {taken}: a run keeps what it was started with.")
    segments = read_segments(folder)
    segments[-1].check()
    last = _end_of(segments[-1])
    of_run, what = last.identity, f"The run in {str(folder)!r}"
    check_identity(of_run, declare(step.identity(), identity), what, START_ANEW)
    try:
        check_writable(folder)
    except OSError as error:
        raise OSError(f"{str(folder)!r} cannot be written to: {error}") from error

    goal = draws
    while goal > 0:
        size = min(every, goal)
        groups = _continue(last, step, model, size, sample_kwargs)
        new = groups["posterior"].sizes["draw"]
        if new < size:
            _log.warning(f"Interrupted: the draws since the last segment of {folder} are lost.")
            break
        last = _segment({name: groups[name] for name in DRAWS}, identity)
        check_identity(of_run, last.identity, what, f"It changed meanwhile. {START_ANEW}")
        segments.append(_append(folder, last, segments, from_groups(groups)))
        goal -= size
        _log.info(f"Saved {new} draws of each chain to {folder}, {goal} to go.")
    others = {name: data for name, data in groups.items() if name not in DRAWS}
    idata = _whole(segments, others)
    if compute_convergence_checks:
        log_warnings(run_convergence_checks(idata, model))
    return idata


def _resumable(step: Any) -> Resumable:
    if not isinstance(step, Resumable):
        raise TypeError(
            f"step={step!r} keeps no snapshots of its state: sample with Resumable(step)."
        )
    return step


def _model_of(step: Resumable, model: Any) -> Model:
    """Return the model of `step`; raise ValueError if another is given."""
    if step.model is None:  # a copy
        return model_of(model)
    if model is not None and model is not step.model:
        raise ValueError("model= is not the model that Resumable(step) was built on.")
    return step.model


def _segment(groups: Mapping[str, xr.Dataset], declared: str | None) -> Segment:
    """Return the draws in `groups`, the last snapshot of each chain, and what they sampled."""
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


def _whole(segments: Sequence[StoredSegment], others: Mapping[str, xr.Dataset]) -> Any:
    """Return all draws of a run, which are read when they are asked for, and other groups."""
    groups = join_segments(segments)
    try:
        return from_groups(groups | others)
    except ValueError as error:  # names that no tree of groups can have
        raise segments[0].damaged(error) from error


def _end_of(stored: StoredSegment) -> Segment:
    """Return a segment with its last draws, in memory: those after the snapshots, at least one."""
    snapshots, repeats, identity = stored.state()
    posterior = stored.groups["posterior"].isel(draw=slice(-max(repeats, 1), None)).load()
    return Segment({"posterior": posterior}, snapshots, repeats, identity)


def _storable(group: xr.Dataset) -> xr.Dataset:
    """Return a group without snapshots, and without those stats that are of unknown types."""
    group = group.drop_vars(["snapshot", "warning"], errors="ignore")
    for name in [name for name, stat in group.data_vars.items() if stat.dtype.hasobject]:
        try:
            encode(name, group[name].values)
        except NotStorable as error:
            _log.warning(f"Sample stat {error} It is left out.")
            group = group.drop_vars(name)
    return group


def _append(
    folder: Path, segment: Segment, before: Sequence[StoredSegment], idata: Any
) -> StoredSegment:
    """Write a segment; if that fails, raise an error that has the draws, `idata`."""
    try:
        return append_segment(folder, segment, before)
    except FileExistsError:
        raise
    except (OSError, RuntimeError, TypeError, ValueError) as error:
        raise DrawsNotSaved(folder, error, idata) from error


def _continue(
    last: Segment, step: Resumable, model: Model, draws: int, sample_kwargs: Mapping[str, Any]
) -> dict[str, xr.Dataset]:
    """The groups of the next `draws` draws after segment `last`; without draws if interrupted."""
    before, chains, length = last.groups["posterior"], len(last.snapshots), last.repeats + draws
    step.continue_from(last.snapshots, length)
    try:
        with warnings.catch_warnings():
            # ArviZ takes few draws of many chains for a mistake.
            warnings.filterwarnings("ignore", "More chains|Found chain dim", UserWarning)
            idata = pm.sample(
                step=step,
                draws=length,
                tune=0,
                chains=chains,
                random_seed=0,  # of no effect: the snapshots hold the generators
                var_names=list(map(str, before.data_vars)),
                model=model,
                compute_convergence_checks=False,
                **sample_kwargs,
            )
    finally:
        step.continue_from()
    groups = to_groups(idata)
    drawn = groups["posterior"]
    if (drawn.sizes["chain"], drawn.sizes["draw"]) != (chains, length):
        return groups | {name: groups[name].isel(draw=slice(0)) for name in DRAWS}
    _check_repeats(before, drawn, last.repeats)
    start = int(before["draw"][-1]) + 1
    new = {name: groups[name].isel(draw=slice(last.repeats, None)) for name in DRAWS}
    return groups | {
        name: data.assign_coords(draw=start + np.arange(draws)) for name, data in new.items()
    }


def _check_repeats(before: xr.Dataset, drawn: xr.Dataset, repeats: int) -> None:
    """Raise unless the first `repeats` draws in `drawn` are the last of those `before`."""
    for name in before.data_vars:
        old = before[name].isel(draw=slice(before.sizes["draw"] - repeats, None)).values
        new = drawn[name].values[:, :repeats]
        if not (old.shape == new.shape and np.allclose(old, new, rtol=1e-6, equal_nan=True)):
            raise ValueError(
                f"The last draws of {name!r} before the run was saved do not come out the same "
                "again: the model, its data, the settings or the versions have changed since."
            )
