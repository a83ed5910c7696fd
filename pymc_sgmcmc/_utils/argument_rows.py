"""Constraints that several classes and functions share, by the purpose of the argument."""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
from pymc import Model
from pytensor.graph.basic import Variable

from pymc_sgmcmc._utils.constraints import Flag, Instance, MappingOf, Names, Optional, Ruled, Whole
from pymc_sgmcmc._utils.metric import Metric
from pymc_sgmcmc._utils.validation import check_axes, natural, positive_or_auto, shortened

__all__ = [
    "AX", "AXES", "BATCH_SIZE", "DIM", "DRAWS_OF", "FLAG", "FOLDER", "METRIC", "MODEL",
    "NAMES", "ONE_OR_NAMED", "POINT", "PROBABILITIES", "RANGES", "RNG", "ROWS", "SEED", "SEVERAL",
    "STATS_OF", "THERMAL_MASS", "VARS",
]  # fmt: skip

FLAG = Flag()
MODEL = Optional(Instance(Model, "a pymc.Model"))
FOLDER = Instance((str, PathLike), "a path")
NAMES = Optional(Names())
POINT = Optional(MappingOf("values by the names of value variables, as model.initial_point() has"))
SEED = Whole(0)


def _vars(name: str, value: Any) -> None:
    several = list(value) if isinstance(value, Sequence | np.ndarray) else [value]
    if isinstance(value, str) or not all(isinstance(each, Variable) for each in several):
        raise TypeError(
            f"{name}={shortened(value)} is not a list of random variables of the model: pass them "
            "themselves, as in [model['a'], b], not their names."
        )


VARS = Optional(
    Ruled("a list of random variables", _vars,
          lambda: ["a", 3, ["a"], [1.0], (v for v in ""), {}, True, object()])
)  # fmt: skip


def _rng(name: str, value: Any) -> None:
    kinds = np.random.Generator | np.random.SeedSequence | np.random.BitGenerator
    if isinstance(value, kinds):
        return
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise TypeError(
            f"{name}={shortened(value)} is no source of random numbers: pass a whole number of at "
            "least 0, a numpy.random.Generator, or None."
        )
    if value < 0:
        raise ValueError(f"{name}={value!r} must be at least 0.")


RNG = Optional(
    Ruled("a seed or a generator", _rng, lambda: ["a", 1.5, True, -1, {}, object(), np.ones(2)])
)


def _batch_size(name: str, value: Any) -> None:
    if value is None or (isinstance(value, str) and value in ("default", "auto")):
        return
    if not isinstance(value, Mapping):
        natural(name, value)
        return
    for key, size in value.items():
        if size is not None:
            natural(f"{name}[{key!r}]", size)


BATCH_SIZE = Ruled(
    "a whole number of at least 1, a mapping to them, 'auto' or None", _batch_size,
    lambda: [0, -2, 2.5, True, "a", np.nan, [10], {"row": 0}, {"row": "a"}, (i for i in ""),
             np.ones(2), object()],
)  # fmt: skip

METRICS = ["auto", "diag", "dense", "sparse", None]


def _metric(name: str, value: Any) -> None:
    if value is None or isinstance(value, Metric):
        return
    if isinstance(value, str) and value in [*METRICS, "default"]:
        return
    numbers = isinstance(value, np.ndarray | list | tuple)
    try:
        array = np.asarray(value) if numbers else np.array(None)
    except ValueError:
        array = np.array(None)
    if array.dtype.kind not in "iuf":
        raise ValueError(
            f"{name}={shortened(value)} is unknown: choose from {METRICS}, or pass the covariance "
            "of the coordinates, their variances, or a Metric."
        )
    if array.ndim not in (1, 2) or (array.ndim == 2 and array.shape[0] != array.shape[1]):
        raise ValueError(
            f"{name} has shape {array.shape}: pass the variances of the coordinates, shape (d,), "
            "or their covariance, shape (d, d)."
        )
    if not np.isfinite(array).all() or (array.ndim == 1 and np.any(array <= 0)):
        raise ValueError(f"{name} must be positive (definite) and finite.")


METRIC = Ruled(
    "'auto', 'diag', 'dense', 'sparse', an array, a Metric, or None", _metric,
    lambda: ["nonsense", 3, 1.5, True, ["c"], {}, np.ones((2, 2, 2)), np.ones((2, 3)),
             np.array(1.0), [1.0, -1.0], [np.nan, 1.0], np.array([[np.inf]]), object()],
)  # fmt: skip

THERMAL_MASS = Ruled(
    "'auto' or a positive number", positive_or_auto,
    lambda: ["heavy", None, True, 0.0, -1.0, np.nan, np.inf, [1.0], np.ones(2), 1j],
)  # fmt: skip


def _rows(name: str, value: Any) -> None:
    check_axes(value)


ROWS = Optional(
    Ruled("a mapping from the names of data to their row axis", _rows,
          lambda: ["x", 3, [("x", 0)], {"x": "0"}, {"x": 1.5}, {"x": True}, object()])
)  # fmt: skip


def _has(group: str, *instead: str) -> Callable[[str, Any], None]:
    """Return a rule for data with `group`, or with one of `instead`, which are checked later."""

    def check(name: str, value: Any) -> None:
        if not any(hasattr(value, each) for each in (group, *instead)):
            # The repr of data with groups takes pages and does not show which one is missing.
            shown = "" if hasattr(value, "groups") else f"={shortened(value)}"
            raise ValueError(
                f"{name}{shown} is a {type(value).__name__} without a {group}: pass what pm.sample "
                "or approx.sample returned."
            )

    return check


def _no_data() -> list[Any]:
    return [None, 3, "idata", [], {}, np.ones(3), True]


def _one_or_named(name: str, value: Any) -> None:
    for idata in value.values() if isinstance(value, dict) else [value]:
        _has("posterior")(name, idata)


ONE_OR_NAMED = Ruled(
    "what pm.sample returned, or a dict with a name for it", _one_or_named,
    lambda: [None, 3, "idata", [], np.ones(3), True, {"nuts": 3}],
)  # fmt: skip


def _several(name: str, value: Any) -> None:
    for idata in value:
        _one_or_named(name, idata)


SEVERAL = Ruled(
    "what pm.sample returned, or dicts with names for it", _several,
    lambda: [[None], [3], ["idata"], [[]], [{"nuts": 3}]],
)  # fmt: skip

DRAWS_OF = Ruled("what pm.sample returned", _has("posterior"), _no_data)
STATS_OF = Ruled("what pm.sample returned", _has("sample_stats", "posterior"), _no_data)


def _axes(name: str, value: Any) -> None:
    flat = np.atleast_1d(np.asarray(value, dtype=object)).ravel()
    if not all(hasattr(ax, "get_xlim") for ax in flat):
        raise TypeError(f"{name}={shortened(value)} is not matplotlib axes, or an array of them.")


AXES = Optional(
    Ruled("matplotlib axes, or an array of them", _axes,
          lambda: ["x", 3, [1, 2], {}, True, np.ones(2), object()])
)  # fmt: skip


def _probabilities(name: str, value: Any) -> None:
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.array(None)
    if array.dtype.kind not in "iuf" or array.ndim > 1:
        raise TypeError(f"{name}={shortened(value)} is not a probability, or a list of them.")
    if not np.all((array >= 0) & (array <= 1)):  # also true for NaN
        raise ValueError(f"{name}={shortened(value)} must be from 0 to 1: these are probabilities.")


PROBABILITIES = Ruled(
    "a number from 0 to 1, or a list of them", _probabilities,
    lambda: [-0.1, 1.2, np.nan, [0.5, 2.0], "a", None, True, [[0.1]], {}, (q for q in "")],
)  # fmt: skip


def _ax(name: str, value: Any) -> None:
    if not hasattr(value, "get_xlim"):
        raise ValueError(
            f"{name}={shortened(value)} is not one matplotlib axes: pass one, or leave it out."
        )


AX = Optional(
    Ruled("one matplotlib axes", _ax, lambda: ["x", 3, [1, 2], {}, True, np.ones(2), object()])
)


def _ranges(name: str, value: Any) -> None:
    try:
        array = np.asarray(value)
        fits = array.dtype.kind in "iuf" and array.ndim == 2 and array.shape[1] == 2
    except ValueError:
        fits = False
    if not fits or not np.all(array[:, 0] < array[:, 1]) or not np.isfinite(array).all():
        raise ValueError(f"{name}={shortened(value)} must be pairs (low, high) with low < high.")


RANGES = Optional(
    Ruled("pairs (low, high) with low < high", _ranges,
          lambda: ["x", 3, [1, 2], [(1, 0)], [(0, np.nan)], [(0, 1, 2)], {}, [("a", "b")]])
)  # fmt: skip


def _dim(name: str, value: Any) -> None:
    mapping = isinstance(value, Mapping)
    if not (
        isinstance(value, str) or (mapping and all(isinstance(v, str) for v in value.values()))
    ):
        raise TypeError(
            f"{name}={shortened(value)} is not the name of a dimension: pass one, or a mapping "
            "from variables to theirs."
        )


DIM = Ruled(
    "the name of a dimension, or a mapping from variables to theirs", _dim,
    lambda: [None, 3, ["component"], {"w": 0}, True, object()],
)  # fmt: skip
