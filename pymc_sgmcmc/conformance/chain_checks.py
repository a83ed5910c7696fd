"""Checks of one chain and of several: stats, seeds, pickles, state, processes, divergences."""

import copy
from dataclasses import replace

import cloudpickle
import numpy as np
import pymc as pm

from pymc_sgmcmc.chain.frame import frame_of
from pymc_sgmcmc.chain.stats import STATS
from pymc_sgmcmc.chain.trajectory import advance
from pymc_sgmcmc.conformance.report import Failed, NotApplicable
from pymc_sgmcmc.conformance.subject import Subject, begin, walk
from pymc_sgmcmc.conformance.update_checks import hides_not_finite
from pymc_sgmcmc.dynamics.schedules import Polynomial

__all__ = [
    "check_blocks", "check_construction", "check_cores", "check_divergences", "check_pickles",
    "check_schedules", "check_seeds", "check_state", "check_stats",
]  # fmt: skip

DRAWS = 5
HUGE, TINY = 1e200, 1e-3
"""Step sizes that no update survives, and that all do."""

SHORT = 1e-8
"""A part of a step in which no chain moves: not even by noise, which is its root."""


def check_construction(subject: Subject) -> str:
    """Check that a step method can be made."""
    model, step = subject.built
    if step.chain.parts.tuner is not None:
        raise Failed(
            "Some settings are to be tuned, and chains are compared that are not: give metric, "
            "noise_estimate, batch_size and gradient, or leave out what is 'auto'."
        )
    return f"A step method for {', '.join(rv.name for rv in model.free_RVs)} was made: {step.name}."


def check_stats(subject: Subject) -> str:
    """Check that sample stats are those that are declared, and that PyMC stores them."""
    step = subject.built[1]
    begin(step)
    _, stats = step.chain.draw(_start(subject), step.rng)
    own = step.algorithm.stats
    for name in own:
        if name not in stats:
            raise Failed(
                f"`stats` names {name!r}, which no draw has: name what is carried, what `planned` "
                "returns, kinetic_temperature (if p is carried) or thermostat (if xi is)."
            )
        if np.shape(stats[name]) != ():
            raise Failed(
                f"The stat {name!r} has shape {np.shape(stats[name])}: stats are single numbers."
            )
        if not np.isfinite(stats[name]):
            raise Failed(f"The stat {name!r} is {stats[name]} in the first draw: it has no value.")
    stored = _sampled(subject, draws=DRAWS).sample_stats
    missing = (set(STATS) | set(own)) - {"warning"} - set(stored)
    if missing:
        raise Failed(f"pm.sample stored no {', '.join(sorted(missing))}.")
    for name, (dtype, _) in step.stats_dtypes_shapes.items():
        kinds = {np.dtype(dtype).kind, stored[name].dtype.kind} if name in own else set()
        if len(kinds) > 1:
            raise Failed(f"pm.sample stored {name!r} as {stored[name].dtype}, not as {dtype}.")
    if not (np.isfinite(stored["minibatch_logp"]).all() and (stored["grad_norm"] > 0).all()):
        raise Failed(
            "The stat minibatch_logp is not finite, or grad_norm is 0: U was not followed."
        )
    h = float(stored["step_size"].values.ravel()[-1])
    if not np.isclose(h, subject.settings["step_size"]):
        raise Failed(f"The stat step_size is {h}, and it was given another.")
    words = f"; {', '.join(own)} are its own" if own else ""
    return f"pm.sample stores all {len(stored)} sample stats{words}."


def check_seeds(subject: Subject) -> str:
    """Check that a seed fixes the draws, and that chains of two seeds differ."""
    _, step = subject.built
    first, again, other = (subject.path(step, 2 * DRAWS, seed) for seed in (3, 3, 4))
    if not np.array_equal(first, again):
        raise Failed(
            "Two chains of one seed differ: take random numbers from `noise()`, and from the `rng` "
            "of `initial_state`, alone."
        )
    if not (first != other).any(axis=0).all():
        raise Failed(
            "Chains of two seeds share their draws: some coordinate does not depend on `noise()`."
        )
    return "Chains of one seed are equal, and those of two seeds differ."


def check_pickles(subject: Subject) -> str:
    """Check that a step method can be pickled and copied in the midst of a chain."""
    model, step = subject.built
    begin(step)
    point, _ = walk(step, model.initial_point(), DRAWS)
    try:
        twin = cloudpickle.loads(cloudpickle.dumps(step))
    except Exception as error:
        raise Failed(
            f"It cannot be pickled, so that no chain runs in a process of its own: {error}. Keep "
            "open files, locks and the like out of the algorithm."
        ) from error
    shallow = copy.copy(step)
    kept = copy.deepcopy(shallow.state)
    _, path = walk(step, point, DRAWS)
    if shallow.state != kept:
        raise Failed("A shallow copy shares its chain: keep the state in what `update` returns.")
    if not np.array_equal(path, walk(twin, point, DRAWS)[1]):
        raise Failed(
            "A pickled step method goes on otherwise than the original: let `initial_state` name "
            "all that draws depend on."
        )
    return "A pickled step method goes on as the original does; a copy has a chain of its own."


def check_state(subject: Subject) -> str:
    """Check that the state of a chain can be copied, compared, stored and returned to."""
    model, step = subject.built
    begin(step)
    point, _ = walk(step, model.initial_point(), DRAWS)
    saved, kept = cloudpickle.dumps(step.sampling_state), copy.deepcopy(step.state)
    if kept != step.state:
        raise Failed("A copy of the state differs from it: carry numbers and arrays alone.")
    _, path = walk(step, point, DRAWS)
    if kept == step.state:
        raise Failed("The state stays as it is while the chain draws.")
    step.sampling_state = cloudpickle.loads(saved)
    if kept != step.state or not np.array_equal(path, walk(step, point, DRAWS)[1]):
        raise Failed(
            "A chain that is set back to an earlier state goes on otherwise than it did: let "
            "`initial_state` name all that draws depend on."
        )
    return "The state can be copied, compared and stored; set back to it, a chain repeats itself."


def check_cores(subject: Subject, cores: int) -> str:
    """Check that draws are the same in one process and in several."""
    if cores == 1:
        raise NotApplicable("cores=1.")
    one, several = (_sampled(subject, cores=n).posterior for n in (1, cores))
    for name in one:
        if not np.array_equal(one[name], several[name]):
            raise Failed(
                f"Draws of {name} in {cores} processes differ from those in one: look for what a "
                "process has of its own."
            )
    return f"Chains in {cores} processes draw what they draw in one."


def check_blocks(subject: Subject) -> str:
    """Check that inner steps in several calls of compiled code are those of one call."""
    step = subject.built[1]
    begin(step)
    chain, start = step.chain, _start(subject)
    q, _ = chain.draw(start, step.rng)
    # Blocks change the order in which rows and normals are drawn: with all rows there is none.
    chain.state.tuned = replace(chain.state.tuned, batch_sizes=tuple(map(int, chain.frame.lengths)))
    frame, ends = frame_of(chain.parts, chain.state, chain.frame.lengths), []
    for block in (chain.parts.steps, 1, 3):
        state = copy.copy(chain.state)
        output = advance(chain.parts, state, replace(frame, block=block), q, _rng()).output
        ends.append([output.q, *output.state])
    for end in ends[1:]:
        for one, other in zip(ends[0], end, strict=True):
            if not np.allclose(one, other, rtol=1e-9, atol=1e-12, equal_nan=True):
                raise Failed(
                    "Inner steps in several calls differ from those in one: `planned` must count "
                    "from the start of the chain, and `update` carry all that it needs."
                )
    return "Inner steps are the same in one call of compiled code and in several."


def check_schedules(subject: Subject) -> str:
    """Check that each step has the length that a schedule has then, whatever it was before."""
    step, h = copy.copy(subject.built[1]), subject.settings["step_size"]
    schedule = Polynomial(a=h, b=10.0, gamma=0.6)
    step.chain = subject.chain(schedule=schedule)
    begin(step)
    point, counts = subject.built[0].initial_point(), step.chain.parts.steps
    for draw in range(1, DRAWS + 1):
        point, (stats,) = step.step(point)
        expected = schedule(np.array([draw * counts - 1]))[0]
        if not np.isclose(stats["step_size"], expected):
            raise Failed(
                f"The stat step_size is {stats['step_size']:.3g} where the schedule has "
                f"{expected:.3g}."
            )
    state, rng, lengths = step.state, step.rng, []
    for short in (h, SHORT * h):
        step = subject.with_step_size(short)
        begin(step)
        step.state, step.rng = copy.deepcopy(state), copy.deepcopy(rng)
        end, _ = step.step(point)
        lengths.append(max(float(np.max(np.abs(end[name] - point[name]))) for name in point))
    if lengths[1] > lengths[0] * SHORT**0.25:
        raise Failed(
            f"With a step_size {SHORT:g} times as long draws move {lengths[1] / lengths[0]:.2g} "
            "times as far: use the `h` that `update` is given, not one that was kept."
        )
    return "Steps have the lengths of a schedule."


def check_divergences(subject: Subject) -> str:
    """Check that a draw that is not finite is flagged and repeated, and the chain goes on."""
    model, whole = subject.built
    if whole.algorithm.space.curved:
        raise NotApplicable("Positions on manifolds are finite at any step size.")
    step, accepts = subject.with_step_size(HUGE), whole.algorithm.has_accept_step
    begin(step)
    start = model.initial_point()
    flagged = False
    for _ in range(2):
        try:
            point, (stats,) = step.step(start)
        except ValueError as error:
            if "step_size" not in str(error):
                raise
            raise NotApplicable(f"Steps so long are refused: {error}") from error
        flagged = bool(stats["diverging"])
        moved = any(not np.array_equal(point[name], start[name]) for name in start)
        if not (flagged or accepts):
            if hides_not_finite(subject):
                raise Failed(
                    f"A draw at step_size {HUGE:g} is not flagged `diverging`: `update` hides "
                    "numbers that are not finite, as comparisons with NaN do; leave them, and the "
                    "chain repeats the draw before."
                )
            return "Draws are finite at any step size; a gradient that is not is not hidden."
        if moved and step.state.draw > 1:
            raise Failed(f"A draw at step_size {HUGE:g} has moved, and it should be repeated.")
        start = point
        carried = step.chain.parts.carried(step.state)
        kept = whole.algorithm.kept_energy  # computed anew at the next draw
        if not all(np.isfinite(v).all() for name, v in carried.items() if name not in kept):
            raise Failed(
                "After a divergence carried variables are not finite: `initial_state` must not "
                "take over what failed, and `learned_state` name only what is finite."
            )
    state, rng = step.state, step.rng
    step = subject.with_step_size(TINY)
    begin(step)
    step.state = state
    step.rng = rng
    moved, stats = start, []
    for _ in range(DRAWS):
        moved, one = step.step(moved)
        stats += one
    if any(one["diverging"] for one in stats):
        raise Failed(f"After a divergence the chain diverges at step_size {TINY:g} too.")
    if all(np.array_equal(moved[name], start[name]) for name in start):
        raise Failed("After a divergence the chain does not move again.")
    return f"A draw that {'diverges' if flagged else 'is rejected'} is repeated; the chain goes on."


def _sampled(subject: Subject, *, draws: int = 2 * DRAWS, cores: int = 1):
    model, step = subject.built
    with model:
        return pm.sample(
            draws, step=step, tune=DRAWS, chains=2, cores=cores, random_seed=3, progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip


def _start(subject: Subject) -> np.ndarray:
    """Return the default point as the chain has it, (d,)."""
    return subject.built[1].chain.parts.starts.default


def _rng() -> np.random.Generator:
    return np.random.default_rng(3)
