"""Search for the normal distribution that is nearest to the posterior: for its mass, not its mode.

The joint mode of a hierarchy is useless: there, effects and their scale are zero. Of all normals
N(m, P^-1), the one nearest to the posterior, in the divergence of variational inference, has

    E[gradient of U] = 0    and    P = E[Hessian of U],

means over N(m, P^-1) itself (Opper and Archambeau, 2009, equations 5 and 6). A scale is then what
the effects and their uncertainty say, as in the EM algorithm. Rows of data are expanded to second
order around m, so that each round takes one pass over them; the means of the prior are over draws.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from pytensor.graph.traversal import graph_inputs
from scipy.sparse import csr_array, diags_array

from pymc_sgmcmc._utils.types import Vector
from pymc_sgmcmc.posterior.nonfinite import is_transformed
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.tuning.adam import adam
from pymc_sgmcmc.tuning.expanded_rows import ExpandedRows, is_finite
from pymc_sgmcmc.tuning.sparse_metric import SparseFactor, factor_of_sparse

__all__ = ["Normal", "nearest_from", "nearest_normal"]

AT_MEAN = 6, 10
"""Largest number of passes at the mean, until effects are found, and then scales of rows."""

PASSES, ROWS_READ = (12, 24), 2e7
"""Smallest and largest number of passes over all rows: between them, so many rows are read."""

DRAWS = 8
"""Draws over which the prior is averaged: as many again are their mirror images."""

ROUNDS = 12
"""Steps of the mean, with a new Hessian of the prior for each, from one pass to the next."""

HALVINGS = 12
"""Largest number of times that a step, or a first guess of sds, is made shorter."""

SHORTER = 3
"""Largest number of shares of a step that are tried on all rows."""

CLOSE = 0.1
"""Distance that is close, in sds of a coordinate z, where no rows are read."""

NEAR = 1.0
"""Distance that is near enough: the draws of tuning do the rest."""

FAR = 100.0
"""Distance from which the search begins anew, elsewhere."""

ON_LOG_SCALE = 1.0
"""Longest step of a logarithm or logit from one pass to the next."""


@dataclass(frozen=True, eq=False)
class Normal:
    """A normal distribution near the posterior.

    Attributes
    ----------
    mean : array, shape (d,)
    precision : sparse array, shape (d, d)
        The inverse of its covariance.
    metric : SparseFactor
        Its covariance.
    distance : float
        Largest distance from the solution, in sds of a coordinate z, as far as it is known.
    passes : int
        Passes over all rows that it took.
    """

    mean: Vector
    precision: csr_array
    metric: SparseFactor
    distance: float
    passes: int = 1


Expand: TypeAlias = Callable[[Vector, SparseFactor], ExpandedRows]
"""A function of a mean and a covariance that returns what rows say there."""


def nearest_normal(target: Target, start: Vector, rng: np.random.Generator) -> Normal | None:
    """Search from `start` (d,); None if U or its Hessian is not finite there, or on the way.

    `target` is structured. The search ends when it is near, or `FAR`, or after a number of passes.
    """
    try:
        return _Search(target, rng).nearest(start)
    except np.linalg.LinAlgError:
        return None


def nearest_from(
    target: Target,
    start: Vector,
    rng: np.random.Generator,
    jumps: Callable[[Vector], bool] | None = None,
) -> Normal | None:
    """Search from `start` (d,), and where that does not end near, from where Adam leads.

    None: no search ended less than `FAR` away, or gradients jump where one begins.
    """
    best = None
    for attempt in range(2):
        q = adam(target, start, rng, rate=0.3) if attempt else start
        if jumps is not None and jumps(q):
            return None
        found = nearest_normal(target, q, rng)
        if found is not None and (best is None or found.distance < best.distance):
            best = found
        if best is not None and best.distance < NEAR:
            break
    return best if best is not None and best.distance < FAR else None


class _Search:
    """Newton's method for the nearest normal.

    First the rows are expanded at the mean. When this is near, they are at two draws around it,
    mirror images of each other: the mean slope of rows is not the slope at the mean, most of all
    where a predictor is a product of variables, such as a scale and an effect.
    """

    def __init__(self, target: Target, rng: np.random.Generator):
        assert target.near_anchor is not None
        self._target, self._near, self._exact = target, target.near_anchor, target.exact_part
        self._on_log_scale = is_transformed(target)
        half = rng.standard_normal((DRAWS, target.size))
        self._draws, self._one = np.concatenate([half, -half]), half[0]
        rows = max(target.check_lengths())
        self._passes = int(np.clip(ROWS_READ / rows, *PASSES))

    def nearest(self, start: Vector) -> Normal | None:
        # A scale of effects has no mode: it stays until effects are found. Scales of rows have one.
        gradient, H = self._exact.mean(start[None])
        tied = np.ravel(abs(H - diags_array(H.diagonal())).sum(axis=1)) > 0
        of_effects = self._on_log_scale & (tied | _multiplies(self._target))
        # One that begins too small keeps effects at zero; too large, it lets rows find them.
        raised = np.where(of_effects, np.maximum(start, self._target.initial), start)
        if not np.array_equal(raised, start):
            start = raised
            gradient, H = self._exact.mean(start[None])
        rows = self._at_mean(start)
        if not rows.is_finite or not is_finite(gradient, H):
            return None
        P = H + rows.hessian
        now = Normal(start, P, factor_of_sparse(P, self._target.energy.sizes), np.inf)
        slope = gradient + rows.gradient
        for self._held, most in zip((self._on_log_scale, of_effects), AT_MEAN, strict=True):
            now = replace(now, distance=np.inf)
            while now.passes < most and now.distance > NEAR:
                last, new = now.distance, self._solve(rows, now, held=True)
                now, rows, slope = self._towards(new, now, slope, self._at_mean)
                if now.distance > max(last, FAR):
                    return now
                if now.distance > last / 2:
                    break
        rows = self._around(now.mean, now.metric)
        slope = self._slope(now.mean, now.metric) + rows.gradient
        while now.passes < self._passes:
            now, rows, slope = self._towards(self._solve(rows, now), now, slope, self._around)
            if now.distance < NEAR:
                break
        return now

    def _at_mean(self, q: Vector, metric: SparseFactor | None = None) -> ExpandedRows:
        return ExpandedRows.mean(q, [self._near.expand(q)])

    def _around(self, q: Vector, metric: SparseFactor) -> ExpandedRows:
        v = metric.times(self._one)
        return ExpandedRows.mean(q, [self._near.expand(point) for point in (q + v, q - v)])

    def _slope(self, m: Vector, metric: SparseFactor) -> Vector:
        """Return the mean gradient of the exact part over a normal."""
        return self._exact.gradients(m + metric.times(self._draws)).mean(axis=0)

    def _towards(
        self, new: Normal, now: Normal, slope: Vector, expand: Expand
    ) -> tuple[Normal, ExpandedRows, Vector]:
        """Go from `now` to `new`, or a share of the way where U rises before.

        Return where that leads, what rows say there, and the mean gradient of U.
        """
        step, share = self._bounded(new.mean - now.mean, slope), 1.0
        passes = now.passes
        for _ in range(SHORTER):
            rows = expand(now.mean + share * step, new.metric)
            passes += rows.points
            ahead = self._slope(rows.centre, new.metric) + rows.gradient
            if rows.is_finite and _falls(step, slope, ahead):
                break
            share *= _shorter(step, slope, ahead)
        moved = np.where(self._held, 0.0, ahead) if expand == self._at_mean else ahead
        distance = float(np.abs(new.metric.pull(moved)).max())
        return replace(new, mean=rows.centre, distance=distance, passes=passes), rows, ahead

    def _solve(self, rows: ExpandedRows, now: Normal, *, held: bool = False) -> Normal:
        """Return the nearest normal where rows are what `rows` says of them.

        `held`: whether scales of effects stay.
        """
        m, P, metric = now.mean, now.precision, now.metric
        gradient, H = self._exact.mean(m + metric.times(self._draws))
        for _ in range(HALVINGS):
            if is_finite(gradient, H):
                break
            metric = metric.scaled(np.full(len(m), 0.25))  # a scale's first sd may be far too large
            gradient, H = self._exact.mean(m + metric.times(self._draws))
        slope = gradient + rows.slope(m)
        for _ in range(ROUNDS):
            P = H + rows.hessian
            if held:
                P, slope = self._untied(P), np.where(self._held, 0.0, slope)
            metric = factor_of_sparse(P, order=metric.order)
            z = metric.pull(slope)
            if np.abs(z).max() < CLOSE / 4:
                break
            step, share = self._bounded(-metric.times(z), slope), 1.0
            for _ in range(HALVINGS):
                at = m + share * step
                gradient, H = self._exact.mean(at + metric.times(self._draws))
                ahead = gradient + rows.slope(at)
                if is_finite(ahead, H) and _falls(step, slope, ahead):
                    break
                share *= _shorter(step, slope, ahead)
            m, slope = at, ahead
        return replace(now, mean=m, precision=P, metric=metric)

    def _bounded(self, step: Vector, slope: Vector) -> Vector:
        """Return a step that is not too long on any log scale, where U is far from quadratic."""
        own = np.abs(step[self._on_log_scale]).max(initial=0.0)
        if own <= ON_LOG_SCALE:
            return step
        most = np.where(self._on_log_scale, ON_LOG_SCALE, np.inf)
        cut = np.clip(step, -most, most)
        return cut if cut @ slope < 0 else step * (ON_LOG_SCALE / own)

    def _untied(self, P: csr_array) -> csr_array:
        """Return the Hessian in which scales of effects are tied to nothing else."""
        free = diags_array(np.where(self._held, 0.0, 1.0))
        alone = diags_array(np.where(self._held, P.diagonal(), 0.0))
        return csr_array(free @ P @ free + alone)


def _falls(step: Vector, before: Vector, after: Vector) -> bool:
    """Return whether a function with these gradients falls along `step`, or is near its least."""
    return bool(step @ after <= abs(step @ before) / 2)


def _shorter(step: Vector, before: Vector, after: Vector) -> float:
    """Return the part of `step` at which the slope is zero, by linear interpolation."""
    start, end = step @ before, step @ after
    return float(np.clip(start / (start - end), 0.1, 0.5)) if np.isfinite(end) else 0.25


def _multiplies(target: Target) -> NDArray[np.bool_]:
    """Return whether each coordinate is of a predictor that multiplies another, (d,)."""
    assert target.energy.predictors is not None and target.near_anchor is not None
    found, at = np.zeros(target.size, bool), target.energy.coordinates()
    groups = zip(target.energy.predictors, target.near_anchor.products, strict=True)
    for own, pairs in groups:
        for var in graph_inputs([own.values[i] for i, _ in pairs]):
            if var in at:
                found[at[var]] = True
    return found
