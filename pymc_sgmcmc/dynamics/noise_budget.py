"""The balance of the noise that a sampler injects and the noise of its gradients."""

from typing import Any

import numpy as np

from pymc_sgmcmc._utils.types import Array, Number, Vector
from pymc_sgmcmc._utils.validation import per_coordinate

__all__ = ["noise_to_inject"]


def noise_to_inject(
    total: Number, name: str, estimate: Any, measured: Vector, batched: bool
) -> Array:
    """Return what is to be injected, so that with the noise of the gradients it makes `total`.

    Parameters
    ----------
    total : array, shape () or (d,)
        A rate (times a temperature), called `name`.
    estimate : float, array of shape (d,), or "auto"
        What gradients add.
    measured : array, shape (d,)
        That as measured, for "auto": where it exceeds `total`, nothing is injected.
    batched : bool
        Whether batches are drawn independently, and are not all rows.

    Raises
    ------
    ValueError, TypeError
        If `estimate` is given and cannot be subtracted.
    """
    if isinstance(estimate, str) and estimate == "auto":
        return np.maximum(total - measured, 0.0)
    given, estimate = estimate, per_coordinate("noise_estimate", estimate, len(measured), zero=True)
    if np.any(estimate > total):
        raise ValueError(
            f"noise_estimate={given!r} exceeds {name}: the injected noise would be negative. "
            "Raise friction or lower step_size."
        )
    if estimate.any() and not batched:
        raise ValueError(
            f"noise_estimate={given!r} is for batches drawn independently: exact "
            "gradients (batch_size=None, or all rows) have no noise, and batches='epochs' are not "
            "independent. Leave it out, or use batches='random' with a batch_size."
        )
    return total - estimate
