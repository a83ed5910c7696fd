"""One method on one posterior, in a process of its own: seconds to 1,000 effective draws.

Logistic regression, N rows, d = 20, columns of scales 0.1 to 3, one chain on one core. For samplers
the seconds are those of everything from the model to the last draw of warm-up, compilation
included, plus those of as many draws as have an effective sample size of 1,000 in the worst
coordinate; for variational inference those to convergence, for which it has half an hour and
200,000 iterations. Errors are those of the worst coordinate.

Imports nothing but PyMC and the method, so that it runs in the environment of any of them.
Run: python -m tests.benchmarks.one_posterior METHOD N
"""

from tests.benchmarks.contender import alone  # before NumPy: it sets the threads

# isort: split
import json
import logging
import sys
import time

import numpy as np
import pymc as pm
from pymc.variational.callbacks import CheckParametersConvergence

from tests.benchmarks.logistic import D, data, posterior

EFFECTIVE = 1000
PATIENCE = 1800
"""Seconds that variational inference has."""


def model(X, y, **observed):
    """`X`, `y`: all rows, or those of a `pm.Minibatch`."""
    with pm.Model() as built:
        beta = pm.Normal("beta", 0, 1, shape=D)
        pm.Bernoulli("label", logit_p=X @ beta, observed=y, **observed)
    return built


def sampled(warm, drawn, idata):
    """The answer of a sampler: seconds until warm, and of the draws."""
    import arviz as az

    beta = np.asarray(idata.posterior["beta"])
    ess = float(az.ess(idata)["beta"].min())
    return warm + drawn * EFFECTIVE / ess, {"ESS": ess, "draws": beta.shape[1]}, beta[0]


def by_pymc(X, y, draws, tune, step=None):
    """`pm.sample`: NUTS, or another step method."""
    begin, ends = time.perf_counter(), {}
    with model(X, y):
        idata = pm.sample(
            draws=draws, tune=tune, chains=1, cores=1, step=step and step(), random_seed=1,
            progressbar=False, compute_convergence_checks=False,
            callback=lambda trace, draw: ends.update({draw.tuning: time.perf_counter()}),
        )  # fmt: skip
    return sampled(ends[True] - begin, ends[False] - ends[True], idata)


def sgnht(X, y):
    from pymc_sgmcmc import SGNHT

    return by_pymc(X, y, draws=4000, tune=1000, step=SGNHT)


def nuts(X, y):
    return by_pymc(X, y, draws=100, tune=200)


def nutpie(X, y):
    import nutpie as package

    begin = time.perf_counter()
    compiled = package.compile_pymc_model(model(X, y))
    idata = package.sample(
        compiled, draws=200, tune=300, chains=1, cores=1, seed=1, progress_bar=False,
        save_warmup=True,
    )  # fmt: skip
    took = time.perf_counter() - begin
    # It does not say when warm-up ended: time goes with gradients.
    gradients, warming = (
        int(group["n_steps"].sum()) for group in (idata.sample_stats, idata.warmup_sample_stats)
    )
    drawn = took * gradients / (gradients + warming)
    return sampled(took - drawn, drawn, idata)


def advi(X, y, minibatch=None):
    begin, n = time.perf_counter(), len(y)
    check, converged = CheckParametersConvergence(), False

    def end(*state):
        """Raise at convergence, or when time is up."""
        nonlocal converged
        try:
            check(*state)
        except StopIteration:
            converged = True
            raise
        if time.perf_counter() - begin > PATIENCE:
            raise StopIteration

    given = pm.Minibatch(X, y.astype("int32"), batch_size=minibatch) if minibatch else (X, y)
    with model(*given, **({"total_size": n} if minibatch else {})):
        found = pm.fit(
            200_000, method="advi", random_seed=1, progressbar=False, callbacks=[end]
        )  # fmt: skip
    took = time.perf_counter() - begin
    draws = found.sample(4000, random_seed=1).posterior["beta"].values[0]
    return took, {"iterations": len(found.hist), "converged": converged}, draws


METHODS = {
    "SGNHT": sgnht,
    "nutpie": nutpie,
    "PyMC's NUTS": nuts,
    "minibatch ADVI": lambda X, y: advi(X, y, minibatch=256),
    "ADVI": advi,
}


def main(method, n):
    logging.getLogger("pymc").setLevel(logging.ERROR)
    answers = alone()
    X, y = data(int(float(n)), "float64")
    mean, sd = posterior(X, y, prior_sd=1.0)
    seconds, details, beta = METHODS[method](X, y)
    answer = {
        "seconds": seconds,
        "error of an sd": float(np.abs(beta.std(axis=0) / sd - 1).max()),
        "error of a mean, in sds": float(np.abs((beta.mean(axis=0) - mean) / sd).max()),
        **details,
    }
    print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
