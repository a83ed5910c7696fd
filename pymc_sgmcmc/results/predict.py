"""Posterior predictive draws, for new data or the model's own."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from pymc import Model
from pymc.pytensorf import compile as compile_with_rngs
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc._utils.argument_rows import DRAWS_OF, FLAG, MODEL, NAMES, SEED
from pymc_sgmcmc._utils.arguments import takes
from pymc_sgmcmc._utils.constraints import MappingOf, Optional, Positive, Whole
from pymc_sgmcmc._utils.context import model_of
from pymc_sgmcmc._utils.inference_data import at_draws, evenly, posterior_of, with_draws
from pymc_sgmcmc._utils.progress_bar import with_bar
from pymc_sgmcmc._utils.validation import natural, positive
from pymc_sgmcmc.compile.in_python import interpreted
from pymc_sgmcmc.model.full_data import full_data
from pymc_sgmcmc.model.new_data import NewData
from pymc_sgmcmc.results.per_draw import check_memory, labelled

__all__ = ["predict"]


@takes(
    idata=DRAWS_OF,
    model=MODEL,
    new_data=Optional(MappingOf("arrays by the names of pm.Data")),
    coords=Optional(MappingOf("labels by the names of dimensions")),
    var_names=NAMES,
    draws=Optional(Whole()),
    max_memory=Positive(),
    random_seed=Optional(SEED),
    progressbar=FLAG,
)
def predict(
    idata: Any,
    model: Model | None = None,
    new_data: Mapping[str, Any] | None = None,
    *,
    coords: Mapping[str, Sequence[Any]] | None = None,
    var_names: str | Sequence[str] | None = None,
    draws: int | None = None,
    max_memory: float = 4e9,
    random_seed: int | None = None,
    progressbar: bool = True,
) -> Any:
    """Draw from the posterior predictive, for new data or the model's own.

    Unlike `pymc.sample_posterior_predictive`, `predict` uses all rows of models with
    `pm.Minibatch`, never draws a free variable from its prior because data or dimensions have
    changed, fills in observed values for new rows, and leaves the model unchanged.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        The result of `pm.sample`, with all free variables that predictions depend on.
    model : pymc.Model, optional
        The model, by default that of the ``with`` block.
    new_data : mapping of str to array, optional
        New values of `pm.Data` by name, each with as many axes as the old. Observed values need not
        be given. None means the model's own data.
    coords : mapping of str to sequence, optional
        Labels of dimensions whose lengths change, by default 0, 1, ...
    var_names : str or sequence of str, optional
        Names of observed variables or Deterministics, by default all observed variables.
    draws : int, optional
        Number of draws of all chains together, spread evenly over each chain. By default all.
    max_memory : float
        Largest size of the predictions, in bytes.
    random_seed : int, optional
        Seed of the predictions.
    progressbar : bool
        Whether to show a progress bar if the computation takes more than two seconds.

    Returns
    -------
    arviz.InferenceData or xarray.DataTree
        New data: the groups of `idata` (without warm-up), at those draws, and ``predictions``, or
        ``posterior_predictive`` if `new_data` is None, with each variable of shape (chain, draw,
        rows, ...).

    Raises
    ------
    ValueError
        If `new_data` has an unknown name, another number of axes or inconsistent lengths; if an
        observed variable cannot have other rows; if the predictions need more than `max_memory`.
        The message names the remedy.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from pymc_sgmcmc import SGNHT
    >>> x = np.linspace(-1, 1, 100)
    >>> with pm.Model(coords={"row": range(100)}) as model:
    ...     slope = pm.Normal("slope")
    ...     data = pm.Data("x", x, dims="row")
    ...     y = pm.Normal("y", slope * data, 0.1, observed=2 * x, dims="row")
    ...     idata = pm.sample(step=SGNHT(), progressbar=False, random_seed=1)
    >>> new = {"x": [0.0, 10.0]}
    >>> found = predict(idata, model, new, random_seed=1, progressbar=False)
    >>> found.predictions["y"].mean(("chain", "draw")).values.round(0)
    array([-0., 20.])
    """
    draws = None if draws is None else natural("draws", draws)
    max_memory = positive("max_memory", max_memory)
    model = full_data(model_of(model))
    wanted = _wanted(model, var_names)
    new = NewData(model, new_data or {}, coords or {}, wanted)
    whole = posterior_of(idata)
    depended_on = set(ancestors(wanted))
    free = [rv for rv in model.free_RVs if rv in depended_on]
    missing = [rv.name for rv in free if rv.name not in whole]
    if missing:
        raise ValueError(
            f"The posterior lacks the free variables {missing}, which {[v.name for v in wanted]} "
            "depend on: sample again with them in var_names= (or without var_names=)."
        )
    kept = evenly(whole.sizes["chain"], whole.sizes["draw"], draws)
    posterior = at_draws(whole, kept)
    points = _points(posterior, free)
    with new.in_place():
        arrays = _drawn(free, new.on(wanted), points, max_memory, random_seed, progressbar)
    lead = posterior.sizes["chain"], posterior.sizes["draw"]
    result = {
        rv.name: labelled(
            model, rv.name, array.reshape(*lead, *array.shape[1:]), posterior, new.coords
        )
        for rv, array in zip(wanted, arrays, strict=True)
    }
    name = "posterior_predictive" if new_data is None else "predictions"
    return with_draws(idata, kept, {name: xr.Dataset(result)})


def _wanted(model: Model, var_names: str | Sequence[str] | None) -> list[TensorVariable]:
    if var_names is None:
        names = [rv.name for rv in model.observed_RVs]
    else:
        names = [var_names] if isinstance(var_names, str) else list(var_names)
    known = {v.name: v for v in (*model.observed_RVs, *model.deterministics)}
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise ValueError(
            f"var_names={var_names!r}: predictions are of observed variables and Deterministics, "
            f"and the model has {list(known)}, not {unknown}."
        )
    return [known[name] for name in names]


def _points(posterior: xr.Dataset, free: Sequence[TensorVariable]) -> list[list[np.ndarray]]:
    """Return the values of the free variables at each draw, one chain after the other."""
    drawn = [posterior[rv.name].values.astype(rv.dtype, copy=False) for rv in free]
    flat = [values.reshape(-1, *values.shape[2:]) for values in drawn]
    n = posterior.sizes["chain"] * posterior.sizes["draw"]
    return [[values[k] for values in flat] for k in range(n)]


def _drawn(
    free: Sequence[TensorVariable],
    wanted: Sequence[TensorVariable],
    points: Sequence[Sequence[np.ndarray]],
    max_memory: float,
    random_seed: int | None,
    progressbar: bool,
) -> list[np.ndarray]:
    """Draw each variable once at each point, (points, *shape)."""
    sizes = interpreted(free, [variable.shape for variable in wanted])(*points[0])
    shapes = [tuple(map(int, shape)) for shape in sizes]
    named = {variable.name: shape for variable, shape in zip(wanted, shapes, strict=True)}
    itemsize = max(np.dtype(variable.dtype).itemsize for variable in wanted)
    check_memory("Predictions", len(points), named, itemsize, max_memory)
    # The free variables are inputs of the function, so that none is drawn from its prior.
    function = compile_with_rngs(free, wanted, random_seed=random_seed, on_unused_input="ignore")
    arrays = [
        np.empty((len(points), *shape), variable.dtype)
        for variable, shape in zip(wanted, shapes, strict=True)
    ]
    for k in with_bar(range(len(points)), "Predictions", progressbar):
        for array, value in zip(arrays, function(*points[k]), strict=True):
            array[k] = value
    return arrays
