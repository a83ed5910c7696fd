"""Check of the ``total_size`` of observed variables against their data."""

from dataclasses import dataclass

from pymc import Model
from pytensor.graph.basic import Variable
from pytensor.tensor import NoneConst
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.compile.backend import interpreted
from pymc_sgmcmc.model.full_data import has_total_size

__all__ = ["TotalSize", "total_sizes"]


@dataclass(frozen=True, eq=False)
class TotalSize:
    """The ``total_size`` of an observed variable.

    Attributes
    ----------
    name : str
        The observed variable.
    sizes : tuple of Variable
        One size for each axis; PyTensor's None where no size is given.
    value : TensorVariable
        Its observed value on all rows.
    """

    name: str
    sizes: tuple[Variable, ...]
    value: TensorVariable

    def check(self) -> None:
        """Raise ValueError unless the sizes are the present lengths of the axes of the value."""
        given = {axis: size for axis, size in enumerate(self.sizes) if not NoneConst.equals(size)}
        lengths = interpreted([], [self.value.shape[axis] for axis in given])()
        totals = interpreted([], list(given.values()))()
        for axis, total, length in zip(given, totals, lengths, strict=True):
            if int(total) == int(length):
                continue
            if axis:
                raise ValueError(
                    f"total_size={int(total)} on axis {axis} of {self.name!r}, which has length "
                    f"{int(length)}: only rows, the first axis, can be minibatched. Give "
                    "total_size the number of rows alone."
                )
            raise ValueError(
                f"total_size={int(total)} of {self.name!r} is not the number of its rows, "
                f"{int(length)}: give it total_size={int(length)}. (If it is a batch that you drew "
                "yourself, use pm.Minibatch, or the full data and batch_size=; if pm.set_data "
                "changed the rows, make the model anew.)"
            )


def total_sizes(model: Model, full: Model) -> list[TotalSize]:
    """Return the ``total_size`` of each variable of `model` that has one."""
    return [
        TotalSize(rv.name, tuple(rv.owner.inputs[1:]), full.rvs_to_values[whole])
        for rv, whole in zip(model.observed_RVs, full.observed_RVs, strict=True)
        if has_total_size(rv)
    ]
