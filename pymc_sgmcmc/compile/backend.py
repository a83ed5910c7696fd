"""Compilation of graphs: C with a BLAS, Numba, or any PyTensor mode."""

import logging
import multiprocessing
import os
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import pytensor
from pytensor.compile import Function
from pytensor.compile.mode import Mode, get_mode
from pytensor.graph.basic import Variable
from pytensor.link.basic import JITLinker
from pytensor.link.numba.linker import NumbaLinker
from threadpoolctl import ThreadpoolController

from pymc_sgmcmc._utils.validation import one_of
from pymc_sgmcmc.compile.additions import quiet_compiler, say_fallback
from pymc_sgmcmc.compile.c_linker import OneFunction
from pymc_sgmcmc.compile.c_loop import LOOP
from pymc_sgmcmc.compile.c_subgraph import AS_ONE, as_one
from pymc_sgmcmc.compile.compiling import compiling, one_at_a_time
from pymc_sgmcmc.compile.elementwise_loops import CONTIGUOUS
from pymc_sgmcmc.compile.fallback import plain_graph, plain_mode
from pymc_sgmcmc.compile.few_operands import FEW_OPERANDS
from pymc_sgmcmc.compile.numba_scan_scalars import NUMBERS
from pymc_sgmcmc.compile.scatter_add import ADD_AT
from pymc_sgmcmc.compile.sum_of_squares import SQUARE_SUMS

__all__ = ["BACKENDS", "NUMBA_CODE", "Backend", "CompiledGraph", "one_thread_in_workers"]

_log = logging.getLogger("pymc.sgmcmc")

BACKENDS = {"c": "CVM", "numba": "NUMBA"}

NUMBA_CODE = ["pymc_sgmcmc.compile.take_rows_numba", "pymc_sgmcmc.compile.sparse_dot_numba"]
"""Modules that tell Numba how to compile operations of this package: a room adds its own. They are
imported when Numba is first needed, as that takes seconds."""

_NO_COMPILER = (
    "PyTensor finds no C compiler, so backend='c' is not available and backend='numba' is used. "
    "Install g++ (Debian and Ubuntu: apt install g++; conda: conda install gxx; "
    "macOS: xcode-select --install), or pass backend='numba' to accept Numba without this warning."
)


def one_thread_in_workers() -> None:
    """In a worker process let BLAS use one thread: chains run side by side there.

    PyMC says so as well, but not under fork, and not to a library that comes with the step method
    or later: SciPy's, for one, once it is needed.
    """
    if multiprocessing.parent_process() is not None:
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
        ThreadpoolController().select(internal_api="openblas").limit(limits=1)


FASTER_C = (ADD_AT, AS_ONE, CONTIGUOUS, LOOP, SQUARE_SUMS)
"""What the C code of this package includes."""


class Backend:
    """How graphs are compiled.

    Parameters
    ----------
    name : {"c", "numba"}
        PyTensor's C virtual machine or Numba.
    compile_kwargs : dict, optional
        Keyword arguments of `pytensor.function`; a ``mode`` in it takes the place of `name`.

    Raises
    ------
    ValueError
        If `name` is unknown.
    """

    def __init__(self, name: str = "c", compile_kwargs: dict[str, Any] | None = None):
        one_of("backend", name, BACKENDS)
        if not isinstance(compile_kwargs, Mapping | None):
            raise TypeError(
                f"compile_kwargs={compile_kwargs!r} is not a mapping: pass keyword arguments of "
                "pytensor.function, such as {'mode': 'FAST_COMPILE'}."
            )
        self.compile_kwargs = {"mode": BACKENDS[name], **(compile_kwargs or {})}
        if self.compile_kwargs["mode"] == "CVM" and not pytensor.config.cxx:
            warnings.warn(_NO_COMPILER, UserWarning, stacklevel=2)
            self.compile_kwargs["mode"] = BACKENDS["numba"]

    @property
    def one_function(self) -> Mode | None:
        """The mode in which a whole graph is one function in C, for the backend that has one."""
        if self.compile_kwargs["mode"] != "CVM":
            return None
        return plain_mode(Mode(OneFunction(), "fast_run")).including(*FASTER_C)

    @property
    def plain(self) -> Mode:
        """PyTensor's mode without anything of this package."""
        return plain_mode(self.compile_kwargs["mode"])

    @property
    def mode(self) -> Mode:
        """The mode with the rewrites of this package."""
        mode = self.one_function or self.plain
        if self.is_numba:
            return mode.including(NUMBERS)
        return mode if isinstance(mode.linker, JITLinker) else mode.including(*FASTER_C)

    @property
    def is_numba(self) -> bool:
        """Whether Numba compiles."""
        return isinstance(get_mode(self.compile_kwargs["mode"]).linker, NumbaLinker)

    @property
    def compiles_when_called(self) -> bool:
        """Whether a function is compiled by its first call."""
        return isinstance(self.plain.linker, JITLinker)

    def as_one(self, inputs: Sequence[Variable], outputs: Sequence[Variable]) -> Sequence[Variable]:
        """Return `outputs`, with what is between them and `inputs` as one function, in C.

        Where it does not compile they are as they were.
        """
        if self.one_function is None:
            return outputs
        with compiling():
            try:
                with quiet_compiler():
                    return as_one(inputs, outputs, self.one_function)
            except Exception as error:
                say_fallback(error)
                return outputs

    def function(self, inputs: Sequence[Variable], outputs: Sequence[Variable]) -> Function:
        """Compile a function that trusts the types of its inputs.

        Where the code of this package fails, it is PyTensor's plain mode, and a log line says why;
        errors of that mode are raised.
        """
        with compiling():
            try:
                self._register_numba_code()
                with quiet_compiler():
                    return self._compile(inputs, outputs, self.mode)
            except Exception as error:
                ours = error
            function = self.plain_function(inputs, outputs)
            say_fallback(ours)
            return function

    def plain_function(self, inputs: Sequence[Variable], outputs: Sequence[Variable]) -> Function:
        """Compile a function in PyTensor's plain mode."""
        with compiling():
            return self._compile(inputs, plain_graph(outputs, self.plain), self.plain)

    def _compile(self, inputs, outputs, mode: Mode) -> Function:
        function = pytensor.function(inputs, outputs, **(self.compile_kwargs | {"mode": mode}))
        function.trust_input = True
        return function

    def link(self, maker: Any) -> Function:
        """Make the function of a graph that `function` has rewritten, in another process, say."""
        with compiling():
            self._register_numba_code()
            function = maker.create([given.value for given in maker.inputs])
        function.trust_input = True
        return function

    def _register_numba_code(self) -> None:
        """Import what Numba needs to compile operations of this package; it takes seconds."""
        if self.is_numba:
            for name in NUMBA_CODE:
                import_module(name)


_OF_NUMBERS = (ArithmeticError, AssertionError, IndexError, MemoryError, ValueError)
"""Errors that a compiled function raises because of its inputs."""


class CompiledGraph:
    """A compiled function that pickles as its rewritten graph, and is linked where it is loaded.

    Rewriting takes most of the time. PyTensor's own pickling of a function would link it without
    our flags for BLAS. What compiles when it is called first keeps the graph as it was written
    until then, for PyTensor's plain mode.
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
        """Compile and call, in PyTensor's plain mode if need be."""
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
        """Call without Numba's advice on code that is not ours."""
        with warnings.catch_warnings():
            if self.backend.is_numba:
                from numba.core.errors import NumbaPerformanceWarning

                warnings.filterwarnings("ignore", category=NumbaPerformanceWarning)
            return self._function(*args)

    def __getstate__(self):
        maker = self._function.maker
        return {"maker": maker, "backend": self.backend, "written": self._written}

    def __setstate__(self, state):
        backend = state["backend"]
        self._begin(backend.link(state["maker"]), backend, state["written"])


def interpreted(inputs: Sequence[Variable], outputs: Sequence[Variable]):
    """Return a function that runs in Python and NumPy: slow to call, nothing to compile."""
    mode = Mode(linker="py", optimizer="fast_compile").including(FEW_OPERANDS)
    with one_at_a_time():
        return pytensor.function(inputs, outputs, mode=mode, on_unused_input="ignore")
