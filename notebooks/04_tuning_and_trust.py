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
# # Tuning and trust: what each warning means
#
# A stochastic-gradient sampler has no accept step that would put its errors right. With a step that
# is too long, or gradients that are too noisy, it draws from a distribution that looks like a
# posterior and is not one. Here is what this package says when that happens: cases that raise its
# warnings, what they mean, and their cures. (All warnings are listed under "Trust".)
#
# **Result:** every case below is noticed, by the chains while they sample or by `check`
# afterwards, and is cured by what the message says. One is not, and cannot be: a mode that no chain
# has visited.

# %%
# %matplotlib inline
import logging
import os
import platform
import textwrap
import warnings
from importlib.metadata import version

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
from pymc.exceptions import SamplingError
from pymc.sampling.parallel import ParallelSamplingError

from pymc_sgmcmc import (
    SGHMC,
    SGLD,
    SGNHT,
    check,
    plot_temperature,
    plot_thermostat,
    plot_width,
    report,
)
from pymc_sgmcmc.data import wells

RANDOM_SEED = 2019
CORES = 1 if os.environ.get("PYMC_SGMCMC_QUICK") == "1" else 2  # one is cheaper, for CI

plt.rcParams.update({"figure.constrained_layout.use": True, "figure.dpi": 90})
logging.getLogger("pymc").setLevel(logging.ERROR)  # warnings are shown by what follows


def sample(step, **kwargs):
    """Four chains, and one warning of each kind that any of them gave."""
    settings = {"chains": 4, "cores": CORES, "random_seed": RANDOM_SEED, "progressbar": False}
    kept = {"keep_warning_stat": True, "compute_convergence_checks": False}
    idata = pm.sample(step=step, **settings | kept | kwargs)
    said = {}
    for warning in idata.sample_stats["warning"].values.ravel():
        if warning is not None and warning.extra not in said:
            said[warning.extra] = warning.message
            print(textwrap.fill(f"[{warning.extra}] {warning.message}", 96), "\n")
    if not said:
        print("No chain has warned.")
    return idata, set(said)


# %% [markdown]
# ## First: how it looks when all is well
#
# A logistic regression on 3020 rows of real data, with no settings at all.

# %%
features, switched, names = wells()
with pm.Model(coords={"row": range(len(switched)), "feature": names}) as model:
    X = pm.Data("X", features, dims=("row", "feature"))
    beta = pm.Normal("beta", 0, 2.5, dims="feature")
    pm.Bernoulli("switched", logit_p=X @ beta, observed=switched, dims="row")
    idata, said = sample(SGNHT())

print(report(idata))

# %%
assert not said

# %% [markdown]
# `report` shows what tuning chose, a row for each chain. They should resemble each other: chains
# whose step size `h`, `batch` or `condition` differ much may not have found the same posterior.
# `noise` is the part of the injected noise that is the gradient's own. `bias` is the relative error
# of the posterior variances that tuning predicts, below `bias_tolerance`, 5 %. `decrement` says
# how far from the mode tuning began, about the number of parameters or less.

# %%
found = check(idata, model, progressbar=False)
print(found)

# %%
assert not found.alarms

# %% [markdown]
# `check` looks at five things, and each says which error it would *not* have seen:
#
# - **Mixing**: R-hat and effective sizes. Where chains disagree nothing else means anything.
# - **Monte Carlo**: how well so many draws know means, sds and quantiles.
# - **Width**: for draws of the posterior, the mean of $(q - \bar q)\, \partial U / \partial q$ is 1
#   in every coordinate, whatever the model ($U$: minus the log posterior). Chains know that mean
#   over all their inner steps.
# - **Sds** and **Means**: what exact gradients, on all rows, at some of the draws imply.

# %%
_ = plot_width(idata, model)

# %% [markdown]
# ## A step that is too long
#
# You may choose the settings yourself. Where no chain would survive them, you hear it before
# sampling:

# %%
with model, warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    SGHMC(step_size=0.3)
for warning in caught:
    print(textwrap.fill(str(warning.message), 96))

# %%
assert "is not stable" in str(caught[0].message)

# %% [markdown]
# Where they survive, but are wrong, each chain finds out from its gradients, after 250 draws:

# %%
with model:
    idata, said = sample(SGLD(step_size=3e-4, steps_per_draw=50))

# %%
assert said == {"width"}

# %% [markdown]
# R-hat would not have told: all chains agree on the wrong width. **Cure**: what it says, halve
# `step_size` until it says nothing. Or let tuning choose, as above.
#
# A step that is unstable only in the tails ends a chain. On a density with light tails,
# $\exp(-\sum x^4 / 4)$:

# %%
with pm.Model() as quartic:
    x = pm.Flat("x", shape=2, initval=[0.0, 0.0])
    pm.Potential("light tails", -(x**4).sum() / 4)
    try:
        sample(SGHMC(step_size=0.6, friction=0.2))
    except (SamplingError, ParallelSamplingError) as error:
        message = str(error)
        print(textwrap.fill(message, 96))

# %%
assert "non-finite" in message

# %% [markdown]
# ## Gradients that are too noisy
#
# A minibatch's gradient has noise of its own, and it heats the chain. Here it is ten times what is
# injected:

# %%
with model:
    idata, said = sample(SGHMC(step_size=0.005, friction=20.0, batch_size=100, steps_per_draw=100))

# %%
assert said == {"width", "excursion"}
_ = plot_temperature(idata)

# %% [markdown]
# The second warning is of a momentum that a chain at rest does not have once in $10^9$ draws. One
# excursion is enough to make an sd too large. Alone, it means that the step is too long somewhere
# in the posterior. The kinetic temperature, above, says the same: it is to be 1.
#
# **Cure**: what the first one proposes. A control variate makes gradients far less noisy, for one
# more gradient in each step, and needs a few draws of tuning to find its centre:

# %%
with model:
    idata, cured = sample(
        SGHMC(
            step_size=0.005,
            friction=20.0,
            batch_size=100,
            steps_per_draw=100,
            gradient="control_variate",
        )
    )

# %%
assert not cured

# %% [markdown]
# A thermostat, `SGNHT`, absorbs noise of the same size in all directions without being told. Where
# directions differ, it needs one thermostat each:

# %%
rng = np.random.default_rng(RANDOM_SEED)
rows = rng.standard_normal((400, 3))
rows = (rows - rows.mean(axis=0)) / rows.std(axis=0) * np.sqrt([120, 0.1, 0.1])
with pm.Model() as unequal:
    q = pm.Normal("q", 0, 100, shape=3)
    pm.Normal("y", q, 20.0, observed=rows)
    noisy = {"step_size": 0.1, "batch_size": 10, "steps_per_draw": 30}
    _, said = sample(SGNHT(**noisy))
    print("One thermostat a coordinate:")
    _, cured = sample(SGNHT(thermostat="coordinate", **noisy))

# %%
assert said == {"width"} and not cured

# %% [markdown]
# Rare features make gradients so noisy that tuning comes to the end of its means: the two here have
# ten rows of twenty thousand each. The draws are right all the same, and no warning says otherwise:
# the noise costs pace, which effective sizes show. Larger batches of your own may be worth their
# price.

# %%
rare = (rng.random((20_000, 3)) < [1, 0.0005, 0.0005]).astype(float)
outcome = (rng.random(20_000) < 1 / (1 + np.exp(-rare @ [-1, 0.5, 1]))).astype(int)
with pm.Model() as rare_model:
    b = pm.Normal("b", 0, 10, shape=3)
    pm.Bernoulli("y", logit_p=rare @ b, observed=outcome)
    _, said = sample(SGNHT())
    print("With half of the rows in each batch:")
    _, cured = sample(SGNHT(batch_size=10_000))

# %%
assert not {"bound", "width"} & (said | cured)

# %% [markdown]
# A control variate whose centre is far from where the chain is costs noise instead. Two modes of
# equal height, with a low barrier, and a centre that can be in one of them only:

# %%
values = 1 + 15.8 * rng.normal(size=1000)
with pm.Model() as folded:
    q = pm.Normal("q", 0, 2, initval=1.0)
    pm.Normal("y", q**2, 15.8, observed=values + 1 - values.mean())
    own = {"step_size": 0.03, "friction": 3.0, "batch_size": 500, "steps_per_draw": 40}
    _, said = sample(SGHMC(gradient="control_variate", **own))
    print("With gradient='auto', and all else left to tuning:")
    _, cured = sample(SGHMC())

# %%
assert "centre" in said and not cured

# %% [markdown]
# ## A chain that is still on its way
#
# From far away, with little tuning and settings of one's own, the thermostat still takes up the
# heat of the fall. It will need long to give it back, so starting closer is the better cure.

# %%
far = {"initvals": {"beta": np.full(4, 30.0)}}
with model:
    own = {"step_size": 0.005, "diffusion": 20.0}
    idata, said = sample(SGNHT(steps_per_draw=3, **own), tune=20, draws=300, **far)
    print("From PyMC's own start, with more tuning:")
    _, cured = sample(SGNHT(steps_per_draw=30, **own), tune=1000)

# %%
assert "thermostat" in said and not cured
_ = plot_thermostat(idata, diffusion=20.0)

# %% [markdown]
# ## A posterior that is not what you think
#
# **Parameters that cannot be told apart**: two columns that agree to one part in ten thousand.

# %%
design = rng.normal(size=(2000, 2))
design = np.column_stack([design, design[:, 0] + 1e-4 * rng.normal(size=2000)])
target = design[:, 0] + rng.normal(size=2000)
with pm.Model() as collinear:
    b = pm.Normal("b", 0, 100, shape=3)
    pm.Normal("y", design @ b, 1.0, observed=target)
    _, said = sample(SGNHT())
with pm.Model() as orthogonal:
    b = pm.Normal("b", 0, 100, shape=3)
    pm.Normal("y", np.linalg.qr(design)[0] * np.sqrt(2000) @ b, 1.0, observed=target)
    print("With orthogonal columns:")
    _, cured = sample(SGNHT())

# %%
assert said == {"metric"} and not cured

# %% [markdown]
# **A funnel**. No metric fits its neck and its mouth. That of a hierarchy, centred or not, is taken
# out for you, where the prior of the effects says what their scale is. Here a `Potential` hides it.

# %%
with pm.Model() as hidden:
    v = pm.Normal("v", 0, 3)
    x = pm.Flat("x", shape=9)
    pm.Potential("prior_of_x", pm.logp(pm.Normal.dist(0, pm.math.exp(v / 2)), x))
    idata, said = sample(SGNHT())
found = check(idata, hidden, progressbar=False)
print(textwrap.fill(found.alarms[0].text, 96))

# %%
with pm.Model() as effects:
    v = pm.Normal("v", 0, 3)
    x = pm.Normal("x", 0, pm.math.exp(v / 2), shape=9)
    idata, cured = sample(SGNHT())
print("The sd of v:", idata.posterior["v"].std().item(), "where 3 is right")

# %%
assert not found.conclusive and said and not cured
assert abs(idata.posterior["v"].std().item() - 3) < 0.5

# %% [markdown]
# **No posterior at all**: a flat prior, and data that a line separates perfectly. The likelihood
# grows for ever, and the chains say so before they draw anything:

# %%
x_axis = np.linspace(-1, 1, 400)
with pm.Model():
    b = pm.Flat("b", initval=0.0)
    pm.Bernoulli("y", logit_p=b * x_axis, observed=(x_axis > 0).astype(int))
    try:
        sample(SGNHT())
    except (SamplingError, ParallelSamplingError) as error:
        message = str(error)
        print(textwrap.fill(message, 96))

# %%
with pm.Model():
    b = pm.Normal("b", 0, 10)
    pm.Bernoulli("y", logit_p=b * x_axis, observed=(x_axis > 0).astype(int))
    _, cured = sample(SGNHT())

# %%
assert "improper" in message and not cured

# %% [markdown]
# ## A temperature that is not 1
#
# `temperature` changes the target, on purpose. It is said at construction, and by the draws:

# %%
with model:
    idata, said = sample(SGHMC(temperature=0.6))
print(textwrap.fill(check(idata, model, progressbar=False).alarms[0].text, 96))

# %%
assert "width" in said

# %% [markdown]
# ## Refused before anything is compiled
#
# Rows that depend on each other cannot be minibatched; a wrong ``total_size`` would scale the
# likelihood wrongly. Both are errors, which name the variable:

# %%
refused = []
with pm.Model():
    rho = pm.Normal("rho")
    series = np.cumsum(rng.normal(size=1000)) / 30
    pm.AR("series", rho, init_dist=pm.Normal.dist(), observed=series)
    try:
        SGNHT(batch_size=50)
    except ValueError as error:
        refused.append(str(error))
with pm.Model():
    batch = pm.Minibatch(np.zeros(500), batch_size=50)
    pm.Normal("y", pm.Normal("mu"), observed=batch, total_size=5000)
    try:
        SGNHT()
    except ValueError as error:
        refused.append(str(error))
for text in refused:
    print(textwrap.fill(text, 96), "\n")

# %%
assert "do not separate" in refused[0] and "total_size=5000" in refused[1]

# %% [markdown]
# ## What nothing sees
#
# Two modes, 12 sds apart. If chains start on both sides, R-hat is an alarm:

# %%
with pm.Model() as modes:
    pm.Mixture("x", [0.5, 0.5], [pm.Normal.dist(-6, 1), pm.Normal.dist(6, 1)])
    apart, _ = sample(SGNHT(), initvals=[{"x": start} for start in (-8.0, -3.0, 3.0, 8.0)])
    together, _ = sample(SGNHT(), initvals=[{"x": start} for start in (4.0, 5.0, 7.0, 8.0)])
print(textwrap.fill(check(apart, modes, progressbar=False).alarms[0].text, 96))

# %%
print(check(together, modes, progressbar=False))

# %%
assert check(apart, modes, progressbar=False).alarms
assert not check(together, modes, progressbar=False).alarms

# %% [markdown]
# All chains started on one side, and half of the posterior is missing. No number that is computed
# from draws can know. **Start chains far apart**: pass `initvals` for each of them, wider than you
# think the posterior is.
#
# ## In short
#
# | the warning | means | do |
# |---|---|---|
# | width, by the step | the step is too long for its bias | halve `step_size`, or let it be tuned |
# | width, by the noise | gradients heat the chain | a control variate, larger batches |
# | excursion, divergence | the step is unstable in places | halve `step_size` |
# | thermostat | the chain has not settled | tune longer, start closer |
# | centre | the control variate's centre is of no use | `gradient="auto"`, or plain |
# | bound | rare or heavy rows | a larger `batch_size` of your own |
# | metric | parameters cannot be told apart | centre, orthogonalise, a tighter prior |
# | improper (an error) | the data leave a flat prior as it is | a proper prior |
# | mixing | several modes, a funnel, or too short | reparametrise, run longer |

# %%
packages = ("pymc_sgmcmc", "pymc", "pytensor", "arviz", "numpy", "matplotlib")
print("Python", platform.python_version(), *(f"\n{name} {version(name)}" for name in packages))
