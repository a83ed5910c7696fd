"""Coefficients: functions of q without rows that predictors are affine in.

What is known of rows in q and in coefficients, as if these were variables of their own, is known in
q by the derivatives of the coefficients.
"""

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.variable import TensorVariable
from scipy.sparse import block_array, csr_array, diags_array, eye_array

from pymc_sgmcmc._utils.types import Array, Vector
from pymc_sgmcmc.compile.at_points import AtPoints, at_points
from pymc_sgmcmc.compile.in_python import interpreted
from pymc_sgmcmc.posterior.affine_maps import Block, jacobians
from pymc_sgmcmc.posterior.differences import MOST, difference_columns
from pymc_sgmcmc.posterior.energy_graph import EnergyGraph
from pymc_sgmcmc.posterior.linear_predictors import cut_entries
from pymc_sgmcmc.posterior.predictors import Predictors

__all__ = ["CoefficientDerivatives"]


class CoefficientDerivatives:
    """The derivatives of q and its coefficients, (D,), in q (d,): a sparse matrix.

    In variables of few entries, such as scales and length scales, they are differences. In others,
    such as effects, coefficients have to be elementwise functions; else derivatives are not known.

    Parameters
    ----------
    energy : EnergyGraph
    """

    def __init__(self, energy: EnergyGraph):
        self._energy = energy
        self._large = energy.large
        small = [at for var, at in energy.coordinates().items() if var not in energy.large]
        self._small = np.concatenate([np.zeros(0, np.int64), *small])

    @cached_property
    def is_known(self) -> bool:
        """Whether all derivatives are found."""
        if not self._energy.coefficients:
            return True
        if len(self._small) > MOST or any(own is None for own in self._by_entry):
            return False
        given = self._energy.values_at(np.zeros(self._energy.size))
        try:
            for own in self._by_entry:
                assert own is not None  # see above
                jacobians(own.values, self._large, given)
        except NotImplementedError:
            return False
        return True

    def at(self, q: Vector) -> csr_array:
        """Return the derivatives at `q`, (D, d)."""
        energy, whole = self._energy, eye_array(len(q), format="csr")
        if not energy.coefficients:
            return whole
        blocks = [
            [csr_array(found.get(var, csr_array((size, n)))) for var, n in self._sizes()]
            for found, size in self._of_large(q)
        ]
        of_small = difference_columns(lambda at: self._values(at)[0], q, self._small)
        return csr_array(block_array([[whole], [block_array(blocks) + of_small]]))

    def _sizes(self) -> Sequence[tuple[TensorVariable, int]]:
        return [*zip(self._energy.vars, self._energy.sizes, strict=True)]

    @cached_property
    def _values(self) -> AtPoints:
        q, energy = self._q(), self._energy
        values = pt.concatenate([x.ravel() for x in energy.coefficients])
        return at_points(q, energy.at(q, [values]), np.zeros(energy.size))

    @cached_property
    def _by_entry(self) -> list[Predictors | None]:
        """Predictors of the entries of each coefficient, in variables with many entries."""
        energy = self._energy
        values = energy.coefficients_at(np.zeros(energy.size))

        def own(x: TensorVariable, value: Array) -> Predictors | None:
            if set(self._large).isdisjoint(graph_inputs([x])):
                return Predictors((), (), ())
            cut = cut_entries(x, self._large, np.shape(value))
            return None if cut is None else cut.predictors(curved=False)

        return [own(x, value) for x, value in zip(energy.coefficients, values, strict=True)]

    @cached_property
    def _slopes(self) -> Callable[[Vector], list[Array]]:
        q = self._q()
        graphs = [x for own in self._by_entry if own is not None for x in own.slopes]
        return interpreted([q], self._energy.at(q, graphs))

    def _q(self) -> TensorVariable:
        return pt.vector("q", dtype=pytensor.config.floatX, shape=(self._energy.size,))

    def _of_large(self, q: Vector) -> list[tuple[dict[TensorVariable, Block], int]]:
        """Return the derivatives of each coefficient by variable, and its number of entries."""
        energy, found = self._energy, []
        given = energy.values_at(q)
        slopes = iter(self._slopes(q.astype(pytensor.config.floatX)))
        for own, value in zip(self._by_entry, energy.coefficients_at(q), strict=True):
            assert own is not None  # the derivatives are known
            total: dict[TensorVariable, Block] = {}
            for blocks, slope in zip(jacobians(own.values, self._large, given), slopes):
                by = diags_array(-np.ravel(slope))  # slopes are those of minus the sum
                for var, block in blocks.items():
                    product = by @ block
                    total[var] = total[var] + product if var in total else product
            found.append((total, np.size(value)))
        return found
