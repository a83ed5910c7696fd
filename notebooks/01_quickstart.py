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
# **Result:** both give the same posterior: means differ by 0.02 posterior sds at most, and sds by
# 2 %, which is what chance makes of them (a Monte Carlo error is 0.03 sds, and 2 %). With 3020 rows
# NUTS is fast enough. With more rows its time grows, from ten to thirty thousand
# threefold; that of SGNHT by half from ten thousand rows to a million.

# %%
# %matplotlib inline
import os
import platform
import time
from importlib.metadata import version

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm

from pymc_sgmcmc import SGLD, SGNHT, check, compare, report
from pymc_sgmcmc.data import wells

RANDOM_SEED = 2014
LESS = 2 if os.environ.get("PYMC_SGMCMC_QUICK") == "1" else 1  # CI draws a part
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
settings = {"chains": 4, "cores": 2 // LESS, "random_seed": RANDOM_SEED, "progressbar": False}

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
# likelihood is no sum over rows it says so, and takes all of them. (128 rows are where tuning
# begins. What it came to is below.)
#
# ## The same posterior
#
# `compare` puts runs of the same model side by side: the error of the mean that is largest, in
# posterior sds, the error of the sd that is largest, as a part of it, both with their Monte Carlo
# errors, and what an effective draw costs.

# %%
comparison = compare({"NUTS": by_nuts}, {"SGNHT": by_sgnht}, rows=len(switched))
comparison.round(3).T

# %% [markdown]
# Both errors are what chance makes of them: no more than two of their Monte Carlo errors. A bias of
# the sds of up to 2.5 % would have been no surprise: SGNHT chooses its steps so that it expects
# less than that (5 % of a variance). Hence the test is for 4 Monte Carlo errors, and these 2.5 %
# for the sds.


# %%
def agree(comparison, bias=0.025):
    """Whether two runs differ by no more than chance, and sds by no more than `bias` on top."""
    other = comparison.iloc[1]
    mean_error, sd_error = abs(other["mean_error"]), abs(other["sd_error"])
    return mean_error < 4 * other["mean_error_mcse"] and (
        sd_error < 4 * other["sd_error_mcse"] + bias
    )


assert agree(comparison)


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
# What does it look like when something is wrong? Here are settings of our own, which nobody has
# tuned: SGLD, the simplest sampler of the package, with a step that is too long for the noise of
# gradients on 50 rows.

# %%
with model:
    step = SGLD(step_size=5e-5, batch_size=50, steps_per_draw=100)
    wrong = pm.sample(step=step, **settings)
    wrong_result = check(wrong, progressbar=False)
print(wrong_result)

# %%
assert wrong_result.alarms and not agree(compare(by_nuts, wrong))
compare({"NUTS": by_nuts}, {"SGLD, wrong": wrong}).round(3).T

# %% [markdown]
# R-hat and effective sample size see nothing: these chains mix well, in a distribution that is too
# wide. But the chains said so while they sampled, `check` says it again, and NUTS agrees. (`Width`
# looks along each coefficient with the others held fixed, where the posterior is narrow and noise
# does most; the sds of the coefficients themselves are those of `Sds`, and of the comparison with
# NUTS.)
#
# On your own data there may be no NUTS to ask. Then there is a test that takes only time: ask for a
# fifth of the bias. If the results stay where they were, the bias did not matter.

# %%
with model:
    by_careful_sgnht = pm.sample(step=SGNHT(bias_tolerance=0.01), **settings)
careful = compare({"SGNHT": by_sgnht}, {"bias_tolerance=0.01": by_careful_sgnht})
careful.round(3).T

# %%
assert agree(careful)

# %% [markdown]
# ## Many rows
#
# Simulated data of the same kind, with ten features. NUTS looks at all rows for each gradient;
# SGNHT at a few, and at all of them only a few times while tuning. The time to 1000 effective
# draws of the worst coefficient, tuning included and compilation not, on two cores:

# %%
truth = np.random.default_rng(RANDOM_SEED).normal(scale=0.5, size=10)


def simulated(rows):
    rng = np.random.default_rng(rows)
    features = rng.normal(size=(rows, 10))
    outcome = rng.random(rows) < 1 / (1 + np.exp(-features @ truth))
    return logistic_regression(features, outcome.astype(int), [f"x{k}" for k in range(10)])


def timed(rows, make_step, draws):
    """Draws, and the seconds to 1000 effective ones: of tuning and as many draws as that takes."""
    # Two chains are few to judge the mixing by. Here they are timed.
    quick = settings | {"chains": 2, "compute_convergence_checks": False}
    with simulated(rows):
        step = make_step()
        start = time.perf_counter()
        idata = pm.sample(step=step, draws=draws, tune=draws, **quick)
        seconds = time.perf_counter() - start
    ess = az.ess(idata)["beta"].values.min()
    return idata, seconds / 2 * (1 + 1000 / ess)


# %%
results = {}
for rows in (1_000, 10_000, 30_000):
    results["NUTS", rows] = timed(rows, pm.NUTS, 500 // LESS)
for rows in (10_000, 30_000, 100_000, 1_000_000):
    results["SGNHT", rows] = timed(rows, SGNHT, 1000 // LESS)

# %%
seconds = pd.Series({key: value for key, (_, value) in results.items()}).unstack(0)
seconds.index.name = "rows"
seconds.round(1)

# %%
_, ax = plt.subplots(figsize=(6, 3.4))
ax.plot(seconds["NUTS"].dropna(), "o-", color=BLUE, label="NUTS")
ax.plot(seconds["SGNHT"].dropna(), "s-", color=ORANGE, label="SGNHT")
ax.set(xscale="log", yscale="log", xlabel="rows", ylabel="seconds to 1000 effective draws")
ax.set_yticks([1, 3, 10, 30, 100], ["1", "3", "10", "30", "100"])
ax.minorticks_off()
ax.legend(frameon=False)
plt.show()

# %%
assert seconds["SGNHT"][1_000_000] < 10 * seconds["SGNHT"][10_000]
assert seconds["NUTS"][30_000] > seconds["SGNHT"][30_000]

# %% [markdown]
# The absolute times are those of one machine with other work to do. What carries over is the
# slope. (Not in them: compilation, which takes seconds, or half a minute the first time.) A thing
# to keep in mind: tuning needs the gradient of all rows a few times, and PyMC
# copies the data at the end; both grow with the rows, but are done only once.
#
# Is it still right? Where NUTS was run, compare with NUTS:

# %%
of_nuts, of_sgnht = results["NUTS", 30_000][0], results["SGNHT", 30_000][0]
at_30_000 = compare({"NUTS": of_nuts}, {"SGNHT": of_sgnht}, rows=30_000)
at_30_000.round(3).T

# %%
assert agree(at_30_000)

# %% [markdown]
# With a million rows NUTS would take twelve minutes or more, if its time goes on growing in
# proportion to the rows. `check` does not need it, and here we also know the coefficients that made
# the data. They should be within a few posterior sds:

# %%
of_million = results["SGNHT", 1_000_000][0]
result = check(of_million, simulated(1_000_000), progressbar=False)
print(result)

beta = of_million.posterior["beta"]
distance = (beta.mean(("chain", "draw")).values - truth) / beta.std(("chain", "draw")).values
print("\nDistance from the truth in posterior sds:", distance.round(1))

# %%
assert result.conclusive and not result.alarms
assert np.all(abs(distance) < 4)

# %% [markdown]
# ## When to use it
#
# - One gradient of all rows takes you a millisecond or less: take NUTS.
# - It takes longer, and rows are independent given the parameters: `step=SGNHT()`.
#   1. Take a part of the rows on which NUTS takes minutes, sample it by both, and `compare`.
#   2. Take all rows. Read the line about what is minibatched, then `report`, then `check`.
#   3. Sample again with `bias_tolerance=0.01`, and `compare`.
# - What `bias_tolerance` allows is too much, however small: NUTS. The bias of SGNHT does not go
#   away with more draws.
# - The posterior has several modes, or a funnel: no gradient sampler gets around them, and this
#   one neither. See `02_samplers_compared`.

# %%
packages = ("pymc_sgmcmc", "pymc", "pytensor", "arviz", "numpy", "matplotlib")
print("Python", platform.python_version(), *(f"\n{name} {version(name)}" for name in packages))
