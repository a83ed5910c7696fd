"""Planner: the one place that decides whether a likelihood is minibatched, and how, or exact."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytensor.tensor as pt
from pymc import Model
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc._utils.validation import check_axes
from pymc_sgmcmc.model.row_axes import FEW_ROWS, number_of_rows, row_dim, value_of
from pymc_sgmcmc.rows.batch_rows import BatchRows, LatentRows, with_indices_at_data
from pymc_sgmcmc.rows.computed import Computed, describe, with_computed
from pymc_sgmcmc.rows.decisions import Decision
from pymc_sgmcmc.rows.dependence import Dependence
from pymc_sgmcmc.rows.groups import RowData, RowGroup, row_data
from pymc_sgmcmc.rows.parts import Part
from pymc_sgmcmc.rows.requests import BatchRequest
from pymc_sgmcmc.rows.selection import NotByRow
from pymc_sgmcmc.rows.separation import prove_separation

__all__ = ["Plan", "Planner"]

EXACT = "For exact gradients pass batch_size=None."
WITHOUT_MINIBATCH = "For exact gradients write the model without pm.Minibatch and total_size."
MARGINALISE = (
    "Minibatches need a posterior whose size does not grow with the data: marginalise it. " + EXACT
)
ONE_NUMBER = (
    "it is one number for all of them, not one value a row: they depend on each other, as in a "
    "Gaussian process, a time series or a multivariate normal variable"
)


@dataclass(frozen=True, eq=False)
class Plan:
    """A decision on a likelihood, with the graphs that follow from it.

    Attributes
    ----------
    request : BatchRequest
    decision : Decision
    key : object
        Likelihoods with the same key share their rows. The key is a dimension, a number of rows,
        or a `pm.Minibatch`.
    group : RowGroup or None
        Group of this likelihood alone; None if the likelihood is exact.
    term : TensorVariable or None
        Full log-likelihood whose rows the group computes; zero in the rows that are exact.
    rest : TensorVariable or None
        Log-likelihood of the exact rows, if the others are minibatched.
    """

    request: BatchRequest
    decision: Decision
    key: object = None
    group: RowGroup | None = None
    term: TensorVariable | None = None
    rest: TensorVariable | None = None


class Planner:
    """Planner of one likelihood after the other.

    Parameters
    ----------
    model : pymc.Model
        The model on all rows.
    terms : mapping
        The log-density of each variable and Potential, with one value a row where it has rows.
    point : mapping of str to array
        Values of the value variables.
    shared : mapping
        Shared variables that stand for the values of variables that are not sampled.
    axes : mapping of str to int or None
        Axis of rows of data by name, where the user gives it; None: the data are not sliced.
    apart : bool
        Whether rows that have a latent variable of their own are exact, apart from batches.

    Raises
    ------
    TypeError
        If `axes` is not such a mapping.
    """

    def __init__(
        self,
        model: Model,
        terms: Mapping[TensorVariable, TensorVariable],
        point: Mapping[str, np.ndarray],
        shared: Mapping[TensorVariable, SharedVariable],
        axes: Mapping[str, int | None],
        apart: bool = True,
    ):
        self._apart = apart
        self._model, self._terms, self._point, self._shared = model, terms, point, shared
        self._axes = check_axes(axes)
        self._names = {replacement: var.name for var, replacement in shared.items()}
        self.dependence = Dependence(shared.values(), point)
        self._computed: dict[Variable, Computed] = {}
        self._slices: dict[object, RowData] = {}

    def shape_of(self, variable: TensorVariable, values: Mapping) -> tuple[int, ...]:
        """Return the shape of a variable's log-density, from `values` if the axes agree."""
        term = self._terms[variable]
        if np.ndim(values[variable]) == term.type.ndim:
            self.dependence.know(term, np.shape(values[variable]))
        return self.dependence.shape_of(term)

    def plan(self, request: BatchRequest) -> Plan:
        """Decide on one likelihood; try its axes in order until one has the rows."""
        plans = []
        for axis in self._axes_of(request):
            plans.append(self._along(request, axis))
            if plans[-1].group is not None:
                return plans[-1]
        return plans[0]

    def exact(self, term: TensorVariable) -> tuple[TensorVariable, list[Computed]]:
        """Return `term` on all rows with indexed data computed once, and the computed data."""
        arrays = [value_of(x) for x in graph_inputs([term]) if self._is_array(x)]
        if all(np.size(array) <= FEW_ROWS for array in arrays):
            return term, []
        moved = with_indices_at_data(term, self.dependence)
        if (
            moved is term and self._terms.get(term) is not term
        ):  # a joined likelihood is its own term
            return term, []
        return with_computed(moved, self.dependence, self._compute)

    def check_names(self, plans: Sequence[Plan]) -> None:
        """Raise ValueError if the user gives an axis of data in no minibatched likelihood."""
        known = set()
        for plan in plans:
            variable = plan.request.variable
            leaves = graph_inputs([self._terms[variable]])
            known |= {self._name(leaf, variable) for leaf in leaves}
        unknown = sorted(set(self._axes) - known)
        if unknown:
            sliced = sorted({name for plan in plans for name in plan.decision.sliced})
            raise ValueError(
                f"rows={self._axes!r} names {unknown}, which no minibatched variable depends on. "
                f"Data that are sliced by row: {sliced}."
            )

    def _axes_of(self, request: BatchRequest) -> tuple[int, ...]:
        value = self._model.rvs_to_values.get(request.variable)
        leaves = graph_inputs([value]) if value is not None else []
        given = [self._axes.get(self._name(leaf, request.variable)) for leaf in leaves]
        said = [axis for axis in given if axis is not None]
        return tuple(said[:1]) or request.axes

    def _along(self, request: BatchRequest, axis: int) -> Plan:
        term, variable = self._terms[request.variable], request.variable
        if axis >= term.type.ndim:
            rows = number_of_rows(self._model, variable) if variable.type.ndim else 1
            return self._refused(request, rows, axis, ONE_NUMBER, EXACT)
        n_rows = self.dependence.shape_of(term)[axis]
        if n_rows == 1:
            return Plan(request, Decision(variable.name, 1, axis))
        self._check_axes(request, n_rows)
        is_prior = variable not in self._model.rvs_to_values and not request.explicit
        key = request.call or row_dim(self._model, variable, axis) or n_rows
        used: dict[Variable, RowData] = {}

        def slice_of(x: Variable, own: int) -> TensorVariable:
            data = self._row_data(x, own, key, variable)
            used[data.slice] = data
            return data.slice

        imputed: list[TensorVariable] | None = [] if self._apart else None
        rows, rest = BatchRows(n_rows, self.dependence, slice_of, imputed), None
        try:
            sliced = rows(term, axis)
            if imputed:
                # Few batches would include the latent variable of a given row: it is exact.
                latent = pt.or_(*imputed) if len(imputed) > 1 else imputed[0]
                shape = ["x"] * term.type.ndim
                shape[axis] = 0
                sliced = pt.switch(rows(latent, 0).dimshuffle(*shape), 0.0, sliced)
                (places,) = pt.nonzero(latent)
                rest = Part(places, self.dependence)(term, axis)
                term = pt.switch(latent.dimshuffle(*shape), 0.0, term)
        except LatentRows as error:
            if is_prior:
                return Plan(request, Decision(variable.name, n_rows, axis))
            rv = self._model.values_to_rvs.get(error.variable, error.variable)
            reason = f"the latent variable {rv.name!r} has one value per row"
            return self._refused(request, n_rows, axis, reason, MARGINALISE)
        except NotByRow as error:
            shapes = [np.shape(value_of(x)) for x in graph_inputs([term]) if self._is_array(x)]
            if is_prior and not any(n_rows in shape for shape in shapes):
                return Plan(request, Decision(variable.name, n_rows, axis))
            return self._refused(request, n_rows, axis, str(error), EXACT)
        sliced, computed = with_computed(sliced, self.dependence, self._compute)
        leaves = set(graph_inputs([sliced]))
        data = [one for one in used.values() if one.slice in leaves]
        if not any(one.source not in self._names for one in data):
            if is_prior:
                return Plan(request, Decision(variable.name, n_rows, axis))
            return self._refused(request, n_rows, axis, "no data have its rows", EXACT)
        number = data[0].slice.shape[data[0].axis]
        sliced = clone_replace(sliced, {rows.number: number}, rebuild_strict=False)
        group = RowGroup(variable.name, (variable.name,), tuple(data), (sliced,), tuple(computed))
        by_name = {one.name: one.axis for one in data}
        few = 0 if rest is None else self.dependence.shape_of(places)[0]
        decision = Decision(variable.name, n_rows, axis, by_name, imputed=few)
        plan = Plan(request, decision, key, group, term, rest)
        return self.proved(plan) if n_rows else plan

    def proved(self, plan: Plan) -> Plan:
        """Return the plan, or a plan of an exact likelihood if the rows prove not to separate."""
        axis = plan.decision.axis
        try:
            prove_separation(self._model, plan.group, plan.term, axis, self._point, self._shared)
        except NotByRow as error:
            rows = plan.group.length()
            return self._refused(plan.request, rows, axis, str(error), EXACT)
        return plan

    def _is_array(self, leaf: Variable) -> bool:
        return self.dependence.is_data(leaf) and isinstance(leaf.type, TensorType)

    def _refused(self, request: BatchRequest, rows: int, axis: int, reason: str, cure: str) -> Plan:
        if request.call is not None:
            cure = cure.replace(EXACT, WITHOUT_MINIBATCH)
        decision = Decision(request.variable.name, rows, axis, reason=reason, cure=cure)
        return Plan(request, decision)

    def _check_axes(self, request: BatchRequest, n_rows: int) -> None:
        """Raise ValueError if an axis given by the user does not have the number of rows."""
        for leaf in graph_inputs([self._terms[request.variable]]):
            name = self._name(leaf, request.variable)
            own = self._axes.get(name)
            if own is None:
                continue
            shape = self.dependence.shape_of(leaf)
            if not (0 <= own < len(shape) and shape[own] == n_rows):
                raise ValueError(
                    f"rows={{{name!r}: {own!r}}} does not fit: {name} has shape {shape}, and the "
                    f"observed variable has {n_rows} rows."
                )

    def _row_data(self, x: Variable, axis: int, key: object, variable: TensorVariable) -> RowData:
        name = self._name(x, variable)
        if name in self._axes and self._axes[name] != axis:
            raise NotByRow(
                f"rows={{{name!r}: {self._axes[name]!r}}} leaves out the rows that it has on axis "
                f"{axis} of {name}"
            )
        # Two constants of the same array share one slice.
        known = (key, axis, x if x.owner or not hasattr(x, "data") else id(value_of(x)))
        if known not in self._slices:
            one = None if x.owner is None else self._compute(x)
            source = x if one is None else one.value
            name = name if one is None else describe(x)
            name = name or f"an unnamed array of shape {value_of(source).shape}"
            others = [data.name for (of, *_), data in self._slices.items() if of == key]
            again = sum(other == name or other.startswith(f"{name} (") for other in others)
            name = f"{name} ({again + 1})" if again else name
            self._slices[known] = row_data(source, name, axis, one)
        return self._slices[known]

    def _compute(self, x: TensorVariable) -> Computed:
        if x not in self._computed:
            self._computed[x] = Computed(x)
        return self._computed[x]

    def _name(self, leaf: Variable, variable: TensorVariable) -> str | None:
        """Return the name of a leaf, else of `variable` if the leaf is its observed value."""
        name = self._names.get(leaf) or leaf.name
        value = self._model.rvs_to_values.get(variable)
        if name or value is None:
            return name
        observed = graph_inputs([value])
        return variable.name if any(_is_same(leaf, part) for part in observed) else None


def _is_same(a: Variable, b: Variable) -> bool:
    """Return whether `a` and `b` are one variable, or constants of one array."""
    return a is b or (hasattr(a, "data") and hasattr(b, "data") and a.data is b.data)
