"""Does it say that the draws are too few where a curve is weakly identified, with long tails?

Three curves of four parameters, of which two or three are hardly told apart by the data. A run, of
the default length and with default settings, is off where a mean is wrong by more than 0.1 sd or an
sd by more than 10 %. The table must show an alarm of too few draws in at least 9 in 10 of those.
The truth is a run of NUTS of 100,000 draws, 25 times as many.

Run: python -m tests.benchmarks.curves [--seeds 10] [--first 0] [--only PATTERN]
"""

import argparse
import logging
import re
import warnings

import arviz as az
import numpy as np
import pymc as pm

from pymc_sgmcmc import SGNHT, check
from pymc_sgmcmc.chain.promises import MEAN_PROMISE, SD_PROMISE


def exponential_decay():
    rng, n = np.random.default_rng(209), 60
    x = rng.uniform(0, 2, n)
    y = 2 * np.exp(-0.7 * x) + 0.5 + rng.normal(0, 0.15, n)
    with pm.Model() as model:
        a, k = pm.HalfNormal("a", 5), pm.HalfNormal("k", 2)
        c, s = pm.Normal("c", 0, 2), pm.HalfNormal("s", 1)
        pm.Normal("y", a * pm.math.exp(-k * x) + c, s, observed=y)
    return model


def dose_response():
    """Hill's curve, with few doses beyond the one of half the effect."""
    rng, n = np.random.default_rng(31), 80
    dose = rng.lognormal(-0.5, 0.8, n)
    y = 3 * dose**1.3 / (1.5**1.3 + dose**1.3) + rng.normal(0, 0.25, n)
    with pm.Model() as model:
        top, half = pm.HalfNormal("top", 10), pm.LogNormal("half", 0, 2)
        slope, s = pm.Gamma("slope", 3, 2), pm.HalfNormal("s", 1)
        power = (dose / half) ** slope
        pm.Normal("y", top * power / (1 + power), s, observed=y)
    return model


def saturation():
    """Michaelis and Menten's curve over a background, of concentrations below the constant."""
    rng, n = np.random.default_rng(5), 70
    x = rng.uniform(0, 1.5, n)
    y = 0.3 + 4 * x / (2 + x) + rng.normal(0, 0.2, n)
    with pm.Model() as model:
        most, constant = pm.HalfNormal("most", 10), pm.HalfNormal("constant", 10)
        background, s = pm.Normal("background", 0, 1), pm.HalfNormal("s", 1)
        pm.Normal("y", background + most * x / (constant + x), s, observed=y)
    return model


CURVES = {"exponential decay": exponential_decay, "dose response": dose_response,
          "saturation": saturation}  # fmt: skip


def stacked(posterior):
    return {name: np.asarray(posterior[name]).ravel() for name in posterior.data_vars}


def run(step, truth, seed):
    """The worst errors of mean (sds) and sd (share), and the kinds of alarms, of one run."""
    idata = pm.sample(
        step=step, chains=4, cores=1, random_seed=seed, progressbar=False,
        compute_convergence_checks=False, keep_warning_stat=True,
    )  # fmt: skip
    said = {w.extra for w in idata.sample_stats["warning"].values.ravel() if w is not None}
    found = {alarm.kind for alarm in check(idata, progressbar=False).alarms}
    draws = stacked(idata.posterior)
    mean = max(abs(draws[k].mean() - truth[k].mean()) / truth[k].std() for k in truth)
    sd = max(abs(draws[k].std() / truth[k].std() - 1) for k in truth)
    return mean, sd, {f"live {kind}" for kind in said} | found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10, help="runs of each curve")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--only", default="", help="a regular expression that curves must contain")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.getLogger("pymc").setLevel(logging.ERROR)
    off = caught = 0
    print("| curve | seed | mean off (sd) | sd off | off | alarms |\n|---|---|---|---|---|---|")
    for name, curve in CURVES.items():
        if not re.search(args.only, name):
            continue
        with curve():
            long = pm.sample(
                draws=25_000, tune=2000, chains=4, cores=1, target_accept=0.95, random_seed=1,
                progressbar=False, compute_convergence_checks=False,
            )  # fmt: skip
            truth, step = stacked(long.posterior), SGNHT()
            ess = min(float(az.ess((q - q.mean()) ** 2)) for q in
                      (np.asarray(long.posterior[v]) for v in truth))  # fmt: skip
            print(f"| {name} | NUTS | effective draws of squares | {ess:,.0f} | | |")
            for seed in range(args.first, args.first + args.seeds):
                mean, sd, alarms = run(step, truth, seed)
                is_off = mean > MEAN_PROMISE or sd > SD_PROMISE
                off, caught = off + is_off, caught + (is_off and "error" in alarms)
                print(
                    f"| {name} | {seed} | {mean:.2f} | {sd:.0%} | {'yes' if is_off else ''} "
                    f"| {', '.join(sorted(alarms))} |",
                    flush=True,
                )
    print(f"\noff: {off}, of these with an alarm of too few draws: {caught}")


if __name__ == "__main__":
    main()
