"""The part of U that is not minibatched: its gradient and its sparse second derivatives.

The entries of elementwise log-densities, such as the prior of effects, have predictors as rows
have: an entry is tied to the few variables that it is a function of. Where there are many, as of
correlated effects, or none, as of a Cholesky factor, second derivatives in variables of few entries
are differences of gradients, and entries are functions of the other variables alone.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.traversal import graph_inputs
from scipy.sparse import csr_array, diags_array

from pymc_sgmcmc._utils.types import Array, Vector
from pymc_sgmcmc.compile.at_points import AtPoints, at_points
from pymc_sgmcmc.compile.evaluate import evaluate
from pymc_sgmcmc.posterior.affine_maps import jacobians
from pymc_sgmcmc.posterior.differences import MOST, difference_columns
from pymc_sgmcmc.posterior.energy_graph import EnergyGraph
from pymc_sgmcmc.posterior.linear_predictors import MANY, cut_entries
from pymc_sgmcmc.posterior.predictors import Predictors, Reach
from pymc_sgmcmc.posterior.row_hessian import HessianSums

__all__ = ["ExactPart"]


class ExactPart:
    """Gradient and second derivatives of the part of U that is not minibatched.

    It runs in Python: compiling would take longer than all that is asked for.

    Parameters
    ----------
    energy : EnergyGraph
    q : array, shape (d,)
        A point at which shapes are found.
    """

    def __init__(self, energy: EnergyGraph, q: Vector):
        self._energy, self._start = energy, q
        with np.errstate(all="ignore"):
            values = evaluate(energy.exact, energy.values_at(q))
        shapes = [np.shape(value) for value in values]
        self._predictors: list[Predictors] = []
        self._vars: list[Sequence[Any]] = []  # what the predictors are affine in
        self._rest = []
        tied: set[Any] = set()
        for term, shape in zip(energy.exact, shapes, strict=True):
            own, vars = self._of_entries(term, energy.vars, shape), energy.vars
            if own is None and self._depends(term):
                self._rest.append(term)
                inputs = set(graph_inputs([term]))
                large = [var for var in energy.large if var in inputs]
                of_large = self._of_entries(term, large, shape) if large else None
                if of_large is not None:
                    inputs -= set(large)
                    own, vars = of_large, large
                tied |= inputs
            if own is not None:
                self._predictors.append(own)
                self._vars.append(vars)
        of_rest = [part for var, part in energy.coordinates().items() if var in tied]
        self._tied = np.concatenate([np.zeros(0, np.int64), *of_rest])

    @staticmethod
    def _of_entries(term, vars: Sequence, shape: tuple[int, ...]) -> Predictors | None:
        """Return what entries of `term` are functions of; None where that is nothing, or much.

        Of many predictors, second derivatives are many graphs.
        """
        cut = cut_entries(term, vars, shape)
        if cut is None or len(cut) > MANY:
            return None
        own = cut.predictors()
        return own if own.curvatures else None

    def reads(self, storage: list) -> bool:
        """Return whether it depends on the shared variable that has this storage."""
        inputs = graph_inputs(self._energy.exact)
        return any(x.container.storage is storage for x in inputs if isinstance(x, SharedVariable))

    def _depends(self, term) -> bool:
        return not set(self._energy.vars).isdisjoint(graph_inputs([term]))

    @cached_property
    def is_known(self) -> bool:
        """Whether the second derivatives are found."""
        if len(self._tied) > MOST:
            return False
        try:
            self._jacobians(self._start)
        except NotImplementedError:
            return False
        return True

    def _jacobians(self, q: Vector) -> list:
        """Return the derivatives of predictors, which are affine given variables of few entries."""
        given, pairs = self._energy.values_at(q), zip(self._predictors, self._vars, strict=True)
        return [jacobians(own.values, vars, given) for own, vars in pairs]

    def gradients(self, points: Array) -> Array:
        """Return the gradients at `points`, (k, d)."""
        return self._slopes(points)[0]

    def mean(self, points: Array) -> tuple[Vector, csr_array]:
        """Return the means over `points` (k, d) of the gradient, (d,), and of the Hessian."""
        self._reach_over_kinks(points)
        gradient = self.gradients(points).mean(axis=0)
        curvatures = [found.mean(axis=0) for found in self._curvatures(points)]
        centre, sums = points.mean(axis=0), HessianSums(self._energy.vars, self._energy.sizes)
        for own, blocks, curvature in zip(
            self._predictors, self._jacobians(centre), curvatures, strict=True
        ):
            sums.add(blocks, own.pairs, curvature)
        return gradient, csr_array(sums.whole()) + self._of_rest(centre)

    @property
    def is_kinked(self) -> bool:
        """Whether its second derivatives reach over kinks, such as those of a Laplace prior."""
        return bool(self._reaches)

    @property
    def _reaches(self) -> list[Reach]:
        return [reach for own in self._predictors for reach in own.reaches]

    def _reach_over_kinks(self, points: Array) -> None:
        """Let curvatures of kinked log-densities reach over an sd of the `points`, entry by entry.

        Of one point nothing is known but slopes: about 1 / sd of the log-density alone.
        """
        if not self.is_kinked:
            return
        found = iter(self._at_kinks(points))
        for reach, values, slopes in zip(self._reaches, found, found, strict=True):
            steepness = np.sqrt(np.mean(slopes**2))
            sds = np.std(values, axis=0)
            distance = np.where(sds > 0, sds, 1 / steepness if steepness > 0 else 1.0)
            reach.distance.set_value(distance.astype(reach.distance.dtype))

    @cached_property
    def _at_kinks(self) -> AtPoints:
        return self._of_vars(
            [graph for reach in self._reaches for graph in (reach.value, reach.slope)]
        )

    def _of_rest(self, q: Vector) -> csr_array:
        """Return the Hessian's rows and columns of `tied`, by differences of gradients."""
        tied, d = self._tied, len(q)
        if not tied.size:
            return csr_array((d, d))
        found = difference_columns(lambda at: self._slope_of_rest(at)[0], q, tied)
        # Between coordinates of `tied` there are two differences, beside them one.
        weight = np.ones(d)
        weight[tied] = 0.5
        return csr_array(diags_array(weight) @ found + found.T @ diags_array(weight))

    @cached_property
    def _slopes(self) -> AtPoints:
        return self._slope_of(self._energy.exact)

    @cached_property
    def _curvatures(self) -> AtPoints:
        return self._of_vars([pt.stack(list(own.curvatures)) for own in self._predictors])

    @cached_property
    def _slope_of_rest(self) -> AtPoints:
        return self._slope_of(self._rest)

    def _of_vars(self, graphs: Sequence) -> AtPoints:
        """Return a function of points that returns graphs of the variables."""
        q = self._q()
        return at_points(q, self._energy.at(q, graphs), self._start)

    def _slope_of(self, terms: Sequence) -> AtPoints:
        """Return a function of points that returns the gradient of U with these terms alone."""
        q, alone = self._q(), EnergyGraph(self._energy.vars, self._energy.shapes, terms, ())
        return at_points(q, [alone.estimator()(q, {}, [])[1]], self._start)

    def _q(self):
        return pt.vector("q", dtype=pytensor.config.floatX, shape=(self._energy.size,))
