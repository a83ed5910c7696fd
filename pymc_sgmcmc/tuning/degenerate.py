"""Posteriors that cannot be sampled: improper, at an edge of the support, or not finite.

The negative log-density U is followed from the located centre along a few straight lines, in steps
that double. If the posterior is proper, U rises in the end, however long its tails are.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
from pymc.exceptions import SamplingError

from pymc_sgmcmc._utils.coordinates import Coordinates
from pymc_sgmcmc._utils.metric import identity
from pymc_sgmcmc._utils.types import Array, Vector
from pymc_sgmcmc.posterior.nonfinite import REMEDY, culprit, is_transformed
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.tuning.adam import PART
from pymc_sgmcmc.tuning.locate import Located

__all__ = ["not_finite", "refuse_degenerate"]

LINE = 2.0 ** np.arange(-10, 31)
"""Distances from the centre, in sds of the Hessian. The last is far even where these sds are wrong.

Farther out, terms that cancel exactly do so no longer, because of rounding."""

LONG = 2.0**10
"""Distance in sds beyond which a density that has not fallen counts as one that never falls."""

RISE = 1.0
"""Smallest increase of U that counts as a rise."""

ENORMOUS = 100.0
"""Distance on a log scale that no scale or probability covers: a factor of 1e43."""


def refuse_degenerate(target: Target, start: Vector, located: Located) -> None:
    """Raise SamplingError where the posterior around `located` cannot be sampled by gradients.

    `start`: the point from which the posterior was located. U must be finite at the centre. U must
    rise along the direction of descent, along the direction of the largest sd by the Hessian, and
    along the way from the start.
    """
    centre, gradient = located.coordinates.centre, located.gradient
    if not np.isfinite(located.value):
        beyond = _edge_between(target, start, centre)
        if beyond is None:
            raise not_finite(target, centre)
        way = Coordinates(start, identity(len(start)))
        raise _edge(target, way, beyond - start, beyond)
    if not np.isfinite(gradient).all():
        raise not_finite(target, centre)
    rows = target.fixed_rows(np.random.default_rng(0), PART)
    with np.errstate(all="ignore"):
        directions = _directions(located.coordinates, gradient, start)
    for descends, direction in directions:
        # A part of the rows is a quick first check; only a result on all rows counts.
        for on in (rows, None):
            on_rows = partial(target.value_and_gradient, rows=on)
            fate = _follow(on_rows, located.coordinates, direction)
            if fate is None:
                break
        else:
            assert fate is not None  # else the search along this line has ended
            last, beyond = fate
            if last is None or beyond is None or _is_enormous(target, last - start):
                raise _endless(target, located.coordinates, direction)
            if descends and not located.decrement < 2 * target.size:
                raise _edge(target, located.coordinates, direction, beyond)


def _directions(
    coordinates: Coordinates, gradient: Vector, start: Vector
) -> list[tuple[bool, Array]]:
    """Return (whether it is the direction of descent, direction of about one sd) for each line."""
    metric, centre = coordinates.metric, coordinates.centre
    furthest = 1e3 * max(1.0, np.abs(centre).max(), np.abs(centre - start).max())
    pulled = metric.pull(gradient)
    descent, least_known = -metric.times(pulled), metric.widest
    z = np.linalg.norm(coordinates.of(start))
    way = (centre - start) / z if 0 < z < np.inf else least_known
    length = np.linalg.norm(pulled)
    lines = [(True, descent / length)] if length > 0 else []
    lines += [(False, sign * line) for line in (least_known, way) for sign in (1, -1)]
    # Bound the length: where the Hessian is zero, its sd may be 1e150.
    return [
        (descends, line * min(1.0, furthest / np.abs(line).max()))
        for descends, line in lines
        if np.isfinite(line).all() and line.any()
    ]


def _follow(
    on_rows: Callable[[Array], tuple[float, Array]],
    coordinates: Coordinates,
    direction: Vector,
) -> tuple[Vector | None, Vector | None] | None:
    """Follow U along a line, and return None if it rises in the end.

    Otherwise return the last point where U is finite and the first where it is not. The last point
    is no farther than `LONG`, unless U changes there. Return (None, None) if U stays finite.
    `on_rows`: a function that returns U and its gradient.
    """
    centre = coordinates.centre
    at_centre, last = on_rows(centre)[0], centre
    with np.errstate(all="ignore"):
        for t in LINE:
            q = centre + t * direction
            value, gradient = on_rows(q)
            if not np.isfinite(value):
                return last, q
            if value > at_centre + RISE:
                # A direction without curvature is known to rounding only, and far away its error
                # counts where others are steep: correct the line.
                q = _across(coordinates, direction, q, gradient)
                direction, value = (q - centre) / t, on_rows(q)[0]
            if not value <= at_centre + RISE:
                return None
            if t >= LONG and abs(value - at_centre) < RISE:
                continue
            last = q
    return None, None


def _across(coordinates: Coordinates, direction: Vector, q: Vector, gradient: Vector) -> Array:
    """Return `q` after a step of Newton's method, in all directions but `direction`."""
    along = coordinates.of(coordinates.centre + direction)
    step = -coordinates.metric.pull(gradient)
    step -= along * (along @ step) / (along @ along)
    return q + coordinates.metric.times(step)


def _edge_between(target: Target, inside: Vector, outside: Vector) -> Array | None:
    """Bisect for the first point from `inside` where U is not finite; None if `inside` is not."""
    if not np.isfinite(target.value_and_gradient(inside)[0]):
        return None
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        value, _ = target.value_and_gradient(inside + middle * (outside - inside))
        low, high = (middle, high) if np.isfinite(value) else (low, middle)
    return inside + high * (outside - inside)


def _is_enormous(target: Target, way: Vector) -> bool:
    """Return whether a variable on a transformed scale moves farther than `ENORMOUS`."""
    return bool(np.any(np.abs(way[is_transformed(target)]) > ENORMOUS))


def _endless(target: Target, coordinates: Coordinates, direction: Vector) -> SamplingError:
    return SamplingError(
        "The posterior is improper: however far one goes along "
        f"{_names(target, coordinates, direction)}, its density does not fall. Flat priors do this "
        "where the data say nothing (columns that are the same, classes that a line separates, no "
        "data), and data without any spread do it to their scale. Give these variables priors that "
        "are proper, and look at the data. (Where data or priors are 1e100 times off the order of "
        "one, rescale them.)"
    )


def _edge(
    target: Target, coordinates: Coordinates, direction: Vector, beyond: Vector
) -> SamplingError:
    return SamplingError(
        "The posterior has its mass at an edge of the support, which gradients do not see: its "
        f"density rises along {_names(target, coordinates, direction)} up to a point beyond which "
        f"it is zero. {culprit(target, beyond)} Write the model without the edge (a bound that "
        "depends on parameters, as in Uniform(0, a), makes one), or sample these variables with "
        "NUTS."
    )


def not_finite(target: Target, q: Vector, often: str = "") -> SamplingError:
    """Return the error that U or its gradient is not finite at `q`, with the part at fault.

    `often`: a sentence on how often this was seen.
    """
    where = ", ".join(
        f"{target.coordinate(i)} = {q[i]:.4g}" for i in np.argsort(-np.abs(q), kind="stable")[:4]
    )
    said = [
        f"The log-posterior or its gradient is not finite at a typical point ({where}"
        f"{', ...' if len(q) > 4 else ''}).",
        often,
        culprit(target, q),
        REMEDY,
    ]
    return SamplingError(" ".join(filter(None, said)))


def _names(target: Target, coordinates: Coordinates, direction: Vector) -> str:
    """Return the names of the coordinates that move most along a direction, in sds, with signs."""
    share = direction / coordinates.metric.scales
    most = [i for i in np.argsort(-np.abs(share), kind="stable")[:4]
            if abs(share[i]) > 0.3 * np.abs(share).max()]  # fmt: skip
    words = [f"{'-' if share[i] < 0 else '+'} {target.coordinate(int(i))}" for i in most]
    return " ".join(words).removeprefix("+ ")
