"""Compilation of graphs: C with a BLAS, Numba, or any PyTensor mode."""

import gc
import logging
import multiprocessing
import os
import warnings
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytensor
from pytensor.compile import Function
from pytensor.compile.mode import Mode, get_mode
from pytensor.graph.basic import Variable
from pytensor.link.basic import JITLinker
from pytensor.link.numba.linker import NumbaLinker
from threadpoolctl import ThreadpoolController

from pymc_sgmcmc.add_at import ADD_AT
from pymc_sgmcmc.as_one import AS_ONE, as_one
from pymc_sgmcmc.checks import one_of
from pymc_sgmcmc.contiguous import CONTIGUOUS
from pymc_sgmcmc.loop import LOOP
from pymc_sgmcmc.one_function import OneFunction
from pymc_sgmcmc.scan_numbers import NUMBERS
from pymc_sgmcmc.square_sums import SQUARE_SUMS

__all__ = ["BACKENDS", "Backend", "CompiledGraph", "one_thread_in_workers"]

_log = logging.getLogger("pymc.sgmcmc")

BACKENDS = {"c": "CVM", "numba": "NUMBA"}

_NO_COMPILER = (
    "PyTensor finds no C compiler, so backend='c' is not available and backend='numba' is used. "
    "Install g++ (Debian and Ubuntu: apt install g++; conda: conda install gxx; "
    "macOS: xcode-select --install), or pass backend='numba' to accept Numba without this warning."
)

# The Fortran routines that PyTensor's C code may call; the wheel's symbols carry a prefix.
_BLAS_ROUTINES = [
    precision + routine
    for precision in "sd"
    for routine in (
        *("axpy", "copy", "dot", "gemm", "gemv", "ger", "nrm2", "rot", "scal", "swap"),
        *("symm", "symv", "syr", "syr2", "syrk", "syr2k", "trmm", "trmv", "trsm", "trsv"),
    )
]


def _compiler_flags():
    """Configuration under which C code is compiled.

    Without symbols for a debugger, which take a fifth of the compiler's time, and with the BLAS of
    the scipy-openblas32 wheel: a pip-installed PyTensor finds none, and matrix products are then 2
    to 50 times slower. Where PyTensor has one of its own, it is left alone.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PyTensor could not link to a BLAS")
        ldflags, flags = pytensor.config.blas__ldflags, ["-g0"]
    if not ldflags and (wheel := _wheel()) is not None:
        folder = wheel.get_lib_dir()
        ldflags = f"-L{folder} -l{wheel.get_library()} -Wl,-rpath,{folder}"
        flags += [f"-D{name}_=scipy_{name}_" for name in _BLAS_ROUTINES]
    flags.append(pytensor.config.gcc__cxxflags)  # a user's own come last, and win
    return pytensor.config.change_flags(
        blas__ldflags=ldflags, gcc__cxxflags=" ".join(flags).strip()
    )


def _wheel():
    try:
        import scipy_openblas32
    except ImportError:
        _log.debug("no BLAS for PyTensor's C code: scipy-openblas32 is not installed")
        return None
    return scipy_openblas32


@contextmanager
def _no_garbage_collection():
    """No search for cycles, of which graphs are full: it takes a quarter of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


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


def _mended(mode: str | Mode) -> Mode:
    """The mode without a rewrite that gives wrong results, and with those of ours.

    PyTensor (2.38 and 3.3) turns sums of a matrix product and other terms into one call of BLAS,
    and loses terms of another type on the way: the integers of y - (X @ b + z), say.
    """
    mode = get_mode(mode).excluding("gemm_optimizer")
    if isinstance(mode.linker, NumbaLinker):
        return mode.including(NUMBERS)
    return mode if isinstance(mode.linker, JITLinker) else mode.including(*FASTER_C)


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
        return _mended(Mode(OneFunction(), "fast_run"))

    def as_one(self, inputs: Sequence[Variable], outputs: Sequence[Variable]) -> Sequence[Variable]:
        """The `outputs`, with what is between them and `inputs` as one function, in C."""
        if self.one_function is None:
            return outputs
        with self._compiling():
            return as_one(inputs, outputs, self.one_function)

    @property
    def is_numba(self) -> bool:
        """Whether Numba compiles."""
        return isinstance(get_mode(self.compile_kwargs["mode"]).linker, NumbaLinker)

    def function(self, inputs: Sequence[Variable], outputs: Sequence[Variable]) -> Function:
        """Compile a function that trusts the types of its inputs."""
        mode = self.one_function or _mended(self.compile_kwargs["mode"])
        kwargs = self.compile_kwargs | {"mode": mode}
        with self._compiling():
            function = pytensor.function(inputs, outputs, **kwargs)
        function.trust_input = True
        return function

    def link(self, maker: Any) -> Function:
        """Make the function of a graph that `function` has rewritten, in another process, say."""
        with self._compiling():
            function = maker.create([given.value for given in maker.inputs])
        function.trust_input = True
        return function

    @contextmanager
    def _compiling(self):
        if self.is_numba:
            import pymc_sgmcmc.distributions.numba_code
            import pymc_sgmcmc.gather_numba
            import pymc_sgmcmc.sparse_dot_numba  # noqa: F401
        with _compiler_flags(), _no_garbage_collection():
            yield


class CompiledGraph:
    """A compiled function that pickles as its rewritten graph, and is linked where it is loaded.

    Rewriting takes most of the time. PyTensor's own pickling of a function would link it without
    our flags for BLAS.
    """

    def __init__(self, inputs: Sequence[Variable], outputs: Sequence[Variable], backend: Backend):
        self._begin(backend.function(inputs, outputs), backend)

    def _begin(self, function: Function, backend: Backend):
        self.backend, self._function, self._call = backend, function, self._first_call

    def __call__(self, *args):
        return self._call(*args)

    def _first_call(self, *args):
        """Call without Numba's advice on code that is not ours: it compiles at the first call."""
        with warnings.catch_warnings():
            if self.backend.is_numba:
                from numba.core.errors import NumbaPerformanceWarning

                warnings.filterwarnings("ignore", category=NumbaPerformanceWarning)
            outputs = self._function(*args)
        self._call = self._function
        return outputs

    def __getstate__(self):
        return {"maker": self._function.maker, "backend": self.backend}

    def __setstate__(self, state):
        self._begin(state["backend"].link(state["maker"]), state["backend"])


def interpreted(inputs: Sequence[Variable], outputs: Sequence[Variable]):
    """Return a function that runs in Python and NumPy: slow to call, nothing to compile."""
    mode = Mode(linker="py", optimizer="fast_compile")
    return pytensor.function(inputs, outputs, mode=mode, on_unused_input="ignore")
