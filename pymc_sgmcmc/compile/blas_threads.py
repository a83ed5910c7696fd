"""Threads of BLAS: one, where inner steps are short and other chains or programs want the cores."""

import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

__all__ = ["one_thread", "one_thread_in_workers"]


def one_thread_in_workers() -> None:
    """Limit BLAS to one thread in a worker process, because chains run side by side there.

    PyMC sets this limit too, but not under fork, and not for a library that is loaded with the
    step method or later, such as the BLAS of SciPy.
    """
    if multiprocessing.parent_process() is not None:
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
        ThreadpoolController().select(internal_api="openblas").limit(limits=1)


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS to one thread meanwhile.

    OpenBLAS shares out products from 10,000 numbers on. Threads then wait for one another for
    longer than the product takes, and for milliseconds where another process has the core.
    """
    libraries = _libraries()
    before = [library.num_threads for library in libraries]
    try:
        for library in libraries:
            library.set_num_threads(1)
        yield
    finally:
        for library, number in zip(libraries, before, strict=True):
            library.set_num_threads(number)


@cache
def _libraries() -> list[Any]:
    return ThreadpoolController().select(user_api="blas").lib_controllers
