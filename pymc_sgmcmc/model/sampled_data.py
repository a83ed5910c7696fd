"""Check that the data of a model are the data of its draws."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import xarray as xr
from pymc import Model

from pymc_sgmcmc._utils.groups import to_groups
from pymc_sgmcmc.compile.evaluate import evaluate
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
    data = {variable.name: variable for variable in model.data_vars}
    observed = {rv.name: model.rvs_to_values[rv] for rv in model.observed_RVs}
    for group, variables in (("constant_data", data), ("observed_data", observed)):
        stored = groups.get(group, xr.Dataset())
        for name, variable in variables.items():
            if name in stored:
                (now,) = evaluate([variable], {})
                yield from _difference(name, np.asarray(now), stored[name].values)


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
