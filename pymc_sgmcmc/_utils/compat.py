"""Every line that depends on the version of PyMC, PyTensor and ArviZ."""

import warnings
from collections.abc import Mapping
from copy import copy
from typing import Any

import numpy as np
import pytensor
import xarray as xr
from pymc.step_methods.arraystep import ArrayStepShared
from pymc.step_methods.compound import BlockedStep, CompoundStep
from pytensor.graph.basic import Apply
from pytensor.tensor import subtensor
from pytensor.tensor.type import TensorType, integer_dtypes
from pytensor.tensor.variable import TensorVariable

__all__ = [
    "ADDITIONS", "GATHERS", "ChainCompound", "ChainStep", "from_groups", "indices_of_addition",
    "scan", "to_groups", "with_group",
]  # fmt: skip


class _ChainStart:
    """A step method that is told when a chain starts: PyMC 5.28 and 6 say it differently."""

    def start_chain(self, rng: np.random.Generator) -> None:
        """Reset all per-chain state; `rng` is the generator that PyMC made for the chain."""

    if hasattr(BlockedStep, "setup_chain"):

        def setup_chain(self, rng, tune, draws):
            super().setup_chain(rng, tune, draws)
            self.start_chain(rng)

    else:

        def set_rng(self, rng):
            super().set_rng(rng)
            self.start_chain(rng)


class ChainStep(_ChainStart, ArrayStepShared):
    """A step method for some variables."""


class ChainCompound(_ChainStart, CompoundStep):
    """Several step methods in turn."""


def scan(step, **kwargs):
    """Return the list of trajectories of `pytensor.scan`, each from the value that it starts with.

    PyTensor returns them without that, as parts of these. PyTensor 3 links the inner function of a
    C scan with its Python virtual machine, twice as slow, unless it is given a mode; and it
    deprecates giving one.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The `mode` argument", FutureWarning)
        paths = pytensor.scan(step, return_list=True, return_updates=False, **kwargs)
    return [path.owner.inputs[0] for path in paths]


GATHERS = tuple(
    getattr(subtensor, name)
    for name in ("AdvancedSubtensor", "AdvancedSubtensor1")
    if hasattr(subtensor, name)
)
"""Operations that index by tensors of integers: x[i]."""

ADDITIONS = [
    getattr(subtensor, name)
    for name in ("AdvancedIncSubtensor", "AdvancedIncSubtensor1")  # the latter in PyTensor 2
    if hasattr(subtensor, name)
]
"""Operations that add at indices, or set."""


def indices_of_addition(node: Apply) -> list[TensorVariable] | None:
    """The indices, if it is an addition at arrays of integers, one for each of the first axes."""
    op, (_, _, *indices) = node.op, node.inputs
    if op.set_instead_of_inc or getattr(op, "ignore_duplicates", False):
        return None
    if getattr(op, "idx_list", tuple(range(len(indices)))) != tuple(range(len(indices))):
        return None
    arrays = [isinstance(x.type, TensorType) and x.type.dtype in integer_dtypes for x in indices]
    return indices if all(arrays) else None


def to_groups(idata: Any) -> dict[str, xr.Dataset]:
    """The groups of what `pm.sample` returns: a DataTree in PyMC 6, an InferenceData in 5.28."""
    if isinstance(idata, xr.DataTree):
        return {name: node.to_dataset() for name, node in idata.children.items()}
    return {name: idata[name] for name in idata.groups()}


def from_groups(groups: Mapping[str, xr.Dataset]) -> Any:
    """What `pm.sample` would return with these groups."""
    import arviz as az  # here, as it takes seconds

    if "InferenceData" in vars(az):
        return az.InferenceData(**groups)
    return xr.DataTree.from_dict(groups)


def with_group(idata: Any, name: str, group: xr.Dataset) -> Any:
    """The same data with another group of that name; the others are shared, not copied."""
    if isinstance(idata, xr.DataTree):
        new = idata.copy(deep=False)
        new[name].dataset = group
        return new
    new = copy(idata)
    setattr(new, name, group)
    return new
