"""Functions that save a run, load it, and continue it as if it had never been interrupted."""

import logging
from pathlib import Path
from typing import Any

from pymc.stats.convergence import log_warnings, run_convergence_checks

from pymc_sgmcmc._utils.argument_rows import DRAWS_OF, FLAG, FOLDER, MODEL
from pymc_sgmcmc._utils.arguments import takes
from pymc_sgmcmc._utils.constraints import Instance, Optional, Whole
from pymc_sgmcmc._utils.groups import from_groups, to_groups
from pymc_sgmcmc._utils.validation import natural
from pymc_sgmcmc.saving.continuation import sample_on
from pymc_sgmcmc.saving.identity import NOW, check_identity, declare
from pymc_sgmcmc.saving.resumable import RESUMABLE, Resumable, model_of_step
from pymc_sgmcmc.saving.run_folder import check_writable, read_segments
from pymc_sgmcmc.saving.segments import (
    DrawsNotSaved,
    append_draws,
    join_draws,
    load_end,
    make_segment,
)
from pymc_sgmcmc.saving.stored_segment import DRAWS

__all__ = ["DrawsNotSaved", "load", "resume", "save"]

_log = logging.getLogger("pymc.sgmcmc")

OURS = ("draws", "step", "tune", "chains", "random_seed", "initvals", "start", "trace", "var_names",
        "discard_tuned_samples", "return_inferencedata", "nuts_sampler")  # fmt: skip
"""Arguments of `pm.sample` that a run fixes at its start, or that `resume` cannot support."""
START_ANEW = "Resume it with what it was started with, or start a new one."
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
    model_of_step(step, model)
    segment = make_segment(to_groups(idata), identity)
    here, cure = (
        declare(step.identity(), identity),
        "Save it with the step that it was sampled with.",
    )
    check_identity(segment.identity, here, "idata does not come from this step: it", cure, but=NOW)
    append_draws(Path(folder), segment, [], idata)


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
    return join_draws(segments, {})


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
    folder, model = Path(folder), model_of_step(step, model)
    draws = natural("draws", draws)
    every = draws if every is None else natural("every", every)
    taken = sorted(set(sample_kwargs).intersection(OURS))
    if taken:
        raise TypeError(f"resume() takes no {taken}: a run keeps what it was started with.")
    segments = read_segments(folder)
    segments[-1].check()
    last = load_end(segments[-1])
    of_run, what = last.identity, f"The run in {str(folder)!r}"
    check_identity(of_run, declare(step.identity(), identity), what, START_ANEW)
    try:
        check_writable(folder)
    except OSError as error:
        raise OSError(f"{str(folder)!r} cannot be written to: {error}") from error

    goal = draws
    while goal > 0:
        size = min(every, goal)
        groups = sample_on(last, step, model, size, sample_kwargs)
        new = groups["posterior"].sizes["draw"]
        if new < size:
            _log.warning(f"Interrupted: the draws since the last segment of {folder} are lost.")
            break
        last = make_segment({name: groups[name] for name in DRAWS}, identity)
        check_identity(of_run, last.identity, what, f"It changed meanwhile. {START_ANEW}")
        segments.append(append_draws(folder, last, segments, from_groups(groups)))
        goal -= size
        _log.info(f"Saved {new} draws of each chain to {folder}, {goal} to go.")
    others = {name: data for name, data in groups.items() if name not in DRAWS}
    idata = join_draws(segments, others)
    if compute_convergence_checks:
        log_warnings(run_convergence_checks(idata, model))
    return idata
