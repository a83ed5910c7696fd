"""Check of the ``total_size`` of observed variables against their data."""

from collections.abc import Sequence

from pymc import Model
from pytensor.graph.basic import Variable
from pytensor.tensor import NoneConst
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.compile.in_python import interpreted
from pymc_sgmcmc.model.full_data import has_total_size

__all__ = ["check_total_sizes"]


def check_total_sizes(model: Model, full: Model) -> None:
    """Raise ValueError unless each ``total_size`` in `model` is the present length of its axis.

    `full`: `full_data(model)`, which has the observed values on all rows.
    """
    for rv, whole in zip(model.observed_RVs, full.observed_RVs, strict=True):
        if has_total_size(rv):
            _check(rv.name, rv.owner.inputs[1:], full.rvs_to_values[whole])


def _check(name: str, sizes: Sequence[Variable], value: TensorVariable) -> None:
    """Check the sizes of one variable, PyTensor's None where none is given for an axis."""
    given = {axis: size for axis, size in enumerate(sizes) if not NoneConst.equals(size)}
    lengths = interpreted([], [value.shape[axis] for axis in given])()
    totals = interpreted([], list(given.values()))()
    for axis, total, length in zip(given, totals, lengths, strict=True):
        if int(total) == int(length):
            continue
        if axis:
            raise ValueError(
                f"total_size={int(total)} on axis {axis} of {name!r}, which has length "
                f"{int(length)}: only rows, the first axis, can be minibatched. Give "
                "total_size the number of rows alone."
            )
        raise ValueError(
            f"total_size={int(total)} of {name!r} is not the number of its rows, "
            f"{int(length)}: give it total_size={int(length)}. (If it is a batch that you drew "
            "yourself, use pm.Minibatch, or the full data and batch_size=; if pm.set_data "
            "changed the rows, make the model anew.)"
        )
