"""Functions that save a run, load it, and continue it as if it had never been interrupted."""

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
from pymc_sgmcmc._utils.constraints import Instance, Optional, Ruled, Whole
from pymc_sgmcmc._utils.context import model_of
from pymc_sgmcmc._utils.groups import from_groups, to_groups
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
"""Arguments of `pm.sample` that a run fixes at its start, or that `resume` cannot support."""
START_ANEW = "Resume it with what it was started with, or start a new one."


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
    """Save the result of `pm.sample` and the last state of its chains, as the start of a run.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        The result of ``pm.sample(step=step)``.
    step : Resumable
        The step methods that made the draws.
    folder : path
        A new folder, or one without a run. The draws are in its ``000000/posterior.nc``, which
        every reader of netCDF-4 can open.
    identity : str, optional
        Your own text that identifies the functions among the settings, in place of their code.
        Needed if the code cannot be read. Give `resume` the same text.
    model : pymc.Model, optional
        The model of `step`, which is the default.

    Raises
    ------
    TypeError
        If `step` is not `Resumable`.
    ValueError
        If `idata` does not come from `step`, or a function cannot be identified; the message names
        the difference. Data may have changed after sampling: the run keeps the identity of the data
        that were sampled.
    FileExistsError
        If the folder holds a run.
    DrawsNotSaved
        If the folder cannot be written to. This OSError holds the draws.

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
    """Load the draws and sample stats of a saved run, as `pm.sample` returns them.

    Neither the model nor the step methods are needed, so the result lacks the observed data.

    Parameters
    ----------
    folder : path
        The folder of a run that `save` started.

    Returns
    -------
    arviz.InferenceData or xarray.DataTree
        All draws since the start of the run, with those of tuning if they were kept. `load`
        compares the checksums of all files. Arrays are read when they are used.

    Raises
    ------
    FileNotFoundError, ValueError
        If there is no run, or the run is damaged; the message names the file.

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
    """Continue a saved run by more draws, and return all its draws.

    The draws are those of a run that was never interrupted, bit by bit on the same machine.
    A process killed while it resumes loses only the draws since its last segment.

    Parameters
    ----------
    folder : path
        The folder of a run that `save` started.
    step : Resumable
        The same step methods, on the same model and data.
    draws : int
        Number of further draws of each chain. ``load(folder).posterior.sizes["draw"]`` is the
        number of draws that are saved.
    every : int, optional
        Number of draws in a segment. A segment is saved when all chains have reached its end. The
        default is `draws`.
    identity : str, optional
        The text that `save` was given.
    model : pymc.Model, optional
        The model of `step`, which is the default.
    compute_convergence_checks : bool
        Whether to check the convergence of the whole run at its end.
    **sample_kwargs
        Other arguments of `pm.sample`: cores, mp_ctx, progressbar, callback, and the like.

    Returns
    -------
    arviz.InferenceData or xarray.DataTree
        All draws since the start of the run. Arrays are read from the folder when they are used.

    Raises
    ------
    FileNotFoundError
        If there is no run.
    OSError
        If the folder cannot be written to.
    DrawsNotSaved
        If a segment cannot be written. The attribute `idata` of this OSError has its draws.
    TypeError
        If `step` is not `Resumable`, or `sample_kwargs` has arguments that a run fixes at its
        start.
    ValueError
        If a file is damaged, or the model, data, functions or settings differ from those of the
        run.

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


def _whole(segments: Sequence[StoredSegment], others: Mapping[str, xr.Dataset]) -> Any:
    """Return all draws of a run, whose arrays are read when they are used, and `others`."""
    groups = join_segments(segments)
    try:
        return from_groups(groups | others)
    except ValueError as error:  # a name is not valid in a tree of groups
        raise segments[0].damaged(error) from error


def _end_of(stored: StoredSegment) -> Segment:
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
            group = group.drop_vars(name)
    return group


def _append(
    folder: Path, segment: Segment, before: Sequence[StoredSegment], idata: Any
) -> StoredSegment:
    """Write a segment; if that fails, raise DrawsNotSaved with the draws `idata`."""
    try:
        return append_segment(folder, segment, before)
    except FileExistsError:
        raise
    except (OSError, RuntimeError, TypeError, ValueError) as error:
        raise DrawsNotSaved(folder, error, idata) from error


def _continue(
    last: Segment, step: Resumable, model: Model, draws: int, sample_kwargs: Mapping[str, Any]
) -> dict[str, xr.Dataset]:
    """Sample `draws` draws after segment `last` and return their groups.

    An interrupted run returns no draws.
    """
    before, chains, length = last.groups["posterior"], len(last.snapshots), last.repeats + draws
    step.continue_from(last.snapshots, length)
    try:
        with warnings.catch_warnings():
            # ArviZ warns if there are more chains than draws, as in a short segment.
            warnings.filterwarnings("ignore", "More chains|Found chain dim", UserWarning)
            idata = pm.sample(
                step=step,
                draws=length,
                tune=0,
                chains=chains,
                random_seed=0,  # no effect: the snapshots hold the generators
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
    """Raise ValueError unless the first `repeats` draws in `drawn` are the last of `before`."""
    for name in before.data_vars:
        old = before[name].isel(draw=slice(before.sizes["draw"] - repeats, None)).values
        new = drawn[name].values[:, :repeats]
        if not (old.shape == new.shape and np.allclose(old, new, rtol=1e-6, equal_nan=True)):
            raise ValueError(
                f"The last draws of {name!r} before the run was saved do not come out the same "
                "again: the model, its data, the settings or the versions have changed since."
            )
