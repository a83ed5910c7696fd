"""Stochastic gradient Langevin dynamics (Welling and Teh, 2011)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Unpack, final

import numpy as np
import pytensor.tensor as pt

from pymc_sgmcmc._utils.constraints import Choice
from pymc_sgmcmc._utils.types import Graph, Number
from pymc_sgmcmc._utils.validation import DEFAULT
from pymc_sgmcmc.dynamics.hyperparameters import hyperparameter
from pymc_sgmcmc.dynamics.inputs import Gradient, Normals
from pymc_sgmcmc.dynamics.langevin import Langevin
from pymc_sgmcmc.dynamics.setting import Context
from pymc_sgmcmc.step.step_method import SGMCMC

if TYPE_CHECKING:
    from pymc_sgmcmc.step.keywords import Shared, StepSize

__all__ = ["SGLD"]


@dataclass(frozen=True, kw_only=True, eq=False)
class OverdampedLangevin(Langevin):
    """The algorithm of SGLD."""

    name = "sgld"

    noise: str = hyperparameter(Choice(("fresh", "averaged", DEFAULT)), default=DEFAULT)

    @property
    def averages(self) -> bool:
        """Whether each step has the mean of its own normals and of those before."""
        return self.setting.tunes_step if self.noise == DEFAULT else self.noise == "averaged"

    def initial_state(self, rng: np.random.Generator, context: Context) -> dict[str, Number]:
        return {"z": rng.standard_normal(self.size)} if self.averages else {}

    def coefficients(self, context: Context) -> dict[str, Number]:
        total, name = np.float64(self.temperature), f"temperature = {self.temperature!r}"
        return {"temperature": self.noise_to_inject(total, name, context)}

    def step_bias(self, h: float, curvature: float) -> float:
        # Averaged noise: none on a Gaussian, and of first order elsewhere.
        return super().step_bias(h, curvature) * (0.6 if self.averages else 1.0)

    def virial(
        self, q: Graph, *before: Graph, g: Graph, h: Graph, temperature: Graph,
    ) -> Graph | None:  # fmt: skip
        mean = temperature + h / 2 * g**2
        if self.averages:
            (z_before,) = before
            mean = mean - pt.sqrt(h * temperature / 2) * z_before * g
        return mean

    def update(
        self, q: Graph, *before: Graph, grad: Gradient, h: Graph, noise: Normals,
        temperature: Graph,
    ) -> tuple[Graph, ...]:  # fmt: skip
        z = noise()
        if not self.averages:
            return (q - h * grad(q) + pt.sqrt(2 * h * temperature) * z,)
        (z_before,) = before
        return q - h * grad(q) + pt.sqrt(h * temperature / 2) * (z_before + z), z


@final
class SGLD(SGMCMC):
    r"""Stochastic gradient Langevin dynamics of Welling and Teh (2011), equation 4.

    With the minibatch gradient g(q) of U, step size h, temperature T, noise estimate B and normals
    z, ``noise="fresh"`` is the paper's::

        q <- q - h g(q) + sqrt(2 h (T - B)) z

    and "averaged" is the scheme of Leimkuhler and Matthews (2013), where z_before is the z of the
    step before::

        q <- q - h g(q) + sqrt(h (T - B) / 2) (z_before + z)

    Leaves invariant: exp(-U(q) / T) as h -> 0, if B is the h V / 2 that gradients of variance V
    add. At finite h and B = 0 a Gaussian coordinate with precision a has the variance
    (T + h V / 2) / (a (1 - h a / 2)) with fresh noise and (T + h V / (2 - h a)) / a with averaged
    noise, exactly. V dominates where rows outnumber the batch.

    One gradient an inner step. The paper's epsilon is 2 h.

    Parameters
    ----------
    vars : list of variables, optional
        What to sample; default all continuous variables.
    step_size : float, Schedule or None
        h > 0. Stable for h times the largest curvature of U below 2. None: tuned.
    noise : {"averaged", "fresh"}
        Default "averaged" if the step size is tuned, else "fresh".
    noise_estimate : float, array of shape (d,), or "auto"
        B >= 0, at most the temperature. "auto" (the default if the step size is tuned): measured.
    **kwargs
        Common to all samplers: see :class:`~pymc_sgmcmc.SGMCMC`.

    Raises
    ------
    ValueError, TypeError
        If an argument is out of range or the model cannot be sampled; the message names it.

    References
    ----------
    - Welling, M. and Teh, Y. W. (2011). Bayesian learning via stochastic gradient Langevin
      dynamics. ICML.
    - Leimkuhler, B. and Matthews, C. (2013). Rational construction of stochastic numerical methods
      for molecular sampling. Applied Mathematics Research eXpress.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from pymc_sgmcmc import SGLD
    >>> with pm.Model():
    ...     mu = pm.Normal("mu")
    ...     y = pm.Normal("y", mu, observed=np.arange(10.0))
    ...     idata = pm.sample(step=SGLD(), progressbar=False, random_seed=1)
    >>> float(idata.posterior["mu"].mean().round(1))
    4.1
    """

    algorithm_class = OverdampedLangevin

    if TYPE_CHECKING:

        def __init__(
            self, vars: Any = None, *, step_size: StepSize | None = None,
            noise: Literal["fresh", "averaged", "default"] = "default", **others: Unpack[Shared],
        ) -> None: ...  # fmt: skip
