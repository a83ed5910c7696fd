"""All that this package uses of PyTensor without a promise: private and undocumented names.

Seen in PyTensor 2.38 and 3.3. The other modules of this package take these names from here alone.
`tests/compile/test_internals.py` lists them, with what each is for, and says in milliseconds which
of them another version lacks. What 2 and 3 do differently on purpose is in `pytensor_versions`.

Names of Numba, `numba_njit`, `register_funcify_and_cache_key`, `numba_core_rv_funcify` and
`NumbaPerformanceWarning`, are imported when they are asked for, which takes seconds.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from pytensor.compile import Function, optdb
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.mode import Mode, get_default_mode, get_mode
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import in2out, node_rewriter
from pytensor.graph.utils import MethodNotDefined
from pytensor.link.basic import JITLinker, PerformLinker
from pytensor.link.c import cmodule
from pytensor.link.c.basic import CLinker, failure_code, struct_gen
from pytensor.link.c.op import COp
from pytensor.link.c.type import generic
from pytensor.link.numba.linker import NumbaLinker
from pytensor.link.vm import VMLinker
from pytensor.scan.op import Scan

__all__ = [
    "AFTER_INPLACE",
    "AFTER_SCANS",
    "BEFORE_BLAS",
    "BEFORE_FUSION",
    "FAILURE",
    "LAST",
    "RUN",
    "CLinker",
    "COp",
    "JITLinker",
    "MethodNotDefined",
    "Mode",
    "NumbaLinker",
    "PerformLinker",
    "Scan",
    "VMLinker",
    "call_parts",
    "cmodule",
    "failure_code",
    "forget_compiled",
    "generic",
    "get_default_mode",
    "get_mode",
    "has_c_function",
    "inner_graph",
    "link",
    "node_rewriter",
    "paths_alone",
    "register_rewrite",
    "remake_scan",
    "scalar_node",
    "struct_gen",
]  # fmt: skip

FAILURE = "__failure"
"""Variable of the generated C code that is set where an operation fails."""

RUN = "int run(void)"
"""Signature of the generated C function."""

BEFORE_BLAS, BEFORE_FUSION, AFTER_INPLACE, AFTER_SCANS, LAST = 1.65, 1.9, 101, 102, 103
"""Positions between PyTensor's rewrites: it looks for products that BLAS computes at 1.7, works in
place and fuses elementwise operations up to 100, and scans last."""

_NUMBA = {
    "numba_njit": "pytensor.link.numba.dispatch.basic",
    "register_funcify_and_cache_key": "pytensor.link.numba.dispatch.basic",
    "numba_core_rv_funcify": "pytensor.link.numba.dispatch.random",
    "NumbaPerformanceWarning": "numba.core.errors",
}


def __getattr__(name: str) -> Any:
    if name not in _NUMBA:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_NUMBA[name]), name)


def register_rewrite(name: str, rewriter: Any, position: float) -> None:
    """Let modes that include `name` apply a node rewriter to each node, at `position`."""
    optdb.register(name, in2out(rewriter), position=position)


# Compiled functions


def has_c_function(function: Function) -> bool:
    """Return whether `function` is one C function, without PyTensor's virtual machine."""
    return hasattr(function.vm, "cthunk")


def call_parts(function: Function) -> tuple[Any, list, list[list], list[list]]:
    """Return what C code needs to call a C function: thunk, errors, inputs and outputs.

    The thunk is a capsule with ``int (*)(void*)`` and a context. Errors are the three parts of a
    Python error. An input or output is a cell: a list of one element.
    """
    cells = (function.input_storage, function.output_storage)
    inputs, outputs = ([cell.storage for cell in kind] for kind in cells)
    return function.vm.cthunk, function.vm.error_storage, inputs, outputs


def link(maker: Any, values: Sequence | None = None) -> Function:
    """Return a new function of the graph that `maker` has rewritten, with these shared values."""
    return maker.create([None] * len(maker.inputs) if values is None else list(values))


# Scans and other operations that have an inner graph


def paths_alone(op: Scan) -> tuple[int, int] | None:
    """Return the numbers of sequences and of paths of a scan that has nothing else, or None.

    A path is a result whose last value is given to the next step.
    """
    info = op.info
    others = info.n_mit_mot, info.n_mit_sot, info.n_nit_sot, info.n_untraced_sit_sot
    return None if info.as_while or any(others) else (info.n_seqs, info.n_sit_sot)


def remake_scan(
    op: Scan, inputs: Sequence[Variable], outputs: Sequence[Variable], **changed: Any
) -> Scan:
    """Return a scan like `op` with another inner graph; `changed` are settings such as ``mode``."""
    names = ("mode", "truncate_gradient", "name", "profile", "allow_gc", "strict")
    settings = {name: getattr(op, name) for name in names} | changed
    return Scan(list(inputs), list(outputs), op.info, **settings)


def inner_graph(op: OpFromGraph | Scan) -> FunctionGraph:
    """Return the inner graph of `op`: a copy in PyTensor 3, the graph itself in PyTensor 2."""
    return op.fgraph.unfreeze() if hasattr(op.fgraph, "unfreeze") else op.fgraph  # PyTensor 3


def forget_compiled(op: OpFromGraph) -> None:
    """Remove from `op`, a copy with another inner graph, what was derived from the former one."""
    op._lop_op_cache, op._rop_op_cache = {}, None
    for stale in ("_fn", "_inner_shape_template", "_inner_shape_frozen"):
        op.__dict__.pop(stale, None)


def scalar_node(node: Apply) -> Apply:
    """Return the node of scalars for which an elementwise operation writes its C code."""
    return node.tag.fake_node
