"""Stochastic gradient descent with a constant step as a sampler (Mandt, Hoffman and Blei, 2017)."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Unpack, final

from pymc_sgmcmc._utils.constraints import NotTaken
from pymc_sgmcmc._utils.types import Graph, Keywords, Number, Vector
from pymc_sgmcmc._utils.validation import is_word
from pymc_sgmcmc.dynamics.algorithm import Algorithm
from pymc_sgmcmc.dynamics.inputs import Gradient, Normals
from pymc_sgmcmc.dynamics.langevin import Langevin
from pymc_sgmcmc.dynamics.noise_rules import Driving, NoiseRule
from pymc_sgmcmc.dynamics.schedules import Constant
from pymc_sgmcmc.dynamics.setting import Context
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.step.arguments import Arguments
from pymc_sgmcmc.step.step_method import SGMCMC

if TYPE_CHECKING:
    from pymc_sgmcmc.step.keywords import Common, Rows, StepSize

__all__ = ["SGD"]

OWN = {"gradient": "plain", "noise_estimate": 0.0, "batches": "random"}


@dataclass(frozen=True, kw_only=True, eq=False)
class ConstantSGD(Langevin):
    """The algorithm of SGD."""

    name = "sgd"
    absorbs_noise = True

    @property
    def can_optimize(self) -> bool:
        return False

    def coefficients(self, context: Context) -> dict[str, Number]:
        return {}

    def noise_rule(self, room: float, count: int) -> NoiseRule:
        return Driving(self.temperature, count)

    def variance_inflation(self, rate: Vector, context: Context) -> Vector:
        left = 1 - context.step_size / 2 * context.pace**2
        return rate / (self.temperature * left) - 1

    def virial(self, q: Graph, *, g: Graph, h: Graph) -> Graph | None:
        return h / 2 * g**2

    def update(self, q: Graph, *, grad: Gradient, h: Graph, noise: Normals) -> tuple[Graph, ...]:
        return (q - h * grad(q),)


@final
class SGD(SGMCMC):
    r"""Constant-step stochastic gradient descent as a sampler, of Mandt, Hoffman and Blei (2017).

    Descent that never arrives, as the noise of its minibatches drives it; nothing is injected. With
    the minibatch gradient g(q) of U and step size h::

        q <- q - h g(q)

    Leaves invariant: a normal posterior, in coordinates in which its covariance is the identity,
    if gradients have there the same variance V in all directions and h = 2 / (1 + V / T), for the
    temperature T. Where the model is right and n of N rows make a batch, V is about N / n, and h is
    2 n / (n + N) (Ahn et al., 2012); the 1 is what the paper's continuous time leaves out. Other
    steps make variances h V / ((2 - h) T) times those of the posterior. Elsewhere the bias is of
    order h, and where h is not small draws have the tails of the noise, which need not be normal.

    Tuned, it learns covariance and V, turns to the eigenvectors of V and steps by that h in each:
    the full preconditioner of section 4.2 of the paper. Batches are the largest that keep h within
    `bias_tolerance`; posterior variances are no better known than V, to some percent.

    One gradient an inner step. In the paper h is epsilon H / N.

    Parameters
    ----------
    vars : list of variables, optional
        What to sample; default all continuous variables.
    step_size : float or None
        0 < h < 2 over the curvature of U. None: 2 / (1 + V / T) in each direction.
    batch_size : int, mapping or "auto"
        n, less than all rows. Needed where a `step_size` is given.
    metric : "dense", or array of shape (d,) or (d, d)
        The posterior's covariance, or variances where nothing is correlated, in the place of what
        is learned; one h is then for all directions.
    **kwargs
        Common to all samplers, but that gradients are plain, on rows drawn with replacement, and
        none of their noise is subtracted: see :class:`~pymc_sgmcmc.SGMCMC`.

    Raises
    ------
    ValueError, TypeError
        If an argument is out of range, gradients have no noise, or the model cannot be sampled; the
        message names it.

    References
    ----------
    - Mandt, S., Hoffman, M. D. and Blei, D. M. (2017). Stochastic gradient descent as approximate
      Bayesian inference. JMLR.
    - Ahn, S., Korattikara, A. and Welling, M. (2012). Bayesian posterior sampling via stochastic
      gradient Fisher scoring. ICML.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from pymc_sgmcmc import SGD
    >>> with pm.Model():
    ...     y = pm.Normal("y", pm.Normal("mu"), observed=np.arange(5000) % 10)
    ...     idata = pm.sample(step=SGD(), progressbar=False, random_seed=1)
    >>> float(idata.posterior["mu"].mean().round(1))
    4.5
    """

    algorithm_class = ConstantSGD
    arguments: ClassVar = {
        name: NotTaken("SGD samples by the noise of plain gradients, drawn with replacement")
        for name in OWN
    }

    if TYPE_CHECKING:

        def __init__(
            self, vars: Any = None, *, step_size: StepSize | None = None, batch_size: Rows = ...,
            **others: Unpack[Common],
        ) -> None: ...  # fmt: skip

    @classmethod
    def complete(cls, own: Keywords, shared: Keywords) -> tuple[Keywords, Keywords]:
        for argument in OWN:
            if argument in shared:
                raise TypeError(
                    "SGD samples by the noise of plain gradients on rows drawn with replacement: "
                    f"leave out {argument}."
                )
        shared = {"metric": "dense"} | shared
        metric = shared["metric"]
        if metric is None or is_word(metric, "auto") or is_word(metric, "diag"):
            raise ValueError(
                f"metric={metric!r}: SGD is right in coordinates in which the posterior's "
                "covariance is the identity. Use 'dense', or give it as an array."
            )
        return own, shared | OWN

    @classmethod
    def refuse(cls, algorithm: Algorithm, arguments: Arguments, target: Target) -> None:
        super().refuse(algorithm, arguments, target)
        if not isinstance(arguments.schedule, Constant | None):
            raise ValueError(
                f"step_size={arguments.step_size!r}: SGD samples at a constant one only."
            )
        if isinstance(arguments.metric, str) and arguments.temperature != 1:
            raise ValueError("SGD with a temperature needs the covariance at 1: give metric=.")
        batches = zip(target.check_lengths(), target.batch_sizes, strict=True)
        if all(length <= size for length, size in batches):
            raise ValueError(
                f"batch_size={arguments.batch_size!r} is all rows, and SGD has no noise "
                "but that of minibatches: take fewer, or use SGLD."
            )
