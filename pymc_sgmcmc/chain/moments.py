"""Moments that the kernel sums over the inner steps, per coordinate."""

from collections.abc import Mapping

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

__all__ = ["MOMENTS", "moment_sums", "wide"]

MOMENTS = ("g", "g2", "p2", "xi", "q", "g_at_q", "qg", "virial", "q2")
"""Moments of single steps, then moments for W and Monte Carlo errors.

- ``g``, ``g2``: the gradient of the step and its square.
- ``p2``, ``xi``: the square of the momentum and the thermostat, before the step.
- ``q``, ``g_at_q``, ``qg``: a position that the chain returns, minus the origin of the sums; a
  gradient there on rows that the chain has not used yet; and their product. These are q before the
  step and its g, or, if a sampler takes its gradient elsewhere, both at the start of the draw.
- ``virial``: the mean of ``qg`` that the sampler's balance implies.
- ``q2``: the square of ``q``.
"""


def wide(value: TensorVariable) -> TensorVariable:
    """Cast values of steps, (steps,) or (steps, d), to float64 with shape (steps, 1 or d)."""
    value = value.astype("float64")
    return value[:, None] if value.type.ndim == 1 else value


def moment_sums(
    before: Mapping[str, TensorVariable],
    gradients: TensorVariable,
    pairs: tuple[TensorVariable, TensorVariable],
    virial: TensorVariable | None,
    each: TensorVariable | float,
) -> TensorVariable:
    """Build the graph of the sums of `MOMENTS` over the steps, (9, d) float64; NaN if missing.

    Parameters
    ----------
    before : mapping of str to graph
        The carried variables before each step, (steps, d), (steps,), or (steps, d, d).
    gradients : graph, shape (steps, d)
    pairs : graphs of q and g, shape (steps, d) or (1, d)
    virial : graph, shape (steps, d), or None
    each : graph or float
        Number of steps that a pair represents.
    """
    missing = pt.full((gradients.type.shape[1],), np.nan)

    def total(value: TensorVariable | None) -> TensorVariable:
        return missing if value is None else pt.sum(value, axis=0)

    g, p, xi = wide(gradients), before.get("p"), before.get("xi")
    if xi is not None and xi.type.ndim == 3:
        xi = pt.diagonal(xi, axis1=1, axis2=2)
    q_at, g_at = map(wide, pairs)
    rows = [
        total(g),
        total(g**2),
        total(None if p is None else wide(p) ** 2),
        missing if xi is None else total(wide(xi)) + pt.zeros_like(missing),
        *(each * total(value) for value in (q_at, g_at, q_at * g_at)),
        total(virial),
        each * total(q_at**2),
    ]
    return pt.concatenate(rows).reshape((len(rows), -1))
