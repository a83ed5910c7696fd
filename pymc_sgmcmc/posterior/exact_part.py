"""The part of U that is not minibatched: its gradient and its sparse second derivatives.

The entries of elementwise log-densities, such as the prior of effects, have predictors as rows
have: an entry is tied to the few variables that it is a function of. Other log-densities, such as
that of a Cholesky factor, count as tied to all of their few variables.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.traversal import graph_inputs
from scipy.sparse import coo_array, csr_array

from pymc_sgmcmc._utils.types import Array, Vector
from pymc_sgmcmc.compile.backend import interpreted
from pymc_sgmcmc.compile.evaluate import evaluate
from pymc_sgmcmc.posterior.affine_maps import jacobians
from pymc_sgmcmc.posterior.energy_graph import EnergyGraph
from pymc_sgmcmc.posterior.linear_predictors import Reach, predictors_of_entries
from pymc_sgmcmc.posterior.row_hessian import HessianSums

__all__ = ["ExactPart"]

FEW = 64
"""Largest number of coordinates of log-densities that are not elementwise."""


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
        self._energy, self._given = energy, energy.values_at(q)
        with np.errstate(all="ignore"):
            shapes = [np.shape(value) for value in evaluate(energy.exact, self._given)]
        self._predictors, self._rest = [], []
        for term, shape in zip(energy.exact, shapes, strict=True):
            own = predictors_of_entries(term, energy.vars, shape)
            if own is not None and own.curvatures:
                self._predictors.append(own)
            elif self._depends(term):
                self._rest.append(term)
        tied = {x for term in self._rest for x in graph_inputs([term])}
        of_rest = [part for var, part in energy.coordinates().items() if var in tied]
        self._tied = np.concatenate([np.zeros(0, np.int64), *of_rest])

    def _depends(self, term) -> bool:
        return not set(self._energy.vars).isdisjoint(graph_inputs([term]))

    @cached_property
    def is_known(self) -> bool:
        """Whether the second derivatives are found."""
        if len(self._tied) > FEW:
            return False
        try:
            self._jacobians
        except NotImplementedError:
            return False
        return True

    @cached_property
    def _jacobians(self) -> list:
        energy = self._energy
        return [jacobians(own.values, energy.vars, self._given) for own in self._predictors]

    def gradients(self, points: Array) -> Array:
        """Return the gradients at `points`, (k, d)."""
        floatX = pytensor.config.floatX
        return np.array([self._function(q.astype(floatX))[0] for q in points])

    def mean(self, points: Array) -> tuple[Vector, csr_array]:
        """Return the means over `points` (k, d) of the gradient, (d,), and of the Hessian."""
        self._reach_over_kinks(points)
        energy, gradient = self._energy, np.zeros(points.shape[1])
        curvatures: list[np.ndarray] = [np.zeros(())] * len(self._predictors)
        for q in points:
            slope, *found = self._function(q.astype(pytensor.config.floatX))
            gradient += slope / len(points)
            curvatures = [
                sum_ + own / len(points) for sum_, own in zip(curvatures, found, strict=True)
            ]
        sums = HessianSums(energy.vars, energy.sizes)
        for own, blocks, curvature in zip(
            self._predictors, self._jacobians, curvatures, strict=True
        ):
            sums.add(blocks, own.pairs, curvature)
        return gradient, csr_array(sums.whole()) + self._of_rest(points.mean(axis=0))

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
        found = [self._at_kinks(q.astype(pytensor.config.floatX)) for q in points]
        for k, reach in enumerate(self._reaches):
            values, slopes = (np.array([own[2 * k + j] for own in found]) for j in (0, 1))
            steepness = np.sqrt(np.mean(slopes**2))
            sds = np.std(values, axis=0)
            distance = np.where(sds > 0, sds, 1 / steepness if steepness > 0 else 1.0)
            reach.distance.set_value(distance.astype(reach.distance.dtype))

    @cached_property
    def _at_kinks(self):
        q = self._q()
        graphs = [graph for reach in self._reaches for graph in (reach.value, reach.slope)]
        return interpreted([q], self._energy.at(q, graphs))

    def _of_rest(self, q: Vector) -> csr_array:
        """Return the Hessian of what is not elementwise, by differences of gradients."""
        tied, columns = self._tied, []
        for j in tied:
            width = (1e-2 if pytensor.config.floatX == "float32" else 1e-4) * (1 + abs(q[j]))
            ends = []
            for sign in (1, -1):
                at = q.copy()
                at[j] += sign * width
                ends.append(self._slope_of_rest(at.astype(pytensor.config.floatX))[0][tied])
            columns.append((ends[0] - ends[1]) / (2 * width))
        shape = (len(q),) * 2
        if not columns:
            return csr_array(shape)
        H = np.array(columns)
        places = np.repeat(tied, len(tied)), np.tile(tied, len(tied))
        return coo_array(((H + H.T).ravel() / 2, places), shape=shape).tocsr()

    @cached_property
    def _function(self):
        q = self._q()
        energy = self._energy
        _, slope = self._alone(energy.exact).estimator()(q, {}, [])
        stacks = [pt.stack(list(own.curvatures)) for own in self._predictors]
        return interpreted([q], [slope, *energy.at(q, stacks)])

    @cached_property
    def _slope_of_rest(self):
        q = self._q()
        return interpreted([q], [self._alone(self._rest).estimator()(q, {}, [])[1]])

    def _alone(self, terms: Sequence) -> EnergyGraph:
        return EnergyGraph(self._energy.vars, self._energy.shapes, terms, ())

    def _q(self):
        return pt.vector("q", dtype=pytensor.config.floatX, shape=(self._energy.size,))
