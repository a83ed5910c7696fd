"""Derivatives by central differences, in a few coordinates."""

from collections.abc import Callable, Sequence

import numpy as np
import pytensor
from scipy.sparse import coo_array, csr_array

from pymc_sgmcmc._utils.types import Array, Vector

__all__ = ["MOST", "difference_columns"]

MOST = 64
"""Largest number of coordinates in which derivatives are differences."""


def difference_columns(
    function: Callable[[Vector], Array], q: Vector, coordinates: Sequence[int] | Vector
) -> csr_array:
    """Return the derivatives of `function` (m,) at `q` (d,) in some coordinates: (m, d).

    The width is the cube root of the precision, at which rounding and the third derivative weigh
    the same (Nocedal and Wright, Numerical Optimization, section 8.1).
    """
    floatX = pytensor.config.floatX
    width = np.finfo(floatX).eps ** (1 / 3)
    columns = np.zeros((len(function(q)), len(coordinates)))
    for k, j in enumerate(coordinates):
        by = width * (1 + abs(q[j])) * (np.arange(len(q)) == j)
        above, below = ((q + sign * by).astype(floatX) for sign in (1, -1))
        columns[:, k] = (function(above) - function(below)) / (above[j] - below[j])
    rows, of = np.nonzero(columns)
    places = (rows, np.asarray(coordinates)[of])
    return csr_array(coo_array((columns[rows, of], places), shape=(len(columns), len(q))))
