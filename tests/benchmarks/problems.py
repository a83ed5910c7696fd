"""The problems of the race, their data and settings, in plain NumPy: for any framework.

Every contender takes the same step: h for momentum samplers and h^2 for SGLD, `FRICTION` for the
friction or the diffusion, a batch of rows drawn with replacement, fresh normals.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

FRICTION = 10.0


@dataclass(frozen=True)
class Problem:
    """What is sampled, and how long.

    Attributes
    ----------
    data : callable
        ``data(dtype)``: named arrays, whose first axis is the rows.
    batch : int
    step_size : float
        h, small enough to be stable.
    draws : tuple of int
        Stored draws of a short and of a long run: the difference of their times is that of steps.
    steps : int
        Inner steps a stored draw.
    """

    data: Callable[[str], dict[str, np.ndarray]]
    batch: int
    step_size: float
    draws: tuple[int, int] = (400, 4000)
    steps: int = 50


def logistic(dtype: str) -> dict[str, np.ndarray]:
    """N = 1e5, p = 50."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100_000, 50))
    y = rng.random(len(X)) < 1 / (1 + np.exp(-X @ rng.normal(size=50) / 4))
    return {"X": X.astype(dtype), "y": y.astype("int8")}


def linear(dtype: str) -> dict[str, np.ndarray]:
    """N = 1e4, p = 5: the overhead of a step and nothing else."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(10_000, 5))
    y = X @ rng.normal(size=5) + rng.normal(size=len(X))
    return {"X": X.astype(dtype), "y": y.astype(dtype)}


GROUPS = 500


def hierarchical(dtype: str) -> dict[str, np.ndarray]:
    """N = 1e5, 5 slopes and 500 intercepts."""
    rng = np.random.default_rng(2)
    X, group = rng.normal(size=(100_000, 5)), rng.integers(GROUPS, size=100_000)
    y = X @ rng.normal(size=5) + rng.normal(size=GROUPS)[group] + rng.normal(size=len(X))
    return {"X": X.astype(dtype), "group": group, "y": y.astype(dtype)}


USERS, ITEMS, RANK = 2000, 1000, 10


def factors(dtype: str) -> dict[str, np.ndarray]:
    """A matrix of rank 10, 2,000 x 1,000, of which 1e5 entries are seen with noise of sd 1 / 2."""
    rng = np.random.default_rng(3)
    U, V = rng.normal(size=(USERS, RANK)), rng.normal(size=(ITEMS, RANK))
    user, item = rng.integers(USERS, size=100_000), rng.integers(ITEMS, size=100_000)
    y = np.sum(U[user] * V[item], axis=1) + 0.5 * rng.normal(size=len(user))
    return {"user": user, "item": item, "y": y.astype(dtype)}


INPUTS, HIDDEN, CLASSES = 784, 100, 10


def network(dtype: str) -> dict[str, np.ndarray]:
    """The shapes of MNIST, 784-100-10, with 20,000 rows of noise and the labels of a teacher."""
    rng = np.random.default_rng(4)
    X = rng.random((20_000, INPUTS))
    y = np.argmax(X @ rng.normal(size=(INPUTS, CLASSES)), axis=1)
    return {"X": X.astype(dtype), "y": y}


SHAPES = {
    "hierarchical": {"beta": (5,), "mean": (), "log spread": (), "group": (GROUPS,)},
    "factors": {"U": (USERS, RANK), "V": (ITEMS, RANK)},
    "network": {"W": (INPUTS, HIDDEN), "b": (HIDDEN,), "V": (HIDDEN, CLASSES), "c": (CLASSES,)},
}
"""What is sampled, where it is more than one array."""


PROBLEMS = {
    "logistic": Problem(logistic, batch=256, step_size=1e-3),
    "linear": Problem(linear, batch=32, step_size=1e-3),
    "hierarchical": Problem(hierarchical, batch=256, step_size=1e-3, draws=(100, 1000)),
    "factors": Problem(factors, batch=1000, step_size=1e-4, draws=(10, 60)),
    "network-100": Problem(network, batch=100, step_size=1e-4, draws=(4, 24)),
    "network-500": Problem(network, batch=500, step_size=1e-4, draws=(4, 24)),
}
