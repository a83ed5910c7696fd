"""Every line that depends on PyMC's version."""

from pymc.step_methods.arraystep import ArrayStepShared

__all__ = ["ChainStep"]


class ChainStep(ArrayStepShared):
    """A step method that is told when a chain starts: PyMC 5.28 and 6 say it differently."""

    def start_chain(self) -> None:
        """Reset all per-chain state; `self.rng` is the chain's generator."""

    if hasattr(ArrayStepShared, "setup_chain"):

        def setup_chain(self, rng, tune, draws):
            super().setup_chain(rng, tune, draws)
            self.start_chain()

    else:

        def set_rng(self, rng):
            super().set_rng(rng)
            self.start_chain()
