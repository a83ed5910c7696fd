"""The complete recipe for stochastic gradient MCMC (Ma, Chen and Fox, 2015)."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, Unpack

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.traversal import ancestors

from pymc_sgmcmc._utils.constraints import Function, MappingOf, Optional
from pymc_sgmcmc._utils.types import Graph, Number
from pymc_sgmcmc.dynamics.algorithm import Algorithm
from pymc_sgmcmc.dynamics.block_matrices import (
    block_of,
    check_names,
    divergence,
    root,
    row_of,
    times,
)
from pymc_sgmcmc.dynamics.hyperparameters import hyperparameter
from pymc_sgmcmc.dynamics.inputs import Gradient, Normals
from pymc_sgmcmc.dynamics.setting import Context
from pymc_sgmcmc.step.step_method import SGMCMC

if TYPE_CHECKING:
    from pymc_sgmcmc.step.keywords import Shared, StepSize

__all__ = ["Recipe"]

Start: TypeAlias = Callable[[np.random.Generator, int], Any]
"""A function of a generator and d that returns where a variable begins."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Decomposed(Algorithm, ABC):
    """An algorithm that is given by the matrices D and Q of Ma, Chen and Fox (2015)."""

    @abstractmethod
    def diffusion(self, **at: Graph) -> Mapping[str, Any]:
        """Return the blocks of D, by the name of the variable."""

    @abstractmethod
    def curl(self, **at: Graph) -> Mapping[tuple[str, str], Any]:
        """Return the blocks of Q above the diagonal, by pairs of names."""

    @abstractmethod
    def auxiliary_energy(self, **at: Graph) -> Graph:
        """Return what is added to U, a scalar."""

    @abstractmethod
    def starts(self) -> Mapping[str, Start]:
        """Return ``start(rng, d)`` of each auxiliary variable, by name."""

    def initial_state(self, rng: np.random.Generator, context: Context) -> dict[str, Number]:
        state: dict[str, Number] = {
            name: np.asarray(start(rng, self.size)) for name, start in self.starts().items()
        }
        if "q" in state or np.shape(state.get("p", [0])) == ():
            raise ValueError("auxiliary: q is the position, and p, a momentum, has shape (d,).")
        return state

    def coefficients(self, context: Context) -> dict[str, Number]:
        return {"temperature": self.temperature}

    def update(
        self, q: Graph, *auxiliary: Graph, grad: Gradient, h: Graph, noise: Normals,
        temperature: Graph,
    ) -> tuple[Graph, ...]:  # fmt: skip
        names = list(self.starts())
        now = {"q": q} | dict(zip(names, auxiliary, strict=True))
        g, new = grad(q), dict(now)
        for name in [*names, "q"]:
            new[name] = self._moved(name, now, new, g, h, noise, temperature)
        return new["q"], *(new[each] for each in names)

    def _moved(
        self, name: str, now: Mapping[str, Graph], new: Mapping[str, Graph], g: Graph, h: Graph,
        noise: Normals, temperature: Graph,
    ) -> Graph:  # fmt: skip
        """Return the variable `name` after its part of the step."""
        at = {each: value.copy() for each, value in new.items()}  # symbols of their own
        energy = self.auxiliary_energy(**at)
        D, Q = self.diffusion(**at), self.curl(**at)
        check_names(at, D, Q)
        value = now[name]
        for other, block in row_of(name, D, Q).items():
            slope = g if other == "q" else 0.0
            if at[other] in ancestors([energy]):
                slope = slope + pt.grad(energy, at[other])
            value = value - h * times(block, slope, value)
            value = value + h * temperature * divergence(block, at[other], at[name])
        if name in D:
            z = noise() if value.type.ndim else noise()[0]
            value = value + pt.sqrt(2 * h * temperature) * times(root(block_of(D[name])), z, value)
        return value


@dataclass(frozen=True, kw_only=True, eq=False)
class CompleteRecipe(Decomposed):
    """The algorithm of Recipe: functions that a user gives."""

    name = "recipe"

    D: Callable[..., Mapping[str, Any]] = hyperparameter(
        Function("q and the auxiliary variables, for the diffusion by name")
    )
    Q: Callable[..., Mapping[tuple[str, str], Any]] | None = hyperparameter(
        Optional(Function("q and the auxiliary variables, for the curl by name")), default=None
    )
    energy: Callable[..., Graph] | None = hyperparameter(
        Optional(Function("q and the auxiliary variables")), default=None
    )
    auxiliary: Mapping[str, Start] | None = hyperparameter(
        Optional(MappingOf("functions of a generator and d, by name")), default=None
    )

    def diffusion(self, **at: Graph) -> Mapping[str, Any]:
        return self.D(**at)

    def curl(self, **at: Graph) -> Mapping[tuple[str, str], Any]:
        return self.Q(**at) if self.Q else {}

    def auxiliary_energy(self, **at: Graph) -> Graph:
        return self.energy(**at) if self.energy else pt.zeros(())

    def starts(self) -> Mapping[str, Start]:
        return self.auxiliary or {}


class Recipe(SGMCMC):
    r"""Sampler of a diffusion matrix D and a curl matrix Q: Ma, Chen and Fox (2015), equation 3.

    With z = (q, auxiliary variables), H(z) = U(q) + energy(z), temperature T, and normals n::

        z <- z - h (D + Q) dH/dz + h T Gamma + sqrt(2 h T D) n,  Gamma_i = sum_j d(D + Q)_ij / dz_j

    Gamma comes by automatic differentiation. The auxiliary variables move first, in their order,
    each given the new values of those before it, and q last: with D = C for p and Q = -1 between q
    and p that is SGHMC by symplectic Euler.

    Leaves invariant: exp(-H(z) / T) as h -> 0, for every D that is positive definite and every
    Q that is skew-symmetric; the bias is of first order in h. Noise of gradients is not subtracted.
    One gradient an inner step. Derivatives of a matrix of z cost d of its evaluations: for small d.

    Parameters
    ----------
    vars : list of variables, optional
        What to sample; default all continuous variables.
    step_size : float or Schedule
        h > 0. It is not tuned.
    D : callable
        ``D(q=, **auxiliary)`` returns, by the names of variables, their blocks on the diagonal:
        numbers, (d,) (a diagonal) or (d, d), which may depend on the variables; none is zero.
    Q : callable, optional
        ``Q(q=, **auxiliary)`` returns, by pairs of names, blocks above the diagonal: as those of D,
        and (d,) between a vector and a scalar. Those below follow. Default none.
    energy : callable, optional
        ``energy(q=, **auxiliary)``: a scalar. Default 0.
    auxiliary : mapping of str to callable, optional
        Start of each, by name: ``start(rng, d)`` returns a number or an array of shape (d,).
    **kwargs
        Common to all samplers: see :class:`~pymc_sgmcmc.SGMCMC`.

    Raises
    ------
    ValueError, TypeError
        If D or Q name a variable that there is not, or an argument is out of range.

    References
    ----------
    - Ma, Y.-A., Chen, T. and Fox, E. B. (2015). A complete recipe for stochastic gradient MCMC.
      NIPS.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from pymc_sgmcmc import Recipe
    >>> with pm.Model():
    ...     y = pm.Normal("y", pm.Normal("mu"), observed=np.arange(10.0))
    ...     sghmc = Recipe(
    ...         step_size=0.05,
    ...         D=lambda q, p: {"p": 2.0}, Q=lambda q, p: {("q", "p"): -1.0},
    ...         energy=lambda q, p: (p**2).sum() / 2,
    ...         auxiliary={"p": lambda rng, d: rng.standard_normal(d)},
    ...     )
    ...     idata = pm.sample(step=sghmc, progressbar=False, random_seed=1)
    >>> float(idata.posterior["mu"].mean().round(1))
    4.1
    """

    algorithm_class = CompleteRecipe
    required: ClassVar = ("step_size",)

    if TYPE_CHECKING:

        def __init__(
            self, vars: Any = None, *, step_size: StepSize, D: Callable[..., Mapping[str, Any]],
            Q: Callable[..., Mapping[tuple[str, str], Any]] | None = None,
            energy: Callable[..., Any] | None = None, auxiliary: Mapping[str, Start] | None = None,
            **others: Unpack[Shared],
        ) -> None: ...  # fmt: skip
