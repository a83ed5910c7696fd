"""Compilation of graphs: C with a BLAS, Numba, or any PyTensor mode."""

import logging
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import pytensor
from pytensor.compile import Function
from pytensor.graph.basic import Variable

from pymc_sgmcmc._utils.validation import one_of
from pymc_sgmcmc._utils.warn_user import warn_user
from pymc_sgmcmc.compile.additions import is_plain, quiet_compiler, say_fallback
from pymc_sgmcmc.compile.c_linker import OneFunction
from pymc_sgmcmc.compile.c_loop import LOOP
from pymc_sgmcmc.compile.c_subgraph import AS_ONE, as_one
from pymc_sgmcmc.compile.compiling import compiling
from pymc_sgmcmc.compile.elementwise_loops import CONTIGUOUS
from pymc_sgmcmc.compile.fallback import plain_graph, plain_mode
from pymc_sgmcmc.compile.numba_scan_scalars import NUMBERS
from pymc_sgmcmc.compile.pytensor_internals import (
    JITLinker,
    Mode,
    NumbaLinker,
    PerformLinker,
    get_default_mode,
    get_mode,
    link,
)
from pymc_sgmcmc.compile.scatter_add import ADD_AT
from pymc_sgmcmc.compile.sum_of_squares import SQUARE_SUMS

__all__ = ["BACKENDS", "NUMBA_CODE", "Backend", "register_numba_code_by_default"]

_log = logging.getLogger("pymc.sgmcmc")

BACKENDS = {"c": "CVM", "numba": "NUMBA"}

NUMBA_CODE = [
    f"pymc_sgmcmc.compile.{name}_numba" for name in ("take_rows", "sparse_dot", "triangular_solve")
]
"""Modules that tell Numba how to compile this package's operations. Other folders append theirs.
Importing them takes seconds, so they are imported when Numba is first needed."""

_NO_COMPILER = (
    "PyTensor finds no C compiler, so backend='c' is not available and backend='numba' is used. "
    "Install g++ (Debian and Ubuntu: apt install g++; conda: conda install gxx; "
    "macOS: xcode-select --install), or pass backend='numba' to accept Numba without this warning."
)


def register_numba_code_by_default() -> None:
    """Tell Numba of this package's operations if it is PyTensor's default."""
    if isinstance(get_default_mode().linker, NumbaLinker):
        _import_numba_code()


def _import_numba_code() -> None:
    for name in NUMBA_CODE:
        import_module(name)


FASTER_C = (ADD_AT, AS_ONE, CONTIGUOUS, LOOP, SQUARE_SUMS)
"""Names of this package's rewrites for C code."""


class Backend:
    """Compiler of graphs: a PyTensor mode and this package's rewrites.

    With the environment variable ``PYMC_SGMCMC_PLAIN=1`` the rewrites and the C code of this
    package are left out, and PyTensor alone compiles: with the same numbers to rounding, in more
    time. Whoever sees wrong numbers or a crash can tell so whose they are.

    Parameters
    ----------
    name : {"c", "numba"}
        PyTensor's C virtual machine or Numba.
    compile_kwargs : dict, optional
        Keyword arguments of `pytensor.function`. A ``mode`` among them replaces `name`.

    Raises
    ------
    ValueError
        If `name` is unknown.
    """

    def __init__(self, name: str = "c", compile_kwargs: Mapping[str, Any] | None = None):
        one_of("backend", name, BACKENDS)
        if not isinstance(compile_kwargs, Mapping | None):
            raise TypeError(
                f"compile_kwargs={compile_kwargs!r} is not a mapping: pass keyword arguments of "
                "pytensor.function, such as {'mode': 'FAST_COMPILE'}."
            )
        self.compile_kwargs = {"mode": BACKENDS[name], **(compile_kwargs or {})}
        if self.compile_kwargs["mode"] == "CVM" and not pytensor.config.cxx:
            warn_user(_NO_COMPILER)
            self.compile_kwargs["mode"] = BACKENDS["numba"]

    @property
    def one_function(self) -> Mode | None:
        """Mode that compiles a whole graph to one C function; None unless the backend is C."""
        if self.compile_kwargs["mode"] != "CVM" or is_plain():
            return None
        return plain_mode(Mode(OneFunction(), "fast_run")).including(*FASTER_C)

    @property
    def of_loops(self) -> Mode | str | None:
        """Mode of the inner graph of a loop; None: PyTensor's, which is C unless all is Numba."""
        in_python = isinstance(self.plain.linker, PerformLinker)
        return "FAST_COMPILE" if in_python else self.one_function

    @property
    def plain(self) -> Mode:
        """PyTensor's mode without this package's rewrites."""
        return plain_mode(self.compile_kwargs["mode"])

    @property
    def mode(self) -> Mode:
        """Mode with the rewrites of this package."""
        mode = self.one_function or self.plain
        if is_plain():
            return mode
        if self.is_numba:
            return mode.including(NUMBERS)
        return mode if isinstance(mode.linker, JITLinker) else mode.including(*FASTER_C)

    @property
    def is_numba(self) -> bool:
        """Whether Numba compiles the graphs."""
        return isinstance(get_mode(self.compile_kwargs["mode"]).linker, NumbaLinker)

    @property
    def compiles_when_called(self) -> bool:
        """Whether a function is compiled by its first call."""
        return isinstance(self.plain.linker, JITLinker)

    def as_one(self, inputs: Sequence[Variable], outputs: Sequence[Variable]) -> Sequence[Variable]:
        """Return `outputs` with the graph between `inputs` and them compiled to one C function.

        Return `outputs` unchanged if the backend has no such mode or compilation fails.
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

        If this package's code fails, compile in PyTensor's plain mode and log the reason. Errors
        of the plain mode are raised.
        """
        with compiling():
            if is_plain():
                self._register_numba_code()
                return self.plain_function(inputs, outputs)
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
        # The indices of a batch are unused where all its rows are given beside them.
        settings = {"on_unused_input": "ignore"} | self.compile_kwargs | {"mode": mode}
        function = pytensor.function(inputs, outputs, **settings)
        function.trust_input = True
        return function

    def link(self, maker: Any) -> Function:
        """Compile a graph that `function` has rewritten already, for instance in another process.

        `maker` is the function maker of that graph.
        """
        with compiling():
            self._register_numba_code()
            function = link(maker, [given.value for given in maker.inputs])
        function.trust_input = True
        return function

    def _register_numba_code(self) -> None:
        """Import the modules that Numba needs for this package's operations (takes seconds)."""
        if self.is_numba:
            _import_numba_code()
