"""Density of the posterior of a small model, on the scale of its variables."""

from collections.abc import Mapping
from types import SimpleNamespace

import numpy as np
import pytensor.tensor as pt
import xarray as xr
from pymc import Model
from pytensor.graph.replace import vectorize_graph

from pymc_sgmcmc._utils.flat import shaped
from pymc_sgmcmc.compile.in_python import interpreted
from pymc_sgmcmc.model.full_data import full_data
from pymc_sgmcmc.model.unconstrain import FlatDraws, Unconstrain
from pymc_sgmcmc.results.exact_gradients import ExactGradients

__all__ = ["exact_log_density"]


@np.errstate(invalid="ignore", over="ignore")
def exact_log_density(model: Model, points: Mapping[str, np.ndarray]) -> np.ndarray:
    """Compute the log-density of a model's free variables on all rows, minus its largest value.

    Parameters
    ----------
    model : pymc.Model
        A model without discrete free variables.
    points : mapping of str to array, shape (n, *shape)
        The values of each free variable by name at n points. The first point must be within the
        support.

    Returns
    -------
    array, shape (n,)
        Log-densities, minus infinity outside the support.

    Raises
    ------
    ValueError
        If a variable has another number of entries than its value variable, or is on a manifold.
    """
    model = full_data(model)
    drawn = {
        name: (("chain", "draw", *(f"{name}_{i}" for i in range(values.ndim - 1))), values[None])
        for name, values in points.items()
    }
    draws = Unconstrain(model)(SimpleNamespace(posterior=xr.Dataset(drawn)))
    entries = sum(np.size(values[0]) for values in points.values())
    if draws.curved.any() or draws.size != entries:
        raise ValueError(
            "A variable of the model is on a manifold or a simplex, where densities are of another "
            "kind: plot its draws by arviz."
        )
    inside = np.flatnonzero(np.isfinite(draws.flat()).all(axis=1))
    energies, _ = ExactGradients(model).energies(draws, inside, progressbar=False)
    # U includes the Jacobian of the transforms, as a density on the unconstrained scale.
    log_density = np.full(len(draws.flat()), -np.inf)
    log_density[inside] = -energies - _log_jacobian(model, draws)[inside]
    log_density[~np.isfinite(log_density)] = -np.inf
    return log_density - log_density.max()


def _log_jacobian(model: Model, draws: FlatDraws) -> np.ndarray:
    """Return the log of the Jacobian dx / dq of all transforms at each draw, (n,)."""
    transforms = model.rvs_to_transforms
    terms = [
        pt.sum(transforms[rv].log_jac_det(model.rvs_to_values[rv], *rv.owner.inputs))
        for rv in model.free_RVs
        if transforms[rv] is not None
    ]
    n = len(draws.flat())
    if not terms:
        return np.zeros(n)
    (graph,) = model.replace_rvs_by_values([pt.add(*terms, 0.0)])
    batched = [pt.tensor(dtype=var.dtype, shape=(None, *var.type.shape)) for var in draws.vars]
    output = vectorize_graph(graph, dict(zip(draws.vars, batched, strict=True)))
    values = [
        np.ascontiguousarray(value, var.dtype)
        for value, var in zip(shaped(draws.flat(), draws.shapes), draws.vars, strict=True)
    ]
    (found,) = interpreted(batched, [output])(*values)
    return np.broadcast_to(found, n)
