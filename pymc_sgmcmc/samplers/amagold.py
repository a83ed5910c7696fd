"""Amortised Metropolis adjustment for SGHMC (Zhang, Cooper and De Sa, 2020)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Unpack, final

import numpy as np
import pytensor.tensor as pt

from pymc_sgmcmc._utils.constraints import Choice, NotTaken, Optional, Positive
from pymc_sgmcmc._utils.types import Graph, Keywords, Number
from pymc_sgmcmc._utils.validation import DEFAULT
from pymc_sgmcmc.dynamics.hyperparameters import hyperparameter
from pymc_sgmcmc.dynamics.inputs import Gradient, Normals
from pymc_sgmcmc.dynamics.metropolis import TARGET_ACCEPT, gain
from pymc_sgmcmc.dynamics.momentum import Momentum
from pymc_sgmcmc.dynamics.setting import Context
from pymc_sgmcmc.posterior.batch_sources import remembers
from pymc_sgmcmc.step.arguments import GRADIENTS
from pymc_sgmcmc.step.step_method import SGMCMC

if TYPE_CHECKING:
    from pymc_sgmcmc.step.keywords import Common, Rows, StepSize

__all__ = ["AMAGOLD"]


@dataclass(frozen=True, kw_only=True, eq=False)
class AmortisedMetropolis(Momentum):
    """The algorithm of AMAGOLD: it accepts or rejects by U on all rows, once a draw.

    It carries its ``momentum``; ``r``, the log of the ratio of densities of the inner steps and of
    their reverse, times the temperature; its potential ``u`` on all rows; the ``factor`` by which
    tuning multiplies the step size; and the last ``acceptance``.
    """

    name = "amagold"
    has_accept_step = True
    rejects_trajectories = True
    accepts_draws = True
    kept_energy = ("u",)
    learned_state = ("factor",)
    stats = ("acceptance", "factor")
    scheme = "symmetric"

    friction: float = hyperparameter(Positive(), default=1.0)
    target_accept: float | None = hyperparameter(TARGET_ACCEPT, default=0.8)

    @property
    def can_optimize(self) -> bool:
        return False

    def initial_state(self, rng: np.random.Generator, context: Context) -> dict[str, Number]:
        p = super().initial_state(rng, context)["p"]
        return {"momentum": p, "r": 0.0, "u": np.nan, "factor": 1.0, "acceptance": 1.0}

    def coefficients(self, context: Context) -> dict[str, Number]:
        return {"friction": self.friction, "temperature": self.temperature}

    def step_bias(self, h: float, curvature: float) -> float:
        return h**2 * curvature / 4  # of what is proposed

    def accept_draw(
        self, start: Mapping[str, Any], end: Mapping[str, Any], normal: float, draw: int, *,
        tuning: bool,
    ) -> tuple[bool, dict[str, Number]]:  # fmt: skip
        end = dict(end)
        log_ratio = (start["u"] - end["u"] + float(end["r"])) / self.temperature
        acceptance = math.exp(min(log_ratio, 0.0)) if np.isfinite(log_ratio) else 0.0
        accepted = 0.5 * math.erfc(-normal / math.sqrt(2.0)) <= acceptance
        if not accepted:
            end |= {"momentum": -start["momentum"], "u": start["u"]}
        if tuning and self.target_accept is not None:
            end["factor"] = end["factor"] * math.exp(gain(draw) * (acceptance - self.target_accept))
        return accepted, end | {"r": 0.0, "acceptance": acceptance}

    def update(
        self, q: Graph, p: Graph, r: Graph, u: Graph, factor: Graph, acceptance: Graph, *,
        grad: Gradient, h: Graph, noise: Normals, friction: Graph, temperature: Graph,
    ) -> tuple[Graph, ...]:  # fmt: skip
        h = h * factor
        x = h * friction / 2
        q = q + h / 2 * p
        g = grad(q)
        new = ((1 - x) * p - h * g + pt.sqrt(4 * x * temperature) * noise()) / (1 + x)
        r = r + h / 2 * pt.sum(g * (p + new))
        return q + h / 2 * new, new, r, u, factor, acceptance


@final
class AMAGOLD(SGMCMC):
    r"""Amortised Metropolis adjustment of SGHMC by Zhang, Cooper and De Sa (2020), algorithm 1.

    Minibatch gradients without a bias: a draw is a trajectory of `steps_per_draw` inner steps, and
    its end is accepted or rejected by U on all rows, once. With the minibatch gradient g(q), step
    size h, friction C, temperature T and normals z, from r = 0::

        q  <- q + h / 2 p
        p' <- ((1 - h C / 2) p - h g(q) + sqrt(2 h C T) z) / (1 + h C / 2)
        r  <- r + h / 2 g(q).(p + p')
        q  <- q + h / 2 p',  p <- p'

    and at the end (q, p) is kept with probability min(1, exp((U(start) - U(q) + r) / T)); else the
    chain is back at its start, with p reversed.

    Leaves invariant: exp(-(U(q) + p.p / 2) / T), at every h and with any gradient noise, which
    costs acceptance, not accuracy. While tuning, h is multiplied by a factor, the sample stat
    ``factor``, that makes the mean acceptance `target_accept`; the stat ``acceptance`` is that of a
    draw.

    One minibatch gradient an inner step, and U on all rows once a draw: longer trajectories
    amortise that. The paper's beta is C / 2.

    Parameters
    ----------
    vars : list of variables, optional
        What to sample; default all continuous variables.
    step_size : float, Schedule or None
        h > 0. None: tuned, and so is the metric.
    friction : float
        C > 0, a rate (one over time).
    target_accept : float or None
        From 0 to 1. None: h stays.
    steps_per_draw : int
        Inner steps of a trajectory.
    gradient : {"plain", "control_variate"}
        Default "control_variate" if the step size is tuned.
    **kwargs
        Common to all samplers, but for `noise_estimate`: see :class:`~pymc_sgmcmc.SGMCMC`.
        Batches must be drawn independently: "random" or "blocks".

    Raises
    ------
    ValueError, TypeError
        If an argument is out of range or the model cannot be sampled; the message names it.

    References
    ----------
    - Zhang, R., Cooper, A. F. and De Sa, C. (2020). AMAGOLD: Amortized Metropolis adjustment for
      efficient stochastic gradient MCMC. AISTATS.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from pymc_sgmcmc import AMAGOLD
    >>> with pm.Model():
    ...     mu = pm.Normal("mu")
    ...     y = pm.Normal("y", mu, observed=np.arange(10.0))
    ...     idata = pm.sample(step=AMAGOLD(), progressbar=False, random_seed=1)
    >>> float(idata.posterior["mu"].mean().round(1))
    4.1
    """

    algorithm_class = AmortisedMetropolis
    arguments: ClassVar = {
        "gradient": Optional(Choice((DEFAULT, *GRADIENTS))),
        "noise_estimate": NotTaken("gradient noise is corrected exactly"),
    }

    if TYPE_CHECKING:

        def __init__(
            self, vars: Any = None, *, step_size: StepSize | None = None, friction: float = 1.0,
            target_accept: float | None = 0.8, batch_size: Rows = ...,
            batches: Literal["random", "blocks"] = ...,
            gradient: Literal["plain", "control_variate"] = ...,
            **others: Unpack[Common],
        ) -> None: ...  # fmt: skip

    @classmethod
    def complete(cls, own: Keywords, shared: Keywords) -> tuple[Keywords, Keywords]:
        if "noise_estimate" in shared:
            raise TypeError("AMAGOLD corrects gradient noise exactly: leave out noise_estimate.")
        gradient, batches = shared.get("gradient"), shared.get("batches", DEFAULT)
        if remembers(batches) or gradient == "svrg":
            given = "gradient='svrg'" if gradient == "svrg" else f"batches={batches!r}"
            raise ValueError(
                f"AMAGOLD is exact where gradients do not remember the chain, and those of {given} "
                "do. Use batches='random' and gradient='control_variate'."
            )
        has_step = shared.get("step_size") is not None
        gradient = gradient or ("plain" if has_step else "control_variate")
        return own, shared | {"gradient": gradient, "noise_estimate": 0.0}
