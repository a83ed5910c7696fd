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

__all__ = ["ChainCompound", "ChainStep", "from_groups", "scan", "to_groups", "with_group"]


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
