"""Requests for minibatches: the likelihoods, their axes of rows, and the rows in a batch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pymc import Model
from pytensor.graph.basic import Apply
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc._utils.validation import is_auto, natural
from pymc_sgmcmc.model.full_data import batch_size_of, has_total_size, minibatches
from pymc_sgmcmc.model.row_axes import FEW_ROWS, number_of_rows, row_dim
from pymc_sgmcmc.model.total_sizes import check_total_sizes

__all__ = ["AUTO", "BatchRequest", "find_requests"]

AUTO = "auto"
"""Value of `batch_size` that asks for a tuned batch size."""
START_SIZE = 128
"""Number of rows in a batch before the batch size is tuned."""

Shapes = Mapping[TensorVariable, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class BatchRequest:
    """A request that a likelihood be minibatched.

    Attributes
    ----------
    variable : TensorVariable
        An observed variable or a Potential of the full-data model.
    size : int
        Number of rows in a batch.
    axes : tuple of int
        Axes of its log-likelihood that may have the rows, in the order in which they are tried.
    explicit : bool
        Whether the request is the user's own. Such a request that cannot be honoured is an error.
    call : Apply, optional
        The `pm.Minibatch` that makes the request.
    """

    variable: TensorVariable
    size: int
    axes: tuple[int, ...]
    explicit: bool
    call: Apply | None = None

    def exact(self) -> str:
        """Return advice on how to get the exact likelihood."""
        if self.call is None:
            name = self.variable.name
            return f"pass batch_size={{{name!r}: None, ...}} for its exact likelihood"
        return "write the model without pm.Minibatch and total_size for its exact likelihood"


def find_requests(model: Model, full: Model, batch_size: Any, shapes: Shapes) -> list[BatchRequest]:
    """Return the requests made by `pm.Minibatch` in `model`, or else by `batch_size`.

    Parameters
    ----------
    model : pymc.Model
        The model as the user wrote it.
    full : pymc.Model
        `full_data(model)`.
    batch_size : int, mapping of str to (int or None), "auto", or None
    shapes : mapping of TensorVariable to tuple of int
        Shapes of the log-densities of the observed variables and Potentials of `full`.

    Raises
    ------
    ValueError, TypeError
        If both make requests, or a request cannot be honoured.
    """
    calls = minibatches(model)
    _check_observed(model, full, calls)
    if not calls:
        return _from_argument(full, batch_size, shapes)
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
    check_total_sizes(model, full)


def _calls_of(model: Model, rv: TensorVariable, calls) -> frozenset[Apply]:
    return calls.get(rv, frozenset()) | calls.get(model.rvs_to_values[rv], frozenset())


def _from_minibatches(model: Model, full: Model, calls) -> list[BatchRequest]:
    return [
        BatchRequest(whole, batch_size_of(call), (0,), True, call)
        for rv, whole in zip(model.observed_RVs, full.observed_RVs, strict=True)
        for call in _calls_of(model, rv, calls)
    ]


def _from_argument(model: Model, batch_size: Any, shapes: Shapes) -> list[BatchRequest]:
    if batch_size is None:
        return []
    if is_auto(batch_size):
        axes = {v: _longest_first(shapes[v]) for v in (*model.observed_RVs, *model.potentials)}
        for rv in _with_rows(model):  # so that the user is told why one number is exact
            if not shapes[rv] and number_of_rows(model, rv) > FEW_ROWS:
                axes[rv] = (0,)
        return [BatchRequest(v, START_SIZE, own, False) for v, own in axes.items() if own]
    if isinstance(batch_size, Mapping):
        return _by_name(model, batch_size, shapes)
    size = natural("batch_size", batch_size)
    observed = [
        BatchRequest(rv, size, _leading_first(shapes[rv], size), True) for rv in _with_rows(model)
    ]
    potentials = [
        BatchRequest(v, size, _leading_first(shapes[v], size), False)
        for v in model.potentials
        if max(shapes[v], default=0) > size
    ]
    if not observed and not potentials:
        raise ValueError(
            f"batch_size={size} cannot be honoured: the model has no observed variable with rows, "
            "and no pm.Potential with more. Leave batch_size out."
        )
    return observed + potentials


def _with_rows(model: Model) -> list[TensorVariable]:
    return [rv for rv in model.observed_RVs if rv.type.ndim]


def _longest_first(shape: Sequence[int]) -> tuple[int, ...]:
    many = [axis for axis, length in enumerate(shape) if length > FEW_ROWS]
    return tuple(sorted(many, key=lambda axis: (-shape[axis], axis)))


def _leading_first(shape: Sequence[int], size: int) -> tuple[int, ...]:
    """Return all axes, those of at least `size` rows first; axis 0 if rows form one event."""
    return tuple(sorted(range(len(shape)), key=lambda axis: (shape[axis] < size, axis))) or (0,)


def _by_name(model: Model, batch_size: Mapping[str, Any], shapes: Shapes) -> list[BatchRequest]:
    variables = [*_with_rows(model), *(v for v in model.potentials if shapes[v])]
    axes = {v: range(max(1, len(shapes[v]))) for v in variables}
    dims = {v.name: [row_dim(model, v, axis) for axis in axes[v]] for v in variables}
    of_dims = sorted({dim for own in dims.values() for dim in own if dim} - set(dims))
    sizes: dict[str | None, int | None] = {}
    for key, size in batch_size.items():
        if key not in [*dims, *of_dims]:
            raise ValueError(
                f"batch_size={dict(batch_size)!r} names {key!r}, which is neither an observed "
                f"variable with rows nor the dimension of one: choose from {[*dims, *of_dims]}."
            )
        sizes[key] = None if size is None else natural(f"batch_size[{key!r}]", size)
    requests = []
    for v in variables:
        named = [axis for axis, dim in enumerate(dims[v.name]) if dim in sizes]
        if v.name in sizes:
            size = sizes[v.name]
            order = () if size is None else _leading_first(shapes[v], size)
        elif named and (size := sizes[dims[v.name][named[0]]]) is not None:
            order = (named[0],)
        else:
            continue
        if size is not None:
            requests.append(BatchRequest(v, size, order, True))
    return requests
