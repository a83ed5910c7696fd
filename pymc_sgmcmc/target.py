"""The potential U of a PyMC model and its gradient, on any rows and exactly in chunks."""

import logging
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from pymc import Model
from pymc.pytensorf import make_shared_replacements
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.backends import Backend
from pymc_sgmcmc.batching import AUTO, find_batches
from pymc_sgmcmc.density import log_density_terms
from pymc_sgmcmc.entries import entry_name
from pymc_sgmcmc.evaluation import Evaluation, Part
from pymc_sgmcmc.inspection import (
    check_initial_point,
    check_model,
    refuse_missing,
)
from pymc_sgmcmc.minibatch import full_data
from pymc_sgmcmc.potential import Potential
from pymc_sgmcmc.predictors import Predictor, find_predictors
from pymc_sgmcmc.row_latents import warn_about_row_latents
from pymc_sgmcmc.rows import find_groups
from pymc_sgmcmc.separation import prove_separation
from pymc_sgmcmc.total_sizes import total_sizes

__all__ = ["Target"]

_log = logging.getLogger("pymc.sgmcmc")

KEPT = 2**21
"""Slopes of rows that a chain keeps, at most: 16 MB of them, and once more where rows are in
blocks, whatever the number of rows is."""


class Target:
    """U(q) = -log prior(q) - sum_k (N_k / n_k) sum_{i in batch k} log p(y_ki given q).

    q is the flat vector of the unconstrained values of `vars`. The prior is that of the whole
    model with its Jacobians and potentials, never scaled; k runs over groups of observed variables
    that share their rows. Observed variables that are not minibatched count as exact.

    Parameters
    ----------
    model : pymc.Model
    vars : list of value variables
        What is sampled; all other free variables are shared inputs.
    batch_size : int, mapping of str to (int or None), or None
        Rows in a batch, for all groups or by the name of the row dimension or of an observed
        variable. None: the exact likelihood, or what the model's `pm.Minibatch` says.
    rows : mapping of str to int or None, optional
        The row axis of data by name, where it is not found rightly; None: not sliced.
    initial_point : dict, optional
        Values of the value variables by name; default the model's initial point.
    backend : Backend, optional
        How `value_and_gradient` is compiled.
    keeps_slopes : bool
        Whether a control variate is to keep the slopes of each row at its anchor, if it can.

    Attributes
    ----------
    model : pymc.Model
        The one given, on all rows: without `pm.Minibatch`.
    size : int
        d, the length of q.
    groups : list of RowGroup
        The minibatched observed variables.
    batch_sizes : list of int
        Rows in a batch, for each group.
    shared : dict
        Shared variables that stand for the other free variables, by value variable.
    potential : Potential
        The graphs of U.

    Raises
    ------
    RowsDoNotSeparate
        If a minibatched log-likelihood is not a sum over rows; the message names the variable.
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
        check_model(model, vars)
        batches = find_batches(given, model, batch_size)
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
        self.backend = backend

        terms = log_density_terms(model, self.shared)
        refuse_missing(terms)
        check_initial_point(model, terms, point)

        names = {shared: var.name for var, shared in self.shared.items()}
        self.groups = find_groups(model, batches, terms, names, rows or {}) if batches else []
        self.batch_sizes = [batch.size for batch in batches]
        self.model, self._batches, self._total_sizes = model, batches, total_sizes(given, model)
        self.check_lengths()
        self._terms, self._point = terms, point
        self._prove_separation()
        self._examined, self._storage = self._data(), self._data_storage()
        exact = [terms[rv] for rv in terms if not any(rv in b.observed for b in batches)]
        kept = self._kept_predictors() if keeps_slopes else None
        self.potential = Potential(self.vars, self.shapes, exact, self.groups, kept)
        self.size = self.potential.size
        self._slopes: tuple[np.ndarray, list[np.ndarray]] | None = None
        self._log(model, until=", until tuned" if batch_size == AUTO else "")
        if any(batch.data for batch in batches):
            _log.warning(
                "The model has a pm.Minibatch: under it PyMC's log-likelihood, predictive draws "
                "and LOO are those of one random batch, scaled. Use full_data(model) for them."
            )

    def _log(self, model: Model, until: str) -> None:
        parts = [
            f"{', '.join(group.observed)} by {size} of {group.length()} rows{until} "
            f"({', '.join(data.name for data in group.data)})"
            for group, size in zip(self.groups, self.batch_sizes, strict=True)
        ]
        batched = {name for group in self.groups for name in group.observed}
        exact = [rv.name for rv in model.basic_RVs + model.potentials if rv.name not in batched]
        _log.info(f"Minibatched: {'; '.join(parts) or 'nothing'}. Exact: {', '.join(exact)}.")

    def check_lengths(self) -> np.ndarray:
        """Return the number of rows of each group now (groups,); raise if a batch exceeds it."""
        lengths = [group.length() for group in self.groups]
        for group, batch, length in zip(self.groups, self._batches, lengths, strict=True):
            if batch.size > length:
                raise ValueError(
                    f"batch_size={batch.size} is larger than the {length} rows of "
                    f"{', '.join(group.observed)}: choose at most {length}, or "
                    f"{batch.exact(group.name)}."
                )
        return np.array(lengths, dtype=np.int64)

    def examine(self) -> np.ndarray:
        """Return `check_lengths()`, after a new look at data that `pm.set_data` has changed."""
        for total in self._total_sizes:
            total.check()
        lengths, data, self._storage = self.check_lengths(), self._data(), self._data_storage()
        if any(now is not before for now, before in zip(data, self._examined, strict=True)):
            refuse_missing(self._terms)
            self._prove_separation()
            self._examined, self._slopes = data, None
        return lengths

    def data_changed(self) -> bool:
        """Whether other arrays are behind the data than at the last `examine`.

        `pm.set_data` in a callback puts them there, or a step method that imputes data.
        """
        for storage, before in zip(self._storage, self._examined, strict=True):
            if storage[0] is not before:  # a plain loop: this is asked at every draw
                return True
        return False

    def _data_storage(self) -> list[list[np.ndarray]]:
        """Where the shared variables of the model keep their arrays, each a list of one."""
        return [leaf.container.storage for leaf in self._data_leaves]

    def _data(self) -> list[np.ndarray]:
        """The arrays behind the shared variables of the model, not copied."""
        return [leaf.get_value(borrow=True) for leaf in self._data_leaves]

    @cached_property
    def _data_leaves(self) -> list[SharedVariable]:
        leaves = graph_inputs(list(self._terms.values()))
        shared = [leaf for leaf in leaves if isinstance(leaf, SharedVariable)]
        return [leaf for leaf in shared if leaf not in self.others]

    def _prove_separation(self) -> None:
        for group in self.groups:
            own = {rv: term for rv, term in self._terms.items() if rv.name in group.observed}
            prove_separation(self.model, group, own, self._point, self.shared)

    @cached_property
    def others(self) -> frozenset[SharedVariable]:
        """What stands for the variables that are not sampled: it moves from draw to draw."""
        return frozenset(self.shared.values())

    def others_in_batches(self) -> list[str]:
        """The value variables that are not sampled and that a minibatched term depends on.

        Directly, or through what is sliced by row: a latent variable of each row is sliced as data.
        """
        terms = [term for group in self.groups for term in group.terms]
        sources = [data.source for group in self.groups for data in group.data]
        leaves = set(graph_inputs([*terms, *sources]))
        return [var.name for var, shared in self.shared.items() if shared in leaves]

    def others_now(self) -> tuple[np.ndarray, ...]:
        """The present values of the variables that are not sampled, not copied."""
        return tuple(shared.get_value(borrow=True) for shared in self.shared.values())

    def set_others(self, values: Sequence[np.ndarray]) -> None:
        """Put there what `others_now` returned; step methods do so at each draw."""
        for shared, value in zip(self.shared.values(), values, strict=True):
            shared.set_value(value, borrow=True)

    def warn_about_row_latents(self) -> None:
        """Warn of what is sampled and has about as many entries as there are rows."""
        names = {var: self.model.values_to_rvs[var].name for var in self.vars}
        warn_about_row_latents(self.model, self.vars, self._terms, self._point, names)

    def coordinate(self, index: int) -> str:
        """The value variable, and the entry in it, that coordinate `index` of q belongs to."""
        for var, shape in zip(self.vars, self.shapes, strict=True):
            size = int(np.prod(shape))
            if index < size:
                return entry_name(var.name, shape, index)
            index -= size
        raise IndexError(index)

    def value_and_gradient(
        self, q: np.ndarray, rows: Sequence[np.ndarray] | None = None
    ) -> tuple[float, np.ndarray]:
        """U and its gradient at `q` (d,): estimated on the given rows, or exact.

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
        """Functions of q that return values and gradients: together those of U on all rows.

        Each reads a part of the data that is small enough to stay in the processor's cache.
        """
        return self._evaluation.parts(self.check_lengths())

    def row_gradient(self, q: np.ndarray, k: int, rows: np.ndarray) -> np.ndarray:
        """The part of `rows` in the gradient that is due to group `k`: N_k times their mean."""
        return self._evaluation.on_group(q, k, rows, self.check_lengths()[k] / len(rows))[1]

    def batched_gradient(self, q: np.ndarray) -> np.ndarray:
        """The gradient at `q` of the minibatched part of U, on all rows."""
        if self.potential.predictors is None:
            return self._evaluation.exact(q, self.check_lengths(), exact_weight=0.0)[1]
        gradient, slopes = self._evaluation.with_slopes(q, self.check_lengths())
        self._slopes = np.array(q), slopes
        return gradient

    def row_slopes(self, q: np.ndarray) -> list[np.ndarray]:
        """Where they are kept, those of all rows at `q`: (N, predictors) for each group."""
        if self._slopes is None or not np.array_equal(self._slopes[0], q):
            self.batched_gradient(q)
        return self._slopes[1]

    def random_rows(self, rng: np.random.Generator, size: int) -> list[np.ndarray]:
        """A batch of `size` rows of each group, with replacement."""
        return [rng.integers(n, size=min(size, n)) for n in self.check_lengths()]

    def fixed_rows(self, rng: np.random.Generator, size: int) -> list[np.ndarray]:
        """About `size` different rows of each group, or all of them."""
        return [
            np.arange(n) if n <= size else np.unique(rng.integers(n, size=size))
            for n in self.check_lengths()
        ]

    @property
    def rows_evaluated(self) -> int:
        """Rows whose gradient was taken by these methods so far."""
        return self._evaluation.rows_evaluated

    @cached_property
    def _evaluation(self) -> Evaluation:
        return Evaluation(self.potential, self.backend or Backend())

    def _kept_predictors(self) -> list[list[Predictor]] | None:
        """The predictors of all groups, where slopes in them take little memory."""
        found = [find_predictors(group, self.vars) for group in self.groups]
        if not found or None in found:
            return None
        kept = sum(n * len(own) for n, own in zip(self.check_lengths(), found, strict=True))
        return found if kept <= KEPT else None
