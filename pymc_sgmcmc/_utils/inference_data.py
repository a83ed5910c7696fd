"""Draws and sample stats from a result of `pm.sample`, for any trace backend."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from pymc_sgmcmc._utils.groups import from_groups, to_groups

__all__ = ["at_draws", "evenly", "posterior_of", "sampler_stat", "spread", "with_draws"]


def posterior_of(idata: Any, var_names: str | Sequence[str] | None = None) -> xr.Dataset:
    """Return the draws of some variables, default all, with leading dimensions (chain, draw).

    Raises
    ------
    ValueError
        If there is no posterior, no draw, or no such variable; the message names it.
    """
    try:
        posterior = idata.posterior
    except AttributeError:
        raise ValueError(
            f"A {type(idata).__name__} without a posterior has no draws: pass what pm.sample or "
            "approx.sample returned."
        ) from None
    if not isinstance(posterior, xr.Dataset):  # a node of a DataTree
        posterior = getattr(posterior, "dataset", posterior)
    if not posterior.data_vars:
        raise ValueError("The posterior is empty: it holds no variable.")
    missing = [dim for dim in ("chain", "draw") if dim not in posterior.sizes]
    if missing:
        raise ValueError(
            f"The posterior lacks the dimensions {missing}: pass what pm.sample returned, before "
            "chains are averaged or stacked."
        )
    sizes = posterior.sizes["chain"], posterior.sizes["draw"]
    if 0 in sizes:
        raise ValueError(
            f"The posterior has no draws ({sizes[0]} chains of {sizes[1]}): sample some."
        )
    names = [var_names] if isinstance(var_names, str) else var_names
    unknown = [] if names is None else [name for name in names if name not in posterior.data_vars]
    if unknown:
        raise ValueError(
            f"var_names={var_names!r}: the posterior has no {unknown}. It has "
            f"{sorted(map(str, posterior.data_vars))}."
        )
    chosen = posterior.data_vars if names is None else names
    drawn = {name: posterior[name].transpose("chain", "draw", ...) for name in chosen}
    return xr.Dataset(drawn, attrs=posterior.attrs)


def sampler_stat(idata: Any, name: str) -> np.ndarray | None:
    """Return a scalar sample stat, (chain, draw, step methods with it); None if none has it.

    `pm.sample` stores the stat with a last axis where several step methods have it; its ZarrTrace
    stores the stat under a name for each step method.
    """
    stats = getattr(idata, "sample_stats", {})
    if name in stats:
        values = np.atleast_3d(stats[name].values)
        if 0 in values.shape:
            raise ValueError(
                f"The sample stats have no draws ({name} has shape {stats[name].shape}): sample "
                "some."
            )
        return values
    flat = re.compile(rf"sampler_(\d+)__{re.escape(name)}")
    found = {int(match[1]): key for key in stats if (match := flat.fullmatch(str(key)))}
    if not found:
        return None
    return np.stack([stats[key].values for _, key in sorted(found.items())], axis=-1)


def spread(n: int, m: int) -> np.ndarray:
    """Return the indices of m out of n items, spread evenly."""
    return ((np.arange(m) + 0.5) * n / m).astype(int)


def evenly(chains: int, length: int, draws: int | None) -> np.ndarray:
    """Return indices of each chain's draws that make up about `draws` in all; None: all."""
    if draws is None or draws >= chains * length:
        return np.arange(length)
    return spread(length, max(draws // chains, 1))


def at_draws(posterior: xr.Dataset, kept: np.ndarray) -> xr.Dataset:
    """Return the draws `kept` of each chain, with their own draw numbers."""
    return posterior.assign_coords(draw=posterior["draw"]).isel(draw=kept)


def with_draws(idata: Any, kept: np.ndarray, more: Mapping[str, xr.Dataset]) -> Any:
    """Return `idata` at the draws `kept` of each chain, without warm-up, and with `more` groups."""
    length = posterior_of(idata).sizes["draw"]
    groups = {
        name: group.isel(draw=kept) if group.sizes.get("draw") == length else group
        for name, group in to_groups(idata).items()
        if not name.startswith("warmup")
    }
    return from_groups({**groups, **more})
