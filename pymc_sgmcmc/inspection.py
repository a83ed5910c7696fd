"""What a model must be before anything is compiled: refusals name the variable and the cure."""

import warnings
from collections.abc import Mapping, Sequence

import numpy as np
from pymc import Model
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.backends import interpreted
from pymc_sgmcmc.minibatch import minibatches
from pymc_sgmcmc.row_axes import row_dim, value_of


def check_model(model: Model, vars: Sequence[TensorVariable]) -> None:
    """Raise unless `vars` are continuous and the model is one that a target can be made of."""
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
    # PyMC splits a variable that is observed in part into two, and puts them together by its name.
    for name in (variable.name for variable in model.deterministics):
        if f"{name}_observed" in model.named_vars and f"{name}_unobserved" in model.named_vars:
            raise ValueError(
                f"The observed data of {name!r} hold NaN or masked values, which PyMC turns into "
                "latent variables to be imputed, one per missing value. Drop the rows with missing "
                "values, or model them yourself."
            )


def refuse_missing(terms: Mapping[Variable, TensorVariable]) -> None:
    """Raise if data that a term of the log-density depends on hold NaN."""
    for rv, term in terms.items():
        for leaf in graph_inputs([term]):
            if not isinstance(leaf, SharedVariable | Constant):
                continue
            value = np.asarray(value_of(leaf)) if hasattr(leaf.type, "dtype") else np.zeros(())
            if value.dtype.kind == "f" and value.size and np.isnan(value.min()):  # no copy
                raise ValueError(
                    f"The data {leaf.name or leaf.type} of {rv.name!r} hold "
                    f"{int(np.isnan(value).sum())} NaN: the posterior is not defined. Drop those "
                    "rows. (NaN given as observed= would become latent variables, imputed.)"
                )


def check_initial_point(
    model: Model, terms: Mapping[Variable, TensorVariable], point: Mapping[str, np.ndarray]
) -> None:
    """Raise if a term of the log-density is not finite at `point`."""
    values = [v for v in graph_inputs(list(terms.values())) if v.name in point]
    arrays = [np.asarray(point[v.name], dtype=v.dtype) for v in values]
    for rv, result in zip(terms, interpreted(values, list(terms.values()))(*arrays), strict=True):
        if not np.isfinite(result).all():
            raise ValueError(
                f"The log-density of {rv.name!r} is not finite at the initial point "
                f"({_shorten(point)}). Choose initial_point= or initval= inside the support, and "
                "look at the data with model.debug()."
            )


def _shorten(point: Mapping[str, np.ndarray]) -> str:
    return ", ".join(
        f"{name}={np.array2string(np.asarray(value), threshold=4, precision=3)}"
        for name, value in point.items()
    )


def warn_about_deterministics(model: Model, full: Model) -> None:
    """Warn of each Deterministic of `model` that is costly to store, or a batch's: `full` has none.

    `pm.sample` evaluates and stores all of them at every draw.
    """
    batched = [variable for variable in model.deterministics if variable not in full.deterministics]
    for variable in batched:
        warnings.warn(
            f"The Deterministic {variable.name!r} depends on a pm.Minibatch: PyMC stores it for "
            "another random batch at every draw. Leave it out with pm.sample(var_names=[...]), and "
            "compute it afterwards under full_data(model).",
            UserWarning,
            stacklevel=5,
        )
    _warn_about_rows(full, [v for v in model.deterministics if v.type.ndim and v not in batched])


def _warn_about_rows(model: Model, vectors: Sequence[TensorVariable], draws: int = 1000) -> None:
    observed = [rv for rv in model.observed_RVs if rv.type.ndim]
    lengths = interpreted([], [v.shape[0] for v in observed])()
    row_dims = {row_dim(model, rv) for rv in observed} - {None}
    for vector in vectors:
        dims = model.named_vars_to_dims.get(vector.name, ())
        n_rows = _leading_length(model, vector)
        if row_dims.intersection(dims) or (n_rows in lengths and n_rows > 1):
            warnings.warn(
                f"The Deterministic {vector.name!r} has one value for each of {n_rows} rows; PyMC "
                "evaluates it on the full data and stores it at every draw "
                f"({8e-6 * n_rows * draws:.3g} MB for {draws} draws of one chain). Leave it out "
                "with pm.sample(var_names=[...]), or compute it afterwards.",
                UserWarning,
                stacklevel=6,
            )


def _leading_length(model: Model, vector: TensorVariable) -> int:
    if vector.type.shape[0] is not None:
        return vector.type.shape[0]
    (length,) = model.replace_rvs_by_values([vector.shape[0]])
    point = model.initial_point()
    values = [v for v in graph_inputs([length]) if v.name in point]
    return int(interpreted(values, [length])(*(point[v.name] for v in values))[0])


def warn_about_leftovers(
    model: Model, vars: Sequence[TensorVariable], *, minibatched: bool, blocked: bool
) -> None:
    """Warn of variables that this step leaves to methods which evaluate another posterior, or all.

    Parameters
    ----------
    model : pymc.Model
        What the user wrote.
    vars : sequence of value variables
        What this step samples.
    minibatched : bool
        Whether it does so on minibatches.
    blocked : bool
        Whether it samples them together; if not, other steps of the same call have the others.
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
        warnings.warn(
            f"This step method does not sample {names}. {cure}", UserWarning, stacklevel=5
        )
