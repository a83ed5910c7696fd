"""Stochastic gradient Fisher scoring (Ahn, Korattikara and Welling, 2012)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack, final

import numpy as np
import pytensor.tensor as pt

from pymc_sgmcmc._utils.types import Array, Graph, Keywords, Number, Vector
from pymc_sgmcmc.dynamics.inputs import Gradient, Normals
from pymc_sgmcmc.dynamics.langevin import Langevin
from pymc_sgmcmc.dynamics.setting import Context
from pymc_sgmcmc.step.step_method import SGMCMC

if TYPE_CHECKING:
    from pymc_sgmcmc.step.keywords import Shared, StepSize

__all__ = ["SGFS"]


@dataclass(frozen=True, kw_only=True, eq=False)
class FisherScoring(Langevin):
    """The algorithm of SGFS."""

    name = "sgfs"

    def coefficients(self, context: Context) -> dict[str, Number]:
        total = np.float64(self.temperature)
        left = self.noise_to_inject(total, f"temperature = {self.temperature!r}", context)
        short, estimate = self._lacking(left, context), self.setting.noise_estimate
        if not isinstance(estimate, str) and np.any(short > 0):
            raise ValueError(
                f"step_size={context.step_size!r} is too long for noise_estimate={estimate!r}: "
                "with h / 2 they exceed 1, and the injected noise would be negative. Shorten it."
            )
        return {"left": left, "temperature": total}

    def _lacking(self, left: Array, context: Context) -> Array:
        """Return by how much the noise that h asks for exceeds what is left to inject."""
        if not context.step_size > 0:
            return np.zeros(())  # not yet known
        return np.maximum(context.step_size / 2 * self.temperature - left, 0.0)

    def variance_inflation(self, rate: Vector, context: Context) -> Vector:
        lacking = self._lacking(context.coefficients["left"], context)
        return (rate + lacking) / self.temperature

    def virial(
        self, q: Graph, *, g: Graph, h: Graph, left: Graph, temperature: Graph,
    ) -> Graph | None:  # fmt: skip
        return pt.maximum(left - h / 2 * temperature, 0.0) + h / 2 * g**2

    def update(
        self, q: Graph, *, grad: Gradient, h: Graph, noise: Normals, left: Graph,
        temperature: Graph,
    ) -> tuple[Graph, ...]:  # fmt: skip
        injected = pt.maximum(left - h / 2 * temperature, 0.0)
        return (q - h * grad(q) + pt.sqrt(2 * h * injected) * noise(),)


@final
class SGFS(SGMCMC):
    r"""Stochastic gradient Fisher scoring of Ahn, Korattikara and Welling (2012), algorithm 1.

    Langevin dynamics in coordinates in which the posterior's covariance is the identity, which
    knows its own error there: with the minibatch gradient g(q) of U, its variance V, step size h,
    temperature T and normals z::

        q <- q - h g(q) + sqrt(2 h (T - h T / 2 - h V / 2)) z

    The metric stands for the inverse Fisher information of the paper, and is learned while tuning,
    as the posterior's covariance is the same where the posterior is normal; V is measured.

    Leaves invariant: a normal posterior, if the metric is its covariance, at every h up to
    2 / (1 + V / T), where no noise is injected: constant-step SGD (Mandt, Hoffman and Blei, 2017).
    With T = 1 and V = N / n that is the paper's 2 / gamma. Elsewhere the bias is of order h.

    One gradient an inner step. In the paper h is 2 / (gamma + 4 B / epsilon), gamma = (n + N) / n.

    Parameters
    ----------
    vars : list of variables, optional
        What to sample; default all continuous variables.
    step_size : float, Schedule or None
        0 < h <= 2 / (1 + V / T), in the metric's coordinates. None: tuned.
    metric : {"auto", "dense", "diag"} or array of shape (d,) or (d, d)
        The posterior's covariance, or variances; an array is in the place of what is learned.
    noise_estimate : "auto", float or array of shape (d,)
        h V / 2. "auto": measured while tuning.
    **kwargs
        Common to all samplers: see :class:`~pymc_sgmcmc.SGMCMC`.

    Raises
    ------
    ValueError, TypeError
        If an argument is out of range or the model cannot be sampled; the message names it.

    References
    ----------
    - Ahn, S., Korattikara, A. and Welling, M. (2012). Bayesian posterior sampling via stochastic
      gradient Fisher scoring. ICML.
    - Mandt, S., Hoffman, M. D. and Blei, D. M. (2017). Stochastic gradient descent as approximate
      Bayesian inference. JMLR.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from pymc_sgmcmc import SGFS
    >>> with pm.Model():
    ...     y = pm.Normal("y", pm.Normal("mu"), observed=np.arange(10.0))
    ...     idata = pm.sample(step=SGFS(), progressbar=False, random_seed=1)
    >>> float(idata.posterior["mu"].mean().round(1))
    4.1
    """

    algorithm_class = FisherScoring

    if TYPE_CHECKING:

        def __init__(
            self, vars: Any = None, *, step_size: StepSize | None = None, **others: Unpack[Shared],
        ) -> None: ...  # fmt: skip

    @classmethod
    def complete(cls, own: Keywords, shared: Keywords) -> tuple[Keywords, Keywords]:
        shared = {"metric": "auto", "noise_estimate": "auto"} | shared
        metric = shared["metric"]
        if metric is None:
            raise ValueError("SGFS needs the posterior's covariance: metric=None is for SGLD.")
        if isinstance(metric, str) and shared.get("temperature", 1.0) != 1.0:
            raise ValueError("SGFS with a temperature needs the covariance at 1: give metric=.")
        return own, shared
