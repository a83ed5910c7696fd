"""Planner: the one place that decides whether a likelihood is minibatched, and how, or exact."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.model.row_axes import FEW_ROWS, number_of_rows, row_dim, value_of
from pymc_sgmcmc.rows.batch_rows import BatchRows, LatentRows
from pymc_sgmcmc.rows.computed import Computed, with_computed
from pymc_sgmcmc.rows.decisions import Decision
from pymc_sgmcmc.rows.dependence import Dependence
from pymc_sgmcmc.rows.groups import RowData, RowGroup
from pymc_sgmcmc.rows.model_terms import ModelTerms
from pymc_sgmcmc.rows.moved_indices import with_indices_at_data
from pymc_sgmcmc.rows.parts import Part
from pymc_sgmcmc.rows.readers import reader_of
from pymc_sgmcmc.rows.requests import BatchRequest
from pymc_sgmcmc.rows.selection import NotByRow
from pymc_sgmcmc.rows.separation import prove_separation
from pymc_sgmcmc.rows.sliced_data import SlicedData

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
    rows_of : object
        What the rows are: a dimension, a number of rows, or a `pm.Minibatch`. Likelihoods of which
        it is equal share their rows.
    group : RowGroup or None
        Group of this likelihood alone; None if the likelihood is exact.
    term : TensorVariable or None
        Full log-likelihood whose rows the group computes; zero in the rows that are exact.
    rest : TensorVariable or None
        Log-likelihood of the exact rows, if the others are minibatched.
    """

    request: BatchRequest
    decision: Decision
    rows_of: object = None
    group: RowGroup | None = None
    term: TensorVariable | None = None
    rest: TensorVariable | None = None


class Planner:
    """Planner of one likelihood after the other.

    Parameters
    ----------
    model_terms : ModelTerms
    axes : mapping of str to int or None
        Axis of rows of data by name, where the user gives it; None: the data are not sliced.
    apart : bool
        Whether rows that have a latent variable of their own are exact, apart from batches.

    Raises
    ------
    TypeError
        If `axes` is not such a mapping.
    """

    def __init__(self, model_terms: ModelTerms, axes: Mapping[str, int | None], apart: bool = True):
        self._apart, self._model_terms, self._model = apart, model_terms, model_terms.model
        # Functions of rows that are read stay in the graph of a batch, like those of what moves.
        read = [data for data in model_terms.data if reader_of(data)]
        self._dependence = Dependence([*model_terms.shared.values(), *read], model_terms.point)
        self._data = SlicedData(model_terms, axes, self._dependence)

    def shape_of(self, variable: TensorVariable) -> tuple[int, ...]:
        """Return the shape of a variable's log-density at the point."""
        term, known = self._term(variable), self._model_terms.shapes[variable]
        if len(known) == term.type.ndim:
            self._dependence.know(term, known)
        return self._dependence.shape_of(term)

    def plan(self, request: BatchRequest) -> Plan:
        """Decide on one likelihood; try its axes in order until one has the rows."""
        given, plans = self._data.given_axis(request.variable), []
        self._refuse_axis(request.variable, given)
        for axis in request.axes if given is None else (given,):
            plans.append(self._along(request, axis))
            if plans[-1].group is not None:
                return plans[-1]
        return plans[0]

    def exact(
        self, term: TensorVariable, joined: bool = False
    ) -> tuple[TensorVariable, list[Computed]]:
        """Return `term` on all rows with indexed data computed once, and the computed data.

        `joined`: whether `term` is that of several likelihoods, whose data are put together.
        """
        arrays = [value_of(x) for x in graph_inputs([term]) if self._is_array(x)]
        if all(np.size(array) <= FEW_ROWS for array in arrays):
            return term, []
        moved = with_indices_at_data(term, self._dependence)
        if moved is term and not joined:
            return term, []
        return with_computed(moved, self._dependence, self._data.compute)

    def check_names(self, plans: Sequence[Plan]) -> None:
        """Raise ValueError if the user gives an axis of data in no minibatched likelihood."""
        known = set()
        for plan in plans:
            variable = plan.request.variable
            known |= self._data.names_in(self._term(variable), variable)
        self._data.check_names(known, {name for plan in plans for name in plan.decision.sliced})

    def proved(self, plan: Plan) -> Plan:
        """Return the plan, or a plan of an exact likelihood if the rows prove not to separate."""
        axis, of = plan.decision.axis, self._model_terms
        assert plan.group is not None  # what has none is exact already
        try:
            prove_separation(of.model, plan.group, plan.term, axis, of.point, of.shared)
        except NotByRow as error:
            rows = plan.group.length()
            return self._refused(plan.request, rows, axis, str(error), EXACT)
        return plan

    def _along(self, request: BatchRequest, axis: int) -> Plan:
        """Plan a likelihood whose rows are along `axis` of its log-density."""
        variable = request.variable
        term = self._term(variable)
        if axis >= term.type.ndim:
            length = number_of_rows(self._model, variable) if variable.type.ndim else 1
            return self._refused(request, length, axis, ONE_NUMBER, EXACT)
        n_rows = self._dependence.shape_of(term)[axis]
        if n_rows == 1:
            return Plan(request, Decision(variable.name, 1, axis))
        self._data.check_axes(term, n_rows, variable)
        is_prior = variable not in self._model.rvs_to_values and not request.explicit
        unexplained = Plan(request, Decision(variable.name, n_rows, axis))
        rows_of = request.call or row_dim(self._model, variable, axis) or n_rows
        used: dict[Variable, RowData] = {}

        def slice_of(x: Variable, own: int) -> TensorVariable:
            data = self._data.slice(x, own, rows_of, variable)
            used[data.slice] = data
            return data.slice

        imputed: list[TensorVariable] | None = [] if self._apart else None
        rows, rest, few = BatchRows(n_rows, self._dependence, slice_of, imputed), None, 0
        try:
            sliced = rows.with_lengths(rows(term, axis))
            if imputed:
                sliced, term, rest, few = self._without_imputed(rows, sliced, term, axis, imputed)
        except LatentRows as error:
            if is_prior:
                return unexplained
            rv = self._model.values_to_rvs.get(error.variable, error.variable)
            reason = f"the latent variable {rv.name!r} has one value per row"
            return self._refused(request, n_rows, axis, reason, MARGINALISE)
        except NotByRow as error:
            shapes = [np.shape(value_of(x)) for x in graph_inputs([term]) if self._is_array(x)]
            if is_prior and not any(n_rows in shape for shape in shapes):
                return unexplained
            return self._refused(request, n_rows, axis, str(error), EXACT)
        sliced, computed = with_computed(sliced, self._dependence, self._data.compute)
        leaves = set(graph_inputs([sliced]))
        data = tuple(one for one in used.values() if one.slice in leaves)
        if not self._data.has_data(data):
            if is_prior:
                return unexplained
            return self._refused(request, n_rows, axis, "no data have its rows", EXACT)
        number = data[0].slice.shape[data[0].axis]
        sliced = clone_replace(sliced, {rows.number: number}, rebuild_strict=False)
        group = RowGroup(variable.name, (variable.name,), data, (sliced,), tuple(computed))
        by_name = {one.name: one.axis for one in data}
        decision = Decision(variable.name, n_rows, axis, by_name, imputed=few)
        plan = Plan(request, decision, rows_of, group, term, rest)
        return self.proved(plan) if n_rows else plan

    def _refuse_axis(self, variable: TensorVariable, given: int | None) -> None:
        """Raise ValueError if an axis that the user gives cannot have rows."""
        if given is None:
            return
        shape = self._dependence.shape_of(self._term(variable))
        if given >= max(1, len(shape)):
            raise ValueError(
                f"rows={{{variable.name!r}: {given}}} cannot be honoured: the log-likelihood of "
                f"{variable.name} has the shape {tuple(map(int, shape))}, and no axis {given}. "
                f"Choose one up to {max(1, len(shape)) - 1}, or leave it out."
            )

    def _without_imputed(self, rows: BatchRows, sliced, term, axis: int, masks: Sequence):
        """Take the rows of `masks`, which have latent variables of their own, out of batches.

        Few batches would include the latent variable of a given row. Return the log-likelihood of
        a batch and that of all rows, both zero in these rows, that of these rows, and their number.
        """
        latent = pt.or_(*masks) if len(masks) > 1 else masks[0]
        shape: list[int | str] = ["x"] * term.type.ndim
        shape[axis] = 0
        sliced = pt.switch(rows(latent, 0).dimshuffle(*shape), 0.0, sliced)
        (places,) = pt.nonzero(latent)
        rest = Part(places, self._dependence)(term, axis)
        whole = pt.switch(latent.dimshuffle(*shape), 0.0, term)
        return sliced, whole, rest, self._dependence.shape_of(places)[0]

    def _term(self, variable: TensorVariable) -> TensorVariable:
        """Return the log-density of a variable; that of joined likelihoods is itself."""
        return self._model_terms.terms.get(variable, variable)

    def _is_array(self, leaf: Variable) -> bool:
        return self._dependence.is_data(leaf) and isinstance(leaf.type, TensorType)

    def _refused(self, request: BatchRequest, rows: int, axis: int, reason: str, cure: str) -> Plan:
        if request.call is not None:
            cure = cure.replace(EXACT, WITHOUT_MINIBATCH)
        decision = Decision(request.variable.name, rows, axis, reason=reason, cure=cure)
        return Plan(request, decision)
