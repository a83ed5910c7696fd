"""Gradients where a chain is: the kernel at the step size zero."""

from dataclasses import replace
from typing import Any

import numpy as np

from pymc_sgmcmc.chain.frame import Frame, context_before_draw, fixed_inputs, is_noisy
from pymc_sgmcmc.chain.kernel_output import KernelOutput
from pymc_sgmcmc.chain.moments import MOMENTS
from pymc_sgmcmc.chain.parts import Parts
from pymc_sgmcmc.chain.state import ChainState

__all__ = [
    "NOISE_BATCHES",
    "draw_rows",
    "evaluate_at_rest",
    "gradient_variance",
    "has_gradient",
    "is_finite_at",
    "noise_batches",
    "noise_without_control",
]

NOISE_BATCHES = 64
"""Batches from which the noise of the gradient at one point is estimated."""

_GRADIENT, _SQUARE = MOMENTS.index("g"), MOMENTS.index("g2")


def draw_rows(
    parts: Parts, state: ChainState, frame: Frame, rng: np.random.Generator, steps: int
) -> tuple[list[np.ndarray], tuple[Any, ...]]:
    """Return `steps` batches of each group, and the states of the sources then."""
    source, drawn, states = parts.source, [], []
    for k, (n_rows, size) in enumerate(frame.batches):
        rows, source_state = source.draw(state.batch_states[k], rng, n_rows, steps, size)
        drawn += source.batch(k, rows)
        states.append(source_state)
    return drawn, tuple(states)


def evaluate_at_rest(
    parts: Parts,
    state: ChainState,
    frame: Frame,
    q: np.ndarray,
    rows: list[np.ndarray],
    steps: int,
    *,
    every: int = 1,
) -> KernelOutput:
    """Return what `steps` of size zero at `q` see, each on its `rows`."""
    context = context_before_draw(parts, state, frame.lengths)
    size, algorithm = parts.target.size, parts.algorithm
    return parts.kernel(
        parts.to_coordinates(q, frame.tuned),
        tuple(algorithm.initial_state(np.random.default_rng(0), context).values()),
        np.zeros(steps),
        rows,
        np.zeros((steps, parts.kernel.n_noise, size)),
        np.zeros(size),
        algorithm.planned(np.zeros(steps, dtype=int), tuning=state.tune),
        frame.fixed,
        every,
    )


def is_finite_at(
    parts: Parts, state: ChainState, frame: Frame, q: np.ndarray, rng: np.random.Generator
) -> bool:
    """Return whether U and its gradient are finite at `q`, on random rows."""
    rows = []
    for k, (n_rows, size) in enumerate(frame.batches):
        rows += parts.source.batch(k, parts.source.any(rng, n_rows, size))
    output = evaluate_at_rest(parts, state, frame, q, rows, 1)
    return bool(np.isfinite([output.logp, output.grad_norm]).all())


def has_gradient(
    parts: Parts, state: ChainState, frame: Frame, q: np.ndarray, rows: list[np.ndarray]
) -> bool:
    """Return whether the gradient at `q` is finite on all of `rows`."""
    if not rows:
        return True
    sums = evaluate_at_rest(parts, state, frame, q, rows, len(rows[0])).sums
    assert sums is not None  # every step is summed
    return bool(np.isfinite(sums[_GRADIENT]).all())


def noise_batches(parts: Parts, frame: Frame, wanted: int) -> int:
    """Return how many batches to look at in bounded memory: two or more, or one of all rows."""
    if not is_noisy(parts.source, frame.lengths, frame.tuned):
        return 1
    return max(2, min(wanted, frame.block))


def gradient_variance(parts: Parts, state: ChainState, frame: Frame, q: np.ndarray) -> np.ndarray:
    """Return V, the variance of the gradient at `q`, (d,)."""
    steps = noise_batches(parts, frame, NOISE_BATCHES)
    if steps == 1:
        return np.zeros(parts.target.size)
    rng = np.random.default_rng(state.draw)  # the chain's own stays as it is
    rows, _ = draw_rows(parts, state, frame, rng, steps)
    sums = evaluate_at_rest(parts, state, frame, q, rows, steps).sums
    assert sums is not None
    mean, square = sums[_GRADIENT] / steps, sums[_SQUARE] / steps
    return np.maximum(square - mean**2, 0.0) * steps / (steps - 1)


def noise_without_control(
    parts: Parts, state: ChainState, frame: Frame, q: np.ndarray, variance: np.ndarray
) -> float | None:
    """Return the mean noise of plain gradients over that of the control variate, if there is one.

    `variance`: V with it.
    """
    if not (state.tuned.order and variance.mean() > 0):
        return None
    tuned = replace(frame.tuned, order=0)
    fixed = fixed_inputs(parts, tuned, frame.lengths, frame.coefficients)
    plain = gradient_variance(parts, state, replace(frame, tuned=tuned, fixed=fixed), q)
    return float(plain.mean() / variance.mean())
