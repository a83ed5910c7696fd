"""Derivatives by central differences, in a few coordinates."""

from collections.abc import Callable, Sequence

import numpy as np
import pytensor
from scipy.sparse import coo_array, csr_array

from pymc_sgmcmc._utils.types import Array, Vector
from pymc_sgmcmc.compile.at_points import NUMBERS

__all__ = ["MOST", "difference_columns"]

MOST = 64
"""Largest number of coordinates in which derivatives are differences."""


def difference_columns(
    function: Callable[[Array], Array], q: Vector, coordinates: Sequence[int] | Vector
) -> csr_array:
    """Return the derivatives of `function` at `q` (d,) in some coordinates, (m, d).

    `function`: of points (k, d), with values (k, m). The width is the cube root of the precision,
    at which rounding and the third derivative weigh the same (Nocedal and Wright, Numerical
    Optimization, section 8.1).
    """
    floatX, at = pytensor.config.floatX, np.asarray(coordinates, np.int64)
    width = np.finfo(floatX).eps ** (1 / 3)
    found = [np.zeros((0, function(q[None]).shape[1]))] if not at.size else []
    step = max(1, NUMBERS // len(q))  # of many long points, few at once
    for own in (at[i : i + step] for i in range(0, len(at), step)):
        rows = np.arange(len(own)), own
        by = np.zeros((len(own), len(q)))
        by[rows] = width * (1 + abs(q[own]))
        above, below = (np.asarray(q + sign * by, floatX) for sign in (1, -1))
        values = function(np.concatenate([above, below]))
        change = values[: len(own)] - values[len(own) :]
        found.append(change / (above[rows] - below[rows])[:, None])
    columns = np.concatenate(found)
    of, row = np.nonzero(columns)
    places = (row, at[of])
    return csr_array(coo_array((columns[of, row], places), shape=(columns.shape[1], len(q))))
