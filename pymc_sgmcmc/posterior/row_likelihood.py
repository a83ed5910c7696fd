"""Log-likelihood of single rows, as a function of the draw and of the indices of rows."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc import Model
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.compile.backend import Backend
from pymc_sgmcmc.model.log_density import log_density_terms
from pymc_sgmcmc.posterior.evaluation import CHUNK
from pymc_sgmcmc.rows.groups import RowGroup
from pymc_sgmcmc.rows.model_terms import ModelTerms
from pymc_sgmcmc.rows.planner import Planner
from pymc_sgmcmc.rows.requests import BatchRequest
from pymc_sgmcmc.rows.sparse_designs import without_sparse

__all__ = ["RowTerm", "row_terms"]


class RowTerm:
    """The elementwise log-likelihood of one observed variable, some rows at a time.

    Parameters
    ----------
    model : pymc.Model
        A model without `pm.Minibatch`.
    rv : TensorVariable
        The observed variable.
    term : TensorVariable
        Its log-likelihood, a function of value variables and of the slices of `group`.
    group : RowGroup or None
        The likelihood as a function of its rows. None: the rows do not separate, and all of them
        are computed at once.
    point : dict
        A draw: the values of the value variables by name.
    """

    def __init__(
        self,
        model: Model,
        rv: TensorVariable,
        term: TensorVariable,
        group: RowGroup | None,
        point: Mapping[str, np.ndarray],
    ):
        self.name, self._group = rv.name, group
        rows = pt.lvector("rows")
        if group is not None:
            term = clone_replace(term, group.slices([rows]), rebuild_strict=False)
        leaves = set(graph_inputs([term]))
        self._values = [var for var in model.value_vars if var in leaves]
        inputs = self._values if group is None else [*self._values, rows]
        self._function = Backend().function(inputs, [term])
        if group is None:
            self.shape = self(self.arguments(point), None).shape
        else:
            one = self(self.arguments(point), np.zeros(1, np.int64))
            self.shape = (group.length(), *one.shape[1:])

    def arguments(self, point: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Return the arguments of `__call__` at a draw."""
        return [np.asarray(point[var.name], dtype=var.dtype) for var in self._values]

    def __call__(self, arguments: Sequence[np.ndarray], rows: np.ndarray | None) -> np.ndarray:
        """Return the log-likelihood of `rows`, (len(rows), ...); None: all, if inseparable."""
        if self._group is not None:
            return self._function(*arguments, rows)[0]
        (whole,) = self._function(*arguments)
        return whole if rows is None else whole[rows]

    def chunks(self, rows: np.ndarray | None) -> Iterator[tuple[Any, np.ndarray | None]]:
        """Yield (slice into the result, chunk of `rows`); None: all rows.

        The data of a chunk fit into the processor's cache. Rows that do not separate are one chunk.
        """
        if self._group is None:
            yield ..., rows
            return
        rows = np.arange(self.shape[0]) if rows is None else rows
        widest = max(np.prod(data.shape) / self.shape[0] for data in self._group.data)
        size = max(1, int(CHUNK / widest))
        for start in range(0, len(rows), size):
            yield slice(start, start + size), rows[start : start + size]


def row_terms(
    model: Model, observed: Sequence[TensorVariable], point: Mapping[str, np.ndarray]
) -> list[RowTerm]:
    """Return the row terms of some observed variables of a model without `pm.Minibatch`."""
    terms, _ = without_sparse(log_density_terms(model, {}))
    planner = Planner(ModelTerms(model, terms, point), {}, apart=False)

    def made(rv: TensorVariable) -> RowTerm:
        group = planner.plan(BatchRequest(rv, 1, (0,), explicit=False)).group
        return RowTerm(model, rv, group.terms[0] if group else terms[rv], group, point)

    return [made(rv) for rv in observed]
