"""Time to 1,000 effective draws with no settings, as the number of rows grows.

Logistic regression, d = 20, columns of scales 0.1 to 3, `pm.sample(step=SGNHT())`, one chain, one
core, float64 (float32 for 1e7 rows). The reference is the mode, by Newton's method on all rows,
with the posterior's skewness for the mean and the inverse Hessian for the sds.

Each size has a process of its own, with an empty compilation cache: the step method is built twice
(cold, then warm), and what is measured of sampling has all its functions in the cache.

Run: python -m tests.benchmarks.sizes [--sizes 1e4 1e5 1e6] [--large] [--draws 4000] [--seed 1]
"""

import os

for _threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_threads] = "1"

import argparse
import logging
import tempfile
import time

import arviz as az
import numpy as np
import pymc as pm

from pymc_sgmcmc import SGNHT
from tests.benchmarks.fresh import in_fresh_process
from tests.benchmarks.logistic import D, data, posterior

LARGE = 10**7
EFFECTIVE = 1000

COLUMNS = (
    "rows",
    "build, cold and warm (s)",
    "sampling (s)",
    "of it tuning (s)",
    "of it PyMC's end (s)",
    "least ESS",
    "1,000 effective draws (s)",
    "without passes over all rows (s)",
    "exact gradients",
    "row gradients an effective draw",
    "largest error of an sd (%)",
    "of a mean (sd)",
)


def seconds(function):
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def timed_passes(target):
    """The seconds of each full pass that `target` makes from now on, in a list."""
    passes, exact, batched = [], target.value_and_gradient, target.batched_gradient

    def value_and_gradient(q, rows=None):
        if rows is not None:
            return exact(q, rows)
        passes.append(seconds(lambda: exact(q)))
        return passes[-1][1]

    def batched_gradient(q):
        passes.append(seconds(lambda: batched(q)))
        return passes[-1][1]

    target.value_and_gradient, target.batched_gradient = value_and_gradient, batched_gradient
    return passes


def measure(n, draws, seed):
    """A row of the table."""
    logging.getLogger("pymc").setLevel(logging.ERROR)
    X, y = data(n, pm.floatX(0.0).dtype)
    mean, sd = posterior(X, y, prior_sd=1.0)
    with pm.Model():
        features, observed = pm.Data("X", X), pm.Data("y", y)
        del X, y
        beta = pm.Normal("beta", 0, 1, shape=D)
        pm.Bernoulli("label", logit_p=features @ beta, observed=observed)

        def build():
            step = SGNHT()
            few = [np.arange(10) for _ in step.target.groups]
            step.target.value_and_gradient(mean, few)  # compiles what tuning uses
            return step

        def sample(step, **kwargs):
            return pm.sample(
                chains=1, cores=1, step=step, random_seed=seed, progressbar=False,
                compute_convergence_checks=False, **kwargs,
            )  # fmt: skip

        cold, step = seconds(build)
        sample(step, tune=1, draws=1)  # compiles what pm.sample uses
        del step
        warm, step = seconds(build)
        passes, ends = timed_passes(step.target), {}

        def callback(trace, draw):
            ends[draw.tuning] = time.perf_counter()

        begin = time.perf_counter()
        idata = sample(step, draws=draws, callback=callback)
        finished = time.perf_counter()
    tuning, drawing, end = ends[True] - begin, ends[False] - ends[True], finished - ends[False]
    ess = float(az.ess(idata)["beta"].min())
    stats, beta = idata.sample_stats.isel(chain=0, draw=-1), idata.posterior["beta"].values[0]
    wanted = tuning + drawing * EFFECTIVE / ess + end
    gradients = int(stats.batch_size) * (2 if stats.control_variate else 1) * step.chain.parts.steps
    return (
        f"{n:,}",
        f"{cold:.0f}, {warm:.1f}",
        f"{finished - begin:.1f}",
        f"{tuning:.1f}",
        f"{end:.1f}",
        f"{ess:,.0f}",
        f"{wanted:.1f}",
        f"{wanted - end - sum(span for span, _ in passes):.1f}",
        f"{len(passes)}",
        f"{gradients * draws / ess:,.0f}",
        f"{100 * np.abs(beta.std(axis=0) / sd - 1).max():.1f}",
        f"{np.abs((beta.mean(axis=0) - mean) / sd).max():.2f}",
    )


def in_a_process(*args):
    """`measure` with an empty compilation cache."""
    with tempfile.TemporaryDirectory() as folder:
        precision = "float32" if args[0] >= LARGE else "float64"
        return in_fresh_process(folder, measure, *args, floatX=precision)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=float, nargs="+", default=[1e4, 1e5, 1e6])
    parser.add_argument("--large", action="store_true", help="1e7 rows too, in float32 (4 GB)")
    parser.add_argument("--draws", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for size in [*args.sizes, *([LARGE] if args.large else [])]:
        print(f"| {' | '.join(in_a_process(int(size), args.draws, args.seed))} |", flush=True)
    print(
        "\n1,000 effective draws: the time of tuning, and of as many draws as have this effective "
        "size, without building.\nWithout passes over all rows: less the measured time of tuning's "
        "exact gradients, and of what PyMC does after the last draw: it copies the data."
    )


if __name__ == "__main__":
    main()
