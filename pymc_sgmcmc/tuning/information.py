"""Information of the rows on the effects of a hierarchy: which coordinates these need.

It is measured once, near where Adam leads from the model's initial point. Half or twice as much
would serve as well: see `partial_centring`.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytensor
import pytensor.tensor as pt

from pymc_sgmcmc._utils.types import Vector
from pymc_sgmcmc.compile.backend import interpreted
from pymc_sgmcmc.compile.evaluate import evaluate
from pymc_sgmcmc.posterior.energy_graph import EnergyGraph
from pymc_sgmcmc.posterior.partial_centring import Effects, centred_effects
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.tuning.locate import adam

__all__ = ["informed"]

PROBES, WIDTH = 4, 1e-2
"""Number of random directions in which second derivatives are measured, and a step along them."""

TINY = 1e-8
"""Scale, relative to others of the same variable, below which rows say nothing of an effect."""

FEW = 20.0
"""Number of well-known effects below which their scale is not known well: its logarithm has an sd
above 1 / sqrt(2 FEW), about 0.16, and centred effects are partially centred."""


def informed(target: Target) -> Target:
    """Return `target` in coordinates of its effects, where these need some.

    `target` has none yet but those of standardized effects, whose information is zero and is set.
    """
    standardized = target.centring.effects
    centred = centred_effects(target.model, target.vars, target.shapes)
    if not standardized and not centred:
        return target
    effects = [*standardized, *centred]
    with np.errstate(all="ignore"):
        q = adam(target, target.initial, np.random.default_rng(0), rate=0.3)
        values = target.energy.values_at(q)
        scales, locations = zip(*(_parameters(own, values) for own in effects), strict=True)
        slopes, found = _likelihood(target, q, effects, scales)
    needed = []
    for own, scale, location, slope, I in zip(effects, scales, locations, slopes, found):
        own.inform(I)
        if own.location is not None:
            step = np.divide(slope, I, out=np.zeros_like(I), where=I > 0)
            if _well_known(values[own.var] - location - step, I, scale) < FEW:
                needed.append(own)
    return target.partially_centred(needed) if needed else target


def _likelihood(
    target: Target, q: Vector, effects: Sequence[Effects], scales: Sequence[np.ndarray]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return first and second derivatives of the likelihood's energy in each of the effects t z, a.

    The second ones are means over random signs v of v H v, entry by entry (Bekas et al., 2007):
    exact where no row has two effects.
    """
    gradient, at = _gradient_of_likelihood(target), target.energy.coordinates()
    units, width = np.zeros(len(q)), np.inf
    for own, scale in zip(effects, scales, strict=True):
        size = np.sqrt(np.mean(scale**2))
        width = min(width, WIDTH * size)
        moved = np.ones_like(scale)
        if own.location is None:  # one that is multiplied by nothing moves no row
            moved = np.divide(1, scale, out=np.zeros_like(scale), where=scale > TINY * size)
        units[at[own.var]] = np.ravel(moved)
    rng, slope, total = np.random.default_rng(1), gradient(q), np.zeros(len(q))
    for _ in range(PROBES):
        v = 2.0 * rng.integers(2, size=len(q)) - 1
        total += v * (gradient(q + width * v * units) - slope) / width
    found = np.maximum(total / PROBES * units, 0)
    parts = [(at[own.var], scale.shape) for own, scale in zip(effects, scales, strict=True)]
    return tuple([x[where].reshape(shape) for where, shape in parts] for x in (slope, found))


def _gradient_of_likelihood(target: Target) -> Callable[[Vector], Vector]:
    """Return the gradient in q of minus the log-likelihood, minibatched and not, on all rows."""
    batched = {name for group in target.groups for name in group.likelihoods}
    others = [*target.model.observed_RVs, *target.model.potentials]
    exact = [target.terms[v] for v in others if v.name not in batched]
    energy = EnergyGraph(target.vars, target.shapes, exact, ())
    q = pt.vector("q", dtype=pytensor.config.floatX, shape=(target.size,))
    function = interpreted([q], [energy.estimator()(q, {}, [])[1]]) if exact else None

    def gradient(q: Vector) -> Vector:
        found = np.zeros(len(q))
        if target.groups:
            found = found + target.batched_gradient(q)
        if function is not None:
            found = found + function(q.astype(pytensor.config.floatX))[0]
        return found

    return gradient


def _parameters(own: Effects, values: Mapping) -> tuple[np.ndarray, np.ndarray]:
    """Return scale and location of each effect; 0 without a location."""
    location = pt.zeros(()) if own.location is None else own.location
    found, shape = evaluate([own.scale, location], values), np.shape(values[own.var])
    scale, location = (np.broadcast_to(x, shape).astype(float) for x in found)
    return scale, location


def _well_known(deviations: np.ndarray, I: np.ndarray, scale: np.ndarray) -> float:
    """Return the number of effects that rows know better than their prior: each counts up to 1.

    The scale is estimated by moments (DerSimonian and Laird, 1986), up to the ratios in `scale`.
    """
    shape = scale / np.sqrt(np.mean(scale**2))
    excess = np.sum(I * deviations**2) - np.count_nonzero(I)
    variance = max(0.0, excess / max(np.sum(I * shape**2), 1e-300)) * shape**2
    known = variance * I
    return float(np.sum((known / (1 + known)) ** 2))
