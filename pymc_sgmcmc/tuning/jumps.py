"""Gradients that jump: those of log-densities with kinks, such as quantile regression's.

Second derivatives of such rows are zero wherever they exist. What a chain sees is the change of the
gradient from one end of the posterior to the other: rows pass their kinks in between. Here it is
measured over an sd to both sides, in enough rows that many pass.
"""

import numpy as np
import pytensor

from pymc_sgmcmc._utils.types import Counts, Matrix, Vector
from pymc_sgmcmc.model.log_density import has_kinks, inside
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.tuning.curvature import Gradient

__all__ = ["SHARE", "Jumps", "may_jump", "own_sds", "rows_that_pass", "secants"]

SHARE = 1.0
"""Distance to each side over which gradients that jump are compared, in sds."""

MORE = 2.0
"""Least ratio of the change over `SHARE` to what a tiny change promises, where gradients jump."""

PROBES, BATCHES, ROUNDS = 30, 64, 4

SMALL = 16
"""Rows in a batch from which the information is estimated."""


def may_jump(target: Target, *, rows: bool = True, exact: bool = True) -> bool:
    """Return whether the graph of `rows`, or of the rest of U, has what may make kinks."""
    energy = target.energy
    terms = [*energy.exact] if exact else []
    terms += [term for group in energy.groups if rows for term in group.terms]
    return has_kinks([inside(term) for term in terms], energy.vars)


def rows_that_pass(target: Target, rng: np.random.Generator) -> list[Counts]:
    """Draw rows of which tens pass a kink within an sd of a coefficient, or take all.

    That sd is about 1 / sqrt(N), and so is the share of the rows that pass.
    """
    lengths = target.check_lengths()
    return target.fixed_rows(rng, int(100 * np.sqrt(max(lengths, default=1))))


def own_sds(target: Target, q: Vector, rng: np.random.Generator) -> Vector | None:
    """Return sds of the coordinates at `q`, (d,), where gradients jump; None where they do not.

    The sds are those of each coordinate by itself.
    """
    if not may_jump(target):
        return None
    rows = rows_that_pass(target, rng)

    def gradient(at: Vector) -> Vector:
        return target.value_and_gradient(at, rows)[1]

    found = Jumps(target, gradient, q, rng)
    return found.sds() if found.are_seen else None


def secants(gradient: Gradient, q: Vector, sds: Vector) -> Matrix:
    """Compute the change of the gradient over `SHARE` of the `sds` to both sides, by distance.

    It is the mean of the Hessian over these ways, (d, d), symmetrised.
    """
    ways = np.diag(SHARE * sds)
    columns = [(gradient(q + way) - gradient(q - way)) / (2 * way.sum()) for way in ways]
    H = np.nan_to_num(np.array(columns))
    return (H + H.T) / 2


class Jumps:
    """Changes of a gradient near a point, and farther away.

    The first guess of sds is the information of single rows (the variance of their gradients) and
    the second derivatives of what does not jump; it is at most 1, where both may be nothing.

    Parameters
    ----------
    target : Target
    gradient : function
        The gradient of U, or of a part of it.
    q : array, shape (d,)
    rng : Generator
    """

    def __init__(self, target: Target, gradient: Gradient, q: Vector, rng: np.random.Generator):
        self._gradient, self._q = gradient, q
        self._signs = _signs(len(q), rng)
        self._tiny = 1e-3 if pytensor.config.floatX == "float32" else 1e-5  # hardly a kink in it
        information = _information(target, q, rng)
        sds = 1 / np.sqrt(np.maximum(information, 1.0))
        smooth = self._curvatures(self._tiny * sds).mean(axis=0)
        self._first = 1 / np.sqrt(np.maximum(information + np.maximum(smooth, 0), 1.0))

    @property
    def are_seen(self) -> bool:
        """Whether the gradient changes more, over an sd, than a tiny change promises."""
        smooth = self._first**2 * self._curvatures(self._tiny * self._first)
        wide = self._first**2 * self._curvatures(SHARE * self._first)
        if len(self._q) > PROBES:  # coordinates that move together are not told apart
            smooth, wide = (np.median(x.mean(axis=1), keepdims=True) for x in (smooth, wide))
        matters = wide > 1 / PROBES
        return bool(np.isfinite(wide).all() and np.any(matters & (wide > MORE * smooth)))

    def sds(self) -> Vector | None:
        """Return sds over which the gradient changes as that of a normal posterior, (d,)."""
        sds = self._first
        for _ in range(ROUNDS):
            found = np.abs(self._curvatures(SHARE * sds).mean(axis=0))
            sds = np.clip(1 / np.sqrt(found + 1e-300), sds / 10, sds * 10)
        return sds if np.isfinite(sds).all() else None

    def _curvatures(self, widths: Vector) -> Matrix:
        """Return estimates of the Hessian's diagonal over `widths` to both sides, (k, d).

        For each coordinate by itself, k is 1. The mean over random signs of all is right (Bekas et
        al., 2007).
        """
        q, ways = self._q, widths * self._signs
        changes: Matrix = np.array(
            [self._gradient(q + way) - self._gradient(q - way) for way in ways]
        )
        found: Matrix = self._signs * changes / (2 * widths)
        return found.sum(axis=0)[None] if len(q) <= PROBES else found


def _signs(d: int, rng: np.random.Generator) -> Matrix:
    """Return directions, (k, d): each coordinate where d is small, else random signs for all."""
    if d <= PROBES:
        return np.eye(d)
    return np.asarray(2.0 * rng.integers(2, size=(PROBES, d)) - 1, float)


def _information(target: Target, q: Vector, rng: np.random.Generator) -> Vector:
    """Return N times the variance of the gradients of single rows, summed over groups, (d,)."""
    found = np.zeros(len(q))
    for k, n in enumerate(target.check_lengths()):
        size = min(SMALL, n)
        batches = [target.row_gradient(q, k, rng.integers(n, size=size)) for _ in range(BATCHES)]
        found += size / n * np.var(batches, axis=0)
    return found
