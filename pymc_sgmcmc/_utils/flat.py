"""Names of the coordinates of a flat vector, and their places among those of a model."""

from collections.abc import Sequence

import numpy as np

from pymc_sgmcmc._utils.types import Array, Counts, Graph

__all__ = ["entry_name", "places", "shaped"]


def entry_name(name: str, shape: tuple[int, ...], index: int) -> str:
    """Return the name of entry `index` of a raveled variable of `shape`, as in ``beta[3]``."""
    entry = np.unravel_index(index, shape)
    return f"{name}[{', '.join(map(str, entry))}]" if shape else name


def places(all_vars: Sequence[Graph], sizes: Sequence[int], vars: Sequence[Graph]) -> Counts:
    """Return the places of the coordinates of `vars` among `all_vars`, of `sizes`, end to end."""
    numbers = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    of = dict(zip(all_vars, numbers, strict=True))
    return np.concatenate([of[var] for var in vars])


def shaped(flat: Array, shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    """Split `flat` (..., d) into variables of `shapes`, end to end: each (..., *shape)."""
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    parts = np.split(flat, ends[:-1], axis=-1)
    lead = flat.shape[:-1]
    return [part.reshape((*lead, *shape)) for part, shape in zip(parts, shapes, strict=True)]
