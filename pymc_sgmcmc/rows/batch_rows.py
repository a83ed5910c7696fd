"""Computation of a batch of rows of a log-likelihood from the same rows of its data."""

from collections.abc import Callable

import pytensor.tensor as pt
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.scalar.basic import Switch
from pytensor.tensor.basic import Alloc, Join, MakeVector, ScalarFromTensor, TensorFromScalar
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import All
from pytensor.tensor.shape import SpecifyShape
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorVariable

import pymc_sgmcmc.rows.indexing_rules
import pymc_sgmcmc.rows.reshape_rules  # noqa: F401  (registers them)
from pymc_sgmcmc.compile.pytensor_versions import GATHERS
from pymc_sgmcmc.model.log_density import is_minus_infinity
from pymc_sgmcmc.model.row_axes import value_of
from pymc_sgmcmc.rows.dependence import Dependence
from pymc_sgmcmc.rows.moved_indices import INDEXING, index_at_data
from pymc_sgmcmc.rows.selection import NotByRow, Selection, Steps, select_through
from pymc_sgmcmc.rows.selection_rules import rebuilt

__all__ = ["BatchRows", "LatentRows"]

COPIED = 2**28
"""Largest size in bytes (256 MB) of the rows that an index gathers from data and that are copied
into contiguous order. Larger results are gathered by the index at every inner step."""

_LIGHT = (Elemwise, DimShuffle, Alloc, SpecifyShape, *INDEXING)
"""Operations on data that stay in the graph of a batch where their rows can be sliced: slices of
their inputs suffice, and no copy of the result is stored. All others are evaluated once."""


class LatentRows(NotByRow):
    """Error: a selection of rows needs the rows of a sampled variable, `variable`."""

    def __init__(self, variable: Variable):
        super().__init__(f"the latent variable {variable.name!r} has one value per row")
        self.variable = variable


class BatchRows(Selection):
    """Selection of the rows of a batch, by slices of the data that have these rows.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    dependence : Dependence
        Which variables depend on data alone.
    slice_of : callable
        Returns the variable that stands for the slice of a leaf, or of a function of data, along
        an axis. Raises `NotByRow` where the user has excluded this axis.
    imputed : list, optional
        Receives masks, (n_rows,) bool, of the rows that have a latent variable of their own, such
        as imputed values. Arbitrary numbers stand for these values in a batch. None: such rows
        are selected like all others.
    """

    def __init__(
        self, n_rows: int, dependence: Dependence, slice_of: Callable, imputed: list | None = None
    ):
        super().__init__(dependence)
        self._imputed = imputed
        self.number = pt.lscalar("rows_in_batch")
        self._n_rows, self._slice_of = n_rows, slice_of

    def length(self, whole):
        return self.number

    def steps(self, x, axis):
        node, moves = x.owner, self.dependence.moves
        if x.type.shape[axis] == 1:
            raise NotByRow("there is one row")
        if node is None:
            return self._leaf(x, axis)
        if not moves(x):
            if isinstance(node.op, _LIGHT) and not self._is_copied(x, axis):
                try:
                    return (yield from select_through(node.op, x, axis, self))
                except NotByRow:
                    pass
            return self._slice_of(x, axis)
        moved = index_at_data(x, axis, self.dependence)
        if moved is not None:
            return (yield moved, axis)
        if isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, Switch):
            condition, *branches = node.inputs
            # A check of the parameters of all rows would be computed for each batch.
            if all(condition.type.broadcastable) and is_minus_infinity(branches[1]):
                checked = self._checked(condition)
                if checked is not condition:
                    x = pt.switch(checked, *branches)
                    return (yield from select_through(x.owner.op, x, axis, self))
        if select_through.dispatch(type(node.op)) is select_through.dispatch(object):
            return (yield from self._guessed(x, axis))
        return (yield from select_through(node.op, x, axis, self))

    def _leaf(self, x: Variable, axis: int) -> TensorVariable:
        if not isinstance(x, SharedVariable | Constant):
            raise LatentRows(x)
        if value_of(x).shape[axis] != self._n_rows:
            name = x.name or "an array"
            raise NotByRow(
                f"{name} of shape {value_of(x).shape} has another number of rows, "
                f"{value_of(x).shape[axis]}"
            )
        return self._slice_of(x, axis)

    def _is_copied(self, x: TensorVariable, axis: int) -> bool:
        """Return whether `x`, rows of data taken by an index, is stored as a copy in order."""
        node = x.owner
        if not isinstance(node.op, GATHERS):
            return False
        whole, *indices = node.inputs
        if whole.owner is not None or all(_is_plain(index) for index in indices):
            return False
        return self._n_rows * value_of(whole)[:1].nbytes <= COPIED

    def _checked(self, condition: TensorVariable) -> TensorVariable:
        """Return `condition` with checks of all rows replaced by checks of the batch's rows."""
        node = condition.owner
        if node is None or not self.dependence.moves(condition):
            return condition
        inputs = node.inputs
        if isinstance(node.op, All):
            (given,) = inputs
            for axis in range(
                given.type.ndim if len(node.op.axis or ()) in (0, given.type.ndim) else 0
            ):
                try:
                    return pt.all(self(given, axis))
                except NotByRow:
                    continue
        through = Elemwise | DimShuffle | Join | MakeVector | ScalarFromTensor | TensorFromScalar
        if not isinstance(node.op, through | All):
            return condition
        new = [self._checked(given) for given in inputs]
        if all(a is b for a, b in zip(new, inputs, strict=True)):
            return condition
        return node.clone_with_new_inputs(new, strict=False).outputs[node.outputs.index(condition)]

    def is_left_out(self, part, comes):
        if self._imputed is None or not self.dependence.is_sampled(part):
            return False
        self._imputed.append(comes)
        return True

    def _guessed(self, x: TensorVariable, axis: int) -> Steps:
        """Select through an operation without a rule, such as a loop, as if it acts row by row.

        An axis whose length is the number of rows is taken as the axis of rows. The result has to
        be compared with the full log-likelihood (`prove_separation`).
        """
        node, inputs = x.owner, []
        if self.dependence.shape_of(x)[axis] != self._n_rows:
            raise NotByRow(f"the operation {node.op} is not known to act row by row")
        for given in node.inputs:
            shape: tuple[int, ...] = ()
            if isinstance(given.type, TensorType) and given.type.ndim:
                shape = self.dependence.shape_of(given)
            if self._n_rows in shape:
                own = (
                    axis if shape[axis : axis + 1] == (self._n_rows,) else shape.index(self._n_rows)
                )
                given = yield given, own
            inputs.append(given)
        if all(new is old for new, old in zip(inputs, node.inputs, strict=True)):
            raise NotByRow(f"the operation {node.op} is not known to act row by row")
        try:
            return rebuilt(x, inputs)
        except (TypeError, ValueError, NotImplementedError) as error:
            raise NotByRow(f"the operation {node.op} does not act row by row") from error


def _is_plain(index: Variable) -> bool:
    """Return whether `index` is the user's own index, or a cast of it, and not a mask."""
    while index.owner is not None and isinstance(index.owner.op, Elemwise):
        if len(index.owner.inputs) != 1:
            return False
        (index,) = index.owner.inputs
    return index.owner is None and getattr(index.type, "dtype", "") != "bool"
