"""Seconds from `python` to the first draw, with and without a compilation cache.

Logistic regression, N = 1e5, p = 50, settings given; each run is a process of its own. Afterwards
two workers are spawned: once more from the cache, of which a step that does nothing has its share.
"""

import json
import sys
import tempfile
import time

from tests.benchmarks.fresh import answers

STAGES = ("Python and PyMC", "import of the package", "step method", "first draw")
SPAWNED = ("spawned workers, nothing", "spawned workers")


def child(backend, begin):
    """Print the seconds that each of `STAGES` took, of a process that began at `begin`."""
    times = [float(begin)]
    import pymc as pm

    times.append(time.time())
    import pymc_sgmcmc  # noqa: F401

    times.append(time.time())
    import logging

    from tests.benchmarks.nothing import Nothing
    from tests.benchmarks.problems import PROBLEMS
    from tests.benchmarks.with_pymc import logistic, step_method
    from tests.cases import sample

    logging.getLogger("pymc").setLevel(logging.ERROR)
    problem = PROBLEMS["logistic"]
    data = problem.data("float64")
    with pm.Model():
        logistic(**data)
        built = time.time()
        step = step_method(problem, "SGNHT", backend=backend)
        stepped = time.time()
        one = {"draws": 1, "tune": 0}
        sample(step, **one, chains=1)
        began = time.time()
        sample(Nothing(), **one, cores=2, mp_ctx="spawn")
        middle = time.time()
        sample(step, **one, cores=2, mp_ctx="spawn")
    spans = (times[1] - times[0], times[2] - times[1], stepped - built, began - stepped,
             middle - began, time.time() - middle)  # fmt: skip
    print(json.dumps(dict(zip(STAGES + SPAWNED, spans, strict=True))))


def rows(repeats):
    """A row of the table for each backend, without a cache (once) and with one (medians)."""
    for backend in ("c", "numba"):
        with tempfile.TemporaryDirectory() as folder:
            cold = _run(backend, folder)
            yield {"backend": backend, "cache": "cold"} | cold | _together(cold)
            runs = [_run(backend, folder) for _ in range(repeats)]
        warm = {stage: sorted(run[stage] for run in runs)[repeats // 2] for stage in runs[0]}
        yield {"backend": backend, "cache": "warm"} | warm | _together(warm)


def _together(times):
    return {"to the first draw": sum(times[stage] for stage in STAGES)}


def _run(backend, folder):
    flags = f"base_compiledir={folder}"
    return answers("first_draw", backend, time.time(), PYTENSOR_FLAGS=flags)[0]


if __name__ == "__main__":
    child(*sys.argv[1:])
