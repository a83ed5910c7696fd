"""Processes in which nothing is compiled yet, or only what they compiled themselves."""

import json
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from unittest.mock import patch

__all__ = ["ROOT", "answers", "clean", "in_fresh_process"]

ROOT = Path(__file__).parents[2]


def clean(**more):
    """The environment, as users have it.

    BLAS chooses its own code for the processor, as peers do, and Python keeps the bytecode of what
    it imports: else every process would compile hundreds of modules anew.
    """
    left_out = ("OPENBLAS_CORETYPE", "PYTHONDONTWRITEBYTECODE")
    return {name: value for name, value in os.environ.items() if name not in left_out} | more


def answers(module, *arguments, command=(sys.executable,), **environment):
    """The lines of JSON that a module of the benchmarks prints, run by `command`."""
    program = [*command, "-m", f"tests.benchmarks.{module}", *map(str, arguments)]
    done = subprocess.run(
        program, cwd=ROOT, env=clean(**environment), stdout=subprocess.PIPE, text=True, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def in_fresh_process(folder, function, *args, floatX="float64"):
    """Call it in a process whose compilation cache is `folder`."""
    flags = f"base_compiledir={folder},floatX={floatX}"
    with patch.dict(os.environ, PYTENSOR_FLAGS=flags):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            return pool.submit(function, *args).result()
