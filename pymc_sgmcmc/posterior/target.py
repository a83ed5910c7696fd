"""The potential U of a PyMC model and its gradient, on any rows and exactly in chunks."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from pymc import Model
from pymc.pytensorf import make_shared_replacements
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc._utils.flat import entry_name, shaped
from pymc_sgmcmc._utils.text import first_of
from pymc_sgmcmc._utils.validation import is_auto
from pymc_sgmcmc.compile.backend import Backend
from pymc_sgmcmc.compile.evaluate import evaluate
from pymc_sgmcmc.model.full_data import full_data
from pymc_sgmcmc.model.inspection import check_dims, check_variables, refuse_missing, values_at
from pymc_sgmcmc.model.log_density import log_density_terms
from pymc_sgmcmc.model.support import check_initial_point
from pymc_sgmcmc.model.total_sizes import total_sizes
from pymc_sgmcmc.posterior.energy_graph import Potential
from pymc_sgmcmc.posterior.evaluation import Evaluation, Part
from pymc_sgmcmc.posterior.linear_predictors import Predictor, find_predictors
from pymc_sgmcmc.rows.computed import Computed
from pymc_sgmcmc.rows.decisions import Decision
from pymc_sgmcmc.rows.groups import RowGroup, join_groups
from pymc_sgmcmc.rows.joined import Joined, check_joined, find_joined, with_joined
from pymc_sgmcmc.rows.joining import NotJoined
from pymc_sgmcmc.rows.latents import warn_about_row_latents
from pymc_sgmcmc.rows.opened import opened
from pymc_sgmcmc.rows.planner import Plan, Planner
from pymc_sgmcmc.rows.requests import BatchRequest, find_requests
from pymc_sgmcmc.rows.sparse_designs import compiler_of, without_sparse

__all__ = ["Target"]

_log = logging.getLogger("pymc.sgmcmc")

KEPT = 2**21
"""Largest number of slopes of rows that a chain keeps, for any number of rows: 16 MB, and as much
again where rows are drawn in blocks."""


class Target:
    """U(q) = -log prior(q) - sum_k (N_k / n_k) sum_{i in batch k} log p(y_ki given q).

    q is the flat vector of the unconstrained values of `vars`. The prior is that of the whole
    model with its Jacobians, never scaled; k runs over groups of likelihoods (observed variables,
    and Potentials that have a value for each row of data) that share their rows. Likelihoods that
    are not minibatched count as prior.

    Parameters
    ----------
    model : pymc.Model
    vars : list of value variables
        The sampled variables; all other free variables are shared inputs.
    batch_size : int, mapping of str to (int or None), or None
        Rows in a batch, for all groups or by the name of the row dimension or of an observed
        variable or Potential. None: the exact likelihood, or the batches of a `pm.Minibatch` in the
        model.
        "auto": minibatches wherever rows separate, and exact likelihoods elsewhere.
    rows : mapping of str to int or None, optional
        Axis of rows of data by name, where the axis found is wrong; None: the data are not sliced.
    initial_point : dict, optional
        Values of the value variables by name; default the model's initial point.
    backend : Backend, optional
        Compiler of `value_and_gradient`.
    keeps_slopes : bool
        Whether a control variate keeps the slopes of each row at its anchor, if possible.

    Attributes
    ----------
    model : pymc.Model
        The given model on all rows, without `pm.Minibatch`.
    size : int
        d, the length of q.
    decisions : list of Decision
        For each observed variable, and each Potential that might have been minibatched, whether
        and how it is minibatched, or why not.
    groups : list of RowGroup
        The minibatched likelihoods.
    shared : dict
        Shared variables that stand for the other free variables, by value variable.
    potential : Potential
        The graphs of U.

    Raises
    ------
    RowsDoNotSeparate
        If the user gives a batch size for a log-likelihood that is not a sum over rows of data; the
        message names the log-likelihood and the reason.
    ValueError, TypeError
        If the model or an argument cannot be honoured.
    """

    def __init__(
        self,
        model: Model,
        vars: Sequence[TensorVariable],
        *,
        batch_size: Any = None,
        rows: Mapping[str, int | None] | None = None,
        initial_point: Mapping[str, np.ndarray] | None = None,
        backend: Backend | None = None,
        keeps_slopes: bool = False,
    ):
        given, model = model, full_data(model)
        check_variables(vars)
        check_dims(model)
        point = dict(model.initial_point() if initial_point is None else initial_point)
        missing = [var.name for var in model.value_vars if var.name not in point]
        if missing:
            raise ValueError(
                f"initial_point={point!r} lacks {missing}: give the value of each value variable, "
                "as model.initial_point() does."
            )
        self.vars = list(vars)
        self.shapes = [np.shape(point[var.name]) for var in self.vars]
        self.shared = make_shared_replacements(point, self.vars, model)

        terms = log_density_terms(model, self.shared)
        leaves = graph_inputs(list(terms.values()))
        shared = [leaf for leaf in leaves if isinstance(leaf, SharedVariable)]
        self._data_leaves = [leaf for leaf in shared if leaf not in self.others]
        terms, self._matrices = without_sparse(terms, self.shared.values())
        self.backend = compiler_of(list(terms.values()), backend)
        values = values_at(terms, point)
        refuse_missing(terms, values)
        check_initial_point(model, terms, values, point)
        terms |= {v: opened(terms[v]) for v in (*model.observed_RVs, *model.potentials)}

        self.model, self._total_sizes = model, total_sizes(given, model)
        self._automatic = is_auto(batch_size)
        self._terms, self._point = terms, point
        self._planner = Planner(model, terms, point, self.shared, rows or {})
        shapes = {v: self._planner.shape_of(v, values) for v in terms}
        requests = find_requests(given, model, batch_size, shapes)
        apart = {*(rows or {}), *(batch_size if isinstance(batch_size, Mapping) else {})}
        joined = find_joined(model, terms, requests, shapes, point, self.shared, apart)
        plans = self._plan(requests, joined, batch_size)
        for plan in plans:
            if plan.request.explicit and plan.decision.reason:
                raise plan.decision.error()
        self._planner.check_names(plans)
        self._plans = [plan for plan in plans if plan.group is not None]
        self._group()
        self._computed: list[Computed] = []
        self.check_lengths()
        self._examined, self._storage = self._data(), self._data_storage()
        self.decisions = self._decide(plans, shapes)
        members = {rv for one in self._joined for rv in one.members}
        batched = {plan.request.variable for plan in self._plans}
        exact = [terms[v] for v in terms if v not in batched | members]
        exact += [plan.rest for plan in self._plans if plan.rest is not None]
        exact, self._computed = self._exact(exact)
        kept = self._kept_predictors() if keeps_slopes else None
        self.potential = Potential(self.vars, self.shapes, exact, self.groups, kept)
        self.size = self.potential.size
        self._slopes: tuple[np.ndarray, list[np.ndarray]] | None = None
        self._log(until=", until tuned" if self._automatic else "")
        if any(plan.request.call is not None for plan in plans):
            _log.warning(
                "The model has a pm.Minibatch: under it PyMC's log-likelihood, predictive draws "
                "and LOO are those of one random batch, scaled. Use full_data(model) for them."
            )

    def _plan(
        self, requests: Sequence[BatchRequest], joined: Sequence[Joined], batch_size: Any
    ) -> list[Plan]:
        """Plan each request; a joined likelihood is split if its rows do not separate."""
        self._terms |= {one.variable: one.variable for one in joined}
        plans = [
            self._planner.plan(request) for request in with_joined(requests, joined, batch_size)
        ]
        failed = {plan.request.variable for plan in plans if plan.decision.reason}
        if failed.isdisjoint(one.variable for one in joined):
            self._joined = list(joined)
            return plans
        kept = [one for one in joined if one.variable not in failed]
        for one in joined:
            del self._terms[one.variable]
        return self._plan(requests, kept, batch_size)

    def _group(self) -> None:
        """Group likelihoods that share their rows; raise ValueError if their batch sizes differ."""
        members: dict[object, list[Plan]] = {}
        for plan in self._plans:
            members.setdefault(plan.key, []).append(plan)
        self.groups, self._sizes, self._cures = [], [], []
        for key, plans in members.items():
            sizes = {plan.request.variable.name: plan.request.size for plan in plans}
            if len(set(sizes.values())) != 1:
                raise ValueError(
                    f"batch_size={sizes!r}: these variables share their rows, so give them one "
                    "batch size (or None: exact)."
                )
            name = key if isinstance(key, str) else plans[0].request.variable.name
            self.groups.append(join_groups(name, [plan.group for plan in plans]))
            self._sizes.append(plans[0].request.size)
            self._cures.append(plans[0].request.exact())

    def _decide(self, plans: Sequence[Plan], shapes) -> list[Decision]:
        """Return the decisions, with one also for each observed variable without a request."""
        made = {plan.request.variable: plan.decision for plan in plans}
        for one in self._joined:
            decision = made.pop(one.variable, Decision(one.variable.name, sum(one.rows)))
            for rv, rows in zip(one.members, one.rows, strict=True):
                made[rv] = replace(decision, name=rv.name, rows=rows)
        others = {rv: Decision(rv.name, (*shapes[rv], 1)[0]) for rv in self.model.observed_RVs}
        return list((others | made).values())

    def _exact(self, terms) -> tuple[list[TensorVariable], list[Computed]]:
        """Return the log-densities that are not minibatched, and the functions of data in them."""
        found = [self._planner.exact(term) for term in terms]
        return [term for term, _ in found], [one for _, computed in found for one in computed]

    def _log(self, until: str) -> None:
        parts = [
            f"{first_of(group.observed)} by {size} of {group.length()} rows{until} "
            f"({first_of([data.name for data in group.data])})"
            for group, size in zip(self.groups, self.batch_sizes, strict=True)
        ]
        batched = {name for group in self.groups for name in group.observed}
        batched |= {rv.name for one in self._joined for rv in one.members}
        variables = self.model.basic_RVs + self.model.potentials
        variables += [one.variable for one in self._joined]
        exact = [v.name for v in variables if v.name not in batched]
        exact += [f"{d.imputed} imputed rows of {d.name}" for d in self.decisions if d.imputed]
        _log.info(f"Minibatched: {'; '.join(parts) or 'nothing'}. Exact: {first_of(exact)}.")
        for decision in self.decisions:
            if decision.exact and decision.reason:
                _log.warning(decision.warning())

    @property
    def batch_sizes(self) -> list[int]:
        """Rows in a batch of each group; a tuned size is at most the present number of rows."""
        if not self._automatic:
            return self._sizes
        lengths = self.check_lengths().tolist()
        return [min(n, size) for n, size in zip(lengths, self._sizes, strict=True)]

    def check_lengths(self) -> np.ndarray:
        """Return the present number of rows (groups,); raise ValueError if a batch exceeds it."""
        for data in (*self._matrices, *self._computed):
            data.refresh()
        lengths = [group.length() for group in self.groups]
        found = zip(self.groups, self._sizes, lengths, self._cures, strict=True)
        for group, size, length, cure in found:
            if size > length and not self._automatic:
                raise ValueError(
                    f"batch_size={size} is larger than the {length} rows of "
                    f"{', '.join(group.observed)}: choose at most {length}, or {cure}."
                )
        return np.array(lengths, dtype=np.int64)

    def examine(self) -> np.ndarray:
        """Check data changed by `pm.set_data` again, and return `check_lengths()`."""
        for total in self._total_sizes:
            total.check()
        lengths, data, self._storage = self.check_lengths(), self._data(), self._data_storage()
        if any(now is not before for now, before in zip(data, self._examined, strict=True)):
            terms = {v: term for v, term in self._terms.items() if v not in self.model.free_RVs}
            refuse_missing(terms, values_at(terms, self._point))
            for plan in self._plans:
                if (proved := self._planner.proved(plan)).group is None:
                    raise proved.decision.error()
            for one in self._joined:
                self._check_joined(one)
            self._examined, self._slopes = data, None
        return lengths

    def _check_joined(self, one: Joined) -> None:
        terms = [self._terms[rv] for rv in one.members]
        try:
            check_joined(one.variable, terms, self._point, self.shared)
        except NotJoined as error:
            raise ValueError(
                f"With the new data {one.variable.name} are no longer of one form ({error}): build "
                "the step method anew."
            ) from error

    def data_changed(self) -> bool:
        """Return whether the data have other arrays than at the last `examine`.

        `pm.set_data` in a callback replaces them, or a step method that imputes data.
        """
        for storage, before in zip(self._storage, self._examined, strict=True):
            if storage[0] is not before:  # a plain loop for speed: called at every draw
                return True
        return False

    def _data_storage(self) -> list[list[np.ndarray]]:
        """Return the storage of the model's shared variables, each a list of one array."""
        return [leaf.container.storage for leaf in self._data_leaves]

    def _data(self) -> list[np.ndarray]:
        """Return the arrays of the model's shared variables, not copied."""
        return [leaf.get_value(borrow=True) for leaf in self._data_leaves]

    @cached_property
    def others(self) -> frozenset[SharedVariable]:
        """Shared variables for the variables that are not sampled: they change between draws."""
        return frozenset(self.shared.values())

    def others_in_batches(self) -> list[str]:
        """Return the value variables not sampled here on which a minibatched term depends.

        The dependence is direct, or through variables that are sliced by row like data, such as a
        latent variable of each row.
        """
        terms = [term for group in self.groups for term in group.terms]
        sources = [data.source for group in self.groups for data in group.data]
        leaves = set(graph_inputs([*terms, *sources]))
        return [var.name for var, shared in self.shared.items() if shared in leaves]

    def others_now(self) -> tuple[np.ndarray, ...]:
        """Return the present values of the variables that are not sampled, not copied."""
        return tuple(shared.get_value(borrow=True) for shared in self.shared.values())

    def set_others(self, values: Sequence[np.ndarray]) -> None:
        """Set the variables that are not sampled to values from `others_now`."""
        for shared, value in zip(self.shared.values(), values, strict=True):
            shared.set_value(value, borrow=True)

    @property
    def terms(self) -> Mapping[TensorVariable, TensorVariable]:
        """The elementwise log-density of each random variable and potential, on all rows."""
        return self._terms

    def terms_at(self, q: np.ndarray) -> dict[TensorVariable, np.ndarray]:
        """Return the values of `terms` at `q` (d,), without a compiler."""
        values = zip(self.vars, shaped(q, self.shapes), strict=True)
        given = {var: np.asarray(value, dtype=var.dtype) for var, value in values}
        outputs = evaluate(list(self._terms.values()), given)
        return dict(zip(self._terms, map(np.asarray, outputs), strict=True))

    def warn_about_row_latents(self) -> None:
        """Warn of sampled variables that have about as many entries as there are rows."""
        names = {var: self.model.values_to_rvs[var].name for var in self.vars}
        warn_about_row_latents(self.model, self.vars, self._terms, self._point, names)

    def coordinate(self, index: int) -> str:
        """Return the name of the entry of a value variable that is coordinate `index` of q."""
        for var, shape in zip(self.vars, self.shapes, strict=True):
            size = int(np.prod(shape))
            if index < size:
                return entry_name(var.name, shape, index)
            index -= size
        raise IndexError(index)

    def value_and_gradient(
        self, q: np.ndarray, rows: Sequence[np.ndarray] | None = None
    ) -> tuple[float, np.ndarray]:
        """Return U and its gradient at `q` (d,): estimated on the given rows, or exact.

        Parameters
        ----------
        q : array, shape (d,)
        rows : sequence of int arrays, optional
            Row indices, one array for each group. None: all rows, in chunks of bounded memory.

        Returns
        -------
        value : float
        gradient : array, shape (d,), float64
        """
        lengths = self.check_lengths()
        if rows is None:
            return self._evaluation.exact(q, lengths)
        weights = [n / len(row) for n, row in zip(lengths, rows, strict=True)]
        return self._evaluation.on_rows(q, weights, rows)

    def parts(self) -> list[Part]:
        """Return functions of q whose values and gradients add up to those of U on all rows.

        Each reads a part of the data that is small enough to stay in the processor's cache.
        """
        return self._evaluation.parts(self.check_lengths())

    def row_group(self, variable: TensorVariable) -> RowGroup | None:
        """Return one likelihood as a function of its rows, minibatched or not.

        Return None if its rows do not separate.
        """
        return self._planner.plan(BatchRequest(variable, 1, (0,), False)).group

    def row_gradient(self, q: np.ndarray, k: int, rows: np.ndarray) -> np.ndarray:
        """Estimate the gradient of group `k`'s part of U: N_k times the mean over `rows`."""
        return self._evaluation.on_group(q, k, rows, self.check_lengths()[k] / len(rows))[1]

    def batched_gradient(self, q: np.ndarray) -> np.ndarray:
        """Return the gradient at `q` of the minibatched part of U, on all rows."""
        if self.potential.predictors is None:
            return self._evaluation.exact(q, self.check_lengths(), exact_weight=0.0)[1]
        gradient, slopes = self._evaluation.with_slopes(q, self.check_lengths())
        self._slopes = np.array(q), slopes
        return gradient

    def row_slopes(self, q: np.ndarray) -> list[np.ndarray]:
        """Return the slopes of all rows at `q`, (N, predictors) for each group, if kept."""
        if self._slopes is None or not np.array_equal(self._slopes[0], q):
            self.batched_gradient(q)
        return self._slopes[1]

    def random_rows(self, rng: np.random.Generator, size: int) -> list[np.ndarray]:
        """Draw a batch of at most `size` rows of each group, with replacement."""
        return [rng.integers(n, size=min(size, n)) for n in self.check_lengths()]

    def fixed_rows(self, rng: np.random.Generator, size: int) -> list[np.ndarray]:
        """Draw about `size` different rows of each group, or take all of them."""
        return [
            np.arange(n) if n <= size else np.unique(rng.integers(n, size=size))
            for n in self.check_lengths()
        ]

    @property
    def rows_evaluated(self) -> int:
        """Number of rows whose gradient these methods have computed so far."""
        return self._evaluation.rows_evaluated

    @cached_property
    def _evaluation(self) -> Evaluation:
        return Evaluation(self.potential, self.backend or Backend())

    def _kept_predictors(self) -> list[list[Predictor]] | None:
        """Return the predictors of all groups; None if one has none, or slopes exceed `KEPT`."""
        found = [find_predictors(group, self.vars) for group in self.groups]
        if not all(found):  # also where a group has none at all
            return None
        kept = sum(n * len(own) for n, own in zip(self.check_lengths(), found, strict=True))
        return found if kept <= KEPT else None
