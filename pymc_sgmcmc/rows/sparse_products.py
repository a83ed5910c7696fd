"""Products with scaled sparse matrices of data, as graphs of dense arrays."""

import sys
from dataclasses import dataclass

from pytensor.graph.basic import Variable
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.compile.sparse_dot import sparse_dot, sparse_pull
from pymc_sgmcmc.rows.csr import CSR

__all__ = ["Scaled", "SparseProducts", "is_sparse", "times"]


def is_sparse(x: Variable) -> bool:
    """Return whether `x` is of a sparse type, which nothing is until sparse types are imported."""
    module = sys.modules.get("pytensor.sparse")
    return module is not None and isinstance(x.type, module.SparseTensorType)


@dataclass(frozen=True, eq=False)
class Scaled:
    """The matrix diag(row) X diag(column) for sparse data X, with factors (N, 1) and (K, 1)."""

    matrix: Variable
    row: TensorVariable | None = None
    column: TensorVariable | None = None


def times(factor: TensorVariable | None, x: TensorVariable | None) -> TensorVariable | None:
    """Return the product, where None stands for ones."""
    return x if factor is None else factor if x is None else factor * x


class SparseProducts:
    """Products with sparse matrices, whose arrays are made once for each matrix."""

    def __init__(self):
        self._designs: dict[Variable, CSR] = {}
        self._transposed: dict[Variable, Variable] = {}

    def matrices(self) -> list[CSR]:
        """Return the arrays of all matrices used so far."""
        return list(self._designs.values())

    def transposed(self, x: Scaled) -> Scaled:
        if x.matrix not in self._transposed:
            from pytensor.sparse import transpose  # slow to import, and few models need it

            other = transpose(x.matrix)
            other.name = x.matrix.name and f"{x.matrix.name}.T"
            self._transposed |= {x.matrix: other, other: x.matrix}
        return Scaled(self._transposed[x.matrix], x.column, x.row)

    def arrays(self, matrix: Variable) -> CSR:
        if matrix not in self._designs:
            self._designs[matrix] = CSR(matrix)
        return self._designs[matrix]

    def dot(self, x: Scaled, dense: TensorVariable) -> TensorVariable:
        """Return X @ dense, (N, C) or (N,)."""
        arrays = self.arrays(x.matrix)
        if dense.type.ndim == 1:
            return self.dot(x, dense[:, None])[:, 0]
        return times(x.row, sparse_dot(*arrays.design, arrays.rows, times(x.column, dense)))

    def pull(self, x: Scaled, dense: TensorVariable) -> TensorVariable:
        """Return X.T @ dense, (K, C)."""
        arrays = self.arrays(x.matrix)
        given = *arrays.design, arrays.rows, times(x.row, dense), arrays.width
        return times(x.column, sparse_pull(*given))

    def shape(self, x: Scaled) -> list[TensorVariable]:
        arrays = self.arrays(x.matrix)
        return [arrays.rows.shape[0], arrays.width]
