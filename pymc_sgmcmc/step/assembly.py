"""From arguments to the parts of a chain."""

from collections.abc import Callable, Sequence

import numpy as np
from pymc import Model
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc._utils.flat import places
from pymc_sgmcmc._utils.warn_user import warn_user
from pymc_sgmcmc.chain.at_rest import (
    NOISE_BATCHES,
    draw_rows,
    evaluate_at_rest,
    is_finite_at,
    noise_batches,
)
from pymc_sgmcmc.chain.chain import Chain
from pymc_sgmcmc.chain.frame import context_of
from pymc_sgmcmc.chain.kernel import Kernel
from pymc_sgmcmc.chain.moments import MOMENTS
from pymc_sgmcmc.chain.parts import Parts
from pymc_sgmcmc.chain.start import initial_chain_state
from pymc_sgmcmc.compile.normal_stream import Noise
from pymc_sgmcmc.distributions.manifolds import manifold_of
from pymc_sgmcmc.dynamics.algorithm import Algorithm
from pymc_sgmcmc.dynamics.schedules import Constant
from pymc_sgmcmc.dynamics.setting import Setting
from pymc_sgmcmc.dynamics.space import Space
from pymc_sgmcmc.model.gradient_flow import refuse_without_gradient
from pymc_sgmcmc.model.initial_points import Starts
from pymc_sgmcmc.model.inspection import warn_about_deterministics, warn_about_leftovers
from pymc_sgmcmc.posterior.gradient_estimator import Estimator
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.rows.latents import warn_about_row_latents
from pymc_sgmcmc.step.arguments import Arguments
from pymc_sgmcmc.step.refusals import refuse_exploration, refuse_untunable
from pymc_sgmcmc.tuning.choice import Choice
from pymc_sgmcmc.tuning.curvature import largest_curvature
from pymc_sgmcmc.tuning.information import informed
from pymc_sgmcmc.tuning.over_kinks import over_kinks
from pymc_sgmcmc.tuning.tuner import Tuner

__all__ = ["SUMMED", "assemble", "warm_up"]

SUMMED = 2**13
"""Coordinates times inner steps that are summed in a draw, at least: all steps where they are no
more, else every so many."""


def assemble(
    algorithm: Algorithm,
    arguments: Arguments,
    model: Model,
    vars: Sequence[TensorVariable],
    refuse: Callable[[Algorithm, Arguments, Target], None],
) -> Parts:
    """Return the parts of a chain that samples `vars` of `model` by `algorithm`.

    `refuse` raises where the algorithm cannot. What the user should know of the model is said.
    """
    refuse_exploration(algorithm, arguments)
    target = arguments.target(model, vars)
    space = Space([manifold_of(model, var) for var in vars], target.shapes)
    algorithm = algorithm.in_setting(
        Setting(
            size=target.size,
            space=space,
            temperature=arguments.temperature,
            noise_estimate=arguments.noise_estimate,
            tunes_step=arguments.schedule is None,
        )
    )
    refuse(algorithm, arguments, target)
    if not algorithm.has_accept_step:
        refuse_without_gradient(target.terms, vars)
    warn_about_deterministics(model, target.model)
    minibatched, blocked = bool(target.groups), arguments.blocked
    warn_about_leftovers(model, vars, minibatched=minibatched, blocked=blocked)
    if not algorithm.has_accept_step:
        warn_about_row_latents(target.model_terms, vars)

    if arguments.tunes_coordinates:
        target = over_kinks(informed(target))
    source = arguments.source(model, target)
    plan = arguments.plan(model, target)
    steps, tuner = int(arguments.steps_per_draw), None
    if arguments.tunes():
        refuse_untunable(algorithm, arguments)
        tuner = Tuner(Choice(target, source, plan, algorithm, steps))
    untuned = arguments.coordinates(target)
    metric = None if arguments.metric is None else untuned.metric
    estimator = Estimator(target, source, metric, control=plan.gradient != "plain")
    state, schedule = initial_chain_state(target, source, untuned), arguments.schedule
    h = np.nan if schedule is None else float(schedule(np.zeros(1, dtype=int))[0])
    context = context_of(source, state, target.examine(), h)
    kernel = Kernel(
        estimator,
        algorithm,
        context,
        estimator.symbols(state.tuned),
        target.backend,  # C, where Numba cannot compile the model
        constant=schedule is None or isinstance(schedule, Constant),
        leaps=target.size >= SUMMED and not algorithm.rejects_trajectories,
    )
    every = steps
    if not (kernel.leaps or algorithm.rejects_trajectories):
        every = max(1, steps * target.size // SUMMED)
    sizes = [np.size(target.model_terms.point[var.name]) for var in model.value_vars]
    return Parts(
        name=algorithm.name,
        target=target,
        algorithm=algorithm,
        source=source,
        estimator=estimator,
        kernel=kernel,
        normals=Noise(steps * kernel.n_noise * target.size, kernel.dtype),
        starts=Starts(model, vars, space.nearest, jitter=arguments.jitter),
        plan=plan,
        tuner=tuner,
        schedule=schedule,
        untuned=untuned,
        places=places(model.value_vars, sizes, vars),
        steps=steps,
        every=every,
    )


def warm_up(chain: Chain) -> None:
    """Compile what is compiled when called, here and not in every worker; warn of long steps."""
    parts, state, frame = chain.parts, chain.state, chain.frame
    start = parts.target.centring.coordinates(parts.starts.default)
    if is_finite_at(parts, state, frame, start, np.random.default_rng(0)):
        _warn_if_unstable(chain, start)
    if parts.kernel.leaps:
        rows, _ = draw_rows(parts, state, frame, np.random.default_rng(0), 2)
        evaluate_at_rest(parts, state, frame, start, rows, 2, every=2)
    if parts.tuner is not None:
        parts.target.warm_up(start)
    if parts.algorithm.accepts_draws:
        parts.target.value_and_gradient(start)


def _warn_if_unstable(chain: Chain, q: np.ndarray) -> None:
    """Warn of a step size that no chain would survive where the curvature is that of `q`."""
    parts, state, frame = chain.parts, chain.state, chain.frame
    if parts.schedule is None:
        return
    steps = noise_batches(parts, frame, NOISE_BATCHES // 4)
    rows, _ = draw_rows(parts, state, frame, np.random.default_rng(0), steps)
    gradient = MOMENTS.index("g")

    def mean_gradient(z: np.ndarray) -> np.ndarray:
        position = parts.to_position(z, state.tuned)
        sums = evaluate_at_rest(parts, state, frame, position, rows, steps).sums
        assert sums is not None  # every step is summed
        return sums[gradient] / steps

    point = parts.to_coordinates(q, state.tuned)
    curvature = largest_curvature(mean_gradient, point[None], np.random.default_rng(0))
    h = float(parts.step_sizes(state.tuned, np.zeros(1, dtype=int))[0])
    longest = parts.algorithm.longest_step(curvature) if curvature > 0 else np.inf
    if h > longest:
        warn_user(
            f"step_size={h:.3g} is not stable at the model's initial point: there the "
            f"curvature of U, minus the log posterior, goes up to {curvature:.3g}, and the "
            f"longest stable step is {longest:.2g}. Expect divergences, or choose about "
            f"{longest / 4:.1g}.",
        )
