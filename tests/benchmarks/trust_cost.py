"""What it costs to know: the running sums of an inner step, and `check` on a million rows.

The step: the logistic regression of the race, by draws of 50 steps, with the kernel's sums and
without them, in many short turns; the quartiles of their ratios are shown. `check`: logistic
regression, N = 1e6, d = 20, four chains, in a process whose compilation cache is its own: the first
call compiles, the second is the one of a user who has it in the cache.

Run: python -m tests.benchmarks.trust_cost [--turns 60] [--rows 1000000]
"""

import os

for _threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_threads] = "1"

import argparse
import logging
import tempfile
import time
from unittest.mock import patch

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from pymc_sgmcmc import SGNHT, check
from pymc_sgmcmc.chain import draw_sums
from pymc_sgmcmc.chain.moments import MOMENTS
from tests.benchmarks import logistic, with_pymc
from tests.benchmarks.fresh import in_fresh_process
from tests.benchmarks.problems import PROBLEMS

DRAWS = 100
QUIET = {"progressbar": False, "compute_convergence_checks": False, "random_seed": 1}


def no_sums(before, gradients, pairs, virial, each):
    """In place of the kernel's sums: nothing, but every input of the kernel must be used."""
    return pt.full((len(MOMENTS), 1), np.nan) + 0 * gradients[-1] + 0 * pairs[0][-1]


def cost_of_sums(sampler, backend, turns):
    """Microseconds of a step without sums, and the ratios of those with them, by turn."""
    problem = PROBLEMS["logistic"]
    with pm.Model() as model:
        with_pymc.logistic(**problem.data("float64"))
        steps = {"with": with_pymc.step_method(problem, sampler, backend=backend)}
        with patch.object(draw_sums, "moment_sums", no_sums):
            steps["without"] = with_pymc.step_method(problem, sampler, backend=backend)
    for step in steps.values():
        step.start_chain(np.random.default_rng(1))
        step.stop_tuning()
    points = dict.fromkeys(steps, model.initial_point())

    def run(name):
        begin = time.perf_counter()
        for _ in range(DRAWS):
            points[name], _ = steps[name].step(points[name])
        return 1e6 * (time.perf_counter() - begin) / (DRAWS * problem.steps)

    times = np.array([[run(name) for name in steps] for _ in range(turns + 1)])[1:]
    return np.median(times[:, 1]), times[:, 0] / times[:, 1]


def seconds_of_check(n):
    """Seconds of the first call in a process, and the report."""
    logging.getLogger("pymc").setLevel(logging.ERROR)
    X, y = logistic.data(n, "float64")
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=logistic.D)
        pm.Bernoulli("label", logit_p=pm.Data("X", X) @ beta, observed=pm.Data("y", y))
        idata = pm.sample(step=SGNHT(), draws=1000, tune=1000, chains=4, cores=1, **QUIET)
    begin = time.perf_counter()
    report = str(check(idata, model, progressbar=False))
    return time.perf_counter() - begin, report


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=60)
    parser.add_argument("--rows", type=float, default=1e6)
    args = parser.parse_args()
    logging.getLogger("pymc").setLevel(logging.ERROR)
    print("| sampler | backend | microseconds a step | with running sums (quartiles) |")
    print("|---|---|---|---|")
    for sampler in ("SGLD", "SGHMC", "SGNHT"):
        for backend in ("c", "numba"):
            alone, ratios = cost_of_sums(sampler, backend, args.turns)
            low, median, high = np.quantile(ratios, [0.25, 0.5, 0.75])
            print(
                f"| {sampler} | {backend} | {alone:.1f} | {median:.3f} ({low:.3f}-{high:.3f}) |",
                flush=True,
            )
    with tempfile.TemporaryDirectory() as folder:
        cold, _ = in_fresh_process(folder, seconds_of_check, int(args.rows))
        warm, report = in_fresh_process(folder, seconds_of_check, int(args.rows))
    print(f"\ncheck, N = {args.rows:,.0f}, d = {logistic.D}: {warm:.1f} s, compiling {cold:.1f} s")
    print(report)


if __name__ == "__main__":
    main()
