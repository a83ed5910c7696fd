"""The inner steps of a draw, in calls of the kernel that need bounded memory."""

from typing import Any, NamedTuple

import numpy as np

from pymc_sgmcmc.chain.at_rest import draw_rows
from pymc_sgmcmc.chain.frame import Frame
from pymc_sgmcmc.chain.kernel_output import KernelOutput
from pymc_sgmcmc.chain.parts import Parts
from pymc_sgmcmc.chain.state import ChainState

__all__ = ["Trajectory", "advance"]


class Trajectory(NamedTuple):
    """The end of the inner steps of a draw.

    Attributes
    ----------
    output : KernelOutput
        The end, and sums over the steps.
    planned : dict of str to number
        The step size, and what else is planned for each step, at the last.
    rows : list of array
        Of the last call of the kernel.
    """

    output: KernelOutput
    planned: dict[str, Any]
    rows: list[np.ndarray]


def advance(
    parts: Parts, state: ChainState, frame: Frame, q: np.ndarray, rng: np.random.Generator
) -> Trajectory:
    """Return where the inner steps of a draw lead from `q`, as far as they are finite.

    Moves the states of the batch sources on, and nothing else of `state`.
    """
    kernel, algorithm, normals = parts.kernel, parts.algorithm, parts.normals
    z, carried, done = parts.to_coordinates(q, state.tuned), state.carried, None
    end = state.inner_steps + parts.steps
    blocks = [np.arange(start, min(start + frame.block, end))
              for start in range(state.inner_steps, end, frame.block)]  # fmt: skip
    of_step = kernel.n_noise, parts.target.size
    for k, counts in enumerate(blocks):
        step_sizes = parts.step_sizes(state.tuned, counts)
        planned = algorithm.planned(counts, tuning=state.tune)
        rows, state.batch_states = draw_rows(parts, state, frame, rng, len(counts))
        key, step = state.noise_key, counts[0]
        noise = normals.draw(rng, key, step, (len(counts), *of_step))
        if normals.many:
            coming = blocks[(k + 1) % len(blocks)]
            normals.begin(key, step + len(counts), (len(coming), *of_step))
        explores = parts.explores(counts)
        if explores is not None:
            noise[explores] = 0.0
        output = kernel(
            z,
            carried,
            step_sizes,
            rows,
            noise,
            state.running_sums.origin,
            planned,
            frame.fixed,
            0 if kernel.leaps and counts[-1] + 1 < end else parts.every,
        )
        if algorithm.rejects_trajectories and done is not None:
            output = output.unsummed()
        done = output.after(done)
        if not output.is_finite:
            break
        z, carried = output.q, output.state
    last = {"step_size": step_sizes[-1]}
    for name, of_steps in planned.items():
        last[name] = of_steps[-1]
    if explores is not None:
        last["sampling"] = not explores[-1]
    return Trajectory(done, last, rows)
