"""Amortised Metropolis adjustment for SGHMC (Zhang, Cooper and De Sa, 2020)."""

from typing import Any, ClassVar, final

import pytensor.tensor as pt

from pymc_sgmcmc._utils.constraints import Choice, Optional, Positive
from pymc_sgmcmc.dynamics.amortised import Amortised
from pymc_sgmcmc.step.settings import DEFAULT, GRADIENTS

__all__ = ["AMAGOLD"]


@final
class AMAGOLD(Amortised):
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

    name = "amagold"
    arguments: ClassVar = {
        "friction": Positive(),
        "gradient": Optional(Choice((DEFAULT, *GRADIENTS))),
    }
    scheme = "symmetric"

    def __init__(self, vars: Any = None, *, step_size: Any = None, friction: float = 1.0,
                 target_accept: float | None = 0.8, gradient: str | None = None,
                 **kwargs):  # fmt: skip
        self.friction = friction
        super().__init__(
            vars, step_size=step_size, target_accept=target_accept, gradient=gradient, **kwargs
        )

    def coefficients(self):
        return {"friction": self.friction, "temperature": self.temperature}

    def step_bias(self, h, curvature):
        return h**2 * curvature / 4  # of what is proposed

    def update(self, q, p, r, u, factor, acceptance, *, grad, h, noise, friction, temperature):
        h = h * factor
        x = h * friction / 2
        q = q + h / 2 * p
        g = grad(q)
        new = ((1 - x) * p - h * g + pt.sqrt(4 * x * temperature) * noise()) / (1 + x)
        r = r + h / 2 * pt.sum(g * (p + new))
        return q + h / 2 * new, new, r, u, factor, acceptance
