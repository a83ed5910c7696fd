"""C code in files: each compiles by itself, and compiled code is not used again when it changes."""

import subprocess
import sysconfig

import numpy as np
import pytensor
import pytest

from pymc_sgmcmc.compile import c_header
from pymc_sgmcmc.compile.c_header import HEADERS, HeaderOp
from pymc_sgmcmc.compile.c_subgraph import Call
from pymc_sgmcmc.compile.scatter_add import AddAt
from pymc_sgmcmc.compile.sparse_dot import sparse_dot, sparse_pull
from pymc_sgmcmc.compile.take_rows import take_rows
from pymc_sgmcmc.compile.triangular_solve import lower_solve

ALL = sorted(path.name for path in HEADERS.glob("*.h"))
OPS = [Call(), AddAt(inplace=False), sparse_dot, sparse_pull, take_rows, lower_solve]


def test_each_header_is_that_of_an_operation():
    assert {op.header for op in OPS} == set(ALL)


@pytest.mark.skipif(not pytensor.config.cxx, reason="there is no C compiler")
@pytest.mark.parametrize("header", ALL)
def test_a_header_compiles_by_itself(header):
    folders = sysconfig.get_path("include"), np.get_include(), str(HEADERS)
    flags = ["-fsyntax-only", "-std=c++14", "-Wall", "-Wextra", "-Werror",
             "-Wno-missing-field-initializers", "-DNPY_NO_DEPRECATED_API=NPY_1_7_API_VERSION",
             ]  # fmt: skip
    # The headers of others have warnings of their own.
    search = [f"-isystem{folder}" for folder in folders[:2]] + [f"-I{folders[2]}"]
    done = subprocess.run(
        [*pytensor.config.cxx.split(), "-x", "c++", *flags, *search, "-"],
        input=f'#include "{header}"\n', capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("op", OPS)
def test_compiled_code_of_another_header_is_not_used(op, monkeypatch, tmp_path):
    assert isinstance(op, HeaderOp) and op.c_headers() == [f'"{op.header}"']
    before = op.c_code_cache_version()
    text = (HEADERS / op.header).read_text()
    (tmp_path / op.header).write_text(text + "\n// changed\n")
    monkeypatch.setattr(c_header, "HEADERS", tmp_path)
    c_header._hash_of.cache_clear()
    after = op.c_code_cache_version()
    monkeypatch.undo()
    c_header._hash_of.cache_clear()
    assert after != before == op.c_code_cache_version()
