"""U, the negative log-posterior of a PyMC model, and its gradient: on any rows, or exactly."""

from collections.abc import Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any, Self

import numpy as np
from pymc import Model
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc._utils.flat import entry_name
from pymc_sgmcmc.compile.backend import Backend
from pymc_sgmcmc.model.full_data import full_data
from pymc_sgmcmc.model.total_sizes import check_total_sizes
from pymc_sgmcmc.posterior.effects import Effects
from pymc_sgmcmc.posterior.energy_graph import EnergyGraph
from pymc_sgmcmc.posterior.evaluation import Evaluation, Part
from pymc_sgmcmc.posterior.exact_part import ExactPart
from pymc_sgmcmc.posterior.find_effects import standardized_effects
from pymc_sgmcmc.posterior.linear_predictors import predictors_of
from pymc_sgmcmc.posterior.near_anchor import NearAnchor
from pymc_sgmcmc.posterior.partial_centring import PartialCentring
from pymc_sgmcmc.rows.likelihoods import plan_likelihoods
from pymc_sgmcmc.rows.model_terms import read_terms
from pymc_sgmcmc.rows.sparse_designs import compiler_of

__all__ = ["Target"]

CURVED_FROM = 50
"""Number of parameters from which on rows have second derivatives. With fewer, control variates of
first order leave little noise, and those of second order cost 7 % of an inner step more."""


class Target:
    """U(q) = -log prior(q) - sum_k (N_k / n_k) sum_{i in batch k} log p(y_ki given q).

    q is the flat vector of the unconstrained values of `vars`, or of coordinates in their place.
    The prior is that of the whole model with its Jacobians, never scaled; k runs over groups of
    likelihoods (observed variables, and Potentials that have a value for each row of data) that
    share their rows. Likelihoods that are not minibatched count as prior.

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
    with_predictors : bool
        Whether the predictors of rows are looked for: control variates use them.
    partial_centring : bool
        Whether standardized effects of a hierarchy are sampled in coordinates of their own; else q
        has the values of `vars`.

    Attributes
    ----------
    model : pymc.Model
        The given model on all rows, without `pm.Minibatch`.
    size : int
        d, the length of q.
    centring : PartialCentring
        Change between values and q.
    likelihoods : Likelihoods
        The plan for all likelihoods.
    decisions : list of Decision
        For each observed variable, and each Potential that might have been minibatched, whether
        and how it is minibatched, or why not.
    groups : tuple of RowGroup
        The minibatched likelihoods.
    shared : dict
        Shared variables that stand for the other free variables, by value variable.
    energy : EnergyGraph
        The graphs of U.
    near_anchor : NearAnchor or None
        What rows say of U near an anchor, if rows have predictors that were looked for.

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
        with_predictors: bool = False,
        partial_centring: bool = False,
    ):
        model_terms = read_terms(full_data(model), vars, initial_point)
        likelihoods = plan_likelihoods(model, model_terms, batch_size, rows or {})
        shapes = [np.shape(model_terms.point[var.name]) for var in vars]
        self._given, self.model_terms, self.likelihoods = model, model_terms, likelihoods
        self.vars, self.shapes, self.model = list(vars), shapes, model_terms.model
        self.shared, self.terms = model_terms.shared, model_terms.terms
        self.decisions = list(likelihoods.decisions)
        self.backend = compiler_of(list(self.terms.values()), backend or Backend())
        self._wants_predictors, self._over_kinks = with_predictors, False
        self._watched = self._watching()
        self._use(self._standardized() if partial_centring else [])

    def partially_centred(self, effects: Sequence[Effects]) -> Self:
        """Return the target in coordinates of these effects too."""
        return self._built_anew([*self.centring.effects, *effects], over_kinks=self._over_kinks)

    def over_kinks(self) -> Self:
        """Return the target with second derivatives of rows that are taken over their kinks."""
        return self._built_anew(self.centring.effects, over_kinks=True)

    def _built_anew(self, effects: Sequence[Effects], *, over_kinks: bool) -> Self:
        twin = copy(self)
        for name in ("exact_part", "_evaluation"):
            twin.__dict__.pop(name, None)
        twin._over_kinks = over_kinks
        twin._use(effects)
        return twin

    def _standardized(self) -> list[Effects]:
        groups = self.likelihoods.groups
        terms = [*self.likelihoods.exact, *(term for group in groups for term in group.terms)]
        slices = [data.slice for group in groups for data in group.data]
        point = self.model_terms.point
        return standardized_effects(terms, {var: point[var.name] for var in self.vars}, slices)

    def _use(self, effects: Sequence[Effects]) -> None:
        """Build the graphs of U in coordinates of these effects."""
        vars, shapes, planned = self.vars, self.shapes, self.likelihoods
        self.centring = PartialCentring(effects, vars, shapes, self.backend)
        self.groups, exact = self.centring.in_coordinates(planned.groups, planned.exact)
        found = None
        if self._wants_predictors:
            size = sum(int(np.prod(shape)) for shape in shapes)
            curved = size >= CURVED_FROM or bool(effects)
            found = predictors_of(self.groups, vars, curved=curved, over_kinks=self._over_kinks)
        self.energy = EnergyGraph(vars, shapes, exact, self.groups, found)
        self.size = self.energy.size
        self.near_anchor = None
        if found is not None and self.groups:
            self.near_anchor = NearAnchor(
                self.energy, lambda: self._evaluation, self.check_lengths, self.centring.effects
            )

    @property
    def initial(self) -> np.ndarray:
        """Return q of the initial point, (d,)."""
        values = [np.ravel(self.model_terms.point[var.name]) for var in self.vars]
        return self.centring.start(np.concatenate([np.zeros(0), *values]))

    @property
    def batch_sizes(self) -> list[int]:
        """Rows in a batch of each group; a tuned size is at most the present number of rows."""
        return self.likelihoods.batch_sizes()

    def check_lengths(self) -> np.ndarray:
        """Return the present number of rows (groups,); raise ValueError if a batch exceeds it."""
        return self.likelihoods.lengths()

    def examine(self) -> np.ndarray:
        """Check data changed by `pm.set_data` again, and return `check_lengths()`."""
        check_total_sizes(self._given, self.model)
        lengths, watched = self.check_lengths(), self._watching()
        pairs = zip(watched, self._watched, strict=True)
        changed = [storage for (storage, now), (_, before) in pairs if now is not before]
        if changed:
            self.likelihoods.prove_again()
            if "exact_part" in self.__dict__ and any(map(self.exact_part.reads, changed)):
                del self.exact_part
            if self.near_anchor is not None:
                self.near_anchor.forget()
        self._watched = watched
        return lengths

    def data_changed(self) -> bool:
        """Return whether the data have other arrays than at the last `examine`.

        `pm.set_data` in a callback replaces them, or a step method that imputes data.
        """
        for storage, before in self._watched:  # a plain loop for speed: called at every draw
            if storage[0] is not before:
                return True
        return False

    def _watching(self) -> list[tuple[list[np.ndarray], np.ndarray]]:
        """Return the storage, a list, of each of the model's data with its present array."""
        storages = [leaf.container.storage for leaf in self.model_terms.data]
        return [(storage, storage[0]) for storage in storages]

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

    def warm_up(self, q: np.ndarray) -> None:
        """Compile what is compiled when called; `q` (d,) is any point."""
        self._evaluation.warm_up(q)

    def parts(self) -> list[Part]:
        """Return functions of q whose values and gradients add up to those of U on all rows.

        Each reads a part of the data that is small enough to stay in the processor's cache.
        """
        return self._evaluation.parts(self.check_lengths())

    def row_gradient(
        self, q: np.ndarray, k: int, rows: np.ndarray, expansion: np.ndarray | None = None
    ) -> np.ndarray:
        """Estimate the gradient of group `k`'s part of U: N_k times the mean over `rows`.

        `expansion`: of the rows, (n, width); the gradient is less by what it says.
        """
        weight = self.check_lengths()[k] / len(rows)
        return self._evaluation.on_group(q, k, rows, weight, expansion)[1]

    def batched_gradient(self, q: np.ndarray) -> np.ndarray:
        """Return the gradient at `q` of the minibatched part of U, on all rows."""
        return self._evaluation.exact(q, self.check_lengths(), exact_weight=0.0)[1]

    def anchor_gradient(self, q: np.ndarray) -> np.ndarray:
        """Return the gradient at `q` of the minibatched part of U, on all rows.

        In q, (d,), and in what coefficients its rows' predictors have beside q, (D,).
        """
        near = self.near_anchor
        return self.batched_gradient(q) if near is None else near.gradient(q)

    def random_rows(self, rng: np.random.Generator, size: int) -> list[np.ndarray]:
        """Draw a batch of at most `size` rows of each group, with replacement."""
        return [rng.integers(n, size=min(size, n)) for n in self.check_lengths()]

    def fixed_rows(self, rng: np.random.Generator, size: int) -> list[np.ndarray]:
        """Draw about `size` different rows of each group, or take all of them."""
        return [
            np.arange(n) if n <= size else np.unique(rng.integers(n, size=size))
            for n in self.check_lengths()
        ]

    @cached_property
    def exact_part(self) -> ExactPart:
        """The part of U that is not minibatched, with its second derivatives."""
        return ExactPart(self.energy, self.initial)

    @property
    def is_structured(self) -> bool:
        """Whether the second derivatives of U are known on all rows, as a sparse matrix."""
        near = self.near_anchor
        if near is None or not near.coefficients.is_known:
            return False
        return near.is_curved and self.exact_part.is_known

    @property
    def has_kinked_prior(self) -> bool:
        """Whether what is not minibatched has kinks, where U `is_structured`."""
        return self.is_structured and self.exact_part.is_kinked

    @property
    def rows_evaluated(self) -> int:
        """Number of rows whose gradient these methods have computed so far."""
        return self._evaluation.rows_evaluated

    @cached_property
    def _evaluation(self) -> Evaluation:
        return Evaluation(self.energy, self.backend)
