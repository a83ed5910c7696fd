"""Models with `pm.Minibatch`, and the same models on all rows."""

from collections.abc import Iterable

import pytensor
from pymc import Model
from pymc.data import MinibatchOp
from pymc.variational.minibatch_rv import MinibatchRandomVariable
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import toposort
from pytensor.tensor import NoneConst
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc._utils.arguments import takes
from pymc_sgmcmc._utils.constraints import Instance
from pymc_sgmcmc.compile.rebuild import rebuild

__all__ = ["batch_size_of", "full_data", "has_total_size", "minibatches"]


@takes(model=Instance(Model, "a pymc.Model"))
def full_data(model: Model) -> Model:
    """Return the model with `pm.Minibatch` and ``total_size`` undone: on all rows, not scaled.

    Under this model PyMC's log-likelihood, predictive draws, NUTS and ``az.loo`` use all data. The
    model that has a `pm.Minibatch` uses one random batch, scaled by N / n.

    The free variables, their values, data, coordinates and initial values are those of `model`
    itself, not copies: step methods made for one model serve the other, and `pm.set_data` on one
    acts on both. Observed variables and Deterministics that depend on a batch are built again.

    Parameters
    ----------
    model : pymc.Model
        The model, which must not be a sub-model.

    Returns
    -------
    pymc.Model
        `model` itself if it has neither `pm.Minibatch` nor ``total_size``.

    Raises
    ------
    ValueError
        If a free variable or a Potential depends on a batch, or an observed variable has the fixed
        length of a batch, or `model` is a sub-model; the message names it.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from pymc_sgmcmc import SGNHT, full_data
    >>> with pm.Model() as model:
    ...     batch = pm.Minibatch(np.arange(100.0) / 50, batch_size=10)
    ...     y = pm.Normal("y", pm.Normal("mu"), observed=batch, total_size=100)
    ...     idata = pm.sample(step=SGNHT(), progressbar=False, random_seed=1)
    >>> with full_data(model):
    ...     idata = pm.compute_log_likelihood(idata, progressbar=False)
    >>> idata.log_likelihood["y"].sizes["y_dim_0"]
    100
    """
    if model.parent is not None:
        raise ValueError(
            f"full_data(model) was given the sub-model {model.name!r}: pass the model it is part "
            "of, model.root."
        )
    calls = minibatches(model)
    if not calls and not any(map(has_total_size, model.observed_RVs)):
        return model
    _check(model, calls)
    return _register(model, _undo(model, calls))


def has_total_size(rv: TensorVariable, rows: bool = False) -> bool:
    """Return whether the observed variable has a ``total_size``; with `rows`, one of its rows."""
    if rv.owner is None or not isinstance(rv.owner.op, MinibatchRandomVariable):
        return False
    return not (rows and NoneConst.equals(rv.owner.inputs[1]))


def batch_size_of(call: Apply) -> int:
    """Return the ``batch_size`` of a `pm.Minibatch`."""
    return call.outputs[0].type.shape[0]


def minibatches(model: Model) -> dict[Variable, frozenset[Apply]]:
    """Return the `pm.Minibatch` calls on which variables of the model's graph depend, if any."""
    calls: dict[Variable, frozenset[Apply]] = {}
    for node in toposort(_graphs(model)):
        own = [frozenset([node])] if isinstance(node.op, MinibatchOp) else []
        found = frozenset().union(*own, *(calls.get(v, frozenset()) for v in node.inputs))
        if found:
            calls |= dict.fromkeys(node.outputs, found)
    return calls


def _graphs(model: Model) -> list[Variable]:
    named = [*model.basic_RVs, *model.deterministics, *model.potentials]
    return [*named, *model.rvs_to_values.values(), *model.dim_lengths.values()]


def _check(model: Model, calls) -> None:
    for rv in model.free_RVs:
        if rv in calls:
            raise ValueError(
                f"The free variable {rv.name!r} depends on a pm.Minibatch: it would be another "
                "variable for each batch. Marginalise it, or give it one value for each row of "
                "the full data, sampled by another step method."
            )
    for potential in model.potentials:
        if potential in calls:
            raise ValueError(
                f"The Potential {potential.name!r} depends on a pm.Minibatch: PyMC does not scale "
                "it, so its value on all rows is unknown. Write it as an observed variable "
                "(pm.CustomDist with logp=) with total_size."
            )


def _undo(model: Model, calls) -> dict[Variable, Variable]:
    """Return the replacement on all rows of each variable that depends on a batch."""
    undone: dict[Variable, Variable] = {}
    for call in dict.fromkeys(node for nodes in calls.values() for node in nodes):
        undone |= zip(call.outputs[:-1], call.inputs[:-1], strict=True)
    undone = {batch: _whole(data, undone) for batch, data in undone.items()}
    for variable in _graphs(model):
        try:
            undone = rebuild([variable], undone, strip=MinibatchRandomVariable)
        except (TypeError, ValueError, AssertionError, NotImplementedError) as error:
            raise ValueError(_fixed(variable.name, str(error).splitlines()[0])) from error
    for rv in model.observed_RVs:
        sizes = {batch_size_of(call) for call in calls.get(model.rvs_to_values[rv], ())}
        value = undone.get(model.rvs_to_values[rv])
        length = undone.get(rv, rv).type.shape[:1]
        if sizes.intersection(length) and value is not None and value.type.shape[:1] != length:
            raise ValueError(_fixed(rv.name, f"it has shape {undone.get(rv, rv).type.shape}"))
    return undone


def _whole(data: Variable, undone) -> Variable:
    """Return the full data of a batch, also for a batch of a batch.

    Arrays become shared variables of any number of rows, not copied. With constants, rewrites would
    use their values: z[arange(N)] would turn into z, or zeros_like(z) into N zeros.
    """
    while data in undone:
        data = undone[data]
    if isinstance(data, Constant):
        shape = (None, *data.type.shape[1:])
        return pytensor.shared(data.data, name=data.name, borrow=True, shape=shape)
    return data


def _fixed(name: str, reason: str) -> str:
    return (
        f"{name!r} cannot be built on all rows: it has the fixed length of a batch ({reason}). Do "
        "not write the batch size into the model (shape=, pt.zeros(batch_size)): leave it to the "
        "shape of the pm.Minibatch."
    )


def _register(model: Model, undone: dict[Variable, Variable]) -> Model:
    """Return a model of the same variables, with the replacements in `undone`."""
    full = Model(model.name, check_bounds=model.check_bounds, model=None)
    # Share coords as sub-models do: pm.set_data(coords=...) then acts on both models.
    full._coords = model._coords
    if undone.keys().isdisjoint(model.dim_lengths.values()):
        full._dim_lengths = model._dim_lengths
    else:
        full._dim_lengths = {k: undone.get(v, v) for k, v in model._dim_lengths.items()}

    def of(variables: Iterable[Variable]) -> list[Variable]:
        return [undone.get(variable, variable) for variable in variables]

    full.free_RVs.extend(model.free_RVs)
    full.observed_RVs.extend(of(model.observed_RVs))
    full.deterministics.extend(of(model.deterministics))
    full.potentials.extend(model.potentials)
    full.data_vars.extend(model.data_vars)
    full.rvs_to_initial_values.update(model.rvs_to_initial_values)
    for rv, value in model.rvs_to_values.items():
        new, new_value = of([rv, value])
        if rv in model.observed_RVs:
            new.tag.observations = new_value
        full.create_value_var(
            new,
            transform=model.rvs_to_transforms[rv],
            default_transform=None,
            value_var=new_value,
        )
    for name, variable in model.named_vars.items():
        (new,) = of([variable])
        new.name = name
        full.add_named_variable(new, dims=model.named_vars_to_dims.get(name))
    return full
