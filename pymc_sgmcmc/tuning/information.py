"""Information of the rows on the effects of a hierarchy: which coordinates these need.

It is measured once: at the mean of the nearest normal where that is searched for, and else where
Adam leads from the model's initial point. Half or twice as much would serve as well: see `effects`.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc._utils.types import Vector
from pymc_sgmcmc.compile.evaluate import evaluate
from pymc_sgmcmc.compile.in_python import interpreted
from pymc_sgmcmc.posterior.effects import Effects, ScaledEffects, Values, inform, uninformed
from pymc_sgmcmc.posterior.energy_graph import EnergyGraph
from pymc_sgmcmc.posterior.find_effects import centred_effects
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.tuning.adam import adam
from pymc_sgmcmc.tuning.normal_approximation import nearest_from

__all__ = ["informed"]

PROBES, WIDTH = 4, 1e-2
"""Number of random directions in which second derivatives are measured, and a step along them."""

LITTLE = 0.01
"""Information on an effect, as a part of the mean, that does not tell where it is."""

FEW, MANY = 20.0, 200.0
"""Number of well-known effects below which their scale is not known well: its logarithm has an sd
above 1 / sqrt(2 FEW), about 0.16, and centred effects are partially centred. So are those that have
scales of their own, which are not known where an effect is not. And the number from which on they
are known well by a rough measurement, where Adam leads: no search is needed to tell."""


ByVariable: TypeAlias = dict[TensorVariable, np.ndarray]


class Measured(NamedTuple):
    """Values of variables, and derivatives of the likelihood's energy in effects."""

    values: Values
    slopes: ByVariable
    information: ByVariable


def informed(target: Target) -> Target:
    """Return `target` in coordinates of its effects, where these need some.

    The information in its coordinates is zero so far, and is set.
    """
    with np.errstate(all="ignore"):
        if target.centring.effects:
            # A guess for the search, which is slow where effects that are well known have none.
            _inform(target.centring.effects, _measured(target, target.initial, []))
        return _informed_by_mass(target)


def _informed_by_mass(target: Target) -> Target:
    own, known = target.centring.effects, {own.var for own in target.centring.effects}
    centred = centred_effects(target.model, target.vars, target.shapes)
    centred = [one for one in centred if one.var not in known]
    if not own and not centred:
        return target
    measured = None if own else _measured(target, _where_adam_leads(target), centred)
    if measured is not None and all(_well_known(one, measured) > MANY for one in centred):
        return target
    q = _in_the_mass(target)
    if measured is None or q is not None:
        measured = _measured(target, _where_adam_leads(target) if q is None else q, centred)
    needed = [one for one in centred if _well_known(one, measured) < FEW]
    _inform([*own, *needed], measured)
    if needed:
        # Measure anew, out of the funnel in which this measurement may be far off.
        return _informed_by_mass(target.partially_centred(needed))
    return target


def _measured(target: Target, q: Vector, centred: Sequence[Effects]) -> Measured:
    """Return values of the variables at `q`, and what `_likelihood` says there of effects.

    That is measured in coordinates that nothing is known of, whatever `q` is in.
    """
    change = target.centring
    flat = change.values(q)
    values = target.energy.values_at(flat)
    with uninformed(change.effects):
        return Measured(values, *_likelihood(target, change.coordinates(flat), centred, values))


def _inform(effects: Sequence[Effects], measured: Measured) -> None:
    for one in effects:
        value, slope = measured.values[one.var], measured.slopes[one.var]
        information = measured.information[one.var]
        inform(one, information, _implied(value, slope, information))


def _in_the_mass(target: Target) -> Vector | None:
    """Return the mean of the nearest normal, (d,); None where it is not found, or dear to find."""
    if not target.is_structured or target.energy.coefficients:
        return None
    found = nearest_from(target, target.initial, np.random.default_rng(0))
    return None if found is None else found.mean


def _where_adam_leads(target: Target) -> Vector:
    return adam(target, target.initial, np.random.default_rng(0), rate=0.3)


def _implied(value: np.ndarray, slope: np.ndarray, information: np.ndarray) -> np.ndarray:
    """Return where rows alone have effects, from derivatives of their energy at a `value`.

    By a step of Newton's method, of all together and then of each by itself.
    """
    of_all = np.sum(slope) / max(np.sum(information), 1e-300)
    floor = LITTLE * np.mean(information)
    return value - of_all - (slope - information * of_all) / (information + max(floor, 1e-300))


def _well_known(own: ScaledEffects, measured: Measured) -> float:
    """Return the number of centred effects that rows know better than their prior.

    Each counts up to 1, and none if effects have scales of their own.
    """
    if not all(own.scale.type.broadcastable):
        return 0.0
    values, information = measured.values, measured.information[own.var]
    slope = measured.slopes[own.var]
    (location,) = evaluate([own.location], values)
    step = np.divide(slope, information, out=np.zeros_like(slope), where=information > 0)
    return _number_known(values[own.var] - location - step, information)


def _likelihood(
    target: Target, q: Vector, centred: Sequence[Effects], values: Values
) -> tuple[ByVariable, ByVariable]:
    """Return first and second derivatives of the likelihood's energy in effects, by variable.

    I of effects is zero: coordinates are z.

    The second ones are means over random signs v of v H v, entry by entry (Bekas et al., 2007):
    exact where no row has two effects. `centred`: variables that are effects themselves, beside
    those that `target` has in coordinates. `values`: of the variables at `q`.
    """
    at = target.energy.coordinates()
    effects, themselves = [*target.centring.effects, *centred], {own.var for own in centred}
    sizes = [np.sqrt(np.mean(own.deviations(values) ** 2)) for own in effects]
    rng, width = np.random.default_rng(1), WIDTH * min(sizes)
    slope, change = _expanded(target, q)

    def pulled(own: Effects, g: Vector) -> np.ndarray:
        g = g[at[own.var]].reshape(np.shape(values[own.var]))
        return g if own.var in themselves else own.pulled(values, g)

    found = {own.var: np.zeros(np.shape(values[own.var])) for own in effects}
    for _ in range(PROBES):
        signs = {x: 2.0 * rng.integers(2, size=np.shape(total)) - 1 for x, total in found.items()}
        step = np.zeros(len(q))
        for own in effects:
            by = width * signs[own.var]
            by = by if own.var in themselves else own.moved(values, by)
            step[at[own.var]] = np.ravel(by)
        bent = change(step) / width
        for own in effects:
            found[own.var] += signs[own.var] * pulled(own, bent) / PROBES
    return (
        {own.var: pulled(own, slope) for own in effects},
        # Negative by chance, where many are tied: the size is right all the same.
        {x: np.abs(total) for x, total in found.items()},
    )


def _expanded(target: Target, q: Vector) -> tuple[Vector, Callable[[Vector], Vector]]:
    """Return the gradient at `q` of minus the log-likelihood, and its change over a short step.

    On all rows, minibatched and not: in one pass where second derivatives of rows are known, else
    in one for each step.
    """
    near, exact = target.near_anchor, _gradient_of_exact_likelihoods(target)
    if near is not None and near.is_curved and near.coefficients.is_known:
        of_rows, H = near.expand(q)
        of_exact = exact(q)
        return of_rows + of_exact, lambda step: H @ step + exact(q + step) - of_exact

    def gradient(q: Vector) -> Vector:
        return exact(q) + (target.batched_gradient(q) if target.groups else 0.0)

    slope = gradient(q)
    return slope, lambda step: gradient(q + step) - slope


def _gradient_of_exact_likelihoods(target: Target) -> Callable[[Vector], Vector]:
    """Return the gradient in q of minus the log-likelihoods that are not minibatched."""
    batched = {name for group in target.groups for name in group.likelihoods}
    joined = [one for one in target.likelihoods.joined if one.variable.name in batched]
    batched |= {rv.name for one in joined for rv in one.members}
    others = [*target.model.observed_RVs, *target.model.potentials]
    exact = [target.terms[v] for v in others if v.name not in batched]
    if not exact:
        return lambda q: np.zeros(len(q))
    energy = EnergyGraph(target.vars, target.shapes, target.centring.changed(exact), ())
    q = pt.vector("q", dtype=pytensor.config.floatX, shape=(target.size,))
    function = interpreted([q], [energy.estimator()(q, {}, [])[1]])
    return lambda q: function(q.astype(pytensor.config.floatX))[0]


def _number_known(deviations: np.ndarray, information: np.ndarray) -> float:
    """Return the sum of squares of the effects' weights in an estimate of their one scale.

    Their scale is estimated by moments (DerSimonian and Laird, 1986), around their mean: that
    of the model may not be found yet.
    """
    total = max(np.sum(information), 1e-300)
    deviations = deviations - np.sum(information * deviations) / total
    excess = np.sum(information * deviations**2) - np.count_nonzero(information)
    ratio = max(0.0, excess / total) * information
    return float(np.sum((ratio / (1 + ratio)) ** 2))
