"""Check that the data of a model are the data of its draws."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import xarray as xr
from pymc import Model
from pytensor.compile.sharedvalue import SharedVariable

from pymc_sgmcmc._utils.groups import to_groups
from pymc_sgmcmc.compile.backend import interpreted
from pymc_sgmcmc.model.full_data import full_data, minibatches

__all__ = ["refuse_other_data"]


def refuse_other_data(idata: Any, model: Model) -> None:
    """Raise ValueError if data of `model` differ from the data stored in `idata`, by name.

    `pm.sample` stores `pm.Data` in the group ``constant_data`` and observed values in
    ``observed_data``. Data that are not stored are not compared.
    """
    try:
        groups = to_groups(idata)
    except AttributeError:  # Not a result of pm.sample; other checks say what it lacks.
        return
    if minibatches(model):  # PyMC stores one batch, not the data.
        return
    differences = list(_differences(groups, full_data(model)))
    if differences:
        raise ValueError(
            "The model's data are not those that were sampled: "
            f"{'; '.join(differences[:3])}. The draws would be judged by other data: call "
            "pm.set_data back to those of the draws, or pass the model that was sampled."
        )


def _differences(groups: dict[str, xr.Dataset], model: Model) -> Iterator[str]:
    stored = groups.get("constant_data", xr.Dataset())
    for variable in model.data_vars:
        if isinstance(variable, SharedVariable) and variable.name in stored:
            now = variable.get_value(borrow=True)
            yield from _difference(variable.name, np.asarray(now), stored[variable.name].values)
    stored = groups.get("observed_data", xr.Dataset())
    for rv in model.observed_RVs:
        if rv.name in stored:
            (now,) = interpreted([], [model.rvs_to_values[rv]])()
            yield from _difference(rv.name, np.asarray(now), stored[rv.name].values)


def _difference(name: str, now: np.ndarray, then: np.ndarray) -> Iterator[str]:
    if now.shape != then.shape:
        yield f"{name} has shape {now.shape}, and had {then.shape}"
    elif now.dtype.kind in "biuf" and then.dtype.kind in "biuf":
        # Both may have been rounded to float32 on the way.
        same = np.isclose(now, then, rtol=1e-5, atol=0.0, equal_nan=True)
        if not same.all():
            at = int(np.argmin(same.ravel()))
            yield (
                f"{name} differs in {np.sum(~same)} of {same.size} entries, the first of them "
                f"{now.ravel()[at]:.6g}, which was {then.ravel()[at]:.6g}"
            )
