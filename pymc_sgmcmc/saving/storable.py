"""Check, before sampling, that the draws of a model can be saved."""

import numpy as np
from pymc import Model

from pymc_sgmcmc.saving.stored_groups import NotStorable, encode

__all__ = ["check_storable"]

TAKEN = ("chain", "draw")
"""Names of the dimensions that all draws have."""
LONGEST = 1000
"""Maximum number of letters in a name: attributes of HDF5 files hold 64 KiB, and a letter takes up
to 12 bytes."""


def check_storable(model: Model) -> None:
    """Raise ValueError, which names the variable or coordinate, unless draws can be saved.

    Names must not be those of other dimensions or too long, and labels must be restored exactly.
    """
    stored = [var.name for var in model.unobserved_RVs]
    taken = [name for name in stored if name in TAKEN]
    if taken:
        raise ValueError(
            f"A variable cannot be called {taken[0]!r}: that is a dimension of all draws. Give it "
            "another name."
        )
    for name in stored:
        if len(name) > LONGEST:
            raise ValueError(
                f"A variable cannot have a name of {len(name)} letters ({name[:40]!r}...) if its "
                f"draws are to be saved: give it one of {LONGEST} at most."
            )
    for dim in {dim: None for name in stored for dim in model.named_vars_to_dims.get(name, ())}:
        labels = model.coords.get(dim)
        if labels is not None:
            _check_labels(dim, labels)


def _check_labels(dim: str, labels: tuple) -> None:
    try:
        array = np.asarray(labels)  # as PyMC does when it has sampled
        if array.ndim != 1:
            raise ValueError("the labels are sequences")
        encode(dim, array)
    except (ValueError, NotStorable) as error:
        raise ValueError(
            f"The draws could not be saved: the coordinate {dim!r} has labels that would not come "
            f"back as they are ({error}). Use numbers, text, dates, or the like."
        ) from error
