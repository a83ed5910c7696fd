"""Log-densities without sparse types: sparse matrices of data become arrays and indices of rows.

A product with a sparse matrix X of data becomes a product with its rows of indices 0, ..., N - 1.
These indices are data of N rows, which are sliced by row like other data: a batch reads only its
own rows of X, X is not copied, and no compiled graph has a sparse type.
"""

import logging
from collections.abc import Callable, Collection, Mapping

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import graph_inputs, toposort
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.compile.backend import Backend
from pymc_sgmcmc.rows.csr import CSR
from pymc_sgmcmc.rows.sparse_products import Scaled, SparseProducts, is_sparse, times

__all__ = ["compiler_of", "has_sparse", "without_sparse"]

_log = logging.getLogger("pymc.sgmcmc")

Terms = dict[Variable, TensorVariable]


def has_sparse(graphs: Collection[Variable]) -> bool:
    """Return whether a variable of the graphs is of a sparse type."""
    return any(is_sparse(x) for node in toposort(graphs) for x in (*node.inputs, *node.outputs))


def compiler_of(graphs: Collection[Variable], backend: Backend) -> Backend:
    """Return `backend`, or C with a warning where Numba would have to compile a sparse type."""
    if not (backend.is_numba and has_sparse(graphs)):
        return backend
    _log.warning(
        "The model uses a sparse matrix otherwise than in products of data with parameters, which "
        "Numba cannot compile: backend='c' is used."
    )
    return Backend("c")


def without_sparse(
    terms: Mapping[Variable, TensorVariable], moving: Collection[Variable] = ()
) -> tuple[Terms, list[CSR]]:
    """Rewrite products with sparse matrices of data as products with rows of arrays.

    Parameters
    ----------
    terms : mapping to TensorVariable
    moving : collection of shared variables
        Shared variables that are not data but stand for values drawn by other step methods.

    Returns
    -------
    terms : dict
        Terms of the same values. A term that uses a sparse matrix in another way, or a sparse
        matrix of parameters, keeps it.
    matrices : list of CSR
        Arrays of the matrices, to be refreshed when data have changed.
    """
    if not has_sparse(terms.values()):
        return dict(terms), []
    lowering = _Lowering(moving)
    return lowering.of(terms), lowering.products.matrices()


class _Lowering:
    def __init__(self, moving: Collection[Variable]):
        self._moving = set(moving)
        self._is_data: dict[Variable, bool] = {}
        self.products = SparseProducts()
        self._new: dict[Variable, Variable | Scaled] = {}

    def of(self, terms: Mapping[Variable, TensorVariable]) -> Terms:
        for node in toposort(list(terms.values())):
            self._visit(node)
        return {name: self._new.get(term, term) for name, term in terms.items()}

    def _visit(self, node: Apply) -> None:
        sparse = [*map(is_sparse, (*node.inputs, *node.outputs))]
        if any(sparse):
            rule = _RULES.get(type(node.op).__name__)
            if self._data_alone(node.outputs[0]) and sparse[-1]:
                return  # a matrix of data stays whole, however it is computed
            made = rule(self, node) if rule else None
            if made is not None:
                self._new[node.outputs[0]] = made
                return
        inputs = [self._new.get(x, x) for x in node.inputs]
        changed = any(new is not old for new, old in zip(inputs, node.inputs, strict=True))
        if changed and not any(isinstance(x, Scaled) for x in inputs) and not any(sparse):
            outputs = node.clone_with_new_inputs(inputs, strict=False).outputs
            self._new |= zip(node.outputs, outputs, strict=True)

    def _data_alone(self, x: Variable) -> bool:
        if x not in self._is_data:
            self._is_data[x] = all(
                isinstance(leaf, SharedVariable | Constant) and leaf not in self._moving
                for leaf in graph_inputs([x])
            )
        return self._is_data[x]

    def tensor(self, x: Variable) -> TensorVariable | None:
        """Return the dense tensor in place of `x`, which may be of a sparse type; None if none."""
        new = self._new.get(x, x)
        return new if isinstance(new, Variable) and not is_sparse(new) else None

    def scaled(self, x: Variable) -> Scaled | None:
        new = self._new.get(x)
        if new is None and is_sparse(x) and self._data_alone(x):
            return Scaled(x)
        return new if isinstance(new, Scaled) else None


def _matmul(lowering: _Lowering, node: Apply) -> TensorVariable | None:
    """Rewrite `structured_dot`, `dot` and `true_dot`: sparse times dense, or dense times sparse."""
    left, right = node.inputs
    scaled, dense = lowering.scaled(left), lowering.tensor(right)
    if scaled is not None and dense is not None:
        product = lowering.products.dot(scaled, dense)
    elif (scaled := lowering.scaled(right)) and (dense := lowering.tensor(left)) is not None:
        # D @ X = (X.T @ D.T).T: the rows of a batch may be those of X.T.
        product = lowering.products.dot(lowering.products.transposed(scaled), dense.T).T
    else:
        return None
    return product.astype(node.outputs[0].type.dtype)


def _multiply(lowering: _Lowering, node: Apply) -> Scaled | None:
    """Rewrite a product of a sparse matrix with a number, or with one number for each column."""
    x, factor = lowering.scaled(node.inputs[0]), lowering.tensor(node.inputs[1])
    if x is None or factor is None:
        return None
    if factor.type.ndim == 0:
        return Scaled(x.matrix, x.row, times(x.column, factor.reshape((1, 1))))
    if factor.type.ndim == 1:
        return Scaled(x.matrix, x.row, times(x.column, factor[:, None]))
    return None


def _scale_rows(lowering: _Lowering, node: Apply) -> Scaled | None:
    x, factor = lowering.scaled(node.inputs[0]), lowering.tensor(node.inputs[1])
    if x is None or factor is None:
        return None
    return Scaled(x.matrix, times(x.row, factor[:, None]), x.column)


def _scale_columns(lowering: _Lowering, node: Apply) -> Scaled | None:
    x, factor = lowering.scaled(node.inputs[0]), lowering.tensor(node.inputs[1])
    if x is None or factor is None:
        return None
    return Scaled(x.matrix, x.row, times(x.column, factor[:, None]))


def _transpose(lowering: _Lowering, node: Apply):
    scaled, dense = lowering.scaled(node.inputs[0]), lowering.tensor(node.inputs[0])
    if scaled is not None:
        return lowering.products.transposed(scaled)
    return None if dense is None else dense.T


def _sum(lowering: _Lowering, node: Apply) -> TensorVariable | None:
    scaled, dense = lowering.scaled(node.inputs[0]), lowering.tensor(node.inputs[0])
    if dense is not None:
        return dense.sum(axis=node.op.axis)
    if scaled is None:
        return None
    products, dtype = lowering.products, node.outputs[0].type.dtype
    n, width = products.shape(scaled)
    one = np.ones((), dtype)
    if node.op.axis == 0:
        return products.pull(scaled, pt.alloc(one, n, 1))[:, 0].astype(dtype)
    of_rows = products.dot(scaled, pt.alloc(one, width, 1))[:, 0].astype(dtype)
    return of_rows.sum() if node.op.axis is None else of_rows


def _to_dense(lowering: _Lowering, node: Apply) -> TensorVariable | None:
    scaled, dense = lowering.scaled(node.inputs[0]), lowering.tensor(node.inputs[0])
    if dense is not None or scaled is None:
        return dense
    products, dtype = lowering.products, node.outputs[0].type.dtype
    return products.dot(scaled, pt.eye(products.shape(scaled)[1], dtype=dtype)).astype(dtype)


def _shape(lowering: _Lowering, node: Apply) -> TensorVariable | None:
    scaled = lowering.scaled(node.inputs[0])
    return None if scaled is None else pt.stack(lowering.products.shape(scaled))


def _length(lowering: _Lowering, node: Apply) -> TensorVariable | None:
    scaled = lowering.scaled(node.inputs[0])
    return None if scaled is None else lowering.products.shape(scaled)[node.op.i]


_RULES: dict[str, Callable] = {
    **dict.fromkeys(["StructuredDot", "Dot", "TrueDot"], _matmul),
    # Names of PyTensor 2, then names of PyTensor 3.
    **dict.fromkeys(["SparseDenseMultiply", "SparseDenseVectorMultiply"], _multiply),
    **dict.fromkeys(["MultiplySparseDense", "MultiplySparseDenseVector"], _multiply),
    "RowScaleCSC": _scale_rows,
    "ColScaleCSC": _scale_columns,
    "Transpose": _transpose,
    "SpSum": _sum,
    "DenseFromSparse": _to_dense,
    Shape.__name__: _shape,
    Shape_i.__name__: _length,
}
"""Rules that rewrite a node, by the name of its operation; None: the node needs a sparse type."""
