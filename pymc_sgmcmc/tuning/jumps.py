"""Gradients that jump: those of log-densities with kinks, such as quantile regression's.

Second derivatives of such rows are zero wherever they exist. What a chain sees is the change of the
gradient from one end of the posterior to the other: rows pass their kinks in between. Here it is
measured over half an sd to both sides, in enough rows that many pass.
"""

import numpy as np
import pytensor
from pytensor.graph.traversal import toposort
from pytensor.scalar.basic import Abs, Clip, LogicalComparison, Maximum, Minimum, Sign
from pytensor.tensor.math import Max

from pymc_sgmcmc._utils.types import Counts, Matrix, Vector
from pymc_sgmcmc.model.log_density import inside, is_elementwise
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.tuning.curvature import Gradient

__all__ = ["SHARE", "own_sds", "rows_that_pass", "secants"]

KINKED = (Abs, Clip, LogicalComparison, Maximum, Minimum, Sign)
"""Scalar operations that may make kinks: they need not, as in log(exp(x) + exp(y))."""

SHARE = 1.0
"""Distance to each side over which gradients that jump are compared, in sds."""

MORE = 2.0
"""Least ratio of the change over `SHARE` to what a tiny change promises, where gradients jump."""

PROBES, BATCHES, ROUNDS = 30, 64, 4

SMALL = 16
"""Rows in a batch from which the information is estimated."""


def rows_that_pass(target: Target, rng: np.random.Generator) -> list[Counts]:
    """Draw rows of which tens pass a kink within an sd of a coefficient, or take all.

    That sd is about 1 / sqrt(N), and so is the share of the rows that pass.
    """
    lengths = target.check_lengths()
    return target.fixed_rows(rng, int(100 * np.sqrt(max(lengths, default=1))))


def own_sds(target: Target, q: Vector, rng: np.random.Generator) -> Vector | None:
    """Return sds of the coordinates at `q`, (d,), where gradients jump; None where they do not.

    The first guess is the information of single rows (the variance of their gradients) and the
    second derivatives of what does not jump. The sds are those of each coordinate by itself.
    """
    if not _may_jump(target):
        return None
    rows = rows_that_pass(target, rng)

    def gradient(at: Vector) -> Vector:
        return target.value_and_gradient(at, rows)[1]

    signs = _signs(len(q), rng)
    information = _information(target, q, rng)
    sds = np.minimum(1 / np.sqrt(information + 1e-300), 1.0)
    smooth = _curvatures(gradient, q, _tiny() * sds, signs)
    sds = 1 / np.sqrt(information + np.maximum(smooth.mean(axis=0), 0) + 1e-300)
    smooth = sds**2 * _curvatures(gradient, q, _tiny() * sds, signs)
    wide = sds**2 * _curvatures(gradient, q, SHARE * sds, signs)
    if len(q) > PROBES:  # coordinates that move together are not told apart
        smooth, wide = smooth.mean(keepdims=True), wide.mean(keepdims=True)
    matters = wide > 1 / PROBES
    if not np.isfinite(wide).all() or not np.any(matters & (wide > MORE * smooth)):
        return None
    for _ in range(ROUNDS):
        found = np.abs(_curvatures(gradient, q, SHARE * sds, signs).mean(axis=0))
        sds = np.clip(1 / np.sqrt(found + 1e-300), sds / 10, sds * 10)
    return sds if np.isfinite(sds).all() else None


def secants(gradient: Gradient, q: Vector, sds: Vector) -> Matrix:
    """Compute the change of the gradient over `SHARE` of the `sds` to both sides, by distance.

    It is the mean of the Hessian over these ways, (d, d), symmetrised.
    """
    ways = np.diag(SHARE * sds)
    columns = [(gradient(q + way) - gradient(q - way)) / (2 * way.sum()) for way in ways]
    H = np.nan_to_num(np.array(columns))
    return (H + H.T) / 2


def _may_jump(target: Target) -> bool:
    """Return whether the graph of U has operations, of what is sampled, that may make kinks."""
    energy = target.energy
    terms = [*energy.exact, *(term for group in energy.groups for term in group.terms)]
    sampled = set(energy.vars)
    for node in toposort([inside(term) for term in terms]):
        if sampled.isdisjoint(node.inputs):
            continue
        if is_elementwise(node, KINKED) or isinstance(node.op, Max):
            return True
        sampled.update(node.outputs)
    return False


def _information(target: Target, q: Vector, rng: np.random.Generator) -> Vector:
    """Return N times the variance of the gradients of single rows, summed over groups, (d,)."""
    found = np.zeros(len(q))
    for k, n in enumerate(target.check_lengths()):
        size = min(SMALL, n)
        batches = [target.row_gradient(q, k, rng.integers(n, size=size)) for _ in range(BATCHES)]
        found += size / n * np.var(batches, axis=0)
    return found


def _tiny() -> float:
    """Return a distance, in sds, within which hardly any row has a kink."""
    return 1e-3 if pytensor.config.floatX == "float32" else 1e-5


def _signs(d: int, rng: np.random.Generator) -> Matrix:
    """Return directions, (k, d): each coordinate where d is small, else random signs for all."""
    return np.eye(d) if d <= PROBES else 2.0 * rng.integers(2, size=(PROBES, d)) - 1


def _curvatures(gradient: Gradient, q: Vector, widths: Vector, signs: Matrix) -> Matrix:
    """Return estimates of the Hessian's diagonal over `widths` to both sides, (k, d).

    For each coordinate by itself, k is 1. The mean over random `signs` of all is right (Bekas et
    al., 2007).
    """
    ways = widths * signs
    changes: Matrix = np.array([gradient(q + way) - gradient(q - way) for way in ways])
    found: Matrix = signs * changes / (2 * widths)
    return found.sum(axis=0)[None] if len(q) <= PROBES else found
