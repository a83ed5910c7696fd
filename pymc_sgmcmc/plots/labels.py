"""Labels of the entries of variables in titles."""

import numpy as np
import xarray as xr

from pymc_sgmcmc._utils.flat import entry_name

__all__ = ["entry_labels", "shortened", "wrapped"]


def entry_labels(variable: xr.DataArray) -> list[str]:
    """Return a label like ``beta[age, 2]`` for each entry of a variable (chain, draw, ...).

    The label has the coordinate labels of the dimensions, or numbers if they have none.
    """
    shape, dims = variable.shape[2:], variable.dims[2:]
    labels = []
    for index in range(int(np.prod(shape))):
        at = np.unravel_index(index, shape)
        if any(dim in variable.coords for dim in dims):
            values = [
                variable[dim].values[k] if dim in variable.coords else k
                for dim, k in zip(dims, at, strict=True)
            ]
            labels.append(f"{variable.name}[{', '.join(map(str, values))}]")
        else:
            labels.append(entry_name(str(variable.name), shape, index))
    return labels


def shortened(label: str, length: int = 40) -> str:
    """Return the label, shortened in the middle if too long, because entries differ at the ends."""
    if len(label) <= length:
        return label
    end = (length - 1) // 2
    return f"{label[: length - 1 - end]}…{label[-end:]}"


def wrapped(label: str, width: int = 30) -> str:
    """Return the label on one line, or with variable and entry on two lines if too long."""
    if len(label) <= width:
        return label
    name, bracket, entry = label.partition("[")
    return "\n".join(shortened(part, width) for part in (name, bracket + entry) if part)
