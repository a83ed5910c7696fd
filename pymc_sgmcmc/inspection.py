"""What a model must be before anything is compiled: refusals name the variable and the cure."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pymc import Model
from pymc.data import MinibatchOp
from pymc.variational.minibatch_rv import MinibatchRandomVariable
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors, graph_inputs
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.backends import interpreted
from pymc_sgmcmc.checks import natural
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
    for node in {v.owner for v in ancestors([*model.basic_RVs, *model.potentials]) if v.owner}:
        if isinstance(node.op, MinibatchOp | MinibatchRandomVariable):
            raise ValueError(
                "The model uses pm.Minibatch or total_size, which scale its likelihood: write it "
                "for the full data (no total_size) and pass batch_size= to the step method."
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


def resolve_batch_sizes(batch_size: Any, model: Model) -> dict[str, int]:
    """Return the batch size of each observed variable to be minibatched, by its name."""
    if batch_size is None:
        return {}
    if not isinstance(batch_size, Mapping):
        size = natural("batch_size", batch_size)
        with_rows = [rv.name for rv in model.observed_RVs if rv.type.ndim]
        if not with_rows:
            raise ValueError(
                f"batch_size={size} cannot be honoured: the model has no observed variable with "
                "rows. Leave batch_size out (pm.Potential terms are always exact)."
            )
        return dict.fromkeys(with_rows, size)
    dims = {rv.name: row_dim(model, rv) for rv in model.observed_RVs if rv.type.ndim}
    known = [*dims, *sorted({dim for dim in dims.values() if dim} - set(dims))]
    sizes = {}
    for key, size in batch_size.items():
        if key not in known:
            raise ValueError(
                f"batch_size={dict(batch_size)!r} names {key!r}, which is neither an observed "
                f"variable with rows nor the dimension of one: choose from {known}."
            )
        sizes[key] = None if size is None else natural(f"batch_size[{key!r}]", size)
    of_each = {name: sizes.get(name, sizes.get(dim)) for name, dim in dims.items()}
    return {name: size for name, size in of_each.items() if size is not None}


def common_size(observed: Sequence[str], sizes: Mapping[str, int]) -> int:
    """Return the batch size of variables that share their rows; raise if there are several."""
    own = {name: sizes[name] for name in observed}
    if len(set(own.values())) != 1:
        raise ValueError(
            f"batch_size={own!r}: these variables share their rows, so give them one batch size "
            "(or None: exact)."
        )
    return own[observed[0]]


def warn_about_rows(model: Model, draws: int = 1000) -> None:
    """Warn of each Deterministic that has the length of the data: it is stored at every draw."""
    observed = [rv for rv in model.observed_RVs if rv.type.ndim]
    vectors = [deterministic for deterministic in model.deterministics if deterministic.type.ndim]
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
                stacklevel=4,
            )


def _leading_length(model: Model, vector: TensorVariable) -> int:
    if vector.type.shape[0] is not None:
        return vector.type.shape[0]
    (length,) = model.replace_rvs_by_values([vector.shape[0]])
    point = model.initial_point()
    values = [v for v in graph_inputs([length]) if v.name in point]
    return int(interpreted(values, [length])(*(point[v.name] for v in values))[0])


def warn_about_leftovers(model: Model, vars: Sequence[TensorVariable]) -> None:
    """Warn if continuous variables have no part in this step: pm.sample would give them to NUTS."""
    leftovers = [var.name for var in model.continuous_value_vars if var not in vars]
    if leftovers:
        warnings.warn(
            f"This step method does not sample {leftovers}. Unless you pass another step method "
            "for them, pm.sample gives them to NUTS, which evaluates all rows at every step.",
            UserWarning,
            stacklevel=4,
        )
