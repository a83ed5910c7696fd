"""State that one chain carries from draw to draw."""

from dataclasses import dataclass
from typing import Any

from pymc_sgmcmc._utils.values import equal_values
from pymc_sgmcmc.chain.evidence import Evidence
from pymc_sgmcmc.chain.running_sums import RunningSums
from pymc_sgmcmc.tuning.tuned import Tuned

__all__ = ["ChainState"]


@dataclass(eq=False)
class ChainState:
    """State of one chain between draws, except its position and its random generator.

    Attributes
    ----------
    batch_states : tuple
        States of the source of batches, one for each group of rows.
    running_sums : RunningSums
    evidence : Evidence
        What the chain has shown of itself, and its alarms.
    tuned : Tuned
    tune : bool
        Whether `pm.sample` still tunes.
    started : bool
        Whether the chain has found its start.
    inner_steps, draw : int
        Number of inner steps and of draws that the chain has made.
    divergences, failures : int
        Number of diverging draws since tuning began or ended, and of those in a row.
    noise_key : int
        Key of the stream of normals, if there is one.
    carried : tuple of array
        Variables that the update carries beside q.
    is_monitored : bool
        Whether the sums are those after tuning, which are inspected.
    """

    batch_states: tuple[Any, ...]
    running_sums: RunningSums
    evidence: Evidence
    tuned: Tuned
    tune: bool = True
    started: bool = False
    inner_steps: int = 0
    draw: int = 0
    divergences: int = 0
    failures: int = 0
    noise_key: int = 0
    carried: tuple[Any, ...] = ()
    is_monitored: bool = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ChainState) and equal_values(self, other)
