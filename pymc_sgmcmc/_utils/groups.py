"""Groups of draws in either generation of ArviZ: InferenceData, or xarray's DataTree."""

from collections.abc import Mapping
from copy import copy
from typing import Any

import xarray as xr

__all__ = ["from_groups", "to_groups", "with_group"]


def to_groups(idata: Any) -> dict[str, xr.Dataset]:
    """Return the groups of a result of `pm.sample`: DataTree in PyMC 6, InferenceData in 5.28."""
    if isinstance(idata, xr.DataTree):
        return {name: node.to_dataset() for name, node in idata.children.items()}
    return {name: idata[name] for name in idata.groups()}


def from_groups(groups: Mapping[str, xr.Dataset]) -> Any:
    """Return data with these groups, of the type that `pm.sample` returns."""
    import arviz as az  # here, as it takes seconds

    if "InferenceData" in vars(az):
        return az.InferenceData(**groups)
    return xr.DataTree.from_dict(groups)


def with_group(idata: Any, name: str, group: xr.Dataset) -> Any:
    """Return `idata` with another group `name`; the other groups are shared, not copied."""
    if isinstance(idata, xr.DataTree):
        new = idata.copy(deep=False)
        new[name].dataset = group
        return new
    new = copy(idata)
    setattr(new, name, group)
    return new
