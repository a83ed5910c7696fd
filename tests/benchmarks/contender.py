"""A contender of the race: a process that takes as many steps as it is asked to, and says how long.

It reads numbers of draws, a line each, and answers with seconds. It needs nothing but Python, so
that it runs in the environment of any framework.
"""

import os

for _threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_threads] = "1"

import json
import sys
import time
from importlib.metadata import version


def alone():
    """Keep this process to one core, and return the file that its answers go to."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what frameworks print is not an answer
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # one core, whatever they start
    return answers


def serve(prepare, *packages):
    """Answer until the input ends.

    ``prepare(problem, sampler, dtype, *options)`` returns a function of a number of draws.
    `packages`: whose versions are told.
    """
    answers = alone()

    def answer(value):
        print(json.dumps(value), file=answers, flush=True)

    run = prepare(*sys.argv[1:])
    answer({package: version(package) for package in packages})
    for line in sys.stdin:
        begin = time.perf_counter()
        run(int(line))
        answer(time.perf_counter() - begin)
