"""Affine graphs as matrices: which entries of q a number depends on, and how.

The predictors of the rows of a hierarchical model depend on q through a few of its many entries
each. The derivative is found operation by operation, in each variable of q apart: it is the design
itself where that is a matrix, sparse where entries are selected.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import mul
from typing import Any, TypeAlias

import numpy as np
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import toposort
from pytensor.scalar.basic import Mul, Neg, Sub, TrueDiv
from pytensor.tensor.basic import Join, MakeVector
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Dot, Sum
from pytensor.tensor.variable import TensorVariable
from scipy.sparse import coo_array, csr_array, eye_array

from pymc_sgmcmc.compile.evaluate import evaluate
from pymc_sgmcmc.compile.pytensor_versions import joined_parts
from pymc_sgmcmc.compile.sparse_dot import SparseDot

__all__ = ["Block", "jacobians"]

Block: TypeAlias = np.ndarray | csr_array
"""A derivative (m, k) of m numbers in the k entries of one variable."""

ONE: Any = None
"""The block that is a unit matrix: most operations leave the entries where they are."""


def jacobians(
    graphs: Sequence[TensorVariable],
    vars: Sequence[TensorVariable],
    given: Mapping[Variable, np.ndarray],
) -> list[dict[TensorVariable, Block]]:
    """Return the derivatives of `graphs`, affine in `vars`, in the `vars` that each depends on.

    Parameters
    ----------
    graphs : list of TensorVariable
        As `linear_predictors` finds them; m numbers each.
    vars : list of TensorVariable
    given : mapping of variable to array
        Values of all variables without an owner: `vars`, at any point, and slices of data.

    Raises
    ------
    NotImplementedError
        If the derivative of an operation is not known here.
    """
    found: dict[Variable, dict[Variable, Block]] = {var: {var: ONE} for var in vars}
    nodes = []
    depends = set(vars)
    for node in toposort(graphs):
        if not depends.isdisjoint(node.inputs):
            depends.update(node.outputs)
            nodes.append(node)
    needed = list({x for node in nodes for x in [*node.inputs, *node.outputs]})
    values = dict(zip(needed, evaluate(needed, given), strict=True))
    for node in nodes:
        blocks: dict[Variable, Block] = {}
        for k, x in enumerate(node.inputs):
            if x in depends:
                own = _derivative(node, k, values)
                size = np.size(values[node.outputs[0]])
                for var, block in found[x].items():
                    block = _times(own, block)
                    if var in blocks:
                        block = _whole(blocks[var], size) + _whole(block, size)
                    blocks[var] = block
        found[node.outputs[0]] = blocks
    return [
        {var: _whole(block, np.size(given[var])) for var, block in found[graph].items()}
        for graph in graphs
    ]


def _times(a: Block, b: Block) -> Block:
    return b if a is ONE else a if b is ONE else a @ b


def _whole(block: Block, size: int) -> Block:
    return eye_array(size, format="csr") if block is ONE else block


def _derivative(node: Apply, k: int, values: Mapping[Variable, np.ndarray]) -> Block:
    """Return the derivative of the output of `node` in its input number `k`."""
    op, inputs, out = node.op, [values[x] for x in node.inputs], values[node.outputs[0]]
    if isinstance(op, Elemwise):
        return _of_elementwise(op.scalar_op, inputs, k, np.shape(out))
    if isinstance(op, Dot) or (isinstance(op, Blockwise) and isinstance(op.core_op, Dot)):
        a, b = inputs
        return _of_product(a, b, k)
    if isinstance(op, SparseDot):
        return _of_sparse_product(*inputs)
    if isinstance(op, Sum):
        return _of_sum(op.axis, np.shape(inputs[0]))
    return _of_move(node, inputs, k)


def _of_elementwise(op, inputs: Sequence[np.ndarray], k: int, shape: tuple[int, ...]) -> Block:
    """Return the derivative of a sum, a quotient, or a product of which one factor depends on q."""
    factor: Any = None
    if isinstance(op, Mul):
        factor = reduce(mul, (x for j, x in enumerate(inputs) if j != k), 1.0)
    elif isinstance(op, TrueDiv):
        factor = 1.0 / inputs[1]
    elif isinstance(op, Neg) or (isinstance(op, Sub) and k == 1):
        factor = -1.0
    spread = np.broadcast_to(_numbers(np.shape(inputs[k])), shape)
    if factor is not None:
        factor = np.broadcast_to(factor, shape)
    return _selection(spread, np.size(inputs[k]), factor)


def _of_product(a: np.ndarray, b: np.ndarray, k: int) -> Block:
    """Return the derivative of a @ b in one of them."""
    if k == 1 and a.ndim == 2 and b.size == a.shape[1]:
        return a
    rows, columns = np.atleast_2d(a), b if b.ndim > 1 else b[:, None]
    left, right = rows[..., :, :, None], columns[..., None, :, :]
    made = np.broadcast_shapes(rows.shape[:-2], columns.shape[:-2])
    made += (rows.shape[-2], columns.shape[-1])
    of, factor = (rows, right) if k == 0 else (columns, left)
    numbers = _numbers(of.shape)
    numbers = numbers[..., :, :, None] if k == 0 else numbers[..., None, :, :]
    out = _numbers(made)[..., :, None, :]
    out, numbers, factor = np.broadcast_arrays(out, numbers, factor)
    entries = factor.ravel(), (out.ravel(), numbers.ravel())
    return coo_array(entries, shape=(np.prod(made), of.size)).tocsr()


def _of_sparse_product(entries, columns, starts, rows, dense) -> Block:
    """Return the derivative in `dense` (K, C) of what `SparseDot` makes."""
    design = csr_array((entries, columns, starts), shape=(len(starts) - 1, len(dense)))[rows]
    width = dense.shape[1]
    if width == 1:
        return design
    of = design.tocoo()
    at, to = (np.add.outer(index * width, np.arange(width)).ravel() for index in of.coords)
    shape = (len(rows) * width, dense.size)
    return coo_array((np.repeat(of.data, width), (at, to)), shape=shape).tocsr()


def _of_sum(axis: tuple[int, ...] | None, shape: tuple[int, ...]) -> Block:
    over = range(len(shape)) if axis is None else axis
    kept = tuple(1 if k in over else n for k, n in enumerate(shape))
    added = np.broadcast_to(_numbers(kept), shape)
    block = _selection(added, int(np.prod(kept)))
    return ONE if block is ONE else csr_array(block.T)


def _of_move(node: Apply, inputs: Sequence[np.ndarray], k: int) -> Block:
    """Return the derivative of what moves, repeats or selects entries.

    The operation is performed on the numbers of the entries; those of other inputs have number 0.
    """
    moved = range(1)
    if isinstance(node.op, Join):
        moved = range(len(inputs) - len(joined_parts(node)[1]), len(inputs))
    elif isinstance(node.op, MakeVector):
        moved = range(len(inputs))
    n = np.size(inputs[k])
    if k not in moved or n > 2 ** np.finfo(node.outputs[0].dtype).nmant:
        raise NotImplementedError(f"the derivative of {node.op} in its input number {k}")
    given = [np.zeros_like(x) if j in moved else x for j, x in enumerate(inputs)]
    given[k] = (1 + _numbers(np.shape(inputs[k]))).astype(inputs[k].dtype)
    symbols = [x.type() for x in node.inputs]
    (out,) = node.clone_with_new_inputs(symbols).outputs
    (numbers,) = evaluate([out], dict(zip(symbols, given, strict=True)))
    numbers = np.asarray(numbers).astype(np.int64)
    factor = None if numbers.all() else numbers > 0
    return _selection(np.maximum(numbers - 1, 0), n, factor)


def _numbers(shape: tuple[int, ...]) -> np.ndarray:
    """Return the numbers of the entries of an array, from 0."""
    return np.arange(int(np.prod(shape))).reshape(shape)


def _selection(numbers: np.ndarray, n: int, factor: np.ndarray | None = None) -> Block:
    """Return the matrix (numbers.size, n) with one entry a row, in the column of its number."""
    size = numbers.size
    if factor is None and size == n and np.array_equal(numbers.ravel(), np.arange(n)):
        return ONE
    data = np.ones(size) if factor is None else np.asarray(factor, dtype=float).ravel()
    return csr_array((data, numbers.ravel(), np.arange(size + 1)), shape=(size, n))
