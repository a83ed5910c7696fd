"""Every line that depends on the version of PyMC and PyTensor."""

import warnings

import pytensor
from pymc.step_methods.arraystep import ArrayStepShared

__all__ = ["ChainStep", "scan"]


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


def scan(step, **kwargs):
    """Return the list of trajectories of `pytensor.scan`.

    PyTensor 3 links the inner function of a C scan with its Python virtual machine, twice as slow,
    unless it is given a mode; and it deprecates giving one.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The `mode` argument", FutureWarning)
        return pytensor.scan(step, return_list=True, return_updates=False, **kwargs)
