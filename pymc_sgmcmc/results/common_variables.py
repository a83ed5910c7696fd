"""Draws of several samplers by name, and the variables that all of them have."""

from collections.abc import Sequence
from typing import Any

import xarray as xr

from pymc_sgmcmc._utils.inference_data import posterior_of

__all__ = ["all_named", "common_variables"]


def common_variables(
    named: dict[str, Any], var_names: str | Sequence[str] | None
) -> tuple[dict[str, xr.Dataset], list[str]]:
    """Return the posteriors by name, and the numeric variables that all of them have.

    Raise ValueError if there is no such variable, or its shapes or labels differ.
    """
    posteriors = {name: posterior_of(idata, var_names) for name, idata in named.items()}
    origin, *_ = posteriors
    common = [
        str(name)
        for name, values in posteriors[origin].items()
        if values.dtype.kind in "biuf" and all(name in data for data in posteriors.values())
    ]
    if not common:
        raise ValueError(
            f"{', '.join(posteriors)} have no variable in common: pass data of the same model."
        )
    for name, posterior in posteriors.items():
        _check_same_entries(origin, posteriors[origin], name, posterior, common)
    return posteriors, common


def all_named(reference: Any, others: tuple[Any, ...]) -> dict[str, Any]:
    """Return all data by name, the reference first."""
    if isinstance(reference, dict) and len(reference) != 1:
        raise ValueError(f"reference={list(reference)} must be one: pass the others after it.")
    named = dict(reference) if isinstance(reference, dict) else {"reference": reference}
    for number, other in enumerate(others, start=1):
        for name, idata in (other if isinstance(other, dict) else {str(number): other}).items():
            if name in named:
                raise ValueError(f"There are two data called {name!r}: give them other names.")
            named[name] = idata
    return named


def _check_same_entries(
    origin: str, exact: xr.Dataset, name: str, posterior: xr.Dataset, common: Sequence[str]
) -> None:
    for variable in common:
        one, other = (
            data[variable].isel(chain=0, draw=0, drop=True) for data in (exact, posterior)
        )
        if one.shape != other.shape:
            raise ValueError(
                f"{variable!r} has shape {one.shape} in {origin!r} and {other.shape} in {name!r}: "
                "pass data of the same model, or leave it out with var_names=."
            )
        for dim in one.dims:
            if dim in one.coords and dim in other.coords and not one[dim].equals(other[dim]):
                raise ValueError(
                    f"The labels of {dim!r} of {variable!r} differ between {origin!r} and "
                    f"{name!r}: reindex one of them, or drop the labels with drop_vars({dim!r})."
                )
