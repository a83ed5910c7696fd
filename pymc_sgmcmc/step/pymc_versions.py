"""Step methods that are told when a chain starts: PyMC 5.28 and 6 say it differently."""

import numpy as np
from pymc.step_methods.arraystep import ArrayStepShared
from pymc.step_methods.compound import BlockedStep, CompoundStep

__all__ = ["ChainCompound", "ChainStep"]


class _ChainStart:
    """A step method with a hook for the start of a chain, which differs in PyMC 5.28 and 6."""

    def start_chain(self, rng: np.random.Generator) -> None:
        """Reset all per-chain state; `rng` is the generator that PyMC made for the chain."""

    if hasattr(BlockedStep, "setup_chain"):

        def setup_chain(self, rng: np.random.Generator, tune: int, draws: int) -> None:
            super().setup_chain(rng, tune, draws)  # type: ignore[misc]  # of the other base
            self.start_chain(rng)

    else:

        def set_rng(self, rng: np.random.Generator) -> None:
            super().set_rng(rng)  # type: ignore[misc]  # of the other base
            self.start_chain(rng)


class ChainStep(_ChainStart, ArrayStepShared):
    """A step method for some variables."""


class ChainCompound(_ChainStart, CompoundStep):
    """Several step methods in turn."""
