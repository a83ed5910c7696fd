"""Sources of minibatches: the rows of each inner step.

The state of a source is a tuple of a few ints that the step method keeps, so that a chain can be
checkpointed, and copied for population sampling.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from functools import lru_cache
from math import prod
from typing import ClassVar, final

import numpy as np
import pytensor
from pytensor.graph.basic import Variable
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.compile.take_rows import take_rows
from pymc_sgmcmc.rows.groups import RowData, RowGroup

__all__ = ["SOURCES", "BatchSource", "Blocks", "Epochs", "Random", "remembers"]

State = tuple[int, ...]

MANY = 2**10
"""Number of row indices from which on compiled code is faster than NumPy's generator."""


class BatchSource(ABC):
    """Source of row indices, drawn from a random generator.

    Parameters
    ----------
    groups : sequence of RowGroup
    largest : sequence of int
        Rows in the largest batch of each group that will ever be drawn.
    moving : collection of shared variables, optional
        Variables that other step methods change from draw to draw: no copy of them is kept.
    """

    independent: ClassVar[bool] = True
    """Whether batches are drawn independently at every inner step."""
    start: ClassVar[State] = ()
    """The state at the start of a chain."""

    def __init__(
        self,
        groups: Sequence[RowGroup],
        largest: Sequence[int],
        moving: Collection[Variable] = (),
    ):
        self.groups, self.largest, self.moving = groups, largest, moving

    @abstractmethod
    def draw(
        self, state: State, rng: np.random.Generator, n_rows: int, steps: int, size: int
    ) -> tuple[np.ndarray, State]:
        """Draw the entries for `slices` of `steps` inner steps; return them and the new state."""

    def any(self, rng: np.random.Generator, n_rows: int, size: int) -> np.ndarray:
        """Draw the batch of one step, for any state."""
        return _integers(rng, n_rows, (1, size))

    def batch(self, k: int, entries: np.ndarray) -> list[np.ndarray]:
        """Return what compiled code is given for `entries` of `draw`: them, and rows of readers."""
        group = self.groups[k]
        return [entries] if group.is_in_memory else group.batch(entries)

    def slices(self, group: RowGroup, batch: Sequence[TensorVariable]) -> dict[Variable, Variable]:
        """Return replacements for the row data of `group`, given one step of `batch`."""
        return group.slices(batch)

    def take(self, array: TensorVariable, rows: TensorVariable) -> TensorVariable:
        """Return one step's rows, along the first axis, of an array from `arranged`."""
        return take_rows(array, rows)

    def arranged(self, array: np.ndarray, k: int) -> np.ndarray:
        """Return an array that has a row for each row of group k, in the order for `take`."""
        return array

    def refresh(self) -> None:
        """Read the data again, as `pm.set_data` may have changed them."""

    def share(self, n_rows: int, size: int) -> float:
        """Return the variance of a batch's mean, relative to that of independent rows."""
        return 1.0


@final
class Random(BatchSource):
    """Rows with replacement, shape (steps, size), drawn independently at every inner step.

    A batch as large as the data holds each row once.
    """

    def draw(self, state, rng, n_rows, steps, size):
        if size == n_rows:
            return np.tile(np.arange(n_rows), (steps, 1)), state
        return _integers(rng, n_rows, (steps, size)), state

    def share(self, n_rows, size):
        return 0.0 if size == n_rows else 1.0


@final
class Blocks(BatchSource):
    """Contiguous blocks of shuffled rows, as bounds (steps, 2), drawn independently at every step.

    The data are copied once in shuffled order, with the beginning repeated at the end, so that
    every row is the first of a block equally often. Variables that change from draw to draw have
    no copy: their rows are looked up in the shuffled order.
    """

    def __init__(self, groups, largest, moving=()):
        super().__init__(groups, largest, moving)
        read = [group.name for group in groups if not group.is_in_memory]
        if read:
            raise ValueError(
                f"batches='blocks' shuffles a copy of the data, and those of {read} are not in "
                "memory: use batches='random'."
            )
        self._copied: dict[RowData, np.ndarray] = {}
        self._shuffled: dict[RowData, pytensor.compile.SharedVariable] = {}
        self._orders: dict[RowGroup, pytensor.compile.SharedVariable] = {}
        self.refresh()

    def draw(self, state, rng, n_rows, steps, size):
        return np.add.outer(_integers(rng, n_rows, (steps,)), (0, size)), state

    def any(self, rng, n_rows, size):
        return self.draw((), rng, n_rows, 1, size)[0]

    def slices(self, group, batch):
        (bounds,) = batch
        slices = {
            data.slice: self.take(self._shuffled[data], bounds, data.axis)
            for data in group.data
            if data in self._shuffled
        }
        if group in self._orders:
            rows = self.take(self._orders[group], bounds)
            slices |= {data.slice: data.take(rows) for data in group.data if self._moves(data)}
        return slices

    def take(self, array, bounds, axis=0):
        return array[(slice(None),) * axis + (slice(bounds[0], bounds[1]),)]

    def arranged(self, array, k, axis=0):
        order = self._order(array.shape[axis], k)
        return np.ascontiguousarray(np.take(array, order, axis=axis))

    def _order(self, n_rows: int, k: int) -> np.ndarray:
        order = _shuffled(0, n_rows)
        return np.resize(order, n_rows + self.largest[k] - 1)

    def _moves(self, data: RowData) -> bool:
        return data.source in self.moving

    def refresh(self):
        for k, group in enumerate(self.groups):
            if any(map(self._moves, group.data)):
                order, name = self._order(group.length(), k), f"{group.name}_order"
                _set_shared(self._orders, group, order, name=name)
            for data in group.data:
                if self._moves(data):
                    continue
                value = data.source.get_value(borrow=True)
                if self._copied.get(data) is not value:
                    copy, name = self.arranged(value, k, data.axis), f"{data.name}_shuffled"
                    _set_shared(self._shuffled, data, copy, name=name, shape=data.slice.type.shape)
                    self._copied[data] = value

    def share(self, n_rows, size):
        return 1.0 - size / n_rows


@final
class Epochs(BatchSource):
    """Shuffled passes, shape (steps, size): every row once before any row comes again.

    A batch may hold the end of one pass and the start of the next. Within a pass the noise of
    the gradient is correlated and sums to zero. Formulas for the noise of independent batches
    (noise estimates, width checks) do not hold.

    The state is (seed of this pass, number of its rows already used). The shuffle is a function
    of the seed, so the state is small for any number of rows.
    """

    independent = False
    start = (-1, 0)

    def draw(self, state, rng, n_rows, steps, size):
        seed, used = state
        rows = np.empty(steps * size, dtype=np.int64)
        filled = 0
        while filled < len(rows):
            if seed < 0 or used == n_rows:
                seed, used = int(rng.integers(2**63)), 0
            taken = min(len(rows) - filled, n_rows - used)
            rows[filled : filled + taken] = _shuffled(seed, n_rows)[used : used + taken]
            filled, used = filled + taken, used + taken
        return rows.reshape(steps, size), (seed, used)


def _set_shared(variables: dict, key: RowData | RowGroup, value: np.ndarray, **settings) -> None:
    """Set the shared variable of `key`, which is made with `settings` at the first time."""
    if key in variables:
        variables[key].set_value(value, borrow=True)
    else:
        variables[key] = pytensor.shared(value, borrow=True, **settings)


def _integers(rng: np.random.Generator, bound: int, shape: tuple[int, ...]) -> np.ndarray:
    """Draw independent integers in [0, bound); many are a function of a key drawn by `rng`."""
    size = prod(shape)
    if size < MANY or bound >= 2**32:
        return rng.integers(bound, size=shape)
    from pymc_sgmcmc.compile.philox import integers_below  # Numba takes long to import

    words = np.empty(size + size % 2, np.uint64)
    integers_below(bound, rng.bit_generator.random_raw(), words)
    return words[:size].view(np.int64).reshape(shape)


@lru_cache(maxsize=4)
def _shuffled(seed: int, n_rows: int) -> np.ndarray:
    keys = np.random.default_rng(seed).integers(2**63, size=n_rows)
    return np.argsort(keys, kind="stable")


SOURCES: dict[str, type[BatchSource]] = {"random": Random, "epochs": Epochs, "blocks": Blocks}


def remembers(name: str) -> bool:
    """Return whether batches of the source of that name depend on those before them."""
    return name in SOURCES and not SOURCES[name].independent
