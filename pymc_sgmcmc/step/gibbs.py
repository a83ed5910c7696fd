"""Gibbs sampling of variables whose conditional distribution the user knows."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, final

import numpy as np
from pymc.blocking import PointType
from pymc.step_methods.compound import BlockedStep, StepMethodState
from pymc.util import get_random_generator, get_value_vars_from_user_vars
from pytensor.graph.traversal import truncated_graph_inputs

from pymc_sgmcmc._utils.argument_rows import FLAG, MODEL, POINT, RNG, VARS
from pymc_sgmcmc._utils.arguments import CheckedArguments
from pymc_sgmcmc._utils.constraints import Function
from pymc_sgmcmc._utils.context import model_of
from pymc_sgmcmc._utils.signatures import shows_its_arguments
from pymc_sgmcmc.compile.backend import Backend
from pymc_sgmcmc.compile.compiled_graph import CompiledGraph

__all__ = ["Gibbs"]


@final
@shows_its_arguments
class Gibbs(CheckedArguments, BlockedStep):
    """Draws a variable from its conditional distribution given all others.

    For conjugate parts of a model, beside another step method for the rest (Geman and Geman, 1984).
    Leaves invariant: the posterior, exactly, if the function draws from the right conditional,
    which is not checked: compare with NUTS on a part of the data. No gradient; each draw costs what
    the function does with all rows.

    Parameters
    ----------
    vars : variable
        A free variable of the model, continuous or discrete.
    conditional : callable
        ``conditional(point, rng)`` returns a new value of the variable. ``point``: the values of
        all free variables by name, as the model has them (a positive one is positive); ``rng``:
        numpy.random.Generator, the only source of randomness, else seeds do not fix the draws.
    model : pymc.Model, optional
        Default that of the ``with`` block.
    rng : int, numpy.random.Generator or None
        `pm.sample` replaces it for each chain.
    initial_point : dict, optional
        Not used.
    blocked : bool
        Not used.

    Raises
    ------
    ValueError, TypeError
        If there is not one variable, `conditional` cannot be called, or it returns a value of
        another shape or kind, not finite, or (where PyMC transforms it) not in the support.

    References
    ----------
    - Geman, S. and Geman, D. (1984). Stochastic relaxation, Gibbs distributions, and the Bayesian
      restoration of images. IEEE Transactions on Pattern Analysis and Machine Intelligence.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from pymc_sgmcmc import SGNHT, Gibbs
    >>> data = np.array([1.2, 0.7, 1.9, 0.4])
    >>> def draw_tau(point, rng):
    ...     return rng.gamma(2 + 4 / 2) / (1 + np.sum((data - point["mu"]) ** 2) / 2)
    >>> with pm.Model():
    ...     mu, tau = pm.Normal("mu"), pm.Gamma("tau", alpha=2, beta=1)
    ...     y = pm.Normal("y", mu, tau=tau, observed=data)
    ...     step = [SGNHT([mu], step_size=0.1), Gibbs(tau, draw_tau)]
    ...     idata = pm.sample(step=step, progressbar=False, random_seed=1)
    >>> float(idata.posterior["tau"].mean().round())
    2.0
    """

    name = "gibbs"
    arguments: ClassVar = {
        "vars": VARS,
        "conditional": Function("a point and an rng"),
        "model": MODEL,
        "rng": RNG,
        "initial_point": POINT,
        "blocked": FLAG,
    }
    _state_class = StepMethodState

    def __init__(
        self,
        vars: Any,
        conditional: Callable[[Mapping[str, np.ndarray], np.random.Generator], Any],
        *,
        model: Any = None,
        rng: Any = None,
        initial_point: PointType | None = None,
        blocked: bool = True,
    ):
        model = model_of(model)
        values = get_value_vars_from_user_vars(vars, model)
        if len(values) != 1:
            names = [value.name for value in values]
            raise ValueError(f"Gibbs(vars) takes one variable, and has {names}: use one for each.")
        self.vars, self.rng, self.blocked = values, get_random_generator(rng), blocked
        self.var_names = tuple(value.name for value in values)
        (value,) = values
        self._conditional, self._value = conditional, value.name
        self._rv = model.values_to_rvs[value].name
        self._names = {rv.name: model.rvs_to_values[rv].name for rv in model.free_RVs}
        transforms = {rv: t for rv, t in model.rvs_to_transforms.items() if t is not None}
        back = [
            transform.backward(model.rvs_to_values[rv], *rv.owner.inputs)
            for rv, transform in transforms.items()
        ]
        self._transformed = [rv.name for rv in transforms]
        self._back = _AtPoint(model, back)
        self._there, rv = None, model.values_to_rvs[value]
        if rv in transforms:
            given = rv.type("given")
            there = transforms[rv].forward(given, *rv.owner.inputs)
            self._there = _AtPoint(model, [there], [given])

    def step(self, point: PointType) -> tuple[PointType, list[dict[str, Any]]]:
        seen = {name: np.array(point[value]) for name, value in self._names.items()}
        seen |= zip(self._transformed, self._back(point), strict=True)
        before = np.asarray(seen[self._rv])
        given = np.asarray(self._conditional(seen, self.rng))
        if given.shape != before.shape:
            raise ValueError(
                f"The conditional of {self._rv!r} returned shape {given.shape}, and the variable "
                f"has {before.shape}."
            )
        if before.dtype.kind in "iu" and not np.array_equal(given, given.astype(before.dtype)):
            raise ValueError(
                f"The conditional of {self._rv!r} returned {given}, and the variable is discrete."
            )
        value = given = given.astype(before.dtype)
        if self._there is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                (value,) = self._there(point, given)
        if not np.isfinite(value).all():
            raise ValueError(
                f"The conditional of {self._rv!r} returned {given}, which is not finite, or not in "
                "the support of the variable."
            )
        return point | {self._value: value.astype(point[self._value].dtype)}, [{}]


class _AtPoint:
    """Graphs of the model as a compiled function of a point, and of what is `more`."""

    def __init__(self, model: Any, graphs: list[Any], more: list[Any] | None = None):
        self._function = None
        if graphs:
            graphs, more = model.replace_rvs_by_values(graphs), more or []
            needed = set(truncated_graph_inputs(graphs, model.value_vars))
            inputs = [value for value in model.value_vars if value in needed]
            self._names = [value.name for value in inputs]
            self._function = CompiledGraph([*inputs, *more], graphs, Backend("c"))

    def __call__(self, point: PointType, *more: np.ndarray) -> list[np.ndarray]:
        if self._function is None:
            return []
        return self._function(*(np.asarray(point[name]) for name in self._names), *more)
