"""Checks of a model before anything is compiled: errors name the variable and the cure."""

from collections.abc import Mapping, Sequence

import numpy as np
from pymc import Model
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc._utils.warn_user import warn_user
from pymc_sgmcmc.compile.evaluate import evaluate
from pymc_sgmcmc.compile.in_python import interpreted
from pymc_sgmcmc.model.full_data import minibatches
from pymc_sgmcmc.model.row_axes import row_dim, value_of


def check_variables(vars: Sequence[TensorVariable]) -> None:
    """Raise ValueError if `vars` is empty or holds discrete variables."""
    if not vars:
        raise ValueError(
            "There is nothing to sample: the model has no free continuous variable, or vars is "
            "empty."
        )
    discrete = [var.name for var in vars if var.dtype not in ("float64", "float32", "float16")]
    if discrete:
        raise ValueError(
            f"vars holds the discrete variables {discrete}: a gradient sampler needs continuous "
            "ones. Give them to another step method, as in "
            "pm.sample(step=[SGNHT([beta], ...), pm.Metropolis([z])])."
        )


def refuse_missing(
    terms: Mapping[Variable, TensorVariable], values: Mapping[Variable, np.ndarray]
) -> None:
    """Raise ValueError if a term of the log-density is not finite and its data hold NaN.

    `values`: the terms at a point. NaN that are not reached, such as those behind a mask, do no
    harm.
    """
    for rv, term in terms.items():
        if np.isfinite(values[rv]).all():
            continue
        for leaf in graph_inputs([term]):
            if not isinstance(leaf, SharedVariable | Constant):
                continue
            value = np.asarray(value_of(leaf)) if hasattr(leaf.type, "dtype") else np.zeros(())
            if value.dtype.kind == "f" and value.ndim and np.isnan(value.min()):  # no copy
                raise ValueError(
                    f"The data {leaf.name or leaf.type} of {rv.name!r} hold "
                    f"{int(np.isnan(value).sum())} NaN: the posterior is not defined. Drop those "
                    "rows. (NaN given as observed= would become latent variables, imputed.)"
                )


def values_at(
    terms: Mapping[Variable, TensorVariable], point: Mapping[str, np.ndarray]
) -> dict[Variable, np.ndarray]:
    """Return the values of terms of the log-density at a point (value variables by name)."""
    inputs = [v for v in graph_inputs(list(terms.values())) if v.name in point]
    arrays = [np.asarray(point[v.name], dtype=v.dtype) for v in inputs]
    with np.errstate(all="ignore"):
        results = evaluate(list(terms.values()), dict(zip(inputs, arrays, strict=True)))
    return dict(zip(terms, map(np.asarray, results), strict=True))


def check_dims(model: Model) -> None:
    """Raise ValueError if the dims of a `pm.Data` do not fit its shape.

    PyMC does not check this; xarray fails only after sampling.
    """
    for variable in model.data_vars:
        dims = model.named_vars_to_dims.get(variable.name, ())
        if not isinstance(variable, SharedVariable) or not dims or None in dims:
            continue
        shape = variable.get_value(borrow=True).shape
        lengths = [int(interpreted([], [model.dim_lengths[dim]])()[0]) for dim in dims]
        if len(shape) != len(dims) or tuple(lengths) == shape:
            continue
        said = ", ".join(f"{dim!r} has {n}" for dim, n in zip(dims, lengths, strict=True))
        cure = "give it the dims of its axes in their order"
        if sorted(lengths) == sorted(shape) and len(set(shape)) == len(shape):
            right = tuple(dims[lengths.index(n)] for n in shape)
            cure = f"its axes are dims={right!r}"
        raise ValueError(
            f"The dims of {variable.name!r}, {tuple(dims)!r}, do not fit its shape {shape}: {said} "
            f"labels. Most likely {cure}; or set other labels with pm.set_data(..., coords=...)."
        )


def warn_about_deterministics(model: Model, full: Model) -> None:
    """Warn of each Deterministic of `model` that depends on a batch or has a value for each row.

    `pm.sample` evaluates and stores all Deterministics at every draw. `full`: the model on all
    rows, whose Deterministics depend on no batch.
    """
    batched = [variable for variable in model.deterministics if variable not in full.deterministics]
    for variable in batched:
        warn_user(
            f"The Deterministic {variable.name!r} depends on a pm.Minibatch: PyMC stores it for "
            "another random batch at every draw. Leave it out with pm.sample(var_names=[...]), and "
            "compute it afterwards under full_data(model).",
        )
    _warn_about_rows(full, [v for v in model.deterministics if v.type.ndim and v not in batched])


def _warn_about_rows(model: Model, vectors: Sequence[TensorVariable]) -> None:
    observed = [rv for rv in model.observed_RVs if rv.type.ndim]
    lengths = interpreted([], [v.shape[0] for v in observed])()
    row_dims = {row_dim(model, rv) for rv in observed} - {None}
    for vector in vectors:
        dims = model.named_vars_to_dims.get(vector.name, ())
        n_rows = _leading_length(model, vector)
        if row_dims.intersection(dims) or (n_rows in lengths and n_rows > 1):
            warn_user(
                f"The Deterministic {vector.name!r} has one value for each of {n_rows} rows; PyMC "
                "evaluates it on the full data and stores it at every draw "
                f"({8e-3 * n_rows:.3g} MB for 1000 draws of one chain). Leave it out "
                "with pm.sample(var_names=[...]), or compute it afterwards.",
            )


def _leading_length(model: Model, vector: TensorVariable) -> int:
    if vector.type.shape[0] is not None:
        return vector.type.shape[0]
    (length,) = model.replace_rvs_by_values([vector.shape[0]])
    return int(values_at({vector: length}, model.initial_point())[vector])


def warn_about_leftovers(
    model: Model, vars: Sequence[TensorVariable], *, minibatched: bool, blocked: bool
) -> None:
    """Warn of variables left to step methods that read other random batches, or all rows.

    Parameters
    ----------
    model : pymc.Model
        The model as the user wrote it.
    vars : sequence of value variables
        The variables that this step samples.
    minibatched : bool
        Whether this step samples on minibatches.
    blocked : bool
        Whether this step samples its variables together. If not, other steps of the same call
        sample the other variables.
    """
    leftovers = [var for var in model.value_vars if var not in vars]
    continuous = [var for var in leftovers if var in model.continuous_value_vars]
    if minibatches(model):
        leftovers = leftovers if blocked else [v for v in leftovers if v not in continuous]
        names = [model.values_to_rvs[var].name for var in leftovers]
        cure = (
            "PyMC's step methods evaluate a model with pm.Minibatch on another random batch at "
            "each call, and sample a wrong posterior: build theirs on all rows, as in "
            f"pm.Metropolis([{', '.join(names)}], model=full_data(model))."
        )
    else:
        names = [var.name for var in continuous] if minibatched and blocked else []
        cure = (
            "Unless you pass another step method for them, pm.sample gives them to NUTS, which "
            "evaluates all rows at every step."
        )
    if names:
        warn_user(f"This step method does not sample {names}. {cure}")
