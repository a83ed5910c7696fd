"""Which observed variables share their rows, and how many rows a batch has."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pymc import Model
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.checks import is_word, natural
from pymc_sgmcmc.minibatch import batch_size_of, has_total_size, minibatches
from pymc_sgmcmc.row_axes import number_of_rows, row_dim, value_of
from pymc_sgmcmc.total_sizes import total_sizes

__all__ = ["AUTO", "Batching", "find_batches", "is_among"]

AUTO = "auto"
"""The batch size where it is to be tuned."""
START_SIZE = 128
"""Rows in a batch until then."""
FEW_ROWS = 256
"""So many rows are as cheap as a batch: their gradient is exact."""


@dataclass(frozen=True, eq=False)
class Batching:
    """Observed variables that share their rows.

    Attributes
    ----------
    observed : tuple of TensorVariable
        Of the full-data model.
    size : int
        Rows in a batch.
    data : tuple of Variable, or None
        The arguments of a `pm.Minibatch`: these are sliced. None: what has the rows.
    others : tuple of Variable
        Other data of the observed variables, which are not sliced then.
    """

    observed: tuple[TensorVariable, ...]
    size: int
    data: tuple[Variable, ...] | None = None
    others: tuple[Variable, ...] = ()

    def draws(self, leaf: SharedVariable | Constant) -> bool:
        """Whether `leaf` is an argument of the `pm.Minibatch`: its first axis holds the rows."""
        return self.data is not None and is_among(leaf, self.data)

    def may_slice(self, leaf: SharedVariable | Constant) -> bool:
        """Whether `leaf` may hold the rows: those of a `pm.Minibatch` are in its arguments.

        They may also be in a constant that PyTensor has computed from an argument.
        """
        if self.data is None:
            return True
        if isinstance(leaf, Constant):
            return not is_among(leaf, self.others)
        return is_among(leaf, graph_inputs(self.data))

    def exact(self, name: str) -> str:
        """What to do for the exact likelihood of the group `name`."""
        if self.data is None:
            return f"pass batch_size={{{name!r}: None, ...}} for its exact likelihood"
        return "write the model without pm.Minibatch and total_size for its exact likelihood"


def is_among(leaf: SharedVariable | Constant, data: Iterable[Variable]) -> bool:
    """Whether `leaf` is among `data`; arrays are known by their memory, not by a variable."""
    data = list(data)
    return leaf in data or any(
        isinstance(part, Constant) and value_of(part) is value_of(leaf) for part in data
    )


def find_batches(model: Model, full: Model, batch_size: Any) -> list[Batching]:
    """Return what is minibatched: as `pm.Minibatch` says in `model`, or else `batch_size`.

    Parameters
    ----------
    model : pymc.Model
        What the user wrote.
    full : pymc.Model
        `full_data(model)`.
    batch_size : int, mapping of str to (int or None), "auto", or None

    Raises
    ------
    ValueError, TypeError
        If both say it, or one of them cannot be honoured.
    """
    calls = minibatches(model)
    _check_observed(model, full, calls)
    if not calls:
        return _from_argument(full, batch_size)
    if batch_size is not None:
        sizes = sorted({batch_size_of(call) for nodes in calls.values() for call in nodes})
        raise ValueError(
            f"batch_size={batch_size!r} is given for a model whose pm.Minibatch has a batch_size "
            f"of its own ({', '.join(map(str, sizes))}): leave it out here, or write the model "
            "without pm.Minibatch and total_size."
        )
    return _from_minibatches(model, full, calls)


def _check_observed(model: Model, full: Model, calls) -> None:
    for rv, whole in zip(model.observed_RVs, full.observed_RVs, strict=True):
        own = _calls_of(model, rv, calls)
        if own and not has_total_size(rv, rows=True):
            raise ValueError(
                f"The observed variable {rv.name!r} depends on a pm.Minibatch and has no "
                "total_size: its likelihood would count one batch, not all rows. Give it "
                f"total_size={number_of_rows(full, whole)}."
            )
        if len(own) > 1:
            raise ValueError(
                f"The observed variable {rv.name!r} mixes {len(own)} calls of pm.Minibatch, whose "
                "rows are drawn apart. Draw its data together: "
                "x, y = pm.Minibatch(x_data, y_data, batch_size=...)."
            )
    for total in total_sizes(model, full):
        total.check()


def _calls_of(model: Model, rv: TensorVariable, calls) -> frozenset[Apply]:
    return calls.get(rv, frozenset()) | calls.get(model.rvs_to_values[rv], frozenset())


def _from_minibatches(model: Model, full: Model, calls) -> list[Batching]:
    members: dict[Apply, list[TensorVariable]] = {}
    for rv, whole in zip(model.observed_RVs, full.observed_RVs, strict=True):
        for call in _calls_of(model, rv, calls):
            members.setdefault(call, []).append(whole)
    batches = []
    for call, rvs in members.items():
        data = tuple(call.inputs[:-1])
        sources = list(graph_inputs(data))
        values = [full.rvs_to_values[rv] for rv in rvs]
        leaves = graph_inputs([*rvs, *values])
        others = tuple(leaf for leaf in leaves if not is_among(leaf, sources))
        batches.append(Batching(tuple(rvs), batch_size_of(call), data, others))
    return batches


def _from_argument(model: Model, batch_size: Any) -> list[Batching]:
    sizes = _sizes(batch_size, model)
    members: dict[object, list[TensorVariable]] = {}
    for rv in model.observed_RVs:
        if rv.name in sizes:
            members.setdefault(row_dim(model, rv) or number_of_rows(model, rv), []).append(rv)
    return [Batching(tuple(rvs), _common_size(rvs, sizes)) for rvs in members.values()]


def _sizes(batch_size: Any, model: Model) -> dict[str, int]:
    """Return the batch size of each observed variable to be minibatched, by its name."""
    if batch_size is None:
        return {}
    if is_word(batch_size, AUTO):
        with_rows = [rv for rv in model.observed_RVs if rv.type.ndim]
        return {rv.name: START_SIZE for rv in with_rows if number_of_rows(model, rv) > FEW_ROWS}
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


def _common_size(observed: Sequence[TensorVariable], sizes: Mapping[str, int]) -> int:
    """Return the batch size of variables that share their rows; raise if there are several."""
    own = {rv.name: sizes[rv.name] for rv in observed}
    if len(set(own.values())) != 1:
        raise ValueError(
            f"batch_size={own!r}: these variables share their rows, so give them one batch size "
            "(or None: exact)."
        )
    return own[observed[0].name]
