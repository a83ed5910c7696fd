"""Processes in which nothing is compiled yet, or only what they compiled themselves."""

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from unittest.mock import patch

__all__ = ["in_fresh_process"]


def in_fresh_process(folder, function, *args, floatX="float64"):
    """Call it in a process whose compilation cache is `folder`."""
    flags = f"base_compiledir={folder},floatX={floatX}"
    with patch.dict(os.environ, PYTENSOR_FLAGS=flags):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            return pool.submit(function, *args).result()
