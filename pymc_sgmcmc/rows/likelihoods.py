"""The plan for all likelihoods of a model: which are computed on batches of which rows."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pymc import Model
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc._utils.text import first_of
from pymc_sgmcmc._utils.validation import is_auto
from pymc_sgmcmc.model.row_axes import FEW_ROWS
from pymc_sgmcmc.rows.computed import Computed
from pymc_sgmcmc.rows.decisions import Decision, exact_warnings
from pymc_sgmcmc.rows.groups import RowGroup, join_groups
from pymc_sgmcmc.rows.joined import Joined, check_joined, find_joined, with_joined
from pymc_sgmcmc.rows.joining import NotJoined
from pymc_sgmcmc.rows.model_terms import ModelTerms
from pymc_sgmcmc.rows.planner import Plan, Planner
from pymc_sgmcmc.rows.requests import BatchRequest, find_requests

__all__ = ["Likelihoods", "plan_likelihoods"]

_log = logging.getLogger("pymc.sgmcmc")


@dataclass(frozen=True, eq=False)
class Likelihoods:
    """How each likelihood of a model is computed: on batches of its rows, or exactly.

    Attributes
    ----------
    model_terms : ModelTerms
    planner : Planner
        Planner of `plans`, which proves them again on new data.
    plans : tuple of Plan
        Plans of the minibatched likelihoods.
    groups : tuple of RowGroup
        The minibatched likelihoods; those that share their rows are one group.
    requests : tuple of BatchRequest
        The request behind each group, with the number of rows in a batch.
    exact : tuple of TensorVariable
        Elementwise log-densities that are not minibatched: priors, and likelihoods on all rows.
    computed : tuple of Computed
        Functions of data in `exact`.
    joined : tuple of Joined
        Likelihoods of one form, each computed as one.
    decisions : tuple of Decision
        For each observed variable, and each Potential that might have been minibatched, whether
        and how it is minibatched, or why not.
    is_tuned : bool
        Whether the numbers of rows in `requests` are those to begin with.
    """

    model_terms: ModelTerms
    planner: Planner
    plans: tuple[Plan, ...]
    groups: tuple[RowGroup, ...]
    requests: tuple[BatchRequest, ...]
    exact: tuple[TensorVariable, ...]
    computed: tuple[Computed, ...]
    joined: tuple[Joined, ...]
    decisions: tuple[Decision, ...]
    is_tuned: bool

    def lengths(self) -> np.ndarray:
        """Return the present number of rows (groups,); raise ValueError if a batch exceeds it."""
        refreshed: tuple[Any, ...] = (*self.model_terms.matrices, *self.computed)
        for data in refreshed:
            data.refresh()
        lengths = [group.length() for group in self.groups]
        for group, request, length in zip(self.groups, self.requests, lengths, strict=True):
            if request.size > length and not self.is_tuned:
                raise ValueError(
                    f"batch_size={request.size} is larger than the {length} rows of "
                    f"{', '.join(group.likelihoods)}: choose at most {length}, or "
                    f"{request.exact()}."
                )
        return np.array(lengths, dtype=np.int64)

    def batch_sizes(self) -> list[int]:
        """Return the rows in a batch of each group; at most the present number, where tuned."""
        sizes = [request.size for request in self.requests]
        if not self.is_tuned:
            return sizes
        return [min(n, size) for n, size in zip(self.lengths().tolist(), sizes, strict=True)]

    def prove_again(self) -> None:
        """Raise ValueError unless rows separate, and joined likelihoods agree, on new data."""
        self.model_terms.refuse_missing()
        for plan in self.plans:
            if (proved := self.planner.proved(plan)).group is None:
                raise proved.decision.error()
        for one in self.joined:
            try:
                check_joined(one.variable, one.members, self.model_terms)
            except NotJoined as error:
                raise ValueError(
                    f"With the new data {one.variable.name} are no longer of one form ({error}): "
                    "build the step method anew."
                ) from error

    def _log(self) -> None:
        model, until = self.model_terms.model, ", until tuned" if self.is_tuned else ""
        parts = [
            f"{first_of(group.likelihoods)} by {size} of {group.length()} rows{until} "
            f"({first_of([data.name for data in group.data])})"
            for group, size in zip(self.groups, self.batch_sizes(), strict=True)
        ]
        batched = {name for group in self.groups for name in group.likelihoods}
        batched |= {rv.name for one in self.joined for rv in one.members}
        variables = model.observed_RVs + model.potentials + [one.variable for one in self.joined]
        exact = [v.name for v in variables if v.name not in batched]
        exact += [f"{d.imputed} imputed rows of {d.name}" for d in self.decisions if d.imputed]
        priors = [v.name for v in model.free_RVs]
        if priors:
            exact.append(f"the prior{'s' * (len(priors) > 1)} of {first_of(priors)}")
        _log.info(
            f"Minibatched: {'; '.join(parts) or self._why_nothing()}. Exact: {first_of(exact)}."
        )
        for warning in exact_warnings(self.decisions):
            _log.warning(warning)

    def _why_nothing(self) -> str:
        if any(decision.reason for decision in self.decisions):  # a warning says why
            return "nothing"
        if self.is_tuned:
            return f"nothing, as no likelihood has more than {FEW_ROWS} rows"
        return "nothing, as no batch_size is given: batch_size=128, say, has batches of 128 rows"


def plan_likelihoods(
    given: Model, model_terms: ModelTerms, batch_size: Any, axes: Mapping[str, int | None]
) -> Likelihoods:
    """Plan all likelihoods of a model, and log the plan.

    Parameters
    ----------
    given : pymc.Model
        The model as the user wrote it, perhaps with `pm.Minibatch`.
    model_terms : ModelTerms
    batch_size : int, mapping of str to (int or None), "auto", or None
    axes : mapping of str to int or None
        Axis of the rows of data by name, where the user gives it; None: the data are not sliced.

    Raises
    ------
    RowsDoNotSeparate
        If the user requests batches of a likelihood whose rows do not separate.
    ValueError, TypeError
        If an argument cannot be honoured.
    """
    planner = Planner(model_terms, axes)
    shapes = {v: planner.shape_of(v) for v in model_terms.terms}
    requests = find_requests(given, model_terms.model, batch_size, shapes)
    apart = {*axes, *(batch_size if isinstance(batch_size, Mapping) else {})}
    all_plans, joined = _plan_each(
        planner, requests, find_joined(model_terms, requests, shapes, apart), batch_size
    )
    for plan in all_plans:
        if plan.request.explicit and plan.decision.reason:
            raise plan.decision.error()
    planner.check_names(all_plans)
    plans = tuple(plan for plan in all_plans if plan.group is not None)
    sharing = _by_rows(plans)

    batched = {plan.request.variable for plan in plans}
    members = {rv for one in joined for rv in one.members}
    exact = [
        planner.exact(term) for v, term in model_terms.terms.items() if v not in batched | members
    ]
    exact += [planner.exact(one.variable, joined=True) for one in joined
              if one.variable not in batched]  # fmt: skip
    exact += [planner.exact(plan.rest) for plan in plans if plan.rest is not None]
    found = Likelihoods(
        model_terms=model_terms,
        planner=planner,
        plans=plans,
        groups=tuple(sharing),
        requests=tuple(sharing.values()),
        exact=tuple(term for term, _ in exact),
        computed=tuple(one for _, computed in exact for one in computed),
        joined=tuple(joined),
        decisions=tuple(_decide(model_terms.model, all_plans, joined, shapes)),
        is_tuned=is_auto(batch_size),
    )
    found.lengths()
    found._log()
    if any(plan.request.call is not None for plan in all_plans):
        _log.warning(
            "The model has a pm.Minibatch: under it PyMC's log-likelihood, predictive draws "
            "and LOO are those of one random batch, scaled. Use full_data(model) for them."
        )
    return found


def _plan_each(
    planner: Planner, requests: Sequence[BatchRequest], joined: list[Joined], batch_size: Any
) -> tuple[list[Plan], list[Joined]]:
    """Plan each request; those of a joined likelihood one by one if its rows do not separate."""
    while True:
        plans = [planner.plan(request) for request in with_joined(requests, joined, batch_size)]
        failed = {plan.request.variable for plan in plans if plan.decision.reason}
        kept = [one for one in joined if one.variable not in failed]
        if len(kept) == len(joined):
            return plans, joined
        joined = kept


def _by_rows(plans: Sequence[Plan]) -> dict[RowGroup, BatchRequest]:
    """Join likelihoods that share their rows; raise ValueError if their batch sizes differ."""
    members: dict[object, list[Plan]] = {}
    for plan in plans:
        members.setdefault(plan.rows_of, []).append(plan)
    groups = {}
    for rows_of, sharing in members.items():
        sizes = {plan.request.variable.name: plan.request.size for plan in sharing}
        if len(set(sizes.values())) != 1:
            raise ValueError(
                f"batch_size={sizes!r}: these variables share their rows, so give them one "
                "batch size (or None: exact)."
            )
        name = rows_of if isinstance(rows_of, str) else sharing[0].request.variable.name
        group = join_groups(name, [plan.group for plan in sharing if plan.group is not None])
        groups[group.with_readers()] = sharing[0].request
    return groups


def _decide(
    model: Model, plans: Sequence[Plan], joined: Sequence[Joined], shapes: Mapping
) -> Iterable[Decision]:
    """Return the decisions, with one also for each observed variable without a request."""
    made = {plan.request.variable: plan.decision for plan in plans}
    for one in joined:
        decision = made.pop(one.variable, Decision(one.variable.name, sum(one.rows)))
        for rv, rows in zip(one.members, one.rows, strict=True):
            made[rv] = replace(decision, name=rv.name, rows=rows)
    others = {rv: Decision(rv.name, (*shapes[rv], 1)[0]) for rv in model.observed_RVs}
    return (others | made).values()
