"""Values of U and its gradient: estimated on given rows, or exact in chunks of bounded memory."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.op import HasInnerGraph
from pytensor.graph.traversal import graph_inputs, toposort

from pymc_sgmcmc.compile.backend import Backend
from pymc_sgmcmc.compile.compiled_graph import CompiledGraph
from pymc_sgmcmc.model.row_axes import value_of
from pymc_sgmcmc.posterior.energy_graph import EnergyGraph

__all__ = ["Evaluation", "Part"]

CHUNK = 2**17
"""Number of values of row data in one chunk of an exact gradient: 1 MB, which stays in the
processor's cache from one q to the next. A chunk has at least as many values as a gradient."""

DEAR = 2**20
"""Number of operations of the exact part from which on it is left out of gradients of batches: they
take milliseconds, and a second function some seconds of compilation."""

LOOP = 100
"""Operations that a step of a loop counts as."""

Part = Callable[[np.ndarray], tuple[float, np.ndarray]]


class Evaluation:
    """U and its gradient, compiled with weights as inputs, and sums over chunks of rows.

    Where the exact part of U is dear, a second function leaves it out: tuning takes the gradients
    of a thousand small batches.

    Parameters
    ----------
    energy : EnergyGraph
    backend : Backend
    """

    def __init__(self, energy: EnergyGraph, backend: Backend):
        self._groups, self._size = energy.groups, energy.size
        self._widths = [own.width for own in energy.predictors or ()]
        self._function = self._batches = _compiled(energy, backend)
        if energy.groups and count_operations(energy) >= DEAR:
            self._batches = _compiled(energy.without_exact(), backend)
        self._dtype = pytensor.config.floatX
        self.rows_evaluated = 0

    def warm_up(self, q: np.ndarray) -> None:
        """Call each function once, for backends that compile a function when it is called."""
        weights, rows = self._nothing()
        for exact_weight in (1.0, 0.0):
            self._call(q, weights, rows, exact_weight)

    def on_rows(
        self,
        q: np.ndarray,
        weights: Sequence[float] | np.ndarray,
        rows: Sequence[np.ndarray],
        exact_weight: float = 1.0,
        expansions: Sequence[np.ndarray] | None = None,
    ) -> tuple[float, np.ndarray]:
        """Return U and its gradient on `rows` of each group, with one weight for each group.

        `expansions`: of the rows, where they have predictors; the gradient is less by them.
        """
        value, gradient, *_ = self._call(q, weights, rows, exact_weight, expansions)
        return float(value), np.asarray(gradient, dtype=np.float64)

    def _call(self, q, weights, rows, exact_weight, expansions=None) -> list[np.ndarray]:
        self.rows_evaluated += max(map(len, rows), default=1)
        function = self._function if exact_weight else self._batches
        if expansions is None:
            shapes = zip(map(len, rows), self._widths, strict=False)
            expansions = [np.zeros(shape, self._dtype) for shape in shapes]
        return function(
            # Copy: Numba compiles again for an array that is read-only or not contiguous.
            *(np.array(number, self._dtype) for number in (q, exact_weight, *weights)),
            *(x for group, row in zip(self._groups, rows) for x in group.batch(row)),
            *(np.array(expansion, self._dtype) for expansion in expansions),
        )

    def exact(
        self, q: np.ndarray, lengths: np.ndarray, exact_weight: float = 1.0
    ) -> tuple[float, np.ndarray]:
        """Return U and its gradient on all rows, `lengths` of them in each group."""
        value, gradient = 0.0, np.zeros(self._size)
        for part in self.parts(lengths, exact_weight):
            more, slope = part(q)
            value, gradient = value + more, gradient + slope
        return value, gradient

    def by_rows(
        self, q: np.ndarray, lengths: np.ndarray
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
        """Go through all rows, where these have predictors: yield group, rows, and what they add.

        That is the gradient of their part of U in coefficients, (D,), and
        `EnergyGraph.row_derivatives`.
        """
        for k, start, stop in self._chunks(lengths):
            rows = np.arange(start, stop)
            _, _, gradient, *found = self._call(q, *self._only(k, 1.0, rows), 0.0)
            yield k, rows, gradient, found[k]

    def row_derivatives(self, q: np.ndarray, k: int, rows: np.ndarray) -> np.ndarray:
        """Return `EnergyGraph.row_derivatives` of rows of group k."""
        return self._call(q, *self._only(k, 0.0, rows), 0.0)[3 + k]

    def on_group(
        self,
        q: np.ndarray,
        k: int,
        rows: np.ndarray,
        weight: float = 1.0,
        expansion: np.ndarray | None = None,
    ) -> tuple[float, np.ndarray]:
        """Return the part of U from `rows` of group k, times `weight`, and its gradient.

        `expansion`: of the rows; the gradient is less by it.
        """
        given = None
        if expansion is not None:
            given = [np.zeros((1, width), self._dtype) for width in self._widths]
            given[k] = expansion
        return self.on_rows(q, *self._only(k, weight, rows), 0.0, given)

    def parts(self, lengths: np.ndarray, exact_weight: float = 1.0) -> list[Part]:
        """Return functions of q whose values and gradients add up to those of U."""
        weights, rows = self._nothing()
        parts: list[Part] = [
            partial(self.on_rows, weights=weights, rows=rows, exact_weight=exact_weight)
        ]
        parts += [partial(self._slice, *chunk) for chunk in self._chunks(lengths)]
        return parts

    def _chunks(self, lengths: np.ndarray) -> Iterator[tuple[int, int, int]]:
        """Yield (group, start, stop) for chunks of rows whose data stay in the cache."""
        for k, group in enumerate(self._groups):
            widest = max(np.prod(data.shape) / lengths[k] for data in group.data)
            chunk = max(1, int(max(CHUNK, self._size) / widest))
            for start in range(0, lengths[k], chunk):
                yield k, start, min(start + chunk, lengths[k])

    def _slice(self, k: int, start: int, stop: int, q: np.ndarray) -> tuple[float, np.ndarray]:
        return self.on_group(q, k, np.arange(start, stop))

    def _only(self, k: int, weight: float, rows: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return weights and rows for group k alone: other groups have zero weight."""
        weights, every = self._nothing()
        weights[k], every[k] = weight, rows
        return weights, every

    def _nothing(self) -> tuple[np.ndarray, list[np.ndarray]]:
        """Return weights of zero, and the one row that each group must have."""
        return np.zeros(len(self._groups)), [np.zeros(1, np.int64)] * len(self._groups)


def _compiled(energy: EnergyGraph, backend: Backend) -> CompiledGraph:
    """Compile U, its gradient, and the derivatives of rows in predictors, where there are some.

    Inputs are q, the weight of the exact part, the weight of each group, the batch of each, and the
    expansions of their rows.
    """
    dtype, groups = pytensor.config.floatX, energy.groups
    q = pt.vector("q", dtype=dtype, shape=(energy.size,))
    exact_weight = pt.scalar("exact_weight", dtype=dtype)
    weights = [pt.scalar(f"weight_{group.name}", dtype=dtype) for group in groups]
    rows = [group.inputs() for group in groups]
    slices = {k: v for group, row in zip(groups, rows) for k, v in group.slices(row).items()}
    outputs = energy.estimator(exact_weight)(q, slices, weights)
    expansions = [pt.matrix(dtype=dtype) for _ in energy.predictors or ()]
    if energy.predictors is not None:
        less = energy.less_expansions(exact_weight)
        outputs = [outputs[0], less(q, slices, weights, expansions)]
        outputs.append(energy.gradient_in_coefficients()(q, slices, weights))
        outputs += energy.row_derivatives(q, slices)
    return CompiledGraph([q, exact_weight, *weights, *chain(*rows), *expansions], outputs, backend)


def count_operations(energy: EnergyGraph) -> int:
    """Return about how many operations one evaluation of the exact part of U takes.

    The number follows from the graph and the shapes of data, so that it is the same in each run:
    one for each number that a term reads, n^3 for linear algebra on n columns, and `LOOP` for each
    step of a loop, which is taken to be as long as the longest array.
    """
    shapes = dict(zip(energy.vars, energy.shapes, strict=True))
    total = 0
    for term in energy.exact:
        known = [shapes.get(x) or _shape(x) for x in graph_inputs([term])]
        total += sum(int(np.prod(shape)) for shape in known)
        longest = max((length for shape in known for length in shape), default=1)
        for node in toposort([term]):
            if isinstance(node.op, HasInnerGraph):
                total += LOOP * longest
            elif "linalg" in type(getattr(node.op, "core_op", node.op)).__module__:
                (*_, columns) = getattr(node.inputs[0].type, "shape", ()) or (None,)
                total += (columns or longest) ** 3
    return total


def _shape(leaf: Variable) -> tuple[int, ...]:
    """Return the shape of data; () of what has none."""
    is_data = isinstance(leaf, SharedVariable | Constant)
    return getattr(value_of(leaf), "shape", ()) if is_data else ()
