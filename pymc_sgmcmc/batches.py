"""Sources of minibatches: which rows each inner step sees.

A source is stateless code around a small state (a tuple of ints) that the step method keeps,
so that a chain can be checkpointed, and copied for population sampling.
"""

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import final

import numpy as np

__all__ = ["SOURCES", "BatchSource", "Epochs", "Random"]

State = tuple[int, ...]


class BatchSource(ABC):
    """Draws row indices from a generator (`integers` only)."""

    start: State = ()
    """The state at the start of a chain."""

    @abstractmethod
    def draw(
        self, state: State, rng: np.random.Generator, n_rows: int, steps: int, size: int
    ) -> tuple[np.ndarray, State]:
        """Rows for `steps` inner steps, shape (steps, size), in [0, n_rows), and the new state."""


@final
class Random(BatchSource):
    """Rows with replacement, drawn independently at every inner step."""

    def draw(self, state, rng, n_rows, steps, size):
        return rng.integers(n_rows, size=(steps, size)), state


@final
class Epochs(BatchSource):
    """Shuffled passes: every row once before any row comes again.

    A batch may hold the end of one pass and the start of the next. Within a pass the noise of
    the gradient is correlated and sums to zero, so that no formula for the noise of independent
    batches holds (noise estimates, width checks).

    The state is (seed of this pass, rows of it already used). The shuffle is a function of its
    seed, so that the state stays small whatever the number of rows is.
    """

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


@lru_cache(maxsize=4)
def _shuffled(seed: int, n_rows: int) -> np.ndarray:
    keys = np.random.default_rng(seed).integers(2**63, size=n_rows)
    return np.argsort(keys, kind="stable")


SOURCES: dict[str, BatchSource] = {"random": Random(), "epochs": Epochs()}
