"""Rows that are not held as one array: their reader, and the data that stand for them."""

from typing import Protocol

import numpy as np
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable

from pymc_sgmcmc.model.row_axes import FEW_ROWS

__all__ = ["RowReader", "reader_of", "stand_for"]


class RowReader(Protocol):
    """A source of rows.

    Attributes
    ----------
    shape : tuple of int
        Of all rows: (N, ...), as of the shared variable that stands for them but for N.
    """

    shape: tuple[int, ...]

    def read(self, rows: np.ndarray) -> np.ndarray:
        """Return the rows with the given indices, of any shape: that shape, and ``shape[1:]``."""


def stand_for(reader: RowReader, data: SharedVariable) -> None:
    """Let `data`, which holds the first rows, stand for all rows of a reader in a model.

    What is minibatched is decided, and proved, on those that it holds: more than `FEW_ROWS`.
    """
    held = data.get_value(borrow=True).shape
    if held[1:] != tuple(reader.shape[1:]) or not FEW_ROWS < held[0] <= reader.shape[0]:
        raise ValueError(
            f"{data.name} has shape {held}, and all rows have shape {reader.shape}: let it hold "
            f"the first of these, more than {FEW_ROWS}."
        )
    data.tag.reader = reader


def reader_of(data: Variable) -> RowReader | None:
    """Return the reader whose rows `data` stands for; None: `data` are all rows themselves."""
    return getattr(data.tag, "reader", None)
