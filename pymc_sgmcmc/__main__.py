"""Bayesian logistic regression on real data: NUTS and the step methods on the same model.

Run: python -m pymc_sgmcmc [--draws 1000] [--tune 1000] [--chains 4] [--backend c] [--seed 1]
    [--output FOLDER]
"""

import argparse
import os
import time
from pathlib import Path

import arviz as az
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm

from pymc_sgmcmc import SGHMC, SGLD, SGNHT, Santa, report
from pymc_sgmcmc.data import wells

SAMPLERS = {"SGLD": SGLD, "SGHMC": SGHMC, "SGNHT": SGNHT, "Santa": Santa}

COLOURS = {
    "NUTS": "0.6",
    "SGLD": "#E69F00",
    "SGHMC": "#56B4E9",
    "SGNHT": "#009E73",
    "Santa": "#CC79A7",
}


def wells_model() -> pm.Model:
    """Logistic regression of switching wells on four features, flat priors."""
    features, switched, names = wells()
    with pm.Model(coords={"household": np.arange(len(switched)), "feature": names}) as model:
        X = pm.Data("X", features, dims=("household", "feature"))
        y = pm.Data("y", switched, dims="household")
        beta = pm.Flat("beta", dims="feature")
        pm.Bernoulli("switched", logit_p=X @ beta, observed=y, dims="household")
    return model


def sample(name: str, args: argparse.Namespace):
    """Sample the model of the context; return the data and the seconds to build and to sample."""
    print(f"\n{name}", flush=True)
    start = time.perf_counter()
    step = None
    if name in SAMPLERS:
        step = SAMPLERS[name](backend=args.backend)
    built = time.perf_counter()
    idata = pm.sample(
        draws=args.draws,
        tune=args.tune,
        chains=args.chains,
        cores=min(args.chains, os.cpu_count() or 1),
        step=step,
        random_seed=args.seed,
    )
    if step is not None:
        print(report(idata))
    return idata, built - start, time.perf_counter() - built


def moments(idata) -> pd.DataFrame:
    """Mean, sd and effective sample size of each coefficient."""
    beta = idata.posterior["beta"]
    ess = az.ess(idata)["beta"]
    columns = {
        "mean": beta.mean(("chain", "draw")),
        "sd": beta.std(("chain", "draw")),
        "ess": ess,
    }
    return pd.DataFrame(
        {name: np.asarray(column) for name, column in columns.items()}, index=beta.feature.values
    )


def comparison(results: dict) -> pd.DataFrame:
    """Cost of each sampler and its worst errors against NUTS, in posterior sds and per cent."""
    reference = moments(results["NUTS"][0])
    rows = {}
    for name, (idata, build, seconds) in results.items():
        own = moments(idata)
        rows[name] = {
            "build s": build,
            "sampling s": seconds,
            "least ESS": own["ess"].min(),
            "ESS per s": own["ess"].min() / seconds,
            "mean error (sd)": (own["mean"] - reference["mean"]).abs().div(reference["sd"]).max(),
            "sd error (%)": 100 * (own["sd"] / reference["sd"] - 1).abs().max(),
        }
    return pd.DataFrame(rows).T


def side_by_side(results: dict) -> pd.DataFrame:
    """ArviZ's summary of each sampler, one under the other for every coefficient."""
    tables = {
        name: az.summary(idata, var_names=["beta"]) for name, (idata, _, _) in results.items()
    }
    return (
        pd.concat(tables, names=["sampler"]).swaplevel().sort_index(level=0, sort_remaining=False)
    )


def plot_marginals(results: dict, path: Path) -> None:
    """Draw the marginal of each coefficient, NUTS filled and the others as lines."""
    names = results["NUTS"][0].posterior.feature.values
    figure, axes = plt.subplots(1, len(names), figsize=(3.2 * len(names), 3), layout="constrained")
    for axis, feature in zip(axes, names, strict=True):
        draws = {
            name: idata.posterior["beta"].sel(feature=feature).values.ravel()
            for name, (idata, _, _) in results.items()
        }
        bins = np.histogram_bin_edges(draws["NUTS"], bins=30)
        for name, values in draws.items():
            kind = "stepfilled" if name == "NUTS" else "step"
            axis.hist(
                values, bins, density=True, histtype=kind, color=COLOURS[name], lw=1.8, label=name
            )
        axis.set(title=feature, yticks=[], xlabel="coefficient")
        axis.spines[["top", "left", "right"]].set_visible(False)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main() -> None:
    """Run the comparison, print its tables and write its figure."""
    parser = argparse.ArgumentParser(
        prog="python -m pymc_sgmcmc", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--draws", type=int, default=1000, help="draws of each chain")
    parser.add_argument("--tune", type=int, default=1000, help="draws before them, to tune in")
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--backend", choices=["c", "numba"], default="c")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("wells_output"), metavar="FOLDER")
    args = parser.parse_args()
    args.output.mkdir(parents=True, exist_ok=True)
    results = {}
    with wells_model():
        for name in ["NUTS", *SAMPLERS]:
            results[name] = sample(name, args)
    with pd.option_context("display.width", 120, "display.max_columns", None):
        print("\nSummaries\n", side_by_side(results).to_string(), sep="\n")
        print(
            "\nCost, and the largest error of a mean and an sd against NUTS\n",
            comparison(results).round(3).to_string(),
            sep="\n",
        )
    path = args.output / "wells_marginals.png"
    plot_marginals(results, path)
    print(f"\nFigure: {path}")


if __name__ == "__main__":
    main()
