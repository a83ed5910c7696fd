"""The headers of PyTensor's C code, compiled once: reading them is half of what g++ does.

    PYTENSOR_FLAGS=$(python -m tests.precompiled "gcc__cxxflags=-g0 -O1")

prints flags with which g++ takes them from there. Compiled with other options, g++ leaves what is
precompiled aside and reads the headers themselves, so that nothing but time depends on it.
"""

import hashlib
import os
import re
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

__all__ = ["precompile", "with_headers"]

OF_OPERATIONS = "-fno-math-errno -fno-exceptions -fno-unwind-tables -fno-asynchronous-unwind-tables"
"""The options that PyTensor adds for most operations, as those of both must be the same."""

HEADERS = """
#if __has_include(<Python.h>) && __has_include(<numpy/arrayobject.h>)
#include <Python.h>
#include "pytensor_mod_helper.h"
#include <math.h>
#include <numpy/arrayobject.h>
#include <numpy/arrayscalars.h>
#include <numpy/npy_math.h>
#include <vector>
#include <algorithm>
#endif
"""
"""What all modules of PyTensor include, in their order.

The program that it tries a BLAS with has no path to them.
"""


def with_headers(flags: str) -> str:
    """Return PyTensor's `flags` with the headers in ``gcc__cxxflags``, and write the headers.

    On Linux, where the compiler is GCC; elsewhere return `flags`.
    """
    found = re.search(r"gcc__cxxflags=([^,]*)", flags)
    options = found[1] if found else ""
    if sys.platform != "linux" or "-include" in options:
        return flags
    # GCC does not look whether the headers are others than when they were compiled.
    versions = [version(name) for name in ("pytensor", "numpy")]
    key = hashlib.sha256(repr((sys.version, sys.prefix, versions, options)).encode()).hexdigest()
    path = Path(tempfile.gettempdir(), f"pytensor_headers_{os.getuid()}_{key[:16]}", "headers.h")
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_text(HEADERS)
    given = f"gcc__cxxflags={options} -include {path}"
    return flags.replace(found[0], given) if found else f"{flags},{given}".lstrip(",")


def precompile() -> None:
    """Compile the headers with the options that PyTensor uses, unless that was done before."""
    from pytensor import config
    from pytensor.link.c.cmodule import GCC_compiler, std_include_dirs

    options = GCC_compiler.compile_args()
    if not config.cxx or "-include" not in options:
        return
    at = options.index("-include")
    path = Path(options[at + 1])
    compiled = path.with_suffix(".h.gch")
    if compiled.exists():
        return
    includes = [f"-I{folder}" for folder in std_include_dirs()]
    made = compiled.with_suffix(f".{os.getpid()}")  # others may be at it
    command = [
        config.cxx,
        "-g",
        *OF_OPERATIONS.split(),
        *options[:at],
        *options[at + 2 :],
        *includes,
    ]
    command += ["-fvisibility=hidden", "-x", "c++-header", str(path), "-o", str(made)]
    if subprocess.run(command, capture_output=True).returncode == 0:
        made.replace(compiled)


if __name__ == "__main__":
    os.environ["PYTENSOR_FLAGS"] = with_headers(",".join(sys.argv[1:]))
    precompile()
    print(os.environ["PYTENSOR_FLAGS"])
