"""Choice of the likelihoods of a model that are joined into one, and a check of the result."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.variable import TensorVariable

import pymc_sgmcmc.rows.joining_rules  # noqa: F401  (registers the rules)
from pymc_sgmcmc._utils.validation import is_auto
from pymc_sgmcmc.compile.evaluate import evaluate
from pymc_sgmcmc.model.row_axes import FEW_ROWS
from pymc_sgmcmc.rows.forms import is_data_alone, of_one_form
from pymc_sgmcmc.rows.joining import NotJoined, join
from pymc_sgmcmc.rows.model_terms import ModelTerms
from pymc_sgmcmc.rows.requests import START_SIZE, BatchRequest

__all__ = ["FEWEST", "Joined", "check_joined", "find_joined", "with_joined"]

FEWEST = 4
"""Smallest number of likelihoods of one form that are joined. Fewer cost the compiler little, and
one batch serves all of them where they share their rows."""

MOVES = (0.1, 0.1, 0.01, 0.01, 1e-3, 1e-3)
"""Standard deviations of random moves from the initial point, where many values may be zero or
equal. They are tried in turn until joined likelihoods are compared at two points of the support."""


@dataclass(frozen=True, eq=False)
class Joined:
    """Likelihoods of one form, joined into one.

    Attributes
    ----------
    variable : TensorVariable
        Joint log-density, (sum of rows, ...), with a name of its own.
    members : tuple of TensorVariable
        The observed variables, in order.
    rows : tuple of int
        Number of rows of each member.
    """

    variable: TensorVariable
    members: tuple[TensorVariable, ...]
    rows: tuple[int, ...]


class _JoinedRequest(BatchRequest):
    def exact(self) -> str:
        return "pass batch_size=None for its exact likelihood"


def find_joined(
    model_terms: ModelTerms,
    requests: Sequence[BatchRequest],
    shapes: Mapping[TensorVariable, Sequence[int]],
    apart: Collection[str],
) -> list[Joined]:
    """Return the likelihoods to be joined: at least `FEWEST` of one form with equal requests.

    Parameters
    ----------
    model_terms : ModelTerms
    requests : sequence of BatchRequest
        Requests of the likelihoods that are to be minibatched.
    shapes : mapping
        Shape of the log-density of each variable.
    apart : collection of str
        Names of likelihoods or of data that the user gives. Likelihoods with one of these names,
        or with such data, are not joined.
    """
    terms, request_of = model_terms.terms, {request.variable: request for request in requests}
    if any(request.call is not None for request in requests):
        return []
    data_alone = is_data_alone(set(model_terms.shared.values()))
    alike: dict[object, dict[TensorVariable, TensorVariable]] = {}
    for rv in model_terms.model.observed_RVs:
        request = request_of.get(rv)
        if not shapes[rv] or (request is not None and request.axes[:1] != (0,)):
            continue
        names = {rv.name} | {leaf.name for leaf in graph_inputs([terms[rv]])}
        if names.isdisjoint(apart):
            key = request.size if request is not None and request.explicit else None
            alike.setdefault(key, {})[rv] = terms[rv]
    found = []
    for candidates in alike.values():
        for members in of_one_form(candidates, data_alone):
            if len(members) < FEWEST:
                continue
            rows = [shapes[rv][0] for rv in members]
            try:
                one = join([terms[rv] for rv in members], rows, data_alone)
                check_joined(one, members, model_terms)
            except NotJoined:
                continue
            first, last = members[0].name, members[-1].name
            one.name = f"{len(members)} likelihoods of one form ({first}, ..., {last})"
            found.append(Joined(one, tuple(members), tuple(rows)))
    return found


def check_joined(
    one: TensorVariable, members: Sequence[TensorVariable], model_terms: ModelTerms
) -> None:
    """Raise `NotJoined` unless `one` equals the terms of `members` end to end.

    They are compared at the point of the model and at two near it.
    """
    rng, graphs, compared = (
        np.random.default_rng(0),
        [one, *(model_terms.terms[rv] for rv in members)],
        0,
    )
    point, shared = model_terms.point, model_terms.shared
    standing = {replacement: var.name for var, replacement in shared.items()}
    leaves = {x: standing.get(x, x.name) for x in graph_inputs(graphs)
              if x in standing or (x.name in point and not hasattr(x, "data"))}  # fmt: skip
    for scale in (0.0, *MOVES):
        given = {}
        for leaf, name in leaves.items():
            value = np.asarray(point[name], dtype=leaf.type.dtype)
            if value.dtype.kind == "f":
                value = (value + scale * rng.standard_normal(value.shape)).astype(value.dtype)
            given[leaf] = value
        with np.errstate(all="ignore"):
            whole, *parts = evaluate(graphs, given)
        apart = np.concatenate(parts)
        tolerance = 1e-6 if apart.dtype == np.float64 else 1e-3
        if np.shape(whole) != apart.shape:
            raise NotJoined(f"shape {np.shape(whole)}, where it should be {apart.shape}")
        if not np.isfinite(apart).all():
            continue  # outside the support, one infinite term makes all of `one` infinite
        if not np.allclose(whole, apart, rtol=tolerance, atol=tolerance):
            raise NotJoined("its values differ from those of the terms")
        compared += scale > 0
        if compared == 2:
            return
    raise NotJoined("it is not finite at two points near the initial one")


def with_joined(
    requests: Sequence[BatchRequest], joined: Sequence[Joined], batch_size
) -> list[BatchRequest]:
    """Return the requests, with one request for all members of each joined likelihood."""
    members = {rv: one for one in joined for rv in one.members}
    explicit = {members[request.variable]: request.size for request in requests
                if request.explicit and request.variable in members}  # fmt: skip
    kept = [request for request in requests if request.variable not in members]
    for one in joined:
        if one in explicit:
            kept.append(_JoinedRequest(one.variable, explicit[one], (0,), True))
        elif is_auto(batch_size) and sum(one.rows) > FEW_ROWS:
            kept.append(_JoinedRequest(one.variable, START_SIZE, (0,), False))
    return kept
