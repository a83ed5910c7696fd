"""Arrays with a value for each draw and each row: their size, names and labels."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr
from pymc import Model

__all__ = ["check_memory", "labelled"]


def check_memory(
    what: str, draws: int, shapes: Mapping[str, tuple[int, ...]], itemsize: int, most: float
) -> None:
    """Raise ValueError if arrays of these shapes at so many draws take more than `most` bytes."""
    needed = draws * itemsize * sum(int(np.prod(shape)) for shape in shapes.values())
    if needed <= most:
        return
    names = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
    raise ValueError(
        f"{what} of {names} at {draws} draws takes {needed / 1e9:.3g} GB, more than "
        f"max_memory={most:.3g} ({most / 1e9:.3g} GB). Take draws={int(most / needed * draws)}, "
        "or fewer rows, or raise max_memory."
    )


def labelled(
    model: Model,
    name: str,
    array: np.ndarray,
    posterior: xr.Dataset,
    coords: Mapping[str, Iterable[Any]] | None = None,
    rows: np.ndarray | None = None,
) -> xr.DataArray:
    """Return an array (chain, draw, *shape) with the dimensions and labels of the variable.

    `posterior` has the same chains and draws. `coords` are labels that replace the model's. `rows`
    are the indices of the first axis of the variable that are in the array; None means all.
    """
    shape = array.shape[2:]
    own = model.named_vars_to_dims.get(name) or [None] * len(shape)
    dims = [dim or f"{name}_dim_{axis}" for axis, dim in enumerate(own[: len(shape)])]
    labels = {dim: posterior[dim].values for dim in ("chain", "draw")}
    for axis, dim in enumerate(dims):
        given = {**model.coords, **(coords or {})}.get(dim)
        chosen = rows if axis == 0 and rows is not None else np.arange(shape[axis])
        labels[dim] = chosen if given is None else np.asarray(given)[chosen]
    return xr.DataArray(array, labels, ("chain", "draw", *dims))
