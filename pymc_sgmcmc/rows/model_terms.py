"""The log-density of a model, term by term, and the values and data that it depends on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from pymc import Model
from pymc.pytensorf import make_shared_replacements
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.model.inspection import check_dims, check_variables, refuse_missing, values_at
from pymc_sgmcmc.model.log_density import log_density_terms
from pymc_sgmcmc.model.support import check_initial_point
from pymc_sgmcmc.rows.csr import CSR
from pymc_sgmcmc.rows.opened import opened
from pymc_sgmcmc.rows.sparse_designs import without_sparse

__all__ = ["ModelTerms", "read_terms"]


@dataclass(frozen=True, eq=False)
class ModelTerms:
    """The terms of a model's log-density on all rows.

    Attributes
    ----------
    model : pymc.Model
        A model without `pm.Minibatch`.
    terms : mapping of TensorVariable to TensorVariable
        Elementwise log-density of each random variable and Potential, with one value a row where
        it has rows.
    point : mapping of str to array
        Values of the value variables.
    shared : mapping
        Shared variables that stand for the value variables that are not sampled.
    data : tuple of SharedVariable
        The model's data, which `pm.set_data` may change.
    matrices : tuple of CSR
        Arrays of the model's sparse matrices.
    shapes : mapping of TensorVariable to tuple of int
        Shapes of the log-densities at the point, before sums over rows are opened.
    """

    model: Model
    terms: Mapping[TensorVariable, TensorVariable]
    point: Mapping[str, np.ndarray]
    shared: Mapping[TensorVariable, SharedVariable] = field(default_factory=dict)
    data: tuple[SharedVariable, ...] = ()
    matrices: tuple[CSR, ...] = ()
    shapes: Mapping[TensorVariable, tuple[int, ...]] = field(default_factory=dict)

    def refuse_missing(self) -> None:
        """Raise ValueError if data hold NaN that make a term infinite or NaN."""
        free = self.model.free_RVs
        terms = {v: term for v, term in self.terms.items() if v not in free}
        refuse_missing(terms, values_at(terms, self.point))


def read_terms(
    model: Model, vars: Sequence[TensorVariable], initial_point: Mapping[str, np.ndarray] | None
) -> ModelTerms:
    """Return the terms of a model without `pm.Minibatch`, of which `vars` are sampled.

    `initial_point`: values of the value variables by name; None: the model's initial point. Raise
    ValueError if the model cannot be sampled, or is not finite there.
    """
    check_variables(vars)
    check_dims(model)
    point = dict(model.initial_point() if initial_point is None else initial_point)
    missing = [var.name for var in model.value_vars if var.name not in point]
    if missing:
        raise ValueError(
            f"initial_point={point!r} lacks {missing}: give the value of each value variable, "
            "as model.initial_point() does."
        )
    shared = make_shared_replacements(point, list(vars), model)
    terms, replacements = log_density_terms(model, shared), set(shared.values())
    leaves = graph_inputs(list(terms.values()))
    data = [x for x in leaves if isinstance(x, SharedVariable) and x not in replacements]
    terms, matrices = without_sparse(terms, shared.values())
    values = values_at(terms, point)
    refuse_missing(terms, values)
    check_initial_point(model, terms, values, point)
    terms |= {v: opened(terms[v]) for v in (*model.observed_RVs, *model.potentials)}
    shapes = {v: np.shape(value) for v, value in values.items()}
    return ModelTerms(model, terms, point, shared, tuple(data), tuple(matrices), shapes)
