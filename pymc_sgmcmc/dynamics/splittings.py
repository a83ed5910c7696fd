"""A step of a splitting integrator, its bias and stability, and its balance of energies."""

from collections.abc import Callable
from math import factorial

import numpy as np
import pytensor.tensor as pt

from pymc_sgmcmc._utils.types import Graph, Operand
from pymc_sgmcmc.dynamics.inputs import Gradient, Normals
from pymc_sgmcmc.dynamics.space import EVERYWHERE, Space
from pymc_sgmcmc.dynamics.words import KICKS, flows

__all__ = [
    "kinetic_energy", "longest_step", "ornstein_uhlenbeck", "split", "step_bias", "virial",
]  # fmt: skip


def split(
    word: str, q: Graph, p: Graph, friction: Graph, *, grad: Gradient, h: Graph, noise: Normals,
    diffusion: Graph, heat: Callable[[Graph, Graph, Graph], Graph] | None = None,
    space: Space = EVERYWHERE,
) -> tuple[Graph, Graph, Graph]:  # fmt: skip
    """Make one step of a splitting, and return the new (q, p, friction).

    ``heat(friction, p, h)`` is the flow of D. The letter K is a kick with noise, and F is friction
    without noise; "AFKFA" is the scheme of Chen, Ding and Carin (2015). `space` is the space of q,
    by default R^d. On a manifold A follows geodesics, and kicks and noise are tangent.
    """
    g = None
    for letter, share in flows(word):
        t = share * h
        if letter in KICKS:
            if g is None:
                g = space.tangent(q, grad(q))
                grad.keep(g)
            p = p - t * g
        if letter == "K":
            p = p + pt.sqrt(2 * diffusion * t) * space.tangent(q, noise())
        elif letter == "A":
            q, p = space.flow(q, p, t)
        elif letter == "O":
            p = ornstein_uhlenbeck(p, friction, diffusion, t, space.tangent(q, noise()))
        elif letter == "F":
            p = ornstein_uhlenbeck(p, friction, 0.0, t, 0.0 * p)
        elif letter == "U":
            q, p = drift_with_friction(q, p, friction, diffusion, t, noise(), noise())
        elif letter == "D":
            assert heat is not None  # words without a thermostat have no D
            friction = heat(friction, p, t)
    return q, p, friction


def ornstein_uhlenbeck(p: Graph, friction: Graph, diffusion: Operand, h: Graph, z: Graph) -> Graph:
    """Solve dp = -friction p dt + sqrt(2 diffusion) dW over a time h, given normals `z`.

    The solution is exact for friction of any sign, because the friction of a thermostat may be
    negative. A symmetric matrix of frictions is diagonalized. The signs of its eigenvectors do not
    affect the law of the result.
    """
    if getattr(friction, "ndim", 0) == 2:
        # `eigh` raises where a number is not finite, which is a divergence and no error.
        finite = pt.invert(pt.isnan(friction) | pt.isinf(friction))
        friction, turn = pt.linalg.eigh(pt.switch(finite, friction, 0.0))
        p = pt.switch(pt.all(finite), p, np.nan)
        p, z = pt.dot(turn.T, p), pt.dot(turn.T, z)
        return pt.dot(turn, ornstein_uhlenbeck(p, friction, diffusion, h, z))
    x = h * friction
    return pt.exp(-x) * p + pt.sqrt(2.0 * h * _mean_decay(2.0 * x) * diffusion) * z


def _mean_decay(x: Graph) -> Graph:
    """Return (1 - exp(-x)) / x, with its limit 1 at x = 0."""
    small = pt.abs(x) < 1e-4
    safe = pt.switch(small, 1.0, x)
    return pt.switch(small, 1.0 - 0.5 * x * (1.0 - x / 3.0), -pt.expm1(-safe) / safe)


def drift_with_friction(
    q: Graph, p: Graph, friction: Graph, diffusion: Graph, h: Graph, z: Graph, z_more: Graph
) -> tuple[Graph, Graph]:
    """Solve dq = p dt and the equation of `ornstein_uhlenbeck` together over a time h.

    The noises of q and p are correlated, and made from the normals `z` and `z_more`. With
    x = friction h, D the diffusion and e(x) = (1 - exp(-x)) / x, their variances are 2 D h^3 s(x),
    where s(x) = (1 - 2 e(x) + e(2 x)) / x^2, and 2 D h e(2 x). Their covariance is D h^2 e(x)^2.
    """
    x = h * friction
    e, e_twice = _mean_decay(x), _mean_decay(2.0 * x)
    few_digits = pt.abs(x) < 0.5
    safe = pt.switch(few_digits, 1.0, x)
    series = 0.0
    for coefficient in SPREAD[::-1]:
        series = coefficient + pt.switch(few_digits, x, 0.0) * series
    spread = pt.switch(few_digits, series, (1.0 - 2.0 * e + e_twice) / safe**2)
    slope = h * e**2 / (2.0 * e_twice)  # regression of the noise of q on that of p
    rest = 2.0 * h**3 * spread - h**2 * e**2 * slope
    of_p = pt.sqrt(2.0 * h * e_twice * diffusion) * z
    q = q + h * e * p + slope * of_p + pt.sqrt(rest * diffusion) * z_more
    return q, pt.exp(-x) * p + of_p


SPREAD = [(-1) ** k * (2.0 - 2.0 ** (k - 1)) / factorial(k) for k in range(3, 20)]
"""Coefficients of the power series of s(x) in `drift_with_friction`."""


def _is_baoab(integrator: str | None) -> bool:
    """Return whether the integrator is BAOAB, with or without a thermostat."""
    return "".join(letter for letter, _ in flows(integrator) if letter != "D") == "BAOA"


def step_bias(integrator: str | None, h: float, curvature: float, thermostat: float = 0.0) -> float:
    """Estimate the relative error of a posterior variance that a step size h may cause.

    On a Gaussian BAOAB has no error, and the other splittings have about h^2 times the curvature
    / 4. On other posteriors all errors are of second order. The constants are from about twenty
    posteriors, in coordinates in which the posterior's sds are one. With h = 0.3 sds were within
    5 % if curvatures did not exceed about 10, and with h = 1 / sqrt(curvature) if they did.
    `thermostat` is the mean friction of thermostats, which causes a first-order error of Euler's
    method.
    """
    bias = h**2 * max(curvature / (33 if _is_baoab(integrator) else 4), 1 / 3)
    return max(bias, h * thermostat / 2) if integrator == "euler" else bias


def longest_step(integrator: str | None, curvature: float, friction: float) -> float:
    """Return the longest stable step size on a Gaussian of that curvature, for a friction."""
    if integrator == "euler":
        return (np.sqrt(friction**2 + 4 * curvature) - friction) / curvature
    return 2 / np.sqrt(curvature)


def virial(integrator: str | None, p: Graph, g: Graph, h: Graph, friction: Graph) -> Graph | None:
    """Return the mean of q g implied by the balance of a constant friction, or None if unknown.

    The balance, in terms of p and g only, follows from E[q q] and E[q p], which are the same before
    and after a step. The balance is exact for any U and any noise of g, if the integrator takes g
    at the q that it returns; for "symmetric" it is exact on a Gaussian. `p`, before the step, and
    `g`, in the step, have shape (steps, d), and `h` has shape (steps, 1).
    """
    if integrator == "euler":
        return p**2 * (1 - h * friction / 2)
    if integrator == "symmetric":
        return p**2 * pt.cosh(h * friction / 2) - h / 2 * p * g
    if integrator == "OBABO":
        return p**2
    if not _is_baoab(integrator):
        return None
    c, kicked = pt.exp(-h * friction), (p - h * g) ** 2
    return (1 - c) / (4 * (1 + c)) * ((1 + 2 * c) * kicked + p**2) + (c * kicked + p**2) / 2


def kinetic_energy(
    integrator: str | None, p_before: Graph, p_after: Graph, g: Graph, h: Graph
) -> Graph:
    """Return p.p, summed over the inner steps.

    The expected mean is d times the temperature with a thermostat, and for BAOAB on a Gaussian
    target without gradient noise. The value is the average of p.p before and after O if there is
    one O in a step, else p.p at the end of the step. `p_before`, `p_after` and `g` have shape
    (steps, d), and `h` has shape (steps,).
    """
    letters = [letter for letter, _ in flows(integrator)]
    if letters.count("O") != 1:
        return pt.sum(p_after**2)
    at = letters.index("O")
    before, after = (
        sum(share for letter, share in part if letter in KICKS)
        for part in (flows(integrator)[:at], flows(integrator)[at:])
    )
    energy = 0.0
    for p, share in ((p_before, -before), (p_after, after)):
        energy = energy + 0.5 * pt.sum((p + share * h[:, None] * g if share else p) ** 2)
    return energy
