"""The step method that every sampler shares: PyMC's life cycle around the compiled kernel."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from pymc import modelcontext
from pymc.blocking import PointType, RaveledVars
from pymc.stats.convergence import SamplerWarning
from pymc.step_methods.compound import Competence
from pymc.util import get_value_vars_from_user_vars
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.backends import Backend
from pymc_sgmcmc.batches import SOURCES
from pymc_sgmcmc.chain import STATS, ChainState
from pymc_sgmcmc.checks import natural, one_of, positive
from pymc_sgmcmc.compat import ChainStep
from pymc_sgmcmc.divergences import MAX_FAILURES, divergence, gave_up
from pymc_sgmcmc.inspection import warn_about_deterministics, warn_about_leftovers
from pymc_sgmcmc.integrators import kinetic_temperature
from pymc_sgmcmc.kernel import Kernel
from pymc_sgmcmc.progress import progress_columns, progress_updates
from pymc_sgmcmc.running_sums import MOMENTS, SUMS_DTYPE, RunningSums
from pymc_sgmcmc.schedules import as_schedule
from pymc_sgmcmc.starts import Starts
from pymc_sgmcmc.target import Target

__all__ = ["SGMCMC"]


class SGMCMC(ChainStep):
    """Stochastic-gradient Markov chain Monte Carlo: what all samplers have in common.

    A sampler adds its hyper-parameters, `initial_state`, `coefficients` and `update`; where numbers
    of its update change from one inner step to the next, `sequences`.

    Parameters
    ----------
    vars : list of variables, optional
        What to sample; default all continuous variables of the model.
    step_size : float or Schedule
        h > 0, the time step of the diffusion at each inner step.
    batch_size : int, mapping, or None
        Rows in a minibatch, at most the number of rows. A mapping gives it by the name of the row
        dimension or of an observed variable (None: exact). None: the exact gradient of all rows,
        or the batch size of the `pm.Minibatch` of a model that has one.
    batches : {"random", "epochs"}
        With replacement, independently at each inner step; or shuffled passes over the rows.
    gradient : {"plain"}
        The estimator of the gradient: prior + (N / n) times the minibatch.
    metric : None
        The identity.
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
        step_size: Any,
        batch_size: Any = None,
        batches: str = "random",
        gradient: str = "plain",
        metric: Any = None,
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
        self.step_size, self._schedule = step_size, as_schedule(step_size)
        self.steps_per_draw = natural("steps_per_draw", steps_per_draw)
        self.temperature = positive("temperature", temperature)
        self.batches, self._source = batches, SOURCES[one_of("batches", batches, SOURCES)]
        self.gradient = one_of("gradient", gradient, ["plain"])
        self.metric = one_of("metric", metric, [None])
        self.batch_size, self.jitter = batch_size, jitter
        backend = Backend(backend, compile_kwargs)

        model = modelcontext(model)
        if vars is None:
            vars = model.continuous_value_vars
        else:
            vars = get_value_vars_from_user_vars(vars, model)
        point = dict(model.initial_point() if initial_point is None else initial_point)
        self.target = Target(
            model, vars, batch_size=batch_size, rows=rows, initial_point=point, backend=backend
        )
        warn_about_deterministics(model, self.target.model)
        minibatched = bool(self.target.groups)
        warn_about_leftovers(model, vars, minibatched=minibatched, blocked=blocked)
        super().__init__(vars, self.target.shared, blocked=blocked, rng=rng)
        # PyMC has read the dtype of this array in memory; ZarrTrace reads its shape here.
        sums = {"running_sums": (np.float64, list(SUMS_DTYPE.shape))}
        self.stats_dtypes_shapes = self.stats_dtypes_shapes | sums
        self._starts = Starts(model, vars, model.initial_point())

        self.start_chain(self.rng)
        self._kernel = Kernel(
            self.target,
            self.update,
            self.initial_state(np.random.default_rng(0)),
            self._coefficients,
            self.kinetic,
            backend,
            sequences=self.sequences(np.zeros(1, dtype=int)),
        )
        self._probe(self._starts.default, np.random.default_rng(0))  # Numba compiles when called.

    @abstractmethod
    def initial_state(self, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Fresh values of the variables that the update carries beside q, by name."""

    @abstractmethod
    def coefficients(self) -> dict[str, np.ndarray]:
        """Numbers of the update that are inputs of the kernel, by name: shape () or (d,)."""

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

    def start_chain(self, rng: np.random.Generator) -> None:
        self._lengths = self.target.examine()
        self._coefficients = self.coefficients()
        self.tune = True  # PyMC does not say so to worker processes; it does say stop_tuning
        self.started = False
        self.inner_steps = self.draw = self.divergences = self.failures = 0
        self.carried = ()
        self.batch_states = (self._source.start,) * len(self.target.groups)
        self.running_sums = RunningSums.zeros(self.target.size)

    def stop_tuning(self) -> None:
        super().stop_tuning()
        self.divergences = 0
        self.running_sums = RunningSums.zeros(self.target.size)

    def astep(self, q0: RaveledVars) -> tuple[RaveledVars, list[dict[str, Any]]]:
        q = np.asarray(q0.data, dtype=self._kernel.dtype)
        if not self.started:
            q = self._starts.find(q, self.rng, self._probe, jitter=self.jitter)
            self.carried = tuple(self.initial_state(self.rng).values())
            self.started = True
        steps = self.steps_per_draw
        counts = self.inner_steps + np.arange(steps)
        step_sizes, sequences = self._schedule(counts), self.sequences(counts)
        output = self._kernel(
            q,
            self.carried,
            step_sizes,
            self._lengths,
            self._draw_rows(),
            self.rng.standard_normal(
                (steps, self._kernel.n_noise, self.target.size), dtype=self._kernel.dtype
            ),
            self._coefficients,
            sequences,
        )
        warning = self.notice()
        finite = output.is_finite()
        if finite:
            q, self.carried, self.failures = output.q, output.state, 0
            self.running_sums = self.running_sums.add(output.sums, steps)
        else:
            warning = self._diverge(q, step_sizes[-1])
        stats = {
            "step_size": step_sizes[-1],
            "grad_norm": output.grad_norm,
            "minibatch_logp": output.logp,
            "n_steps": steps,
            "diverging": not finite,
            "divergences": self.divergences,
            "warning": warning,
            "running_sums": self.running_sums.window(),
            "kinetic_temperature": output.kinetic_temperature,
            "thermostat": output.sums[MOMENTS.index("xi")].mean() / steps,
        }
        stats |= {name: values[-1] for name, values in sequences.items()}
        self.inner_steps += steps
        self.draw += 1
        return RaveledVars(q, q0.point_map_info), [
            {name: stats[name] for name in self.stats_dtypes_shapes}
        ]

    def _probe(self, q: np.ndarray, rng: np.random.Generator) -> bool:
        """Whether U and its gradient are finite at `q`, on random rows: a step of size zero."""
        rows = [
            rng.integers(n, size=(1, size))
            for n, size in zip(self._lengths, self.target.batch_sizes, strict=True)
        ]
        state = tuple(self.initial_state(np.random.default_rng(0)).values())
        normals = np.zeros((1, self._kernel.n_noise, self.target.size))
        sequences = self.sequences(np.zeros(1, dtype=int))
        output = self._kernel(
            q, state, np.zeros(1), self._lengths, rows, normals, self._coefficients, sequences
        )
        return bool(np.isfinite([output.logp, output.grad_norm]).all())

    def _draw_rows(self) -> list[np.ndarray]:
        drawn = [
            self._source.draw(state, self.rng, int(n), self.steps_per_draw, size)
            for state, n, size in zip(
                self.batch_states, self._lengths, self.target.batch_sizes, strict=True
            )
        ]
        self.batch_states = tuple(state for _, state in drawn)
        return [rows for rows, _ in drawn]

    def _diverge(self, q: np.ndarray, step_size: float) -> SamplerWarning:
        """Roll back to the last finite q with fresh momentum, or give up."""
        fresh = self.initial_state(self.rng)
        kept = dict(zip(fresh, self.carried, strict=True))
        self.carried = tuple((fresh | {name: kept[name] for name in self.learned}).values())
        self.running_sums = RunningSums.zeros(self.target.size)
        self.divergences += 1
        self.failures += 1
        where = f"{self.name}, draw {self.draw}"
        if self.failures >= MAX_FAILURES:
            raise gave_up(where, step_size, self.target, q)
        return divergence(where, step_size, self.draw, self.tune, first=self.divergences == 1)
