"""PyMC's step method: arguments in, a chain made of parts, draws out."""

import logging
from copy import copy
from threading import get_ident
from typing import Any, ClassVar, Self

import numpy as np
from pymc.blocking import RaveledVars
from pymc.step_methods.compound import Competence, StepMethodState
from pymc.step_methods.state import dataclass_state
from pymc.util import get_value_vars_from_user_vars

from pymc_sgmcmc._utils.argument_rows import VARS
from pymc_sgmcmc._utils.arguments import CheckedArguments, Rows, rows_of
from pymc_sgmcmc._utils.constraints import Instance, Optional
from pymc_sgmcmc._utils.context import model_of
from pymc_sgmcmc.chain.chain import Chain
from pymc_sgmcmc.chain.parts import Parts
from pymc_sgmcmc.chain.state import ChainState
from pymc_sgmcmc.chain.stats import STATS, stats_of
from pymc_sgmcmc.chain.stored_sums import SUMS_DTYPE
from pymc_sgmcmc.compile.blas_threads import one_thread_in_workers
from pymc_sgmcmc.compile.compiling import one_at_a_time
from pymc_sgmcmc.dynamics.algorithm import Algorithm
from pymc_sgmcmc.dynamics.hyperparameters import constraints_of
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.step.arguments import SHARED, Arguments
from pymc_sgmcmc.step.assembly import assemble, warm_up
from pymc_sgmcmc.step.owner import Owner
from pymc_sgmcmc.step.progress import progress_columns, progress_updates
from pymc_sgmcmc.step.pymc_versions import ChainStep
from pymc_sgmcmc.step.refusals import refuse_target
from pymc_sgmcmc.step.signature import signature_of, split_arguments

__all__ = ["SGMCMC"]

_log = logging.getLogger("pymc.sgmcmc")


@dataclass_state
class SGMCMCState(StepMethodState):
    """What PyMC takes of a step method to go on later from where it is."""

    state: ChainState


class SGMCMC(CheckedArguments, ChainStep):
    """Stochastic-gradient Markov chain Monte Carlo: a step method of PyMC for an algorithm.

    The samplers of this package derive from it; with `algorithm` it samples by one of your own, see
    :class:`~pymc_sgmcmc.Algorithm`.

    Parameters
    ----------
    vars : list of variables, optional
        What to sample; default all continuous variables of the model.
    algorithm : Algorithm
        How to sample; the samplers of this package have their own.
    step_size : float, Schedule or None
        h > 0, the time step of the diffusion at each inner step. None: found while `pm.sample`
        tunes, and so is all that is not given of what follows: "default" then means "auto".
    batch_size : int, mapping, "auto" or None
        Rows in a minibatch, at most the number of rows. A mapping gives it by the name of the row
        dimension or of an observed variable (None: exact). None: the exact gradient of all rows,
        or the batch size of the `pm.Minibatch` of a model that has one. "auto": exact for up to
        256 rows or where rows do not separate; else 64 to 8192, from the noise of the gradient,
        or all rows where that costs no more. Default None if `step_size` is given.
    batches : {"random", "blocks", "epochs", "auto"}
        "random": with replacement, independently at each inner step; all rows, each once, where
        the batch is as large. "blocks": contiguous blocks of data that were shuffled once,
        independently at each inner step: faster, for a copy of the data. "epochs": shuffled passes
        over the rows. Default "random" if `step_size` is given.
    gradient : {"plain", "control_variate", "svrg", "auto"}
        "plain": prior + (N / n) times the minibatch. "control_variate": less the same at a centre,
        found while tuning, plus the gradient on all rows there; with the second derivatives of rows
        and of all rows too ("second order"), where these are known and it costs less. "svrg": with
        a centre that follows the chain, once in about as many inner steps as there are minibatches.
        "auto": that with the least noise for its cost, measured. Default "plain" if `step_size` is
        given.
    metric : {"dense", "sparse", "diag", "auto"}, array of shape (d,) or (d, d), Metric, or None
        The sampler moves in coordinates z with q = c + L z, and `step_size`, friction and the like
        are meant in them. Learned while tuning: L L' is about the posterior's covariance ("dense";
        "auto" up to d = 200), the inverse of a sparse Hessian ("sparse"; "auto" beyond, where that
        is known), or the posterior's variances ("diag"). An array: L L'. A
        :class:`~pymc_sgmcmc.Metric`: L of another form. None: z = q. Default None if `step_size` is
        given.
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

    arguments: ClassVar[Rows] = {
        "vars": VARS,
        "algorithm": Optional(Instance(Algorithm, "an Algorithm: pass one, with its arguments")),
        **SHARED,
    }
    algorithm_class: ClassVar[type[Algorithm] | None] = None
    """The algorithm of a sampler, whose hyper-parameters are arguments of it."""
    required: ClassVar[tuple[str, ...]] = ()
    """Shared arguments that have no default in a sampler."""
    name = "sgmcmc"
    default_tune_steps = 1000
    """Draws of tuning where `pm.sample` is not told."""
    stats_dtypes_shapes: dict[str, tuple[Any, Any]] = STATS
    _state_class = SGMCMCState

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        algorithm = cls.algorithm_class
        if algorithm is None:
            return
        own = constraints_of(algorithm) | vars(cls).get("arguments", {})
        cls.arguments = {"algorithm": None} | own
        cls.name = algorithm.name
        cls.stats_dtypes_shapes = STATS | {name: (np.float64, []) for name in algorithm.stats}
        cls.__signature__ = signature_of(cls)

    @classmethod
    def argument_names(cls) -> list[str]:
        own = [name for name in rows_of(cls) if name not in SGMCMC.arguments]
        others = [name for name in SGMCMC.arguments if name in rows_of(cls) and name != "vars"]
        return ["vars", *own, *others]

    @classmethod
    def complete(
        cls, own: dict[str, Any], shared: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return a sampler's own and the shared arguments with its defaults, or raise.

        A sampler overrides it whose defaults differ, or that cannot take an argument.
        """
        return own, shared

    @classmethod
    def refuse(cls, algorithm: Algorithm, arguments: Arguments, target: Target) -> None:
        """Raise where the algorithm cannot sample `target` with these arguments.

        A sampler overrides it that can sample fewer.
        """
        refuse_target(algorithm, arguments, target)

    @one_at_a_time()
    def __init__(self, vars: Any = None, *, algorithm: Algorithm | None = None, **given: Any):
        own, shared = self.complete(*split_arguments(type(self), given))
        if self.algorithm_class is not None:
            algorithm = self.algorithm_class(**own)
        if algorithm is None:
            raise TypeError(
                f"{type(self).__name__}() needs algorithm=, an Algorithm that says how to sample; "
                "samplers such as SGNHT have their own."
            )
        self.name = algorithm.name
        arguments = Arguments(**shared)
        model = model_of(arguments.model)
        if vars is None:
            vars = model.continuous_value_vars
        else:
            vars = get_value_vars_from_user_vars(vars, model)
        parts = assemble(algorithm, arguments, model, vars, self.refuse)
        super().__init__(vars, parts.target.shared, blocked=arguments.blocked, rng=arguments.rng)
        self._declare_stats(parts)
        self._owner = Owner()
        self._owner.claim()
        self.chain = Chain(parts)
        warm_up(self.chain)
        T = arguments.temperature
        if T != 1:
            _log.warning(
                f"temperature={T:g}: the draws are from exp(-U / {T:g}), which is not the "
                "posterior: that has temperature=1."
            )

    def __copy__(self) -> Self:
        """Return a step method with a chain of its own: PyMC copies it for population sampling."""
        twin = object.__new__(type(self))
        twin.__dict__.update(vars(self))
        twin.chain, twin._owner = copy(self.chain), copy(self._owner)
        return twin

    def _declare_stats(self, parts: Parts) -> None:
        """Tell PyMC which sample stats there are."""
        stats = stats_of(parts)
        self.stats_dtypes = [{name: dtype for name, (dtype, _) in stats.items()}]
        # PyMC has read the dtype of this array in memory; ZarrTrace reads its shape here.
        stats |= {"running_sums": (np.float64, list(SUMS_DTYPE.shape))}
        self.stats_dtypes_shapes = stats

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm, with its hyper-parameters, in its setting."""
        return self.chain.parts.algorithm

    @property
    def target(self) -> Target:
        """U of the model, and what was decided of each likelihood."""
        return self.chain.parts.target

    @property
    def state(self) -> ChainState:
        """All that the chain carries from draw to draw, beside its position and generator."""
        return self.chain.state

    @state.setter
    def state(self, state: ChainState) -> None:
        self.chain.state = state

    @property
    def tune(self) -> bool:
        """Whether `pm.sample` still tunes."""
        return self.chain.state.tune

    @tune.setter
    def tune(self, tune: bool) -> None:
        if "chain" in vars(self):  # PyMC says so before there is one
            self.chain.state.tune = tune

    def start_chain(self, rng: np.random.Generator) -> None:
        """Forget all draws: PyMC starts a chain with the generator `rng`."""
        if "chain" not in vars(self):  # PyMC sets a generator while it makes the step method
            return
        self._owner.claim()
        one_thread_in_workers()
        self.chain.restart()

    def stop_tuning(self) -> None:
        super().stop_tuning()
        self.chain.stop_tuning()

    def astep(self, q0: RaveledVars) -> tuple[RaveledVars, list[dict[str, Any]]]:
        owner, thread = self._owner, get_ident()
        if owner.thread != thread:
            owner.refuse(self.name)
        q, stats = self.chain.draw(q0.data, self.rng)
        if owner.thread != thread:  # another has started a chain meanwhile
            owner.refuse(self.name)
        names = self.stats_dtypes_shapes
        if len(stats) > len(names):  # an algorithm without momentum, say, has no temperature
            stats = {name: stats[name] for name in names}
        return RaveledVars(q, q0.point_map_info), [stats]

    @staticmethod
    def competence(var: Any, has_grad: bool) -> Competence:
        return Competence.INCOMPATIBLE  # never assigned by pm.sample, always asked for

    def _progressbar_config(self, n_chains: int = 1) -> Any:
        return progress_columns(self.stats_dtypes_shapes, n_chains)

    def _make_progressbar_update_functions(self) -> Any:
        return progress_updates(self.stats_dtypes_shapes)


SGMCMC.__signature__ = signature_of(SGMCMC)
