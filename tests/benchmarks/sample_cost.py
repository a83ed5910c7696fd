"""What `pm.sample` costs by itself, per call and per draw, and what this package adds.

A linear regression with five slopes, one inner step a draw, one chain, in one process.
"""

import json
import sys
import time

from tests.benchmarks import fresh

SHORT, LONG, LAST = 400, 4000, 3600
STORED = "nothing, with SGNHT's stats"


def child(repeats):
    """Print microseconds a draw and milliseconds a call, medians."""
    from tests.benchmarks.contender import alone

    answers = alone()
    import logging
    from dataclasses import replace

    import numpy as np
    import pymc as pm

    from tests.benchmarks.nothing import Nothing, Stored
    from tests.benchmarks.problems import PROBLEMS
    from tests.benchmarks.with_pymc import linear, step_method
    from tests.cases import sample

    logging.getLogger("pymc").setLevel(logging.ERROR)
    problem = replace(PROBLEMS["linear"], steps=1)
    with pm.Model():
        linear(**problem.data("float64"))
        steps = {"nothing": Nothing(), "MH": pm.Metropolis(tune=False)}
        for backend in ("c", "numba"):
            steps[f"SGNHT, {backend}"] = step_method(problem, "SGNHT", backend=backend)
        steps[STORED] = Stored(steps["SGNHT, c"], _stats(steps["SGNHT, c"], sample))

        def run(step, draws):
            begin = time.perf_counter()
            sample(step, draws=draws, tune=0, chains=1)
            return time.perf_counter() - begin

        times = {name: [] for name in steps}
        for _ in range(int(repeats) + 1):
            for name, step in steps.items():
                times[name].append((run(step, SHORT), run(step, LONG)))
        kernels = {}
        for name, step in steps.items():
            if name.startswith("SGNHT"):
                kernels[name] = _compiled(step, sample)
    calls, slopes = {}, {}
    for name, pairs in times.items():
        short, long = np.array(pairs[1:]).T
        slope = (long - short) / (LONG - SHORT)
        slopes[name] = 1e6 * float(np.median(slope))
        calls[name] = 1e3 * float(np.median(short - SHORT * slope))
    for name, slope in slopes.items():
        row = {
            "step": name,
            "microseconds a draw": slope,
            "milliseconds a call": calls[name],
        }
        if name in kernels:
            row["of it compiled code and random numbers"] = kernels[name]
            row["and neither that nor PyMC's"] = slope - slopes[STORED] - kernels[name]
        print(json.dumps(row), file=answers, flush=True)


def _stats(step, sample):
    """Those of one draw."""
    seen = []
    sample(step, draws=1, tune=0, chains=1, callback=lambda trace, draw: seen.append(draw.stats[0]))
    return seen[0]


def _compiled(step, sample):
    """Microseconds of a draw in compiled code and NumPy's generator: a mean, as a slope is."""
    inside, function = [], step.chain.parts.kernel._function
    from pymc_sgmcmc.chain import trajectory

    normals = step.chain.parts.normals
    call, draw_rows, noise = function._call, trajectory.draw_rows, normals.draw

    def timed(work):
        def wrapper(*args):
            begin = time.perf_counter()
            result = work(*args)
            inside.append(time.perf_counter() - begin)
            return result

        return wrapper

    function._call, trajectory.draw_rows, normals.draw = map(timed, (call, draw_rows, noise))
    sample(step, draws=LONG, tune=0, chains=1)
    function._call, trajectory.draw_rows = call, draw_rows
    del normals.draw
    return 1e6 * sum(inside[-3 * LAST :]) / LAST


def rows(repeats):
    """A row of the table for each step method."""
    return fresh.answers("sample_cost", repeats)


if __name__ == "__main__":
    child(*sys.argv[1:])
