"""Log-likelihood of each row at each draw, on all rows or some, in bounded memory."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from pymc import Model
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc._utils.argument_rows import DRAWS_OF, FLAG, MODEL, NAMES, SEED
from pymc_sgmcmc._utils.arguments import takes
from pymc_sgmcmc._utils.constraints import Choice, Optional, Positive, Whole
from pymc_sgmcmc._utils.context import model_of
from pymc_sgmcmc._utils.inference_data import at_draws, evenly, posterior_of, with_draws
from pymc_sgmcmc._utils.progress_bar import with_bar
from pymc_sgmcmc._utils.validation import natural, one_of, positive
from pymc_sgmcmc.model.full_data import full_data
from pymc_sgmcmc.model.total_sizes import check_total_sizes
from pymc_sgmcmc.model.unconstrain import Unconstrain
from pymc_sgmcmc.posterior.row_likelihood import RowTerm, row_terms
from pymc_sgmcmc.results.per_draw import check_memory, labelled

__all__ = ["log_likelihood"]


@takes(
    idata=DRAWS_OF,
    model=MODEL,
    var_names=NAMES,
    draws=Optional(Whole()),
    rows=Optional(Whole()),
    dtype=Choice(("float64", "float32")),
    max_memory=Positive(),
    random_seed=SEED,
    progressbar=FLAG,
)
def log_likelihood(
    idata: Any,
    model: Model | None = None,
    *,
    var_names: str | Sequence[str] | None = None,
    draws: int | None = None,
    rows: int | None = None,
    dtype: str = "float64",
    max_memory: float = 4e9,
    random_seed: int = 0,
    progressbar: bool = True,
) -> Any:
    r"""Compute the log-likelihood of each row at each draw, for `arviz.loo` and `arviz.compare`.

    The log-likelihood is on all rows and not scaled, also for a model with `pm.Minibatch`. The
    computation is for some rows and one draw at a time, and takes hardly more memory than the
    result. The result has draws times rows numbers: 32 GB for 4000 draws and a million rows.
    `arviz.loo` takes several times as much memory, and about ten minutes for a million rows even
    with few draws. To reduce this:

    - ``draws=1000`` thins the posterior, and all groups of the result, to so many draws;
    - ``rows=10_000`` takes so many random rows. Their ``elpd``, times N / n for all N rows, has an
      error of N / n times its standard error. With the same `random_seed`, models are compared on
      the same rows.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        The result of `pm.sample`, with all free variables of the model.
    model : pymc.Model, optional
        The model, by default that of the ``with`` block.
    var_names : str or sequence of str, optional
        Names of observed variables, by default all.
    draws : int, optional
        Number of draws of all chains together, spread evenly over each chain. By default all.
    rows : int, optional
        Number of rows of each variable, drawn without replacement. By default all.
    dtype : {"float64", "float32"}
        Type of the result.
    max_memory : float
        Largest size of the result, in bytes.
    random_seed : int
        Seed for the choice of rows.
    progressbar : bool
        Whether to show a progress bar if the computation takes more than two seconds.

    Returns
    -------
    arviz.InferenceData or xarray.DataTree
        New data: the groups of `idata` (without warm-up), at those draws, and ``log_likelihood``,
        with each variable of shape (chain, draw, rows, ...).

    Raises
    ------
    ValueError
        If the result would need more than `max_memory`; the message states the size, and the number
        of draws that fit. If there is no such variable, or a free one is missing.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> values = np.random.default_rng(1).normal(size=1000)
    >>> with pm.Model() as model:
    ...     batch = pm.Minibatch(values, batch_size=50)
    ...     y = pm.Normal("y", pm.Normal("mu"), 1.0, observed=batch, total_size=1000)
    ...     idata = pm.sample(step=pm.Metropolis(model=full_data(model)), chains=2, cores=1,
    ...                       progressbar=False)
    >>> log_likelihood(idata, model).log_likelihood["y"].shape
    (2, 1000, 1000)
    >>> found = log_likelihood(idata, model, draws=1000, rows=200)
    >>> found.log_likelihood["y"].shape
    (2, 500, 200)
    >>> import arviz as az
    >>> loo = az.loo(found)  # of these rows; times five for all
    """
    draws = None if draws is None else natural("draws", draws)
    rows = None if rows is None else natural("rows", rows)
    max_memory = positive("max_memory", max_memory)
    itemsize = np.dtype(one_of("dtype", dtype, ["float64", "float32"])).itemsize
    given = model_of(model)
    model = full_data(given)
    check_total_sizes(given, model)
    observed = _observed(model, var_names)
    flat = Unconstrain(model)(idata)
    chains, length = flat.values.shape[:2]
    kept = evenly(chains, length, draws)
    points = [flat.point(chain * length + int(draw)) for chain in range(chains) for draw in kept]
    posterior = at_draws(posterior_of(idata), kept)
    terms = row_terms(model, observed, points[0])
    chosen = {term.name: _random_rows(term, rows, random_seed) for term in terms}
    shapes = {term.name: _shape(term, chosen[term.name]) for term in terms}
    check_memory("The log-likelihood", len(points), shapes, itemsize, max_memory)
    result = {}
    for term in terms:
        array = np.empty((len(points), *shapes[term.name]), dtype)
        arguments = [term.arguments(point) for point in points]
        # Evaluate all draws on one part of the rows after the other, to read the data once.
        parts = list(term.chunks(chosen[term.name]))
        work = [(part, k) for part in parts for k in range(len(points))]
        for (place, part), k in with_bar(work, f"Log-likelihood of {term.name}", progressbar):
            array[k, place] = term(arguments[k], part)
        array = array.reshape(chains, len(kept), *shapes[term.name])
        result[term.name] = labelled(model, term.name, array, posterior, rows=chosen[term.name])
    return with_draws(idata, kept, {"log_likelihood": xr.Dataset(result)})


def _observed(model: Model, var_names: str | Sequence[str] | None) -> list[TensorVariable]:
    known = {rv.name: rv for rv in model.observed_RVs}
    names = [var_names] if isinstance(var_names, str) else var_names
    unknown = [name for name in names or () if name not in known]
    if unknown or not known:
        raise ValueError(
            f"var_names={var_names!r}: the model has no observed variable {unknown}. It has "
            f"{list(known)}."
        )
    return list(known.values()) if names is None else [known[name] for name in names]


def _random_rows(term: RowTerm, rows: int | None, random_seed: int) -> np.ndarray | None:
    """Return sorted indices of random rows, or None for all rows.

    Variables with the same number of rows get the same indices.
    """
    if rows is None or not term.shape or rows >= term.shape[0]:
        return None
    rng = np.random.default_rng(random_seed)
    return np.sort(rng.choice(term.shape[0], size=rows, replace=False))


def _shape(term: RowTerm, rows: np.ndarray | None) -> tuple[int, ...]:
    return term.shape if rows is None else (len(rows), *term.shape[1:])
