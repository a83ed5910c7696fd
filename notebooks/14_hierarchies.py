# ---
# jupyter:
#   execution:
#     timeout: 1200
#   jupytext:
#     formats: ipynb,py:percent
#     notebook_metadata_filter: execution,-jupytext.text_representation.jupytext_version
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A million rows in ten thousand groups
#
# Does a customer buy? That depends on five things that we know of the customer, and on the store.
# There are 10,000 stores: some have hundreds of rows, some have one or none. How much stores
# differ, `tau`, is unknown too. All 10,006 numbers are sampled, and compared with the exact
# posterior.
#
# **Result:** `SGNHT()` samples it in about a minute, with no settings. Means and sds of slopes,
# `tau` and all stores are right. nutpie's NUTS is right too, and its cost grows with the rows: at a
# million it would need some 25 times as long (extrapolated from 50,000 rows). With 5,000 rows NUTS
# is as quick, and it has no bias: take it there. A few stores with few rows get few effective
# draws; a warning says so, and larger batches help.

# %%
# %matplotlib inline
import logging
import os
import platform
import time
import warnings
from importlib.metadata import PackageNotFoundError, version

import arviz as az
import matplotlib.pyplot as plt
import numba
import numpy as np
import nutpie
import pandas as pd
import pymc as pm
from scipy.optimize import minimize

from pymc_sgmcmc import SGNHT, check, report

RANDOM_SEED = 2022
QUICK = os.environ.get("PYMC_SGMCMC_QUICK") == "1"  # CI has fewer rows, on one core
SIZES = [20_000] if QUICK else [5_000, 20_000, 100_000, 1_000_000]
NUTPIE_SIZES = [2_000] if QUICK else [5_000, 20_000, 50_000]
ROWS = SIZES[-1]
TUNE = 500 if QUICK else 1_000

plt.rcParams.update({"figure.constrained_layout.use": True, "figure.dpi": 90})
plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})
for name in ("pymc", "nutpie"):
    logging.getLogger(name).setLevel(logging.WARNING)

# %% [markdown]
# ## Data and model
#
# A hundred rows a store on average, very unequal. The stores differ by `tau` = 0.5.


# %%
def data(rows):
    """Features (rows, 5), the store of each row, and whether it was bought."""
    rng = np.random.default_rng(RANDOM_SEED)
    stores = rows // 100
    share = rng.gamma(1.0, size=stores)
    store = rng.choice(stores, size=rows, p=share / share.sum())
    X = rng.normal(size=(rows, 5))
    X[:, 0] = 1
    eta = X @ [-0.3, 0.5, -0.4, 0.3, -0.2] + rng.normal(0, 0.5, stores)[store]
    return X, store, (rng.random(rows) < 1 / (1 + np.exp(-eta))).astype("int32")


def hierarchy(X, store, bought, centred=True):
    """The model, on all rows."""
    with pm.Model(coords={"store": range(len(X) // 100)}) as model:
        slopes = pm.Normal("slopes", 0, 1, shape=5)
        tau = pm.HalfNormal("tau", 1)
        if centred:
            effects = pm.Normal("effects", 0, tau, dims="store")
        else:
            z = pm.Normal("z", 0, 1, dims="store")
            effects = pm.Deterministic("effects", tau * z, dims="store")
        pm.Bernoulli("bought", logit_p=X @ slopes + effects[store], observed=bought)
    return model


found = {rows: data(rows) for rows in SIZES}
sizes = np.bincount(found[ROWS][1], minlength=ROWS // 100)
print(f"{ROWS:,} rows, {len(sizes):,} stores, with {sizes.min()} to {sizes.max()} rows each")

# %% [markdown]
# ## Sampling
#
# No settings. Two chains, each on one core. Seconds are those that a processor worked, of all
# cores together, and compilation included: others used this machine too.


# %%
def seconds():
    return sum(os.times()[:4])  # of this process and of those that it started


def sgnht(rows, centred=True, **settings):
    start = seconds(), time.perf_counter()
    with hierarchy(*found[rows], centred):
        step = SGNHT(**settings)
        idata = pm.sample(
            tune=TUNE,
            step=step,
            chains=2,
            cores=1 if QUICK else 2,
            random_seed=RANDOM_SEED,
            progressbar=False,
            compute_convergence_checks=False,
        )
    worked, waited = seconds() - start[0], time.perf_counter() - start[1]
    print(f"{rows:,} rows: {worked:.0f} s of work, {waited:.0f} s on the clock")
    return idata, worked, step


runs = {rows: sgnht(rows) for rows in SIZES}
idata, _, step = runs[ROWS]
az.summary(idata, var_names=["tau", "slopes"])

# %% [markdown]
# At a million rows a warning says that the gradients are noisy in some directions. What that means
# is below: a few stores have few effective draws.
#
# ## What is right
#
# Given slopes and `tau`, each store's effect can be integrated out by itself: a sum over 15
# values of it (Gauss and Hermite's rule, placed where that store's effect is likely). Six numbers
# are left: the slopes and log `tau`. Their posterior is close to normal, so a hundred normal
# points around its mode, weighted by the exact density, give its mean and sd, and those of all
# effects. No sampler is involved.

# %%
NODES, WEIGHTS = np.polynomial.hermite.hermgauss(15)
LOG_WEIGHTS = np.log(WEIGHTS) + NODES**2


@numba.njit
def integrate(X, y, first, slopes, log_tau, centre):
    """Log likelihood without the effects, its gradient, and the effects' means and mean squares."""
    tau, odds = np.exp(log_tau), np.exp(X @ slopes)
    total, gradient = np.sum(y * np.log(odds)), np.zeros(6)
    mean, square = np.zeros(len(centre)), np.zeros(len(centre))
    for g in range(len(centre)):
        rows = range(first[g], first[g + 1])
        for _ in range(4):  # Newton's method, from where the effect was last
            slope, curvature = -centre[g] / tau**2, 1 / tau**2
            for i in rows:
                p = 1 - 1 / (1 + odds[i] * np.exp(centre[g]))
                slope, curvature = slope + y[i] - p, curvature + p * (1 - p)
            centre[g] += slope / curvature
        u = centre[g] + NODES * np.sqrt(2 / curvature)
        log = LOG_WEIGHTS - u**2 / (2 * tau**2) + u * y[first[g] : first[g + 1]].sum()
        factor, product = np.exp(u), np.ones(len(u))
        for i in rows:
            product *= 1 + odds[i] * factor
            if i % 20 == 0:  # a logarithm now and then: they are slow
                log -= np.log(product)
                product[:] = 1
        log -= np.log(product)
        weights = np.exp(log - log.max())
        total += log.max() + np.log(weights.sum() / np.sqrt(curvature)) - log_tau
        weights /= weights.sum()
        mean[g], square[g] = weights @ u, weights @ u**2
        gradient[5] += square[g] / tau**2 - 1
        for i in rows:
            gradient[:5] += X[i] * (y[i] - 1 + np.sum(weights / (1 + odds[i] * factor)))
    return total, gradient, mean, square


def exact(X, store, bought, pairs=50):
    """Means and sds of slopes, tau and effects: a table each."""
    order = np.argsort(store, kind="stable")
    X, bought = X[order], bought[order].astype(float)
    first = np.searchsorted(store[order], np.arange(len(X) // 100 + 1))
    centre = np.zeros(len(X) // 100)

    def log_posterior(q):
        total, gradient, *effects = integrate(X, bought, first, q[:5], q[5], centre)
        total += -q[:5] @ q[:5] / 2 - np.exp(2 * q[5]) / 2 + q[5]
        return total, gradient - np.r_[q[:5], np.exp(2 * q[5]) - 1], *effects

    def negative(q):
        return [-value / len(X) for value in log_posterior(q)[:2]]

    mode = minimize(negative, np.zeros(6), jac=True, method="BFGS", options={"gtol": 1e-6}).x
    near = [1e-3 * e for e in np.eye(6)]
    hessian = [(log_posterior(mode + e)[1] - log_posterior(mode - e)[1]) / 2e-3 for e in near]
    root = np.linalg.cholesky(np.linalg.inv(-(np.array(hessian) + np.transpose(hessian)) / 2))

    # Points whose mean is 0 and whose covariance is 1, without error.
    z = np.random.default_rng(RANDOM_SEED).normal(size=(pairs, 6))
    z = np.linalg.qr(z)[0] * np.sqrt(pairs)
    z = np.concatenate([z, -z])
    q = mode + z @ root.T
    values, _, means, squares = map(np.array, zip(*map(log_posterior, q), strict=True))
    weights = np.exp(values + np.sum(z**2, axis=1) / 2 - values.max())
    weights /= weights.sum()
    q[:, 5] = np.exp(q[:, 5])
    shared = weights @ q, np.sqrt(weights @ q**2 - (weights @ q) ** 2)
    effects = weights @ means, np.sqrt(weights @ squares - (weights @ means) ** 2)
    names = [*(f"slopes[{j}]" for j in range(5)), "tau"]
    columns = ["exact mean", "exact sd"]
    return (
        pd.DataFrame(dict(zip(columns, shared, strict=True)), index=names),
        pd.DataFrame(dict(zip(columns, effects, strict=True))),
    )


start = time.perf_counter()
truth = {rows: exact(*found[rows]) for rows in SIZES}
print(f"{time.perf_counter() - start:.0f} s")


# %%
def beside(idata, exact_values):
    """Sampled means and sds beside the exact ones, and effective draws."""
    table, effects = (values.copy() for values in exact_values)
    drawn, size = idata.posterior, az.ess(idata, var_names=["slopes", "tau", "effects"])

    def shared(values):
        return np.r_[values["slopes"].values, float(values["tau"])]

    mean, sd = drawn.mean(("chain", "draw")), drawn.std(("chain", "draw"))
    for of, take in ((table, shared), (effects, lambda values: values["effects"].values)):
        of["mean error (sds)"] = (take(mean) - of["exact mean"]) / of["exact sd"]
        of["sd ratio"] = take(sd) / of["exact sd"]
        of["effective draws"] = take(size)
    return table, effects


shared, effects = beside(idata, truth[ROWS])
shared.round(4)

# %% [markdown]
# `mean error` is in exact sds, and `sd ratio` would be 1. With 1,200 effective draws Monte Carlo
# error alone is 0.03 sds of a mean and 2 % of an sd. A bias of a few per cent in the variance is
# what `SGNHT()` allows itself (`bias_tolerance`). All stores:

# %%
effects[["mean error (sds)", "sd ratio", "effective draws"]].describe(
    percentiles=[0.01, 0.5, 0.99]
).drop("count").round(3)


# %%
def right(table, effects):
    """Bounds of four Monte Carlo errors or more, and the bias of the sds that is allowed."""
    monte_carlo = 1 / np.sqrt(table["effective draws"])
    assert (table["mean error (sds)"].abs() < 4 * monte_carlo + 0.05).all()
    assert ((table["sd ratio"] - 1).abs() < 4 * monte_carlo / np.sqrt(2) + 0.05).all()
    assert np.sqrt(np.mean(effects["mean error (sds)"] ** 2)) < 0.08
    assert ((effects["sd ratio"] - 1).abs() < 0.1).mean() > 0.98
    assert abs(effects["sd ratio"].median() - 1) < 0.03


for rows in SIZES:
    right(*beside(runs[rows][0], truth[rows]))
    assert runs[rows][0].sample_stats["second_order"].values.any()

# %% [markdown]
# ## Not centred, as bambi writes it
#
# With `tau * z` in place of the effects it is another geometry and the same posterior. bambi
# writes `bought ~ ... + (1|store)` so. The sampler moves in coordinates that are neither, so that
# the form hardly matters.
#
# bambi's own model can be sampled as it is, inside of `with model.backend.model:`. It is not run
# here: on its way there bambi 0.21 makes a dense matrix of rows times groups, which would be 80 GB
# for a million rows. Leave its option `SPARSE_DOT` off: of products with sparse matrices this
# package has no second derivatives yet.

# %%
FEWER = SIZES[:3][-1]  # 100,000 rows
not_centred, _, _ = sgnht(FEWER, centred=False)
shared, _ = beside(not_centred, truth[FEWER])
shared.round(4)

# %%
right(*beside(not_centred, truth[FEWER]))

# %% [markdown]
# Right again.
#
# ## Stores with few rows
#
# Some stores have far fewer effective draws than the others. They have few rows, but are not the
# smallest: a batch rarely has one of their rows, and then counts it many times over. (A store
# without rows has no such noise.)

# %%
few = effects.assign(rows=sizes).sort_values("effective draws")[["rows", "effective draws"]]
few.head(5)

# %% [markdown]
# If you need these stores, take larger batches. That costs little here, and the warning is gone:

# %%
larger, _, _ = sgnht(ROWS, batch_size=2_000 if QUICK else 30_000)
_, in_larger = beside(larger, truth[ROWS])
in_larger.assign(rows=sizes).loc[few.index[:5], ["rows", "effective draws"]]

# %%
right(*beside(larger, truth[ROWS]))
worst = few.index[:5]
at_least = 0.8 if QUICK else 1.0  # among CI's few stores none has much noise
assert in_larger["effective draws"][worst].min() > at_least * few["effective draws"].min()

# %% [markdown]
# ## Seconds, beside nutpie
#
# What do 1,000 effective draws of `tau` cost? The seconds of a whole run, compilation and tuning
# included, times 1,000 and divided by the effective draws of `tau` that it gave. nutpie samples
# the same model, up to 50,000 rows; beyond that its cost is **extrapolated**, in proportion to
# the rows.


# %%
def nutpie_nuts(rows):
    start = seconds()
    compiled = nutpie.compile_pymc_model(hierarchy(*data(rows)))
    settings = {"chains": 2, "cores": 2, "seed": RANDOM_SEED, "progress_bar": False}
    idata = nutpie.sample(compiled, draws=1_000, tune=400, **settings)
    return idata, seconds() - start


nutpie_runs = {rows: nutpie_nuts(rows) for rows in NUTPIE_SIZES}


def per_thousand(idata, spent, *_):
    size = az.ess(idata, var_names=["tau"])
    return spent, float(size["tau"]), spent * 1000 / float(size["tau"])


contenders = {"SGNHT()": runs, "NUTS (nutpie)": nutpie_runs}
race = pd.DataFrame(
    [
        (name, rows, rows // 100, *per_thousand(*run))
        for name, of in contenders.items()
        for rows, run in of.items()
    ],
    columns=[
        "method",
        "rows",
        "stores",
        "seconds of a run",
        "effective draws of tau",
        "seconds to 1,000",
    ],
)
race.round(0)

# %%
BLUE, ORANGE, GREY = "#0072B2", "#E69F00", "0.35"
fig, axes = plt.subplots(1, 2, figsize=(9, 3.6))
nuts, ours = (race[race.method == name] for name in ("NUTS (nutpie)", "SGNHT()"))
last = nuts.iloc[-1]
beyond = np.array([last["rows"], 1_000_000])
extrapolated = beyond * last["seconds to 1,000"] / last["rows"]
hollow = {"color": ORANGE, "linestyle": "--", "markevery": [1], "markerfacecolor": "white"}
axes[0].loglog(beyond, extrapolated, marker="s", label="NUTS (nutpie), extrapolated", **hollow)
for of, colour, marker in ((nuts, ORANGE, "s"), (ours, BLUE, "o")):
    style = {"color": colour, "marker": marker, "label": of["method"].iloc[0]}
    axes[0].loglog(of["rows"], of["seconds to 1,000"], **style)
axes[0].set(xlabel="rows (a store for every 100)", ylabel="seconds of one core")
axes[0].set_title("Seconds to 1,000 effective draws of tau", fontsize=10)
axes[0].legend(frameon=False, fontsize=9)

known = sizes > 0
axes[1].semilogx(
    sizes[known],
    effects["sd ratio"][known],
    ".",
    color=BLUE,
    alpha=0.25,
    markersize=4,
    markeredgewidth=0,
    rasterized=True,
)
axes[1].axhline(1, color=GREY, linewidth=1)
axes[1].set(
    xlabel="rows of the store", ylabel="sd by SGNHT / exact sd (1 is right)", ylim=(0.8, 1.2)
)
axes[1].set_title(f"Effects of {len(sizes):,} stores, {ROWS:,} rows: a dot each", fontsize=10)
for axis in (axes[0].xaxis, axes[0].yaxis, axes[1].xaxis):
    axis.set_major_formatter("{x:,.0f}")
if not QUICK:
    fig.savefig("hierarchies.png", dpi=150)

# %% [markdown]
# Left: up to 100,000 rows half or more of what `SGNHT()` takes is compilation. Right: a dot is a
# store, and the dots scatter by Monte Carlo error alone.

# %%
for rows in set(nutpie_runs) & set(truth):
    table, _ = beside(nutpie_runs[rows][0], truth[rows])
    errors = table["mean error (sds)"].abs() * np.sqrt(table["effective draws"])
    assert (errors < 4).all()
if not QUICK:
    cost = race.set_index(["method", "rows"])["seconds to 1,000"]
    assert cost["SGNHT()"].max() < 12 * cost["SGNHT()"].min()  # 200 times as many rows
    assert cost["NUTS (nutpie)"][50_000] > 3 * cost["NUTS (nutpie)"][5_000]  # 10 times
    assert extrapolated[1] > 5 * cost["SGNHT()"][1_000_000]

# %% [markdown]
# ## Beside a point estimate
#
# [GPBoost](https://pypi.org/project/gpboost/) maximises the likelihood with the effects
# integrated out by Laplace's approximation. It has no prior and no posterior of `tau`, and it is
# quick. This part is left out where it is not installed (`pip install gpboost`).

# %%
try:
    with warnings.catch_warnings(action="ignore"):  # of progress bars
        import gpboost
except ImportError:
    print("gpboost is not installed")
else:
    X, store, bought = found[ROWS]
    start = seconds()
    fitted = gpboost.GPModel(group_data=store, likelihood="bernoulli_logit", num_parallel_threads=1)
    fitted.fit(y=bought.astype(float), X=X)
    print(f"{seconds() - start:.0f} s of work")
    variance = fitted.get_cov_pars().values.ravel()[0]
    estimate = np.r_[fitted.get_coef().values.ravel()[:5], np.sqrt(variance)]
    point = truth[ROWS][0].assign(GPBoost=estimate)
    point["its distance (sds)"] = (point["GPBoost"] - point["exact mean"]) / point["exact sd"]
    print(point.round(4))
    assert (point["its distance (sds)"].abs() < 1).all()

# %% [markdown]
# ## What to look at in a model of yours
#
# Nobody has the exact posterior there. `check` compares the draws with exact gradients. With
# thousands of parameters its gradients say little of a single sd, which it admits ("this proves
# little"). R-hat and effective sizes are those of a part of the parameters: look at the smallest
# groups that matter to you yourself.

# %%
verdict = check(larger, hierarchy(*found[ROWS]), progressbar=False)
print(verdict)

# %%
assert not verdict.alarms

# %% [markdown]
# `report` says what each chain was tuned to: step size, batch size, gradient, noise and the
# predicted bias of the variances.

# %%
print(report(idata))

# %% [markdown]
# Second derivatives make this quick. Two lines say whether they were found:

# %%
print("second order:", idata.sample_stats["second_order"].values.any())
metric = type(step.chain.parts.untuned.metric).__name__
print("metric:", metric)

# %%
assert metric == "SparseFactor"

# %% [markdown]
# False and `Diagonal` mean that the model has a form whose second derivatives are not known
# (listed on the page "Hierarchies" of the documentation). It may work
# all the same, with fewer effective draws; look at `check`.
#
# ## When to take NUTS
#
# - With up to some thousand rows: it has no bias, and compiling is most of what either takes.
# - With few groups (up to twenty), where `tau` has a long tail.
# - With many groups without any data; write these not centred, too.

# %%
packages = ["pymc_sgmcmc", "pymc", "nutpie", "pytensor", "arviz", "numpy", "matplotlib", "gpboost"]
for name in packages[:]:
    try:
        version(name)
    except PackageNotFoundError:
        packages.remove(name)
print("Python", platform.python_version(), *(f"\n{name} {version(name)}" for name in packages))
