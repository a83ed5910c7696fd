"""Observed values that no parameter makes possible."""

from collections.abc import Mapping

import numpy as np
from pymc import Model
from pytensor.graph.basic import Variable
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.compile.in_python import interpreted
from pymc_sgmcmc.model.inspection import values_at

__all__ = ["check_initial_point"]

SCALES = (0.1, 0.3, 1.0, 3.0)
"""Standard deviations of moves from the initial point, where observed values may be possible."""

TRIES = 5
NAMED = 3

COUNTS = "takes whole numbers from 0"
POSITIVE = "takes positive numbers"
SUPPORTS = {
    "Bernoulli": "takes 0 and 1",
    "Beta": "takes numbers between 0 and 1",
    "BetaBinomial": "takes whole numbers from 0 to n",
    "Binomial": "takes whole numbers from 0 to n",
    "Categorical": "takes whole numbers from 0 to the number of categories - 1",
    "Exponential": POSITIVE,
    "Gamma": POSITIVE,
    "Geometric": "takes whole numbers from 1",
    "HalfNormal": POSITIVE,
    "InverseGamma": POSITIVE,
    "LogNormal": POSITIVE,
    "NegBinom": COUNTS,
    "NegativeBinomial": COUNTS,
    "Poisson": COUNTS,
    "Weibull": POSITIVE,
}
"""Supports of the distributions that are most often given labels and counts."""


def check_initial_point(
    model: Model,
    terms: Mapping[Variable, TensorVariable],
    values: Mapping[Variable, np.ndarray],
    point: Mapping[str, np.ndarray],
) -> None:
    """Raise ValueError if a term of the log-density is not finite at `point`.

    If an observed value is impossible at all parameters tried, the message names the data and the
    first rows; otherwise it names the point.

    Parameters
    ----------
    model : pymc.Model
    terms : mapping
        The log-density of each variable.
    values : mapping
        The values of the terms at `point`.
    point : mapping of str to array
        The values of the value variables by name.
    """
    for rv, result in values.items():
        possible = np.isfinite(result)
        if possible.all():
            continue
        if rv in model.observed_RVs and np.ndim(result):
            rng = np.random.default_rng(0)
            for there in (_moved(model, point, s, rng) for s in SCALES for _ in range(TRIES)):
                possible = possible | np.isfinite(values_at({rv: terms[rv]}, there)[rv])
            if not possible.all():
                raise ValueError(_impossible(model, rv, possible))
        raise ValueError(
            f"The log-density of {rv.name!r} is not finite at the initial point "
            f"({_shorten(point)}){_where(np.isfinite(result))}. "
            "Choose initial_point= or initval= inside the support, and look at the data with "
            "model.debug()."
        )


def _impossible(model: Model, rv: TensorVariable, possible: np.ndarray) -> str:
    (data,) = interpreted([], [model.rvs_to_values[rv]])()
    data = np.asarray(data)
    rows = np.flatnonzero(~possible.reshape(len(possible), -1).all(axis=1))
    if not possible.any():
        return (
            f"The log-density of {rv.name!r} is not finite in any of its {len(possible)} rows, "
            "wherever the parameters were tried: either all data are outside its support, or a "
            "parameter is outside its range, for which one row is enough (a scale of zero, the "
            "logarithm of zero). Look at them with model.debug()."
        )
    fits = data.shape[:1] == possible.shape[:1]
    shown = [f"row {i} ({_value(data[i])})" if fits else f"row {i}" for i in rows[:NAMED]]
    name = getattr(rv.owner.op, "_print_name", (type(rv.owner.op).__name__,))[0]
    takes = f" It {SUPPORTS[name]}." if name in SUPPORTS else ""
    return (
        f"The observed data of {rv.name!r} are outside the support of its distribution, {name}, in "
        f"{len(rows)} of {len(possible)} rows: {', '.join(shown)}"
        f"{', ...' if len(rows) > NAMED else ''}. Their log-density is not finite, wherever the "
        f"parameters were tried.{takes} Recode or drop them; if they are right, look at the data "
        "that the parameters are computed from (a scale of zero, the logarithm of zero, numbers "
        "too large to be squared)."
    )


def _value(value: np.ndarray) -> str:
    return np.array2string(np.asarray(value), threshold=4, precision=4)


def _where(possible: np.ndarray) -> str:
    """Describe the rows that are not possible; empty unless some are and some are not."""
    if possible.ndim == 0 or possible.all() or not possible.any():
        return ""
    rows = np.flatnonzero(~possible.reshape(len(possible), -1).all(axis=1))
    more = ", ..." if len(rows) > NAMED else ""
    return f" in {len(rows)} of {len(possible)} rows: {', '.join(map(str, rows[:NAMED]))}{more}"


def _moved(
    model: Model, point: Mapping[str, np.ndarray], scale: float, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Return `point` with its continuous values moved at random."""
    moved = {var.name for var in model.continuous_value_vars}
    return {
        name: value + scale * rng.standard_normal(np.shape(value)) if name in moved else value
        for name, value in point.items()
    }


def _shorten(point: Mapping[str, np.ndarray]) -> str:
    return ", ".join(f"{name}={_value(value)}" for name, value in point.items())
