"""What every sampler shares: its arguments, and what it must say of itself."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from pymc import modelcontext
from pymc.blocking import PointType
from pymc.stats.convergence import SamplerWarning
from pymc.step_methods.compound import Competence
from pymc.util import get_value_vars_from_user_vars
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.backends import Backend
from pymc_sgmcmc.balance import injected
from pymc_sgmcmc.chain import STATS, TUNED_STATS, ChainState
from pymc_sgmcmc.checks import fraction, natural, positive
from pymc_sgmcmc.estimator import Estimator
from pymc_sgmcmc.inspection import warn_about_deterministics, warn_about_leftovers
from pymc_sgmcmc.integrators import kinetic_temperature
from pymc_sgmcmc.kernel import Kernel
from pymc_sgmcmc.lifecycle import Lifecycle
from pymc_sgmcmc.progress import progress_columns, progress_updates
from pymc_sgmcmc.running_sums import SUMS_DTYPE
from pymc_sgmcmc.settings import DEFAULT, Settings
from pymc_sgmcmc.starts import Starts
from pymc_sgmcmc.tuning import Tuner

__all__ = ["SGMCMC"]


class SGMCMC(Lifecycle):
    """Stochastic-gradient Markov chain Monte Carlo: what all samplers have in common.

    A sampler adds its hyper-parameters, `initial_state`, `coefficients` and `update`; where numbers
    of its update change from one inner step to the next, `sequences`.

    Parameters
    ----------
    vars : list of variables, optional
        What to sample; default all continuous variables of the model.
    step_size : float, Schedule or None
        h > 0, the time step of the diffusion at each inner step. None: found while `pm.sample`
        tunes, and so is all that is not given of what follows: "default" then means "auto".
    batch_size : int, mapping, "auto" or None
        Rows in a minibatch, at most the number of rows. A mapping gives it by the name of the row
        dimension or of an observed variable (None: exact). None: the exact gradient of all rows,
        or the batch size of the `pm.Minibatch` of a model that has one. "auto": exact for up to
        256 rows or where rows do not separate; else 64 to 2048, from the noise of the gradient,
        or all rows where that costs no more. Default None if `step_size` is given.
    batches : {"random", "blocks", "epochs", "auto"}
        "random": with replacement, independently at each inner step; all rows, each once, where
        the batch is as large. "blocks": contiguous blocks of data that were shuffled once,
        independently at each inner step: faster, for a copy of the data. "epochs": shuffled passes
        over the rows. Default "random" if `step_size` is given.
    gradient : {"plain", "control_variate", "svrg", "auto"}
        "plain": prior + (N / n) times the minibatch. "control_variate": less the same at a centre,
        found while tuning, plus the gradient on all rows there. "svrg": with a centre that follows
        the chain, once in about as many inner steps as there are minibatches. "auto": that with the
        least noise for its cost, measured. Default "plain" if `step_size` is given.
    metric : {"dense", "diag", "auto"}, array of shape (d,) or (d, d), or None
        The sampler moves in coordinates z with q = c + L z, and `step_size`, friction and the like
        are meant in them. Learned while tuning: L L' is about the posterior's covariance ("dense";
        "auto" up to d = 200) or its variances ("diag"). An array: L L'. None: z = q. Default None
        if `step_size` is given.
    noise_estimate : float, array of shape (d,), or "auto"
        What gradients add to the injected noise, and is subtracted from it: h V / 2, where V is
        their variance. "auto": measured. Default 0 if `step_size` is given.
    bias_tolerance : float
        What the relative error of posterior variances is to stay below: `step_size` and
        `batch_size` are chosen by it.
    steps_per_draw : int
        Inner steps, each with one gradient, between stored draws.
    temperature : float
        T > 0: the target is exp(-U / T). 1 is the posterior.
    backend : {"c", "numba"}
        What compiles the kernel.
    compile_kwargs : dict, optional
        Passed to `pytensor.function`; a ``mode`` in it takes the place of `backend`.
    rows : mapping of str to (int or None), optional
        The row axis of named data where it is not found rightly; None: not sliced.
    jitter : bool
        Start each chain at the model's default point plus U(-1, 1) on the unconstrained scale.
        Variables with an explicit ``initval``, or whose value in the ``initvals`` of `pm.sample`
        differs from the default, are left alone.
    model : pymc.Model, optional
    rng : int, numpy.random.Generator or None
        `pm.sample` replaces it for each chain.
    initial_point : dict, optional
        Values of the value variables by name, at which the model is examined; default the model's
        own. Chains start where `pm.sample` says.
    blocked : bool
        One step for all variables (default) or one for each.

    Notes
    -----
    A chain draws from its generator, with `integers` and `standard_normal` only, in this order.
    At its first draw: the jitter, one row for each batch entry to probe the start (both repeated
    until the potential is finite), the initial momentum. At every draw: row indices of each group
    of observed variables, shape (steps, n), then normals, shape (steps, k, d).
    """

    name: ClassVar[str]
    integrator: str | None = None
    absorbs_noise: ClassVar[bool] = False
    """Whether gradient noise of unknown size is taken up by a thermostat."""
    default_tune_steps = 1000
    extra_stats: ClassVar[tuple[str, ...]] = ()
    """Names of this sampler's own stats: those of `kinetic_temperature` and `thermostat` that it
    has, and of `sequences`, whose last value in a draw is the stat."""
    learned: ClassVar[tuple[str, ...]] = ()
    """Names of the carried variables that are learned: a divergence leaves them as they were."""

    _state_class = ChainState
    stats_dtypes_shapes: ClassVar[dict[str, tuple]] = STATS

    def __init_subclass__(cls):
        cls.stats_dtypes_shapes = STATS | {name: (np.float64, []) for name in cls.extra_stats}

    def __init__(
        self,
        vars: Any = None,
        *,
        step_size: Any = None,
        batch_size: Any = DEFAULT,
        batches: str = DEFAULT,
        gradient: str = DEFAULT,
        metric: Any = DEFAULT,
        noise_estimate: Any = DEFAULT,
        bias_tolerance: float = 0.05,
        steps_per_draw: int = 10,
        temperature: float = 1.0,
        backend: str = "c",
        compile_kwargs: dict[str, Any] | None = None,
        rows: Mapping[str, int | None] | None = None,
        jitter: bool = True,
        model: Any = None,
        rng: Any = None,
        initial_point: PointType | None = None,
        blocked: bool = True,
    ):
        settings = Settings(
            step_size=step_size,
            batch_size=batch_size,
            batches=batches,
            gradient=gradient,
            metric=metric,
            noise_estimate=noise_estimate,
        )
        self.step_size, self._schedule = step_size, settings.schedule
        self.batch_size, self.batches, self.gradient = batch_size, batches, gradient
        self.metric, self.noise_estimate = metric, settings.noise_estimate
        self.steps_per_draw = natural("steps_per_draw", steps_per_draw)
        self.temperature = positive("temperature", temperature)
        self.bias_tolerance, self.jitter = fraction("bias_tolerance", bias_tolerance), jitter
        backend = Backend(backend, compile_kwargs)

        model = modelcontext(model)
        if vars is None:
            vars = model.continuous_value_vars
        else:
            vars = get_value_vars_from_user_vars(vars, model)
        point = dict(model.initial_point() if initial_point is None else initial_point)
        self.target = settings.target(model, vars, rows, point, backend)
        self._source = settings.source(self.target)
        warn_about_deterministics(model, self.target.model)
        minibatched = bool(self.target.groups)
        warn_about_leftovers(model, vars, minibatched=minibatched, blocked=blocked)
        super().__init__(vars, self.target.shared, blocked=blocked, rng=rng)
        # PyMC has read the dtype of this array in memory; ZarrTrace reads its shape here.
        sums = {"running_sums": (np.float64, list(SUMS_DTYPE.shape))}
        self.stats_dtypes_shapes = self.stats_dtypes_shapes | sums
        self._starts = Starts(model, vars, model.initial_point())

        self._untuned = settings.coordinates(self.target.size)
        self._plan = settings.plan(self.target, self.bias_tolerance, self.absorbs_noise)
        self._tuner = None
        if settings.tunes():
            self._tuner = Tuner(
                self.target, self._source, self._plan, self.step_bias, self.steps_per_draw
            )
            self.stats_dtypes_shapes = self.stats_dtypes_shapes | TUNED_STATS
            types = {name: dtype for name, (dtype, _) in TUNED_STATS.items()}
            self.stats_dtypes = [self.stats_dtypes[0] | types]
        moves, control = settings.metric is not None, self._plan.gradient != "plain"
        self._estimator = Estimator(self.target, self._source, moves, control)
        self.start_chain(self.rng)
        self._kernel = Kernel(
            self._estimator,
            self.update,
            self.initial_state(np.random.default_rng(0)),
            self._coefficients,
            self.kinetic,
            backend,
            sequences=self.sequences(np.zeros(1, dtype=int)),
            numbers=self._estimator.numbers(self.tuned),
        )
        self._probe(self._starts.default, np.random.default_rng(0))  # Numba compiles when called.

    @abstractmethod
    def initial_state(self, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Fresh values of the variables that the update carries beside q, by name."""

    @abstractmethod
    def coefficients(self) -> dict[str, np.ndarray]:
        """Numbers of the update that are inputs of the kernel, by name: shape () or (d,)."""

    def step_bias(self, h: float, curvature: float) -> float:
        """The relative error of a posterior variance that a step size h > 0 alone may cause.

        `curvature`: the largest one of U. Grows with h: a step size is chosen by it.
        """
        raise NotImplementedError(f"{self.name} needs a step_size: it does not say its bias.")

    def capacity(self) -> float:
        """The noise that is injected, as a rate: gradients of variance V add h V / 2 to it."""
        raise NotImplementedError(f"{self.name} does not say what noise it injects.")

    def sequences(self, steps: np.ndarray) -> dict[str, np.ndarray]:
        """Numbers of the update that change with the inner step, by name, at each of `steps`.

        `steps`: absolute counts (0, 1, ...) of the coming inner steps of the chain; `self.tune`
        says whether it is tuning. All else must be a pure function of the hyper-parameters.
        """
        return {}

    def notice(self) -> SamplerWarning | None:
        """What the user should be told at the coming draw, which follows `self.inner_steps`."""
        return None

    @abstractmethod
    def update(self, q: TensorVariable, *state: TensorVariable, grad, h, noise, **numbers):
        """One inner step: the new (q, *state), with one call of ``grad(q)``.

        ``grad(q)``: the minibatch gradient of U, (d,); ``h``: the step size; ``noise()``: fresh
        standard normals, (d,). `numbers`: those of `sequences` at this step, and the coefficients.
        """

    def kinetic(self, p_before, p_after, g, h):
        """Kinetic temperature over the inner steps, for samplers with a momentum."""
        return kinetic_temperature(self.integrator, p_before, p_after, g, h)

    @staticmethod
    def competence(var, has_grad):
        return Competence.INCOMPATIBLE  # never assigned by pm.sample, always asked for

    def _progressbar_config(self, n_chains=1):
        return progress_columns(self.stats_dtypes_shapes, n_chains)

    def _make_progressbar_update_functions(self):
        return progress_updates(self.stats_dtypes_shapes)

    def injected(self, total: np.ndarray, name: str) -> np.ndarray:
        """What is left of the noise `total`, a rate called `name`, less the noise estimate."""
        h = self._step_sizes(np.array([self.inner_steps]))[0]
        batches = zip(self._lengths, self.tuned.batch_sizes, strict=True)
        noisy = any(self._source.share(int(n), size) > 0 for n, size in batches)
        batched = noisy and self._source.independent
        return injected(total, name, self.noise_estimate, h * self.tuned.noise / 2, batched)
