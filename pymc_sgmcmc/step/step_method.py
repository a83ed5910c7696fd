"""What every sampler shares: its arguments, and how they become a step method."""

import logging
import warnings
from collections.abc import Mapping
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np
from pymc.blocking import PointType
from pymc.step_methods.compound import Competence
from pymc.util import get_value_vars_from_user_vars

from pymc_sgmcmc._utils.argument_rows import (
    BATCH_SIZE,
    FLAG,
    METRIC,
    MODEL,
    POINT,
    RNG,
    ROWS,
    VARS,
)
from pymc_sgmcmc._utils.arguments import CheckedArguments
from pymc_sgmcmc._utils.constraints import (
    Choice,
    Either,
    MappingOf,
    Numbers,
    Optional,
    Positive,
    Whole,
    Word,
)
from pymc_sgmcmc._utils.context import model_of
from pymc_sgmcmc._utils.flat import places
from pymc_sgmcmc._utils.signatures import shows_its_arguments
from pymc_sgmcmc.chain.kernel import Kernel, arrays
from pymc_sgmcmc.chain.lifecycle import Lifecycle
from pymc_sgmcmc.chain.moments import MOMENTS
from pymc_sgmcmc.chain.monitor import PROBES, SUMMED
from pymc_sgmcmc.chain.state import STAGES, STATS, TUNED_STATS, ChainState
from pymc_sgmcmc.chain.stored_sums import SUMS_DTYPE
from pymc_sgmcmc.compile.backend import BACKENDS, Backend
from pymc_sgmcmc.compile.compiling import one_at_a_time
from pymc_sgmcmc.compile.normal_stream import Noise
from pymc_sgmcmc.distributions.manifolds import manifold_of
from pymc_sgmcmc.dynamics.algorithm import Sampler
from pymc_sgmcmc.dynamics.schedules import STEP_SIZE
from pymc_sgmcmc.dynamics.space import Space
from pymc_sgmcmc.model.gradient_flow import refuse_without_gradient
from pymc_sgmcmc.model.initial_points import Starts
from pymc_sgmcmc.model.inspection import warn_about_deterministics, warn_about_leftovers
from pymc_sgmcmc.posterior.batch_sources import SOURCES
from pymc_sgmcmc.posterior.gradient_estimator import Estimator
from pymc_sgmcmc.step.owner import Owner
from pymc_sgmcmc.step.progress import progress_columns, progress_updates
from pymc_sgmcmc.step.settings import DEFAULT, GRADIENTS, Settings
from pymc_sgmcmc.tuning.curvature import largest_curvature
from pymc_sgmcmc.tuning.tuner import Tuner

__all__ = ["SGMCMC"]

_log = logging.getLogger("pymc.sgmcmc")


@shows_its_arguments
class SGMCMC(CheckedArguments, Sampler, Lifecycle):
    """Stochastic-gradient Markov chain Monte Carlo: what all samplers have in common.

    A sampler adds its hyper-parameters and what `pymc_sgmcmc.dynamics.algorithm.Sampler` asks for.

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
        Default that of the ``with`` block.
    rng : int, numpy.random.Generator or None
        `pm.sample` replaces it for each chain.
    initial_point : dict, optional
        Values of the value variables by name, at which the model is examined; default the model's
        own. Chains start where `pm.sample` says.
    blocked : bool
        One step for all variables (default) or one for each.

    Raises
    ------
    ValueError, TypeError, NotImplementedError
        If an argument is out of range or the model cannot be sampled; the message names it.

    Notes
    -----
    A chain draws from its generator, with `integers` and `standard_normal` only, in this order.
    At its first draw: the jitter, one row for each batch entry to probe the start (both repeated
    until the potential is finite), the initial momentum, and, where a draw takes 2,048 normals or
    more, a key of 64 bits. At every draw: row indices of each group of observed variables, shape
    (steps, n), then normals, shape (steps, k, d), unless `pymc_sgmcmc.compile.normal_stream` makes
    them of the key.

    Examples
    --------
    With a step size and minibatches of one's own, which nothing tunes:

    >>> import numpy as np, pymc as pm
    >>> from pymc_sgmcmc import SGHMC
    >>> with pm.Model(coords={"row": range(100)}):
    ...     y = pm.Normal("y", pm.Normal("mu"), observed=np.arange(100.0) / 50, dims="row")
    ...     step = SGHMC(step_size=0.01, friction=20.0, batch_size=10, steps_per_draw=50)
    ...     idata = pm.sample(step=step, progressbar=False, random_seed=1)
    >>> int(idata.sample_stats["n_steps"].max())
    50
    """

    arguments: ClassVar = {
        "vars": VARS,
        "step_size": Optional(STEP_SIZE),
        "batch_size": BATCH_SIZE,
        "batches": Either(Word(DEFAULT), Choice(("auto", *SOURCES))),
        "gradient": Either(Word(DEFAULT), Choice(GRADIENTS)),
        "metric": METRIC,
        "noise_estimate": Either(Word(DEFAULT), Word("auto"), Numbers(zero=True)),
        "bias_tolerance": Positive(below=1),
        "steps_per_draw": Whole(),
        "temperature": Positive(),
        "backend": Choice(tuple(BACKENDS)),
        "compile_kwargs": Optional(
            MappingOf("keyword arguments of pytensor.function, such as {'mode': 'FAST_COMPILE'}")
        ),
        "rows": ROWS,
        "jitter": FLAG,
        "model": MODEL,
        "rng": RNG,
        "initial_point": POINT,
        "blocked": FLAG,
    }
    _state_class = ChainState
    stats_dtypes_shapes: ClassVar[dict[str, tuple]] = STATS

    def __init_subclass__(cls):
        cls.stats_dtypes_shapes = STATS | {name: (np.float64, []) for name in cls.extra_stats}
        shows_its_arguments(cls)

    @one_at_a_time()
    def __init__(self, vars: Any = None, *, step_size: Any = None, batch_size: Any = DEFAULT,
                 batches: str = DEFAULT, gradient: str = DEFAULT, metric: Any = DEFAULT,
                 noise_estimate: Any = DEFAULT, bias_tolerance: float = 0.05,
                 steps_per_draw: int = 10, temperature: float = 1.0, backend: str = "c",
                 compile_kwargs: dict[str, Any] | None = None,
                 rows: Mapping[str, int | None] | None = None, jitter: bool = True,
                 model: Any = None, rng: Any = None, initial_point: PointType | None = None,
                 blocked: bool = True):  # fmt: skip
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
        self.steps_per_draw, self.temperature = int(steps_per_draw), temperature
        self.bias_tolerance, self.jitter = bias_tolerance, jitter
        self._check_exploration()
        backend = Backend(backend, compile_kwargs)

        model = model_of(model)
        if vars is None:
            vars = model.continuous_value_vars
        else:
            vars = get_value_vars_from_user_vars(vars, model)
        point = dict(model.initial_point() if initial_point is None else initial_point)
        self.target = settings.target(model, vars, rows, point, backend)
        backend = self.target.backend  # C, where Numba cannot compile the model
        self.space = Space([manifold_of(model, var) for var in vars], self.target.shapes)
        self._check_target(settings)
        if not self.corrects:
            refuse_without_gradient(self.target.terms, vars)
        self._source = settings.source(self.target)
        warn_about_deterministics(model, self.target.model)
        minibatched = bool(self.target.groups)
        warn_about_leftovers(model, vars, minibatched=minibatched, blocked=blocked)
        self.target.warn_about_row_latents()
        super().__init__(vars, self.target.shared, blocked=blocked, rng=rng)
        more = TUNED_STATS if settings.tunes() else {}
        more = more | (STAGES if self._explores(np.zeros(1)) is not None else {})
        self.stats_dtypes = [self.stats_dtypes[0] | {name: more[name][0] for name in more}]
        # PyMC has read the dtype of this array in memory; ZarrTrace reads its shape here.
        more = more | {"running_sums": (np.float64, list(SUMS_DTYPE.shape))}
        self.stats_dtypes_shapes = self.stats_dtypes_shapes | more
        self._reported = itemgetter(*self.stats_dtypes_shapes)
        sizes = [np.size(point[var.name]) for var in model.value_vars]
        self._places = places(model.value_vars, sizes, vars)
        self._starts = Starts(model, vars, model.initial_point(), self.space.nearest)

        self._untuned = settings.coordinates(self.target.size)
        self._plan = settings.plan(self.target, self.bias_tolerance, self.absorbs_noise)
        self._tuner = None
        if settings.tunes():
            self._check_tunable()
            of_it = self.step_bias, self.longest_step, self.noise_rule
            self._tuner = Tuner(self.target, self._source, self._plan, *of_it, self.steps_per_draw)
        moves, control = settings.metric is not None, self._plan.gradient != "plain"
        self._estimator = Estimator(self.target, self._source, moves, control)
        self._owner = Owner()
        self.start_chain(self.rng)
        self._coefficients = arrays(self.coefficients())  # and an error, if one is out of range
        self._kernel = Kernel(
            self._estimator,
            self.update,
            self.initial_state(np.random.default_rng(0)),
            self._coefficients,
            self.kinetic,
            self.virial,
            backend,
            sequences=self.sequences(np.zeros(1, dtype=int)),
            numbers=self._estimator.symbols(self.tuned),
            constant=self._step_is_constant,
            leaps=self.target.size >= SUMMED and not self.trajectories,
        )
        self._reports_state = not set(self.extra_stats).isdisjoint(self._kernel.carried)
        # How many inner steps apart those are that are summed.
        self._every = self.steps_per_draw
        if not (self._kernel.leaps or self.trajectories):
            self._every = max(1, self._every * self.target.size // SUMMED)
        self._refresh()
        normals = self.steps_per_draw * self._kernel.n_noise * self.target.size
        self._noise = Noise(normals, self._kernel.dtype)
        start = self._starts.default
        if self._probe(start, np.random.default_rng(0)):  # Numba compiles when called.
            self._warn_if_unstable(start)
        if self._kernel.leaps:
            self._still(start, self._rows(np.random.default_rng(0), 2)[0], 2, self.tuned, every=2)
        if self._tuner is not None:  # What tuning calls is compiled here, not by every worker.
            self.target.value_and_gradient(start, [np.zeros(1, int) for _ in self.target.groups])
        if self.temperature != 1:
            _log.warning(
                f"temperature={self.temperature:g}: the draws are from exp(-U / "
                f"{self.temperature:g}), which is not the posterior: that has temperature=1."
            )

    def _warn_if_unstable(self, q: np.ndarray) -> None:
        """Warn of a step size that no chain would survive where the curvature is that of `q`."""
        if self._schedule is None:
            return
        steps = self._probes(PROBES // 4)
        rows, _ = self._rows(np.random.default_rng(0), steps)
        gradient = MOMENTS.index("g")

        def mean_gradient(z):
            sums = self._still(self._to_position(z), rows, steps, self.tuned).sums
            return sums[gradient] / steps

        point = self._to_coordinates(q)
        curvature = largest_curvature(mean_gradient, point[None], np.random.default_rng(0))
        h = float(self._step_sizes(np.zeros(1))[0])
        longest = self.longest_step(curvature) if curvature > 0 else np.inf
        if h > longest:
            warnings.warn(
                f"step_size={h:.3g} is not stable at the model's initial point: there the "
                f"curvature of U, minus the log posterior, goes up to {curvature:.3g}, and the "
                f"longest stable step is {longest:.2g}. Expect divergences, or choose about "
                f"{longest / 4:.1g}.",
                UserWarning,
                stacklevel=5,
            )

    @staticmethod
    def competence(var, has_grad):
        return Competence.INCOMPATIBLE  # never assigned by pm.sample, always asked for

    def _progressbar_config(self, n_chains=1):
        return progress_columns(self.stats_dtypes_shapes, n_chains)

    def _make_progressbar_update_functions(self):
        return progress_updates(self.stats_dtypes_shapes)
