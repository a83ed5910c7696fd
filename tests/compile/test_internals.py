"""What `pytensor_internals` takes without a promise: is it there, and as it was?

Nothing of the package is imported, so that this says what is gone where the package cannot be. No
compiler is needed.
"""

import ast
import inspect
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile import optdb
from pytensor.compile.mode import Mode
from pytensor.graph.fg import FunctionGraph
from pytensor.link.c.basic import CLinker

HOUSE = Path(__file__).parents[2] / "pymc_sgmcmc" / "compile"
GONE = (
    "{what} is not in PyTensor {version} as it was in 2.38 and 3.3. It is for: {purpose}. Mend "
    "compile/pytensor_internals.py; until then PYMC_SGMCMC_PLAIN=1 does without our rewrites."
)

NAMES = {
    "pytensor.compile": {
        "Function": ("maker vm input_storage output_storage", "the type of compiled functions"),
        "optdb": ("query", "the registration of rewrites"),
    },
    "pytensor.compile.builders": {"OpFromGraph": ("fgraph", "mixtures on rows of a batch")},
    "pytensor.compile.mode": {
        "Mode": ("(linker, optimizer)", "every backend"),
        "get_default_mode": ("()", "Numba code where Numba is the default"),
        "get_mode": ("(orig_string)", "the linker of a mode"),
    },
    "pytensor.graph.basic": {"Apply": ("", "nodes"), "Variable": ("", "types")},
    "pytensor.graph.fg": {"FunctionGraph": ("clients", "inner graphs")},
    "pytensor.graph.rewriting.basic": {
        "in2out": ("(node_rewriters)", "rewrites that go through a graph"),
        "node_rewriter": ("(tracks)", "rewrites of a node"),
    },
    "pytensor.graph.utils": {"MethodNotDefined": ("", "operations without C code")},
    "pytensor.link.basic": {
        "JITLinker": ("", "backends that compile at the first call"),
        "PerformLinker": ("", "kernels in Python, to compare with"),
    },
    "pytensor.link.c": {"cmodule": ("", "silence where C code does not compile")},
    "pytensor.link.c.basic": {
        "CLinker": (
            "accept code_gen cmodule_key compile_args make_thunk",
            "graphs as one C function",
        ),
        "failure_code": ("(sub)", "graphs as one C function"),
        "struct_gen": ("(args, struct_builders, blocks, sub)", "graphs as one C function"),
    },
    "pytensor.link.c.op": {
        "COp": (
            "c_code c_code_cache_version c_header_dirs c_headers c_support_code_struct "
            "c_init_code_struct c_cleanup_code_struct get_params",
            "operations in C",
        )
    },
    "pytensor.link.c.type": {"generic": ("", "a Python object that C code reads")},
    "pytensor.link.numba.linker": {"NumbaLinker": ("", "whether Numba compiles")},
    "pytensor.link.vm": {"VMLinker": ("(use_cloop)", "graphs that are not one C function")},
    "pytensor.scan.op": {
        "Scan": (
            "(inputs, outputs, info, mode, truncate_gradient, name, profile, allow_gc, strict)",
            "loops, and scans on rows of a batch",
        )
    },
}
"""By module and name: attributes, or parameters in brackets, that must be there; the purpose."""

LAZY = {
    "numba_njit": "functions that compiled code calls",
    "register_funcify_and_cache_key": "our operations in Numba",
    "numba_core_rv_funcify": "draws from our distributions in Numba",
    "NumbaPerformanceWarning": "silence about code that is not ours",
}


def parsed():
    """The statements of `pytensor_internals`."""
    return ast.parse((HOUSE / "pytensor_internals.py").read_text()).body


def written(name):
    """The value of one of its constants."""
    found = {ast.unparse(s.targets[0]): s.value for s in parsed() if isinstance(s, ast.Assign)}
    return ast.literal_eval(found[name])


def gone(what, purpose):
    return GONE.format(what=what, version=pytensor.__version__, purpose=purpose)


def missing(thing, expected):
    """Those of the attributes, or parameters, that `thing` lacks."""
    if not expected.startswith("("):
        return [name for name in expected.split() if not has(thing, name)]
    found = inspect.signature(thing).parameters
    kinds = [parameter.kind for parameter in found.values()]
    names = [name.strip() for name in expected[1:-1].split(",") if name.strip()]
    return [
        name
        for name in names
        if name not in found and inspect.Parameter.VAR_POSITIONAL not in kinds
    ]


def has(thing, name):
    """Whether it has the attribute, or its class sets it, which is seen in the source alone."""
    return hasattr(thing, name) or (
        inspect.isclass(thing) and f"self.{name}" in inspect.getsource(thing)
    )


@pytest.mark.parametrize(
    "module, name", [(m, name) for m, names in NAMES.items() for name in names]
)
def test_a_name_is_there(module, name):
    expected, purpose = NAMES[module][name]
    try:
        thing = getattr(import_module(module), name)
    except (ImportError, AttributeError):
        pytest.fail(gone(f"{module}.{name}", purpose))
    lacks = missing(thing, expected)
    assert not lacks, gone(f"{lacks} of {module}.{name}", purpose)


@pytest.mark.parametrize("what", LAZY)
def test_a_name_of_numba_is_there(what):
    """Read from the source: the import takes seconds."""
    folders = written("_NUMBA")
    assert folders.keys() == LAZY.keys()
    package, *path = folders[what].split(".")
    [home] = find_spec(package).submodule_search_locations
    source = Path(home).joinpath(*path).with_suffix(".py")
    defined = source.exists() and any(
        f"{word}{what}" in source.read_text() for word in ("def ", "class ")
    )
    assert defined, gone(f"{folders[what]}.{what}", LAZY[what])


def test_all_imports_are_in_the_table():
    taken = {}
    for node in parsed():
        if isinstance(node, ast.ImportFrom) and node.module.startswith("pytensor"):
            taken.setdefault(node.module, set()).update(alias.name for alias in node.names)
    assert taken == {module: set(names) for module, names in NAMES.items()}


# What no import shows: attributes of instances, texts of generated code, positions, C


@pytest.fixture(scope="module")
def linker():
    """PyTensor's own, which has written the C code of a sum and compiled nothing."""
    x = pt.dvector("x")
    made = CLinker().accept(FunctionGraph([x], [pt.exp(x) + 1.0], clone=True))
    made.code_gen()
    return made


WRITTEN = ["args", "blocks", "fgraph", "init_blocks", "no_recycling", "node_order", "node_params",
           "r2symbol", "struct_code", "struct_name", "tasks"]  # fmt: skip


def test_the_linker_keeps_what_it_has_written(linker):
    lacks = [name for name in WRITTEN if not hasattr(linker, name)]
    assert not lacks, gone(f"{lacks} of CLinker", "graphs as one C function")
    kinds = [kind for _, kind, _ in linker.tasks]
    assert len(kinds) == len(linker.blocks) and kinds.count("code") == len(linker.node_order), gone(
        "the layout of CLinker.tasks", "graphs as one C function"
    )
    assert all(hasattr(block, "behavior") for block in linker.blocks)


@pytest.mark.parametrize("name", ["RUN", "FAILURE"])
def test_generated_code_has_our_words(linker, name):
    word = written(name)
    assert word in linker.struct_code, gone(f"{word!r} in generated code", "one C function")


def test_elementwise_operations_write_a_loop_and_an_end():
    x = pt.dmatrix("x")
    node = pt.exp(x).owner
    node.op.prepare_node(node, None, None, "c")
    assert hasattr(node.tag, "fake_node"), gone("tag.fake_node of Elemwise", "elementwise loops")
    *_, loop, end = node.op._c_all(node, "node", ["x"], ["z"], {"fail": "return 1;"})
    purpose = gone("the order of Elemwise._c_all", "elementwise loops")
    assert "for" in loop and "exp(" in loop and "for" not in end, purpose
    assert "dtype_x" in loop and hasattr(node.op, "inplace_pattern"), purpose
    assert isinstance(node.op.c_code_cache_version_apply(node), tuple), purpose


def test_a_function_has_cells_and_a_maker():
    x = pt.dvector("x")
    function = pytensor.function([x], [x + 1.0], mode=Mode("py", None))
    for cells in (function.input_storage, function.output_storage):
        assert all(isinstance(cell.storage, list) for cell in cells), gone(
            "storage", "calls from C"
        )
    assert callable(function.vm), gone("Function.vm", "calls from C")
    [found] = function.maker.create([None])(np.zeros(2))
    np.testing.assert_array_equal(found, [1.0, 1.0])


def test_a_thunk_in_c_has_what_c_calls():
    thunk = import_module("pytensor.link.c.basic")._CThunk
    lacks = missing(thunk, "cthunk error_storage")
    assert not lacks, gone(f"{lacks} of a C function", "calls from C")


def test_a_scan_tells_what_it_has():
    x, h = pt.dvector("x"), pt.dvector("h")
    [path] = pytensor.scan(
        lambda h, x: x + h, sequences=[h], outputs_info=[x], return_list=True, return_updates=False
    )
    op = path.owner.inputs[0].owner.op
    for name in ("n_seqs", "n_sit_sot", "n_mit_mot", "n_mit_sot", "n_nit_sot",
                 "n_untraced_sit_sot", "n_non_seqs", "as_while"):  # fmt: skip
        assert hasattr(op.info, name), gone(f"{name} of Scan.info", "loops in C")
    assert (op.info.n_seqs, op.info.n_sit_sot, op.info.n_non_seqs) == (1, 1, 0)
    for name in ("mode", "truncate_gradient", "name", "profile", "allow_gc", "strict", "fgraph",
                 "destroy_map", "clone"):  # fmt: skip
        assert hasattr(op, name), gone(f"{name} of Scan", "loops in C")
    assert isinstance(inspect.getattr_static(type(op), "fn"), property), gone(
        "Scan.fn", "loops in C"
    )
    inner = op.fgraph.unfreeze() if hasattr(op.fgraph, "unfreeze") else op.fgraph
    assert len(inner.inputs) == 2


def test_rewrites_run_where_ours_expect_them():
    before, after = optdb.__position__["BlasOpt"], optdb.__position__["scan_make_inplace"]
    assert 1.65 < before < 1.9 and after < 101, gone("the order of rewrites", "all of our rewrites")
    steps = import_module("pytensor.tensor.rewriting.blas").blas_optdb.__position__
    assert "gemm_optimizer" in steps, gone("gemm_optimizer", "leaving out what gives wrong numbers")


def test_caches_of_operations_with_an_inner_graph():
    from pytensor.compile.builders import OpFromGraph

    x = pt.dvector("x")
    op = OpFromGraph([x], [x * 2.0])
    purpose = "mixtures on rows of a batch"
    for name in ("_lop_op_cache", "_rop_op_cache", "input_types", "output_types"):
        assert hasattr(op, name), gone(f"{name} of OpFromGraph", purpose)
    caches = {name for name in vars(op) if "cache" in name}
    assert caches == {"_lop_op_cache", "_rop_op_cache"}, gone("new caches", purpose)


def test_numpy_lets_a_view_move():
    header = Path(np.get_include()) / "numpy" / "ndarraytypes.h"
    assert "PyArrayObject_fields" in header.read_text(), "NumPy hides where an array's data begin"
