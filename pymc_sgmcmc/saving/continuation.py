"""Further draws of a run, sampled from the snapshots of its chains."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from pymc import Model

from pymc_sgmcmc._utils.groups import to_groups
from pymc_sgmcmc.saving.resumable import Resumable
from pymc_sgmcmc.saving.stored_segment import DRAWS, Segment

__all__ = ["sample_on"]


def sample_on(
    last: Segment, step: Resumable, model: Model, draws: int, sample_kwargs: Mapping[str, Any]
) -> dict[str, xr.Dataset]:
    """Sample `draws` draws after segment `last` and return their groups.

    An interrupted run returns no draws.
    """
    before, chains, length = last.groups["posterior"], len(last.snapshots), last.repeats + draws
    step.continue_from(last.snapshots, length)
    try:
        with warnings.catch_warnings():
            # ArviZ warns if there are more chains than draws, as in a short segment.
            warnings.filterwarnings("ignore", "More chains|Found chain dim", UserWarning)
            idata = pm.sample(
                step=step,
                draws=length,
                tune=0,
                chains=chains,
                random_seed=0,  # no effect: the snapshots hold the generators
                var_names=list(map(str, before.data_vars)),
                model=model,
                compute_convergence_checks=False,
                **sample_kwargs,
            )
    finally:
        step.continue_from()
    groups = to_groups(idata)
    drawn = groups["posterior"]
    if (drawn.sizes["chain"], drawn.sizes["draw"]) != (chains, length):
        return groups | {name: groups[name].isel(draw=slice(0)) for name in DRAWS}
    _check_repeats(before, drawn, last.repeats)
    start = int(before["draw"][-1]) + 1
    new = {name: groups[name].isel(draw=slice(last.repeats, None)) for name in DRAWS}
    return groups | {
        name: data.assign_coords(draw=start + np.arange(draws)) for name, data in new.items()
    }


def _check_repeats(before: xr.Dataset, drawn: xr.Dataset, repeats: int) -> None:
    """Raise ValueError unless the first `repeats` draws in `drawn` are the last of `before`."""
    for name in before.data_vars:
        old = before[name].isel(draw=slice(before.sizes["draw"] - repeats, None)).values
        new = drawn[name].values[:, :repeats]
        if not (old.shape == new.shape and np.allclose(old, new, rtol=1e-6, equal_nan=True)):
            raise ValueError(
                f"The last draws of {name!r} before the run was saved do not come out the same "
                "again: the model, its data, the settings or the versions have changed since."
            )
