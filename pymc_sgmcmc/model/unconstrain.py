"""Draws on the unconstrained scale of PyMC's value variables and their gradients."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc import Model
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import truncated_graph_inputs
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc._utils.flat import entry_name, places, shaped
from pymc_sgmcmc._utils.inference_data import posterior_of
from pymc_sgmcmc.compile.in_python import interpreted
from pymc_sgmcmc.distributions.manifolds import FLAT, manifold_of
from pymc_sgmcmc.model.full_data import full_data

__all__ = ["FlatDraws", "Unconstrain"]


@dataclass(frozen=True, eq=False)
class FlatDraws:
    """All draws of a model's free variables, on the scale of their value variables.

    Attributes
    ----------
    vars : tuple of value variables
        The continuous variables, in the order of `pymc.Model.continuous_value_vars`.
    shapes : tuple of tuple of int
        Shape of one draw of each variable.
    names : tuple of str
        Names of the d coordinates, as from `Target.coordinate`: ``beta[3]``, ``tau_log__``.
    places : tuple of int
        Position of each coordinate among all value variables end to end, with discrete ones.
    values : array, shape (chains, draws, d), float64
    curved : array of bool, shape (d,)
        Which coordinates belong to variables on manifolds, where results for R^d do not hold.
    others : dict
        Draws of the discrete variables by value variable, each (chains, draws, *shape).
    """

    vars: tuple[TensorVariable, ...]
    shapes: tuple[tuple[int, ...], ...]
    names: tuple[str, ...]
    places: tuple[int, ...]
    values: np.ndarray
    curved: np.ndarray
    others: dict[TensorVariable, np.ndarray]

    @property
    def size(self) -> int:
        """The number of coordinates, d."""
        return self.values.shape[2]

    def flat(self) -> np.ndarray:
        """Return the draws of all chains, one chain after the other, shape (chains * draws, d)."""
        return self.values.reshape(-1, self.size)

    def others_at(self, index: int) -> dict[TensorVariable, np.ndarray]:
        """Return the discrete variables at the draw in row `index` of `flat()`."""
        chain, draw = divmod(index, self.values.shape[1])
        return {var: np.asarray(values[chain, draw]) for var, values in self.others.items()}

    def point(self, index: int) -> dict[str, np.ndarray]:
        """Return the value variables' values by name at the draw in row `index` of `flat()`."""
        values = shaped(self.flat()[index], self.shapes)
        point = {
            var.name: value.astype(var.dtype) for var, value in zip(self.vars, values, strict=True)
        }
        return point | {var.name: value for var, value in self.others_at(index).items()}


class Unconstrain:
    """Conversion of the draws in a result of `pm.sample`; one object serves many results.

    Parameters
    ----------
    model : pymc.Model
        The model; one with `pm.Minibatch` is used on all rows.
    """

    def __init__(self, model: Model):
        self.model = model = full_data(model)
        free, transforms = model.free_RVs, model.rvs_to_transforms
        self._transformed = [rv for rv in free if transforms[rv] is not None]
        forwards = [transforms[rv].forward(rv, *rv.owner.inputs) for rv in self._transformed]
        # A transform may depend on other free variables: the bounds of a uniform, say.
        needed = set(truncated_graph_inputs(forwards, free)) if forwards else set()
        self._inputs = [rv for rv in free if rv in needed]
        # All draws in one call, along a leading axis: cheap enough to be left uncompiled.
        batched = [pt.tensor(dtype=rv.dtype, shape=(None, *rv.type.shape)) for rv in self._inputs]
        outputs = vectorize_graph(forwards, dict(zip(self._inputs, batched, strict=True)))
        self._forward = interpreted(batched, outputs) if forwards else None

    def __call__(self, idata: Any) -> FlatDraws:
        """Return the posterior draws of `idata`; raise ValueError if a free variable is missing."""
        model, posterior = self.model, posterior_of(idata)
        missing = [rv.name for rv in model.free_RVs if rv.name not in posterior]
        if missing:
            raise ValueError(
                f"The posterior lacks the free variables {missing} of the model: gradients and "
                "means of the others cannot be judged without them. Sample again with all free "
                "variables in var_names= (or without var_names=), or pass the model that was "
                "sampled."
            )
        drawn = {rv: posterior[rv.name].values for rv in model.free_RVs}
        for rv, values in drawn.items():
            _check_shape(rv, values.shape[2:])
        lead = next(iter(drawn.values())).shape[:2]
        values = {model.rvs_to_values[rv]: array for rv, array in drawn.items()}
        if self._forward is not None:
            arrays = (
                np.ascontiguousarray(drawn[rv].reshape(-1, *drawn[rv].shape[2:]), rv.dtype)
                for rv in self._inputs
            )
            # At the edge of the support the logarithm is infinite: users of the draws check that.
            with np.errstate(divide="ignore", invalid="ignore"):
                outputs = self._forward(*arrays)
            for rv, output in zip(self._transformed, outputs, strict=True):
                values[model.rvs_to_values[rv]] = output.reshape(*lead, *output.shape[1:])
        continuous = tuple(model.continuous_value_vars)
        if not continuous:
            raise ValueError(
                "There is nothing to check: the model has no free continuous variable, and the "
                "checks are for these."
            )
        shapes = tuple(values[var].shape[2:] for var in continuous)
        names = tuple(
            entry_name(var.name, shape, index)
            for var, shape in zip(continuous, shapes, strict=True)
            for index in range(int(np.prod(shape)))
        )
        sizes = [int(np.prod(values[var].shape[2:])) for var in model.value_vars]
        flat = [values[var].reshape(*lead, -1).astype(np.float64, copy=False) for var in continuous]
        return FlatDraws(
            continuous,
            shapes,
            names,
            tuple(places(model.value_vars, sizes, continuous).tolist()),
            flat[0] if len(flat) == 1 else np.concatenate(flat, axis=2),
            np.repeat(
                [manifold_of(model, var) is not FLAT for var in continuous],
                [int(np.prod(shape)) for shape in shapes],
            ),
            {var: values[var].astype(var.dtype) for var in values if var not in continuous},
        )


def _check_shape(rv: TensorVariable, shape: tuple[int, ...]) -> None:
    known = rv.type.shape
    if len(known) != len(shape) or any(k not in (None, n) for k, n in zip(known, shape)):
        raise ValueError(
            f"{rv.name!r} has shape {shape} in the posterior, and {known} in the model: pass the "
            "model that was sampled."
        )
