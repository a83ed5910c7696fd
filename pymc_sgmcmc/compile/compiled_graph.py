"""A compiled function that can be pickled, and that falls back to PyTensor's plain mode."""

import warnings
from collections.abc import Sequence

from pytensor.compile import Function
from pytensor.graph.basic import Variable

from pymc_sgmcmc.compile.additions import say_fallback
from pymc_sgmcmc.compile.backend import Backend
from pymc_sgmcmc.compile.compiling import one_at_a_time

__all__ = ["CompiledGraph"]

_OF_NUMBERS = (ArithmeticError, AssertionError, IndexError, MemoryError, ValueError)
"""Errors that a compiled function raises because of its inputs."""


class CompiledGraph:
    """A compiled function that pickles as its rewritten graph and is linked where it is loaded.

    Rewriting takes most of the time. PyTensor's own pickling of a function would link it without
    our flags for BLAS. A function that is compiled by its first call keeps the original graph
    until then, so that PyTensor's plain mode can compile it if this package's code fails.
    """

    def __init__(self, inputs: Sequence[Variable], outputs: Sequence[Variable], backend: Backend):
        written = (inputs, outputs) if backend.compiles_when_called else None
        self._begin(backend.function(inputs, outputs), backend, written)

    def _begin(self, function: Function, backend: Backend, written: tuple | None):
        self.backend, self._function, self._written = backend, function, written
        self._call = self._first_call if backend.compiles_when_called else function

    def __call__(self, *args):
        return self._call(*args)

    def _first_call(self, *args):
        """Compile the function and call it; use PyTensor's plain mode if our code fails."""
        with one_at_a_time():
            try:
                outputs = self._compile_and_call(*args)
            except _OF_NUMBERS:
                raise
            except Exception as error:
                if self._written is None:
                    raise
                ours = error
            else:
                self._call, self._written = self._function, None
                return outputs
            self._function = self.backend.plain_function(*self._written)
            outputs = self._compile_and_call(*args)
            say_fallback(ours)
            self._call, self._written = self._function, None
            return outputs

    def _compile_and_call(self, *args):
        """Call the function without Numba's performance warnings on code that is not ours."""
        with warnings.catch_warnings():
            if self.backend.is_numba:
                from pymc_sgmcmc.compile.pytensor_internals import NumbaPerformanceWarning

                warnings.filterwarnings("ignore", category=NumbaPerformanceWarning)
            return self._function(*args)

    def __getstate__(self):
        maker = self._function.maker
        return {"maker": maker, "backend": self.backend, "written": self._written}

    def __setstate__(self, state):
        backend = state["backend"]
        self._begin(backend.link(state["maker"]), backend, state["written"])
