"""The data of a model that are sliced by row: their names, their axes, and one slice for each."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from pytensor.graph.basic import Variable
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc._utils.validation import check_axes
from pymc_sgmcmc.model.row_axes import value_of
from pymc_sgmcmc.rows.computed import Computed, describe
from pymc_sgmcmc.rows.dependence import Dependence
from pymc_sgmcmc.rows.groups import RowData, row_data
from pymc_sgmcmc.rows.model_terms import ModelTerms
from pymc_sgmcmc.rows.selection import NotByRow

__all__ = ["SlicedData"]


class SlicedData:
    """The slices of a model's data, one for each array, axis, and set of likelihoods on its rows.

    Parameters
    ----------
    model_terms : ModelTerms
    axes : mapping of str to int or None
        Axis of rows of data by name, where the user gives it; None: the data are not sliced.
    dependence : Dependence
        The shapes of data.

    Raises
    ------
    TypeError
        If `axes` is not such a mapping.
    """

    def __init__(
        self, model_terms: ModelTerms, axes: Mapping[str, int | None], dependence: Dependence
    ):
        self._dependence = dependence
        self._axes: dict[Any, int | None] = check_axes(axes)
        self._observed = model_terms.model.rvs_to_values
        self._names = {shared: var.name for var, shared in model_terms.shared.items()}
        self._computed: dict[Variable, Computed] = {}
        self._slices: dict[tuple[object, ...], RowData] = {}

    def slice(self, x: Variable, axis: int, rows_of: object, variable: TensorVariable) -> RowData:
        """Return the slice along `axis` of data, or of a function of data, `x`.

        `rows_of`: the key of the likelihoods that share these rows, among them `variable`. Raise
        `NotByRow` where the user has excluded this axis.
        """
        name = self._name(x, variable)
        if name in self._axes and self._axes[name] != axis:
            raise NotByRow(
                f"rows={{{name!r}: {self._axes[name]!r}}} leaves out the rows that it has on axis "
                f"{axis} of {name}"
            )
        # Two constants of the same array share one slice.
        known = (rows_of, axis, x if x.owner or not hasattr(x, "data") else id(value_of(x)))
        if known not in self._slices:
            one = None if x.owner is None else self.compute(x)
            source = x if one is None else one.value
            name = name if one is None else describe(x)
            name = name or f"an unnamed array of shape {value_of(source).shape}"
            others = [data.name for (key, *_), data in self._slices.items() if key == rows_of]
            again = sum(other == name or other.startswith(f"{name} (") for other in others)
            name = f"{name} ({again + 1})" if again else name
            self._slices[known] = row_data(source, name, axis, one)
        return self._slices[known]

    def compute(self, x: TensorVariable) -> Computed:
        """Return the value of a function of data, one for all uses of it."""
        if x not in self._computed:
            self._computed[x] = Computed(x)
        return self._computed[x]

    def has_data(self, slices: Iterable[RowData]) -> bool:
        """Return whether any slice is of data, not of the values of another step method."""
        return any(one.source not in self._names for one in slices)

    def given_axis(self, variable: TensorVariable) -> int | None:
        """Return the axis of rows that the user gives for the observed values of `variable`."""
        value = self._observed.get(variable)
        leaves = graph_inputs([value]) if value is not None else []
        given = [self._axes.get(self._name(leaf, variable)) for leaf in leaves]
        return next((axis for axis in given if axis is not None), None)

    def check_axes(self, term: TensorVariable, n_rows: int, variable: TensorVariable) -> None:
        """Raise ValueError if an axis given by the user does not have the number of rows.

        `term`: the log-density of `variable`, which has `n_rows` rows.
        """
        for leaf in graph_inputs([term]):
            name = self._name(leaf, variable)
            own = self._axes.get(name)
            if own is None:
                continue
            shape = self._dependence.shape_of(leaf)
            if not (0 <= own < len(shape) and shape[own] == n_rows):
                raise ValueError(
                    f"rows={{{name!r}: {own!r}}} does not fit: {name} has shape {shape}, and the "
                    f"observed variable has {n_rows} rows."
                )

    def check_names(self, known: Collection[str | None], sliced: Collection[str]) -> None:
        """Raise ValueError if the user gives an axis of data that are not `known`, by name.

        `sliced`: the names of the data that are sliced.
        """
        unknown = sorted(set(self._axes) - set(known))
        if unknown:
            raise ValueError(
                f"rows={self._axes!r} names {unknown}, which no minibatched variable depends on. "
                f"Data that are sliced by row: {sorted(sliced)}."
            )

    def names_in(self, term: TensorVariable, variable: TensorVariable) -> set[str | None]:
        """Return the names of the data in `term`, the log-density of `variable`."""
        return {self._name(leaf, variable) for leaf in graph_inputs([term])}

    def _name(self, leaf: Variable, variable: TensorVariable) -> str | None:
        """Return the name of a leaf, else of `variable` if the leaf is its observed value."""
        name = self._names.get(leaf) or leaf.name
        value = self._observed.get(variable)
        if name or value is None:
            return name
        observed = graph_inputs([value])
        return variable.name if any(_is_same(leaf, part) for part in observed) else None


def _is_same(a: Variable, b: Variable) -> bool:
    """Return whether `a` and `b` are one variable, or constants of one array."""
    return a is b or (hasattr(a, "data") and hasattr(b, "data") and a.data is b.data)
