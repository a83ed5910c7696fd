"""Which code is a library's, and of which version: it is identified by its name."""

import functools
import sys
import sysconfig
from pathlib import Path
from typing import Any

__all__ = ["is_library", "name_and_version", "version_of"]

DEPENDENCIES = {"arviz", "numba", "numpy", "pandas", "pymc", "pymc_sgmcmc", "pytensor", "scipy",
                "xarray"}  # fmt: skip
"""Packages whose version is not part of the identity of their objects."""


def name_and_version(value: Any) -> tuple[str, str, str]:
    """Return the module and the name of what a library defines, and the library's version."""
    module = getattr(value, "__module__", None) or ""
    return module, getattr(value, "__qualname__", value.__name__), version_of(module)


def version_of(module: str) -> str:
    """Return the version of a module's package; empty for dependencies, and where there is none."""
    package = module.partition(".")[0]
    if package in DEPENDENCIES:
        return ""
    return str(getattr(sys.modules.get(package), "__version__", ""))


@functools.cache
def is_library(module: str | None) -> bool:
    """Return whether the module is an installed or standard library, not the user's code."""
    if not module:
        return False
    package = module.partition(".")[0]
    if package in DEPENDENCIES or package in sys.stdlib_module_names:
        return package != "__main__"
    file = getattr(sys.modules.get(package), "__file__", None)
    paths = sysconfig.get_paths()
    installed = [Path(paths[name]) for name in ("purelib", "platlib")]
    return file is not None and any(path in Path(file).parents for path in installed)
