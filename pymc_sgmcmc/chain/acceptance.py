"""Accept steps at the end of draws, and the exact energy that algorithms keep for theirs."""

import numpy as np

from pymc_sgmcmc._utils.types import Number
from pymc_sgmcmc.chain.parts import Parts
from pymc_sgmcmc.chain.state import ChainState
from pymc_sgmcmc.chain.trajectory import Trajectory

__all__ = ["accept_or_reject", "refresh_energy"]


def refresh_energy(parts: Parts, state: ChainState, q: np.ndarray, *, moved: bool) -> None:
    """Update the U, and its gradient, that the algorithm carries where it is not that of `q`.

    `moved`: other step methods, or new data, may have changed U since the last draw.
    """
    carried = parts.carried(state)
    if moved or np.isnan(carried["u"]):
        u, g = parts.target.value_and_gradient(q)
        now = {"u": u}
        if "g" in parts.algorithm.kept_energy:
            now["g"] = state.tuned.coordinates.metric.pull(g)
        state.carried = tuple((carried | now).values())


def accept_or_reject(
    parts: Parts, state: ChainState, q: np.ndarray, end: Trajectory, rng: np.random.Generator
) -> Trajectory:
    """Return the finite end of a draw from `q`, or its start again, if the algorithm rejects it."""
    output = end.output
    before = parts.carried(state)
    after: dict[str, Number] = dict(zip(before, output.state, strict=True))
    position = parts.to_position(output.q, state.tuned)
    after["u"] = parts.target.value_and_gradient(position)[0]
    accepted, carried = parts.algorithm.accept_draw(
        before, after, rng.standard_normal(), state.draw, tuning=state.tune
    )
    if not accepted:
        output = output._replace(q=parts.to_coordinates(q, state.tuned))
    output = output._replace(state=tuple(map(np.asarray, carried.values())))
    return end._replace(output=output)
