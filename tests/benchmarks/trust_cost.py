"""What it costs to know: the running sums of an inner step, and `check` on a million rows.

The step: logistic regression as in `inner_step`, through `pm.sample`, with the kernel's sums and
without them, in turns; a step's time is the slope between a short and a long run. `check`: logistic
regression, N = 1e6, d = 20, four chains, in a process whose compilation cache is its own: the first
call compiles, the second is the one of a user who has it in the cache.

Run: python -m tests.benchmarks.trust_cost [--repeats 7] [--rows 1000000]
"""

import os

for _threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_threads] = "1"

import argparse
import logging
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from unittest.mock import patch

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from pymc_sgmcmc import SGNHT, check, kernel
from pymc_sgmcmc.moments import MOMENTS
from tests.benchmarks import inner_step, sizes

SHORT, LONG = 400, 2_000
QUIET = {"progressbar": False, "compute_convergence_checks": False, "random_seed": 1}


def no_sums(before, gradients, pairs, virial):
    """In place of the kernel's sums: nothing, but every input of the kernel must be used."""
    return pt.zeros((len(MOMENTS), 1)) + 0 * gradients[-1] + 0 * pairs[0][-1]


def cost_of_sums(sampler, backend, repeats):
    """Microseconds of a step without sums, and the ratios of those with them."""
    with inner_step.model_of(*inner_step.data()):
        steps = {"with": inner_step.step_method(backend, sampler)}
        with patch.object(kernel, "moment_sums", no_sums):
            steps["without"] = inner_step.step_method(backend, sampler)

        def run(step, draws):
            begin = time.perf_counter()
            pm.sample(step=step, draws=draws, tune=0, chains=1, cores=1, **QUIET)
            return time.perf_counter() - begin

        slopes = {name: [] for name in steps}
        for _ in range(repeats):
            for name, step in steps.items():
                span = run(step, LONG) - run(step, SHORT)
                slopes[name].append(1e6 * span / ((LONG - SHORT) * inner_step.STEPS))
    return np.median(slopes["without"]), np.array(slopes["with"]) / slopes["without"]


def seconds_of_check(n):
    """Seconds of the first call in a process, and the report."""
    logging.getLogger("pymc").setLevel(logging.ERROR)
    X, y = sizes.data(n, "float64")
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=sizes.D)
        pm.Bernoulli("label", logit_p=pm.Data("X", X) @ beta, observed=pm.Data("y", y))
        idata = pm.sample(step=SGNHT(), draws=1000, tune=1000, chains=4, cores=1, **QUIET)
    begin = time.perf_counter()
    report = str(check(idata, model, progressbar=False))
    return time.perf_counter() - begin, report


def in_fresh_process(folder, function, *args):
    """Call it where nothing is compiled but what `folder` keeps."""
    with patch.dict(os.environ, PYTENSOR_FLAGS=f"base_compiledir={folder}"):
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            return pool.submit(function, *args).result()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--rows", type=float, default=1e6)
    args = parser.parse_args()
    logging.getLogger("pymc").setLevel(logging.ERROR)
    print(
        "| sampler | backend | microseconds a step | with running sums (range) |\n|---|---|---|---|"
    )
    for sampler in ("SGLD", "SGHMC", "SGNHT"):
        for backend in ("c", "numba"):
            alone, ratios = cost_of_sums(sampler, backend, args.repeats)
            print(
                f"| {sampler} | {backend} | {alone:.1f} "
                f"| {np.median(ratios):.3f} ({ratios.min():.3f}-{ratios.max():.3f}) |",
                flush=True,
            )
    with tempfile.TemporaryDirectory() as folder:
        cold, _ = in_fresh_process(folder, seconds_of_check, int(args.rows))
        warm, report = in_fresh_process(folder, seconds_of_check, int(args.rows))
    print(
        f"\ncheck, N = {args.rows:,.0f}, d = {sizes.D}: {warm:.1f} s ({cold:.1f} s to compile too)"
    )
    print(report)


if __name__ == "__main__":
    main()
