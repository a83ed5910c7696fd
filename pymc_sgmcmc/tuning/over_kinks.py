"""Second derivatives of rows that jump: changes of their slopes over a distance that sees kinks.

Location, metric and control variate of second order then work as elsewhere, and none of them has to
be exact. The distance is set once, when the step is built.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pytensor
import pytensor.tensor as pt

from pymc_sgmcmc._utils.types import Vector
from pymc_sgmcmc.compile.in_python import interpreted
from pymc_sgmcmc.posterior.predictors import Reach
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.tuning.adam import adam
from pymc_sgmcmc.tuning.jumps import Jumps, may_jump, rows_that_pass

__all__ = ["has_kinked_rows", "over_kinks"]

LOOKED_AT = 2000
"""Rows whose slopes are looked at."""

PASS = 5
"""Rows for each coordinate that pass a kink."""

HALVINGS = 8
"""Shortest reach: the sd of a row's noise, halved so often."""


def has_kinked_rows(target: Target) -> bool:
    """Return whether second derivatives of rows of `target` reach over kinks."""
    return any(own.reaches for own in target.energy.predictors or ())


def over_kinks(target: Target) -> Target:
    """Return `target` with second derivatives of rows that reach over their kinks, if they jump.

    They reach so far that a few rows for each coordinate pass their kinks, but no farther than the
    sd of a row's noise: 1 / sqrt(I), with I the mean square of its slopes.
    """
    near = target.near_anchor
    if near is None or not near.is_curved or not may_jump(target, exact=False):
        return target
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        q = adam(target, target.initial, rng, rate=0.3)
        rows = rows_that_pass(target, rng)

        def gradient(at: Vector) -> Vector:
            return np.sum([target.row_gradient(at, k, own) for k, own in enumerate(rows)], axis=0)

        if not Jumps(target, gradient, q, rng).are_seen:
            return target
        target = target.over_kinks()
        _set_reaches(target, q)
    return target


def _set_reaches(target: Target, q: Vector) -> None:
    energy, dtype, d = target.energy, pytensor.config.floatX, target.size
    predictors, lengths = energy.predictors or (), target.check_lengths()
    for k, (own, n) in enumerate(zip(predictors, lengths, strict=True)):
        group, at = energy.groups[k], pt.vector(dtype=dtype, shape=(d,))
        batch = group.inputs()
        function = interpreted([at, *batch], energy.over_kinks(at, group.slices(batch), k))
        rows = group.batch(np.unique(np.random.default_rng(0).integers(n, size=LOOKED_AT)))
        for j, reach in enumerate(own.reaches):

            def derivatives(j: int = j) -> Sequence[np.ndarray]:
                return function(q.astype(dtype), *rows)[2 * j : 2 * j + 2]

            _lengthen(reach, derivatives, min(0.5, PASS * d / n))


def _lengthen(reach: Reach, derivatives: Callable[[], Sequence[np.ndarray]], share: float) -> None:
    """Lengthen a reach until slopes change over it in a `share` of the rows.

    `derivatives`: returns slopes and curvatures of rows over the present reach.
    """
    noise = float(np.sqrt(np.mean(derivatives()[0] ** 2)))
    if not 0 < noise < np.inf:
        return
    for halvings in range(HALVINGS, -1, -1):
        distance = 0.5**halvings / noise
        reach.distance.set_value(np.asarray(distance, reach.distance.dtype))
        changes = 2 * distance * np.abs(derivatives()[1])
        if np.mean(changes > noise / 10) >= share:
            break
