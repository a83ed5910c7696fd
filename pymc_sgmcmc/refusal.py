"""The error where the rows of a log-likelihood do not separate."""

from collections.abc import Iterable

from pymc import Model

from pymc_sgmcmc.row_axes import number_of_rows, row_dim

__all__ = ["RowsDoNotSeparate", "refusal"]


class RowsDoNotSeparate(ValueError):
    """The log-likelihood is not a sum over the rows of the data that were sliced."""


def refusal(model: Model, name: str, sliced: Iterable[str], reason: str) -> RowsDoNotSeparate:
    """Return the error for observed variable `name`: why, what was sliced, and what to do."""
    (rv,) = (rv for rv in model.observed_RVs if rv.name == name)
    n_rows = number_of_rows(model, rv)
    latents, sliced = [], set(sliced)
    for free in model.free_RVs:
        value = model.rvs_to_values[free]
        if value.name in sliced:
            continue
        dims = model.named_vars_to_dims.get(free.name, ())
        if value.type.ndim and (row_dim(model, rv) in dims or value.type.shape[0] == n_rows):
            latents.append(free.name)
    message = (
        f"The rows of {name!r} do not separate: its log-likelihood cannot be computed on a part of "
        f"its {n_rows} rows ({reason}). Sliced by row: {', '.join(sorted(sliced))}. "
    )
    if latents:
        message += (
            f"The latent variable {', '.join(map(repr, latents))} has one value per row; "
            "minibatches need a posterior whose size does not grow with the data: marginalise it. "
        )
    message += (
        "If the wrong data were sliced, say rows={'name': axis} or rows={'name': None} for named "
        "pm.Data; a model whose rows depend on each other (a Gaussian process, a time series) "
        "needs batch_size=None, the exact gradient."
    )
    return RowsDoNotSeparate(message)
