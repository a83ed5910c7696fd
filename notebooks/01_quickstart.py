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
# # Quickstart: the same model, by NUTS and by SGNHT
#
# A logistic regression on real data is sampled as always, by `pm.sample()`, and then with one
# more argument, `step=SGNHT()`. Nothing else changes: not the model, not what comes back. Then
# you see what to look at before you believe the draws, and what is gained when there are many
# rows.
#
# **Result:** both give the same posterior, with means within 0.1 sd and sds within 8 %, Monte
# Carlo error included. With 3020 rows NUTS is fast enough. From ten thousand to a million rows
# the time of NUTS grows a hundredfold, and that of SGNHT hardly at all.

# %%
# %matplotlib inline
import platform
import time
from importlib.metadata import version

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm

from pymc_sgmcmc import SGNHT, check, report
from pymc_sgmcmc.data import wells

RANDOM_SEED = 2014
BLUE, ORANGE = "#0072B2", "#D55E00"  # of Okabe and Ito

plt.rcParams.update({"figure.constrained_layout.use": True, "figure.dpi": 90})
plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})

# %% [markdown]
# ## The data, and a model as you would write it anyway
#
# In a part of Bangladesh many wells have too much arsenic. Families were told whether theirs did,
# and how far the next safe well was; some years later it was asked who had switched (Gelman and
# Hill, 2006, chapter 5). How did the decision depend on the distance, the arsenic level and the
# education?

# %%
features, switched, names = wells()
pd.DataFrame(features, columns=names).assign(switched=switched).describe().loc[
    ["mean", "min", "max"]
].round(2)


# %%
def logistic_regression(features, outcome, names):
    with pm.Model(coords={"row": np.arange(len(outcome)), "feature": names}) as model:
        X = pm.Data("X", features, dims=("row", "feature"))
        y = pm.Data("y", outcome, dims="row")
        beta = pm.Normal("beta", 0, 2.5, dims="feature")
        pm.Bernoulli("outcome", logit_p=X @ beta, observed=y, dims="row")
    return model


model = logistic_regression(features, switched, names)

# %% [markdown]
# ## NUTS

# %%
settings = {"chains": 4, "cores": 2, "random_seed": RANDOM_SEED, "progressbar": False}

with model:
    by_nuts = pm.sample(**settings)

# %% [markdown]
# ## SGNHT
#
# The stochastic gradient Nosé-Hoover thermostat, a sampler with momentum, as NUTS is. At each of
# its steps it takes the gradient of a few rows in place of all, which is cheap and noisy, and it
# has no accept step, which would need all rows. A friction that adapts itself takes up the noise.

# %%
with model:
    by_sgnht = pm.sample(step=SGNHT(), **settings)

# %% [markdown]
# The first line above is worth reading. The step method found out by itself which data carry the
# rows, and checked that the log-likelihood is a sum over them; the prior is always exact. If a
# likelihood is no sum over rows it says so, and takes all of them.
#
# ## The same posterior


# %%
def compare(reference, other, variable="beta"):
    """Difference of the means and ratio of the sds, both with their Monte Carlo errors."""
    a, b = (idata.posterior[variable] for idata in (reference, other))
    mean_a, mean_b = (x.mean(("chain", "draw")).values for x in (a, b))
    sd_a, sd_b = (x.std(("chain", "draw")).values for x in (a, b))
    ess_a, ess_b = (az.ess(idata)[variable].values for idata in (reference, other))
    return pd.DataFrame(
        {
            "mean": mean_b,
            "sd": sd_b,
            "difference (sd)": (mean_b - mean_a) / sd_a,
            "± (sd)": np.sqrt(1 / ess_a + 1 / ess_b),
            "ratio of sds": sd_b / sd_a,
            "±": np.sqrt(0.5 / ess_a + 0.5 / ess_b),
        },
        index=a.feature.values,
    )


comparison = compare(by_nuts, by_sgnht)
comparison.round(3)

# %%
assert (abs(comparison["difference (sd)"]) < 0.1).all()
assert (abs(comparison["ratio of sds"] - 1) < 0.08).all()

# %% [markdown]
# (The errors of the sds are those for a normal posterior, which this one nearly is.)


# %%
def plot_marginals(results, names):
    """NUTS filled, SGNHT as a line."""
    _, axes = plt.subplots(1, len(names), figsize=(10, 2.8))
    for k, (ax, name) in enumerate(zip(axes, names, strict=True)):
        draws = {
            label: idata.posterior["beta"].values[..., k].ravel()
            for label, idata in results.items()
        }
        bins = np.histogram_bin_edges(draws["NUTS"], bins=30)
        ax.hist(draws["NUTS"], bins, density=True, color=BLUE, alpha=0.45, label="NUTS")
        ax.hist(
            draws["SGNHT"], bins, density=True, histtype="step", color=ORANGE, lw=1.8, label="SGNHT"
        )
        ax.set(title=name, yticks=[], xlabel="coefficient")
        ax.spines["left"].set_visible(False)
    axes[0].legend(frameon=False, loc="upper left", fontsize=8)
    plt.show()


plot_marginals({"NUTS": by_nuts, "SGNHT": by_sgnht}, names)

# %% [markdown]
# What comes back is what `pm.sample` always returns, and everything that takes it goes on
# working: `az.summary`, `az.plot_trace`, `pm.compute_log_likelihood`,
# `pm.sample_posterior_predictive`.

# %%
az.summary(by_sgnht, var_names="beta")

# %%
with model:
    predictive = pm.sample_posterior_predictive(
        by_sgnht, random_seed=RANDOM_SEED, progressbar=False
    )
share = predictive.posterior_predictive["outcome"].mean("row")
observed, predicted, spread = switched.mean(), share.mean().item(), share.std().item()
print(f"share that switched: {observed:.3f}, predicted {predicted:.3f}, sd {spread:.3f}")

# %%
assert abs(predicted - observed) < 0.01

# %% [markdown]
# ## What to look at before you believe it
#
# NUTS has no bias: when its chains have mixed, you are done. Here R-hat and effective sample size
# are needed too, but they are not enough. A step that is too long, or gradients that are too
# noisy, give draws that mix perfectly and are those of another distribution. So there are two
# more things.
#
# **`report`** says what the step method chose while it tuned, a row for each chain:

# %%
print(report(by_sgnht))

# %% [markdown]
# - `h`, the step size, in units of about a posterior sd, and `batch`, the rows in a batch.
#   `gradient`: a control variate is a correction by the gradient on all rows at one fixed point.
#   It takes away most of the noise.
# - `noise`: how much of the noise in a step is the gradient's. It is small.
# - `bias`: the relative error of variances that tuning expects; it stays below `bias_tolerance`,
#   5 %.
# - Rows that differ much from each other would mean that the chains have not found the same
#   place.
#
# **`check`** looks at the draws. It takes exact gradients, on all rows, at some of them, and asks
# whether their sds and means are those that a posterior with such gradients has:

# %%
with model:
    result = check(by_sgnht, progressbar=False)
print(result)

# %%
assert result.conclusive and not result.alarms

# %% [markdown]
# Each part that passes also says which error it could not have seen. If something is wrong while
# sampling, the chains say so themselves, in a warning that names the cure. `04_tuning_and_trust`
# shows each of these with a case that raises it.
#
# ## Many rows
#
# Simulated data of the same kind, with ten features. NUTS looks at all rows for each gradient;
# SGNHT at a few, and at all of them only a few times while tuning. The time to 1000 effective
# draws of the worst coefficient, on two cores:

# %%
truth = np.random.default_rng(RANDOM_SEED).normal(scale=0.5, size=10)


def simulated(rows):
    rng = np.random.default_rng(rows)
    features = rng.normal(size=(rows, 10))
    outcome = rng.random(rows) < 1 / (1 + np.exp(-features @ truth))
    return logistic_regression(features, outcome.astype(int), [f"x{k}" for k in range(10)])


def timed(rows, make_step, draws):
    """Draws, and the seconds to 1000 effective ones: of tuning and as many draws as that takes."""
    with simulated(rows):
        step = make_step()
        start = time.perf_counter()
        idata = pm.sample(step=step, draws=draws, tune=draws, **settings | {"chains": 2})
        seconds = time.perf_counter() - start
    ess = az.ess(idata)["beta"].values.min()
    return idata, seconds / 2 * (1 + 1000 / ess)


# %%
results = {}
for rows in (10_000, 100_000, 1_000_000):
    results["SGNHT", rows] = timed(rows, SGNHT, 1000)
for rows in (1_000, 10_000, 100_000):
    results["NUTS", rows] = timed(rows, pm.NUTS, 500)

# %%
seconds = pd.Series({key: value for key, (_, value) in results.items()}).unstack(0)
seconds.index.name = "rows"
seconds.round(1)

# %%
_, ax = plt.subplots(figsize=(6, 3.4))
ax.plot(seconds["NUTS"].dropna(), "o-", color=BLUE, label="NUTS")
ax.plot(seconds["SGNHT"].dropna(), "s-", color=ORANGE, label="SGNHT")
ax.set(xscale="log", yscale="log", xlabel="rows", ylabel="seconds to 1000 effective draws")
ax.legend(frameon=False)
plt.show()

# %% [markdown]
# The absolute times are those of one machine with other work to do. What carries over is the
# slope. A thing to keep in mind: tuning needs the gradient of all rows a few times, and PyMC
# copies the data at the end; both grow with the rows, but are done only once.
#
# Is it still right? Against NUTS where there is NUTS, and against the coefficients that made the
# data, which should be within 4 posterior sds:

# %%
at_100_000 = compare(results["NUTS", 100_000][0], results["SGNHT", 100_000][0])
at_100_000.round(3)

# %%
assert (abs(at_100_000["difference (sd)"]) < 4 * at_100_000["± (sd)"] + 0.05).all()
assert (abs(at_100_000["ratio of sds"] - 1) < 4 * at_100_000["±"] + 0.025).all()

beta = results["SGNHT", 1_000_000][0].posterior["beta"]
distance = (beta.mean(("chain", "draw")).values - truth) / beta.std(("chain", "draw")).values
print("a million rows: distance from the truth in posterior sds", distance.round(1))
assert np.all(abs(distance) < 4)

# %%
assert seconds["SGNHT"][1_000_000] < 10 * seconds["SGNHT"][10_000]
assert seconds["NUTS"][100_000] > seconds["SGNHT"][100_000]

# %% [markdown]
# ## When to use it
#
# - One gradient of all rows takes you a millisecond or less: take NUTS.
# - It takes longer, and rows are independent given the parameters: try `step=SGNHT()`, read
#   `report`, print `check`.
# - The posterior has several modes, or a funnel: no gradient sampler gets around them, and this
#   one neither. See `02_samplers_compared`.

# %%
packages = ("pymc_sgmcmc", "pymc", "pytensor", "arviz", "numpy", "matplotlib")
print("Python", platform.python_version(), *(f"\n{name} {version(name)}" for name in packages))
