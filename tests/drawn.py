"""What `pm.sample` would return, made of arrays."""

import xarray as xr

from pymc_sgmcmc._utils.groups import from_groups


def dataset_of(values, coords=None, attrs=None):
    """Variables or stats from arrays by name, each (chain, draw, ...)."""
    dims = {k: ("chain", "draw", *(f"{k}_{i}" for i in range(v.ndim - 2)))
            for k, v in values.items()}  # fmt: skip
    return xr.Dataset({k: (dims[k], v) for k, v in values.items()}, coords, attrs)


def posterior_of(**values):
    """Data with nothing but draws."""
    return from_groups({"posterior": dataset_of(values)})
