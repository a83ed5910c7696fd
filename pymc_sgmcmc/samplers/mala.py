"""The Metropolis-adjusted Langevin algorithm (Roberts and Tweedie, 1996)."""

from typing import Any, final

import numpy as np
import pytensor.tensor as pt
from pymc import modelcontext

from pymc_sgmcmc.base import SGMCMC
from pymc_sgmcmc.checks import fraction
from pymc_sgmcmc.coordinates import pull
from pymc_sgmcmc.minibatch import minibatches

__all__ = ["MALA"]

NOWHERE = 1e30
"""U before the first step: any proposal is better."""


@final
class MALA(SGMCMC):
    r"""Metropolis-adjusted Langevin algorithm of Roberts and Tweedie (1996): SGLD's exact sibling.

    With the gradient g(q) of U on all rows, step size h, temperature T, normals z and a uniform
    number u::

        q' = q - h g(q) + sqrt(2 h T) z
        q <- q' if log u < (U(q) - U(q')) / T + z.z / 2 - |q - q' + h g(q')|^2 / (4 h T)

    Leaves invariant: exp(-U(q) / T), at every h. While tuning, h is multiplied by a factor, the
    sample stat ``factor``, that makes the mean acceptance `target_accept` (Robbins and Monro, 1951)
    and is then kept. The stat ``acceptance`` is the probability at a draw's last inner step.

    One gradient on all rows an inner step, and the value of U, which float32 knows to one part in
    10^7 only: use float64 with many rows. The papers' epsilon is 2 h.

    Parameters
    ----------
    vars : list of variables, optional
        What to sample; default all continuous variables.
    step_size : float, Schedule or None
        h > 0. None: tuned, and so is the metric.
    target_accept : float
        From 0 to 1; 0.574 is best in many dimensions (Roberts and Rosenthal, 1998). None: h stays.
    **kwargs
        As for all samplers, but for minibatches: see :class:`~pymc_sgmcmc.base.SGMCMC`.

    Raises
    ------
    ValueError, TypeError
        If an argument is out of range or the model cannot be sampled; the message names it.

    References
    ----------
    Roberts, G. O. and Tweedie, R. L. (1996). Exponential convergence of Langevin distributions and
    their discrete approximations. Bernoulli.
    Roberts, G. O. and Rosenthal, J. S. (1998). Optimal scaling of discrete approximations to
    Langevin diffusions. JRSS B.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from pymc_sgmcmc import MALA
    >>> with pm.Model():
    ...     mu = pm.Normal("mu")
    ...     y = pm.Normal("y", mu, observed=np.arange(10.0))
    ...     idata = pm.sample(step=MALA())  # doctest: +SKIP
    """

    name = "mala"
    extra_stats = ("acceptance", "factor")
    learned = ("factor",)
    descends = False

    def __init__(self, vars: Any = None, *, target_accept: float | None = 0.574, model: Any = None,
                 **kwargs):  # fmt: skip
        model = modelcontext(model)
        self.target_accept = target_accept
        if target_accept is not None:
            fraction("target_accept", target_accept)
        for argument in ("batch_size", "batches", "gradient", "noise_estimate"):
            if kwargs.pop(argument, None) is not None:
                raise TypeError(f"MALA takes gradients on all rows: leave out {argument}.")
        if minibatches(model):
            raise ValueError(
                "MALA takes gradients on all rows, and the model has a pm.Minibatch: sample "
                "full_data(model), from pymc_sgmcmc, which is the same model on all rows."
            )
        super().__init__(
            vars, batch_size=None, batches="random", gradient="plain", noise_estimate=0.0,
            model=model, **kwargs,
        )  # fmt: skip

    def initial_state(self, rng):
        return {"g": np.zeros(self.target.size), "u": NOWHERE, "factor": 1.0, "acceptance": 1.0}

    def coefficients(self):
        return {"temperature": self.temperature}

    def sequences(self, steps):
        adapts = self.tune and self.target_accept is not None
        return {"gain": (steps + 1.0) ** -0.6 if adapts else np.zeros(len(steps))}

    def step_bias(self, h, curvature):
        return 0.0

    def capacity(self):
        return self.temperature

    def longest_step(self, curvature):
        return 2 / curvature if self.step_size is None else np.inf  # longer ones are rejected

    def virial(self, q, *state, g, h, gain, temperature):
        return temperature + 0 * q

    def update(self, q, g, u, factor, acceptance, *, grad, h, noise, gain, temperature):
        h, z = h * factor, noise()
        proposal = q - h * g + pt.sqrt(2 * h * temperature) * z
        g_there, u_there = grad(proposal), grad.potential()
        back = pt.sum((q - proposal + h * g_there) ** 2) / (4 * h * temperature)
        log_ratio = (u - u_there) / temperature + pt.sum(z**2) / 2 - back
        acceptance = pt.exp(pt.minimum(pt.switch(pt.isnan(log_ratio), -np.inf, log_ratio), 0.0))
        uniform = 0.5 * pt.erfc(-noise()[0] / np.sqrt(2.0))
        accepted = pt.lt(uniform, acceptance)
        target = 0.0 if self.target_accept is None else self.target_accept
        factor = factor * pt.exp(gain * (acceptance - target))
        q, g, u = (
            pt.switch(accepted, there, here)
            for there, here in ((proposal, q), (g_there, g), (u_there, u))
        )
        grad.keep(g)  # a proposal that is rejected may have none
        return q, g, u, factor, acceptance

    def _advance(self, q):
        """Other step methods may have moved their variables since the last draw."""
        if self.target.shared:
            u, g = self.target.value_and_gradient(q)
            now = {"u": u, "g": pull(self.tuned.coordinates.factor, g)}
            self.carried = tuple((self._carried() | now).values())
        return super()._advance(q)
