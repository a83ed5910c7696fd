"""Seconds from `python` to the first draw, with and without a compilation cache.

Logistic regression, N = 1e5, p = 50, settings given; each run is a process of its own.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

STAGES = ("Python and PyMC", "import of the package", "step method", "first draw")


def child(backend, begin):
    """Print the seconds that each of `STAGES` took, of a process that began at `begin`."""
    times = [float(begin)]
    import pymc as pm

    times.append(time.time())
    import pymc_sgmcmc  # noqa: F401

    times.append(time.time())
    import logging

    from tests.benchmarks.problems import PROBLEMS
    from tests.benchmarks.with_pymc import logistic, step_method

    logging.getLogger("pymc").setLevel(logging.ERROR)
    problem = PROBLEMS["logistic"]
    data = problem.data("float64")
    with pm.Model():
        logistic(**data)
        built = time.time()
        step = step_method(problem, "SGNHT", backend=backend)
        drawn = time.time()
        pm.sample(
            draws=1, tune=0, chains=1, cores=1, step=step, progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip
    spans = times[1] - times[0], times[2] - times[1], drawn - built, time.time() - drawn
    print(json.dumps(dict(zip(STAGES, spans, strict=True))))


def rows(repeats):
    """A row of the table for each backend, without a cache (once) and with one (medians)."""
    for backend in ("c", "numba"):
        with tempfile.TemporaryDirectory() as folder:
            cold = _run(backend, folder)
            yield {"backend": backend, "cache": "cold"} | cold | {"together": sum(cold.values())}
            runs = [_run(backend, folder) for _ in range(repeats)]
        warm = {stage: sorted(run[stage] for run in runs)[repeats // 2] for stage in STAGES}
        yield {"backend": backend, "cache": "warm"} | warm | {"together": sum(warm.values())}


def _run(backend, folder):
    environment = os.environ | {"PYTENSOR_FLAGS": f"base_compiledir={folder}"}
    program = [sys.executable, "-m", "tests.benchmarks.first_draw", backend, str(time.time())]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    child(*sys.argv[1:])
