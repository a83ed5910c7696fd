"""Names of types for arrays and graphs: the checker knows kinds of numbers, and readers shapes."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pytensor.tensor.variable import TensorVariable

__all__ = ["Array", "Counts", "Graph", "Keywords", "Matrix", "Number", "Operand", "Vector"]

Array: TypeAlias = NDArray[np.float64]
"""Numbers of any shape. With PyTensor's floatX at "float32", positions and gradients have 32 bits:
the checker does not tell these apart."""

Vector: TypeAlias = Array
"""One number for each coordinate, (d,), or for each inner step, (steps,)."""

Matrix: TypeAlias = Array
"""One number for each pair of coordinates, (d, d)."""

Counts: TypeAlias = NDArray[np.integer[Any]]
"""Whole numbers: counts of inner steps, rows, places."""

Number: TypeAlias = Array | float
"""One number for all coordinates, or one for each: shape () or (d,)."""

Graph: TypeAlias = TensorVariable
"""A variable of PyTensor, in compiled code."""

Operand: TypeAlias = Any
"""A number, an array or a `Graph`, in code that is written for all of them."""

Keywords: TypeAlias = dict[str, Any]
"""Arguments by name, as users give them."""
