"""The logistic regression of Coullon, South and Nemeth (2023), N = 1e6, d = 10, with no settings.

Their bandit looks for the step size, the batch size and the number of leapfrog steps of a sampler
beforehand. After 20 seconds they report a relative error of the posterior sds of 0.0082 for SGNHT
with control variates, and 0.28 for SGLD.

Data as theirs: coefficients N(0, 10), correlated features, priors N(0, 10). Timed: `pm.sample` with
its tuning, two chains on two cores, every function in the compilation cache.

Run: python -m tests.benchmarks.published [--draws 10000] [--seeds 1 2 3]
"""

import os

for _threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_threads] = "1"

import argparse
import logging
import time

import arviz as az
import numpy as np
import pymc as pm

from pymc_sgmcmc import SGHMC, SGLD, SGNHT
from tests.benchmarks.logistic import labels, posterior

N, D = 1_000_000, 10
PRIOR_SD = np.sqrt(10)


def data():
    rng = np.random.default_rng(1)
    beta = PRIOR_SD * rng.standard_normal(D)
    r = rng.uniform(-0.4, 0.4)
    correlation = r ** np.abs(np.subtract.outer(np.arange(D), np.arange(D)))
    X = rng.standard_normal((N, D)) @ np.linalg.cholesky(correlation).T
    return X, labels(X, beta, rng).astype("int8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=10_000, help="draws of each chain")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    args = parser.parse_args()
    logging.getLogger("pymc").setLevel(logging.ERROR)
    X, y = data()
    mean, sd = posterior(X, y, PRIOR_SD)
    print("| | seed | s | least ESS | relative error of the sds | largest of a mean (sd) |")
    print("|---|---|---|---|---|---|")
    with pm.Model():
        beta = pm.Normal("beta", 0, PRIOR_SD, shape=D)
        pm.Bernoulli("label", logit_p=pm.Data("X", X) @ beta, observed=y)
        for cls in (SGNHT, SGHMC, SGLD):
            step = cls()
            pm.sample(step=step, draws=2, tune=1, chains=2, cores=2, progressbar=False)
            for seed in args.seeds:
                start = time.perf_counter()
                idata = pm.sample(
                    step=step, draws=args.draws, chains=2, cores=2, random_seed=seed,
                    progressbar=False, compute_convergence_checks=False,
                )  # fmt: skip
                seconds = time.perf_counter() - start
                ess = float(az.ess(idata)["beta"].min())
                draws = idata.posterior["beta"].values.reshape(-1, D)
                error = np.abs(draws.std(axis=0) / sd - 1).mean()
                off = np.abs((draws.mean(axis=0) - mean) / sd).max()
                print(
                    f"| {cls.__name__} | {seed} | {seconds:.1f} | {ess:,.0f} | {error:.4f} "
                    f"| {off:.3f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
