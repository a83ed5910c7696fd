"""Numbers that follow from what a chain has tuned, while that stays the same."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pymc_sgmcmc.chain.kernel import arrays
from pymc_sgmcmc.chain.parts import Parts
from pymc_sgmcmc.chain.state import ChainState
from pymc_sgmcmc.dynamics.setting import Context
from pymc_sgmcmc.posterior.batch_sources import BatchSource
from pymc_sgmcmc.tuning.tuned import Tuned

__all__ = [
    "BLOCK",
    "Frame",
    "context_before_draw",
    "context_of",
    "fixed_inputs",
    "frame_of",
    "is_noisy",
]

BLOCK = 2**21
"""Normals, or row indices, that are drawn at once, at most: 16 MB of them, or 8 in float32; and as
many normals again where they are made ahead."""


@dataclass(frozen=True, eq=False)
class Frame:
    """Numbers that are the same for many draws.

    Attributes
    ----------
    tuned : Tuned
        What they follow from.
    lengths : array of int
        Rows of each group.
    batches : tuple of (int, int)
        Rows, and rows of a batch, of each group.
    coefficients : dict of str to array
        Of the update, in the working precision.
    fixed : list of array
        What the kernel is given at every draw.
    block : int
        Inner steps of one call of the kernel, at most.
    """

    tuned: Tuned
    lengths: np.ndarray
    batches: tuple[tuple[int, int], ...]
    coefficients: dict[str, np.ndarray]
    fixed: list[np.ndarray]
    block: int


def frame_of(parts: Parts, state: ChainState, lengths: np.ndarray) -> Frame:
    """Return what follows from ``state.tuned``, where groups have `lengths` rows."""
    tuned = state.tuned
    context = context_before_draw(parts, state, lengths)
    coefficients = arrays(parts.algorithm.coefficients(context))
    fixed = fixed_inputs(parts, tuned, lengths, coefficients)
    block = max(1, BLOCK // parts.numbers_in_a_step(tuned))
    batches = tuple(zip(lengths.tolist(), tuned.batch_sizes, strict=True))
    return Frame(tuned, lengths, batches, coefficients, fixed, block)


def fixed_inputs(
    parts: Parts, tuned: Tuned, lengths: np.ndarray, coefficients: Mapping[str, np.ndarray]
) -> list[np.ndarray]:
    """Return the inputs of the kernel that stay the same from draw to draw."""
    weights = lengths / np.array(tuned.batch_sizes, dtype=float)
    return parts.kernel.fixed(weights, coefficients, parts.estimator.numbers(tuned))


def is_noisy(source: BatchSource, lengths: np.ndarray, tuned: Tuned) -> bool:
    """Return whether batches are not all rows."""
    batches = zip(lengths, tuned.batch_sizes, strict=True)
    return any(source.share(int(n), size) > 0 for n, size in batches)


def context_before_draw(
    parts: Parts,
    state: ChainState,
    lengths: np.ndarray,
    coefficients: Mapping[str, np.ndarray] | None = None,
) -> Context:
    """Return a chain as its algorithm sees it before the coming draw."""
    h, carried = parts.coming_step_size(state), parts.carried(state)
    return context_of(parts.source, state, lengths, h, carried, coefficients)


def context_of(
    source: BatchSource,
    state: ChainState,
    lengths: np.ndarray,
    step_size: float,
    carried: Mapping[str, np.ndarray] | None = None,
    coefficients: Mapping[str, np.ndarray] | None = None,
) -> Context:
    """Return what an algorithm may ask of a chain: `carried` and `coefficients` where it may."""
    tuned = state.tuned
    return Context(
        step_size=step_size,
        inner_steps=state.inner_steps,
        tuning=state.tune,
        in_first_window=tuned.in_first_window,
        noise=tuned.noise,
        pace=tuned.pace,
        batched=source.independent and is_noisy(source, lengths, tuned),
        n_rows=int(lengths.sum()),
        state=carried or {},
        coefficients=coefficients or {},
    )
