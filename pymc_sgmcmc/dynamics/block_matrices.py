"""Blocks of a matrix between variables: numbers, diagonals, columns, rows, or dense blocks.

Between two vectors (d,), a number stands for a multiple of the identity, and (d,) for a diagonal.
Between a vector and a scalar, (d,) is a column or a row.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import pytensor
import pytensor.tensor as pt
from pytensor.gradient import jacobian
from pytensor.graph.traversal import ancestors

from pymc_sgmcmc._utils.types import Graph, Operand

__all__ = ["block_of", "check_names", "divergence", "root", "row_of", "times"]


def block_of(block: Operand) -> Graph:
    """Return a block in the working precision; PyTensor stores a number such as 2.5 in less."""
    return pt.as_tensor(block).astype(pytensor.config.floatX)


def check_names(
    names: Iterable[str], D: Mapping[str, Any], Q: Mapping[tuple[str, str], Any]
) -> None:
    """Raise ValueError unless the blocks of D and Q are of these variables, and each is given once.

    Other blocks would be ignored. Raise it also if D is empty.
    """
    names = list(names)
    for argument, block in [*(("D", name) for name in D), *(("Q", pair) for pair in Q)]:
        of = (block,) if argument == "D" else block
        if not set(of) <= set(names) or (argument == "Q" and (len(set(of)) < 2 or of[::-1] in Q)):
            raise ValueError(
                f"{argument} has a block {block!r}: the variables are {names}, and Q takes each "
                "pair of two different ones once."
            )
    if not D:
        raise ValueError("D is empty: without any noise no posterior is sampled.")


def row_of(name: str, D: Mapping[str, Any], Q: Mapping[tuple[str, str], Any]) -> dict[str, Graph]:
    """Return the blocks of D + Q in the row of a variable, by the variable of the column."""
    row = {name: D[name]} if name in D else {}
    for (above, right), block in Q.items():
        if above == name:
            row[right] = block
        elif right == name:
            row[above] = -pt.as_tensor(block).T
    return {other: block_of(block) for other, block in row.items()}


def times(block: Graph, vector: Operand, like: Graph) -> Graph:
    """Return the product of a block and a `vector` of its column; `like` is one of its row."""
    rows_to_one = block.type.ndim == 1 and like.type.ndim == 0
    return pt.dot(block, vector) if block.type.ndim == 2 or rows_to_one else block * vector


def root(block: Graph) -> Graph:
    """Return R with R R' = block."""
    return pt.linalg.cholesky(block) if block.type.ndim == 2 else pt.sqrt(block)


def divergence(block: Graph, column: Graph, row: Graph) -> Graph | float:
    """Return sum_j d block_ij / d column_j, for each i of the `row`."""
    if column not in ancestors([block]):
        return 0.0
    if block.type.ndim == 0:
        return pt.grad(block, column)
    slopes = jacobian(block.flatten(), column, vectorize=True)
    if block.type.ndim == 2:
        slopes = slopes.reshape((*block.shape, column.shape[0]))
        return pt.sum(pt.diagonal(slopes, axis1=1, axis2=2), axis=1)
    if column.type.ndim == 0:
        return slopes
    diagonal = pt.diagonal(slopes)
    return diagonal if row.type.ndim else pt.sum(diagonal)
