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
# # Nine samplers, one posterior
#
# A normal model whose posterior is known exactly, sampled in nine ways: Metropolis, Gibbs, MALA,
# HMC and NUTS, which look at all rows at every step, and SGLD, SGHMC, SGNHT and Santa, which look
# at 64 of the 1000. The means and sds of all nine are compared with the exact ones, in units of
# their Monte Carlo errors. Then the same nine meet a density with nine separate modes.
#
# **Result:** all nine agree with the exact posterior within 4 Monte Carlo errors. Of nine modes
# that are 5 sds apart all find all. Where they are 12 sds apart, a chain that follows gradients
# never leaves its mode, and no diagnostic notices, unless chains start far apart.

# %%
# %matplotlib inline
import logging
import os
import platform
import warnings
from importlib.metadata import version

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
from scipy import stats

from pymc_sgmcmc import MALA, SGHMC, SGLD, SGNHT, CyclicalCosine, Gibbs, Santa, compare, report

RANDOM_SEED = 2014
CORES = 1 if os.environ.get("PYMC_SGMCMC_QUICK") == "1" else 2  # one is cheaper, for CI
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "0.75"  # of Okabe and Ito's colours

logging.getLogger("pymc").setLevel(logging.WARNING)
plt.rcParams.update({"figure.constrained_layout.use": True, "figure.dpi": 90})
plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})

# %% [markdown]
# ## A posterior that is known
#
# A thousand numbers are normal with mean $\mu$ and precision (one over variance) $\tau$, and both
# are unknown. With the Normal-Gamma prior
#
# $$x_i \sim N(\mu, 1/\tau), \qquad \mu \sim N(\mu_0, 1/\tau), \qquad
# \tau \sim \mathrm{Gamma}(5, 1)$$
#
# the posterior can be written down: $\tau$ has a Gamma distribution, and $\mu$ a Student's t.

# %%
n, alpha, beta, mu0 = 1000, 5.0, 1.0, 0.0
rng = np.random.default_rng(RANDOM_SEED + 1)
x = rng.normal(loc=0.5, scale=0.7, size=n)

shape = alpha + n / 2
rate = beta + np.sum((x - x.mean()) ** 2) / 2 + n / (n + 1) * (x.mean() - mu0) ** 2 / 2
centre = (x.sum() + mu0) / (n + 1)
exact = {
    "mu": stats.t(2 * shape, loc=centre, scale=np.sqrt(rate / shape / (n + 1))),
    "tau": stats.gamma(shape, scale=1 / rate),
}

# %%
with pm.Model() as model:
    tau = pm.Gamma("tau", alpha, beta)
    mu = pm.Normal("mu", mu0, tau=tau)
    pm.Normal("x", mu, tau=tau, observed=x)

# %% [markdown]
# ## Nine step methods
#
# `pm.sample` takes each of them as `step=`. What they do:
#
# | | moves by | looks at | errs by |
# |---|---|---|---|
# | Metropolis | random proposals, accepted or not | all rows | nothing but Monte Carlo error |
# | Gibbs | one variable at a time, from its conditional | all rows | the same |
# | MALA | a gradient step with noise, accepted or not | all rows | the same |
# | HMC, NUTS | many gradient steps with momentum, accepted or not | all rows | the same |
# | SGLD | a gradient step with noise, always accepted | some rows | step size, rows left out |
# | SGHMC | the same with momentum and friction | some rows | the same |
# | SGNHT | the same; the friction adapts to the gradient's noise | some rows | the same, less |
# | Santa | the same; a friction and a scale for each coordinate | some rows | the same, less |
#
# The last four have no accept step, because that would need all rows. So their draws are from a
# distribution that is close to the posterior and not the posterior itself. How close, they find
# out for themselves: they choose step size and batch so that variances should be right to
# `bias_tolerance`, which is 5 % unless you say otherwise. Here it is 1 %, half a percent of an sd,
# because that is less than the Monte Carlo errors below: a table that is to see bias must not be
# made from samplers that are promised to have some.
#
# `Gibbs` needs the conditional distributions. Here they are standard ones.


# %%
def draw_mu(point, rng):
    return rng.normal(centre, 1 / np.sqrt((n + 1) * point["tau"]))


def draw_tau(point, rng):
    squares = np.sum((x - point["mu"]) ** 2) + (point["mu"] - mu0) ** 2
    return rng.gamma(alpha + (n + 1) / 2) / (beta + squares / 2)


steps = {
    "Metropolis": pm.Metropolis,
    "Gibbs": lambda: [Gibbs(mu, draw_mu), Gibbs(tau, draw_tau)],
    "MALA": MALA,
    "HMC": pm.HamiltonianMC,
    "NUTS": pm.NUTS,
    "SGLD": lambda: SGLD(bias_tolerance=0.01, steps_per_draw=40),  # its steps do not get far
    "SGHMC": lambda: SGHMC(bias_tolerance=0.01),
    "SGNHT": lambda: SGNHT(bias_tolerance=0.01),
    "Santa": lambda: Santa(bias_tolerance=0.01),
}
ours = ["SGLD", "SGHMC", "SGNHT", "Santa"]


# %%
def sample(step, model, **kwargs):
    """Four chains of 2000 draws."""
    settings = {"draws": 2000, "tune": 1000, "chains": 4, "cores": CORES}
    settings |= {"random_seed": RANDOM_SEED, "progressbar": False}
    settings |= {"compute_convergence_checks": False} | kwargs
    with model:
        return pm.sample(step=step(), **settings)


# %%
runs = {}
for k, (name, step) in enumerate(steps.items()):
    draws = 10_000 if name == "Metropolis" else 2000  # its draws are worth less
    runs[name] = sample(step, model, draws=draws, random_seed=RANDOM_SEED + k)

# %% [markdown]
# Each has a seed of its own: with one for all, the last four would take the same batches and the
# same random numbers, and share their luck.
#
# What the step methods chose, for example SGNHT: the step size `h` (in units of a posterior sd),
# rows in a batch, the gradient, and the relative error of a variance that it expects (`bias`).
# The gradient of a batch is corrected by the gradient on all rows at one fixed point, a control
# variate, which leaves it little noise.

# %%
print(report(runs["SGNHT"]))

# %% [markdown]
# ## Means and sds, with their Monte Carlo errors
#
# The Monte Carlo error of a mean is ArviZ's `mcse`, which knows that draws depend on each other;
# for an sd it follows from that of the squares.


# %%
def moments(draws, mean, exact_sd):
    """Mean and sd of the draws, their Monte Carlo errors, and how many of these they are off."""
    squares = (draws - mean) ** 2
    sd = np.sqrt(squares.mean())
    values = np.array([draws.mean(), sd])
    of_mean, of_square = (float(az.mcse(each, method="mean")) for each in (draws, squares))
    errors = np.array([of_mean, of_square / (2 * sd)])
    return values, errors, (values - [mean, exact_sd]) / errors


def table(runs, exact):
    """Two tables: the moments with their errors, and their distance from the exact ones."""
    shown, off = {}, {}
    for name, idata in runs.items():
        shown[name], off[name] = {}, {}
        for variable, law in exact.items():
            found = moments(idata.posterior[variable].values, *law)
            for what, value, error, z in zip(("mean", "sd"), *found, strict=True):
                shown[name][f"{what} of {variable}"] = f"{value:.5f} ± {error:.5f}"
                off[name][f"{what} of {variable}"] = z
    shown["exact"] = {
        f"{what} of {variable}": f"{value:.5f}"
        for variable, law in exact.items()
        for what, value in zip(("mean", "sd"), law, strict=True)
    }
    return pd.DataFrame(shown).T, pd.DataFrame(off).T


mean_and_sd = {variable: (law.mean(), law.std()) for variable, law in exact.items()}
shown, off = table(runs, mean_and_sd)
shown

# %% [markdown]
# The same as differences from the exact values, in Monte Carlo errors:

# %%
off.round(1)

# %%
assert off.abs().max().max() < 4

# %% [markdown]
# All of them are below 4. Of 36 numbers like these, one above 3 would be nothing to worry about: it
# happens once in ten times. One above 4 happens once in five hundred times. (It did while this
# notebook was written, with other seeds: the sd of $\mu$ by MALA, which is exact, was 3.2 ± 0.8 %
# too small. That of 20,000 more draws of the same chains was 0.1 ± 0.3 % too small: chance, then.
# This is how to find out.)
#
# The histograms of the draws, over the exact densities (black):


# %%
def plot_marginals(variable, label):
    """Histograms of all samplers over the exact density."""
    law = exact[variable]
    grid = np.linspace(*law.ppf([1e-4, 1 - 1e-4]), 200)
    figure, axes = plt.subplots(3, 3, figsize=(9, 5.5), sharex=True, sharey=True)
    for ax, (name, idata) in zip(axes.flat, runs.items(), strict=True):
        draws, colour = idata.posterior[variable].values.ravel(), ORANGE if name in ours else BLUE
        ax.hist(draws, bins=grid[::5], density=True, color=colour, alpha=0.6)
        ax.plot(grid, law.pdf(grid), color="black", lw=1.5)
        ax.set(title=name, yticks=[])
        ax.spines["left"].set_visible(False)
    figure.supxlabel(label)
    said = "Black: exact. Blue: gradients (or densities) of all rows. Orange: of 64 rows"
    figure.suptitle(said, fontsize=10)
    plt.show()


plot_marginals("mu", r"$\mu$")

# %%
plot_marginals("tau", r"$\tau$")

# %% [markdown]
# ## Effective draws per second
#
# Draws that depend on each other are worth less than independent ones; the effective sample size
# says how many independent draws they are worth. What counts is how many of these come in a
# second, and from how many rows. `compare` says it for the worse of the two parameters, with
# tuning in the time and compilation not, on two cores that other processes used too. (Metropolis
# and Gibbs take no gradients.)

# %%
others = {name: idata for name, idata in runs.items() if name != "Gibbs"}
speed = compare({"Gibbs": runs["Gibbs"]}, others, rows=n)
speed = speed.loc[list(runs), ["ess", "ess_per_second", "gradients_per_ess", "rows_per_ess"]]
speed.round(1)

# %%
_, ax = plt.subplots(figsize=(7, 3.2))
colours = [ORANGE if name in ours else BLUE for name in speed.index]
ax.barh(speed.index, speed["ess_per_second"], color=colours)
ax.invert_yaxis()
ax.set(xlabel="effective draws per second")
plt.show()

# %% [markdown]
# With a thousand rows no time is gained by looking at 64 of them: if the conditionals are known
# take Gibbs, and otherwise NUTS. The cost of the orange ones hardly grows with the number of
# rows, and that of the blue ones does: see `01_quickstart`.
#
# ## Could the table have said no?
#
# A test that cannot fail proves nothing. So here is SGLD with settings of our own that are wrong:
# plain gradients of 50 rows, and a step that is too long for their noise. The variance of $\mu$
# is then too large by a factor that is known. With step size $h$, posterior precision $a$ and
# variance $V$ of the gradient it is $(1 + hV/2) / (1 - ha/2)$.

# %%
h, batch = 2e-5, 50


def hasty():
    return SGLD(step_size=h, batch_size=batch, steps_per_draw=50)


wrong = {"SGLD, too long a step": sample(hasty, model, tune=200)}
off_wrong = table(wrong, mean_and_sd)[1]
off_wrong.round(1)

# %%
typical = exact["tau"].mean()
a = (n + 1) * typical
V = n**2 / batch * x.var() * typical**2
predicted = np.sqrt((1 + h * V / 2) / (1 - h * a / 2))
draws = wrong["SGLD, too long a step"].posterior["mu"].values
values, errors, _ = moments(draws, *mean_and_sd["mu"])
ratio, error = values[1] / exact["mu"].std(), errors[1] / exact["mu"].std()
print(f"sd of mu: {ratio:.3f} ± {error:.3f} times the exact one; predicted {predicted:.3f}")

# %%
assert off_wrong["sd of mu"].item() > 10
assert abs(ratio - predicted) < 4 * error + 0.01

# %% [markdown]
# The table would have said no, loudly. And nobody needs the exact posterior for this: the lines
# above are the chains' own warnings, which come from the gradients that they see anyway.
# `04_tuning_and_trust` is about them.
#
# ## Nine modes
#
# Nine normal distributions of sd 1 on a grid, with equal weights. There are no rows here and no
# gradient noise; the question is whether a sampler gets from one mode to the next. All chains
# start in the middle. The spacing is a `pm.Data`, so that it can be changed without compiling
# anew.

# %%
with pm.Model() as grid:
    spacing = pm.Data("spacing", 5.0)
    third, places = np.ones(3) / 3, spacing * np.array([-1.0, 0.0, 1.0])
    u = pm.NormalMixture("u", w=third, mu=places, sigma=1.0, initval=0.0)
    v = pm.NormalMixture("v", w=third, mu=places, sigma=1.0, initval=0.0)


# %% [markdown]
# `Gibbs` knows the conditional distributions again: the two coordinates are independent, and each
# is a mixture of three normals, so that it draws its mode anew every time. The step sizes of our
# own step methods are given here, because tuning would learn the scale of one mode. All of these
# are exact on a normal distribution, whatever the step size.


# %%
def draw_mode(point, rng):
    distance = grid["spacing"].get_value()
    return rng.choice([-distance, 0.0, distance]) + rng.normal()


momentum = {"step_size": 0.5, "steps_per_draw": 20}
on_grid = {
    "Metropolis": lambda: pm.Metropolis([u, v], blocked=True),
    "Gibbs": lambda: [Gibbs(u, draw_mode), Gibbs(v, draw_mode)],
    "MALA": lambda: MALA(step_size=0.5, steps_per_draw=20),
    "HMC": pm.HamiltonianMC,
    "NUTS": pm.NUTS,
    "SGLD": lambda: SGLD(step_size=0.3, noise="averaged", steps_per_draw=20),
    "SGHMC": lambda: SGHMC(friction=0.3, **momentum),
    "SGNHT": lambda: SGNHT(diffusion=0.3, **momentum),
    "Santa": lambda: Santa(diffusion=0.3, **momentum),
}


# %%
def positions(idata):
    """The draws of u and v that are from the posterior, each (chains, draws)."""
    stats, kept = idata.sample_stats, slice(None)
    if "sampling" in stats:  # cyclical step sizes, below
        kept = stats["sampling"].values[0].astype(bool)
    return [idata.posterior[name].values[:, kept] for name in ("u", "v")]


def visits(idata):
    """For each draw the number of its mode, 0 to 8, (chains, draws)."""
    distance = float(idata.constant_data["spacing"])
    column, row = (np.clip(np.round(q / distance), -1, 1).astype(int) for q in positions(idata))
    return 3 * (row + 1) + column + 1


def overview(runs):
    """Modes visited by each chain, jumps between modes, R-hat and effective sample size."""
    rows = {}
    for name, idata in runs.items():
        modes = visits(idata)
        per_draw = {"Metropolis": 1, "Gibbs": 2}.get(name)
        cost = modes.size * (per_draw or idata.sample_stats["n_steps"].values.mean())
        jumps = np.count_nonzero(np.diff(modes, axis=1))
        rows[name] = {
            "modes of each chain": [len(set(chain)) for chain in modes.tolist()],
            "modes of all": len(np.unique(modes)),
            "jumps": jumps,
            "jumps per 1000 evaluations": round(1000 * jumps / cost, 2),
            "R-hat": round(max(float(az.rhat(q)) for q in positions(idata)), 2),
            "ESS": round(min(float(az.ess(q)) for q in positions(idata))),
        }
    return pd.DataFrame(rows).T


near = {}
for k, (name, step) in enumerate(on_grid.items()):
    near[name] = sample(step, grid, draws=1500, tune=500, random_seed=RANDOM_SEED + k)
found = overview(near)
found

# %%
exact_sd = np.sqrt(1 + 5.0**2 * 2 / 3)
shown_near, off_near = table(near, {"u": (0.0, exact_sd), "v": (0.0, exact_sd)})
shown_near

# %%
assert (found["modes of all"] == 9).all()
assert off_near.abs().max().max() < 4
off_near.round(1)

# %% [markdown]
# At a distance of 5 sds all nine samplers have been everywhere, and their means and sds are within
# 4 Monte Carlo errors of the exact ones. But look at these errors: effective sample sizes are
# small, except for Gibbs, which does not travel: it draws a mode anew every time. (Evaluations are
# those of the density, its gradient, or a conditional. Metropolis does well in two dimensions,
# where a proposal of 5 sds is accepted now and then; in twenty it would not be.) The first 300
# draws of one chain of each, in which HMC and NUTS have not reached all modes yet:


# %%
def plot_paths(runs, columns, draws=300):
    """The first draws of the first chain of each sampler, joined by lines, over the modes."""
    rows = -(-len(runs) // columns)
    size = (3 * columns, 3.1 * rows)
    figure, axes = plt.subplots(rows, columns, figsize=size, sharex=True, sharey=True)
    for ax, (name, idata) in zip(axes.flat, runs.items(), strict=True):
        distance = float(idata.constant_data["spacing"])
        for where in np.ndindex(3, 3):
            middle = distance * (np.array(where) - 1)
            ax.add_patch(plt.Circle(middle, 2, fill=False, color="black", lw=0.8))
        path = [q[0, :draws] for q in positions(idata)]
        ax.plot(*path, color=GREY, lw=0.5, zorder=0)
        ax.plot(*path, ".", color=BLUE, ms=3, zorder=1)
        limits, ticks = (-distance - 4, distance + 4), [-distance, 0, distance]
        ax.set(title=name, aspect="equal", xlim=limits, ylim=limits, xticks=ticks, yticks=ticks)
    said = f"Dots: {draws} draws of one chain, in order. Circles: 2 sds around each mode"
    figure.suptitle(said, fontsize=10)
    plt.show()


plot_paths(near, columns=3)

# %% [markdown]
# ## Modes that are far apart
#
# Now at a distance of 12 sds, where the density between two modes is thirty million times lower
# than in them. To the list comes SGLD with step sizes that rise and fall (`CyclicalCosine`): each
# cycle begins without noise and with steps that are far too long, to leave the mode, and ends
# with short ones. (A warning says that they are too long; here that is what they are for.) Only
# the draws from the second part of a cycle count; the sample stat `sampling` marks them.

# %%
pm.set_data({"spacing": 12.0}, model=grid)

warnings.filterwarnings("ignore", "step_size=3 is not stable")  # on purpose, see above
cyclical = CyclicalCosine(initial=3.0, cycle=500, exploration=0.2)
on_grid["cyclical SGLD"] = lambda: SGLD(step_size=cyclical, steps_per_draw=20)
names = ["Metropolis", "Gibbs", "NUTS", "SGLD", "SGNHT", "cyclical SGLD"]
draws = dict.fromkeys(names, 1000) | {"cyclical SGLD": 4000}
far = {name: sample(on_grid[name], grid, draws=draws[name], tune=500) for name in names}
found_far = overview(far)
found_far

# %%
plot_paths(far, columns=3)

# %% [markdown]
# NUTS, SGLD and SGNHT never leave the mode that they come to while tuning. For SGLD and SGNHT
# this is the middle one in all chains: R-hat is 1.00, the effective sample size is in the
# thousands, and the sd of the draws is 1, where it should be 9.85. **No diagnostic that looks at
# draws or at gradients sees a mode that no chain has visited.** What helps is to start chains far
# apart: they then stay in different modes, and R-hat shows it.

# %%
exact_sd = np.sqrt(1 + 12.0**2 * 2 / 3)
sds = {name: positions(idata)[0].std() for name, idata in far.items()}
pd.Series(sds | {"exact": exact_sd}, name="sd of u").round(2).to_frame()

# %%
for name in ("NUTS", "SGLD", "SGNHT"):
    assert found_far.loc[name, "modes of each chain"] == [1, 1, 1, 1]
for name in ("SGLD", "SGNHT"):
    assert found_far.loc[name, "modes of all"] == 1 and found_far.loc[name, "R-hat"] < 1.02
assert found_far.loc["Gibbs", "modes of all"] == 9
assert found_far.loc["cyclical SGLD", "modes of all"] == 9

# %%
corners = [{"u": s * 12.0, "v": t * 12.0} for s in (-1, 1) for t in (-1, 1)]
dispersed = {
    name: sample(on_grid[name], grid, draws=500, tune=500, initvals=corners)
    for name in ("NUTS", "SGNHT")
}
overview(dispersed)

# %%
assert (overview(dispersed)["R-hat"] > 1.5).all()

# %% [markdown]
# Cyclical step sizes find all nine modes, as Gibbs does, but not in the right proportions: how
# often a mode is found depends on how the long steps fall, and nothing corrects it. They find the
# corners too seldom, from which most steps lead nowhere. Each mode has a ninth of the mass, 0.111,
# and the four corners together four ninths, 0.444. (The Monte Carlo errors are ArviZ's.)

# %%
shares = {}
for name in ("Gibbs", "cyclical SGLD"):
    modes = visits(far[name])
    events = {str(k): modes == k for k in range(9)} | {"corners": np.isin(modes, [0, 2, 6, 8])}
    indicators = [event.astype(float) for event in events.values()]
    shares[name] = [i.mean() for i in indicators]
    shares[f"± ({name})"] = [float(az.mcse(i, method="mean")) for i in indicators]
shares = pd.DataFrame(shares, index=pd.Index(events, name="mode"))
shares["exact"] = [1 / 9] * 9 + [4 / 9]
shares.round(3)

# %%
off_gibbs, off_cyclical = (
    (shares[name] - shares["exact"]) / shares[f"± ({name})"] for name in ("Gibbs", "cyclical SGLD")
)
assert (abs(off_gibbs) < 4).all() and off_cyclical["corners"] < -4

# %%
packages = ("pymc_sgmcmc", "pymc", "pytensor", "arviz", "numpy", "scipy", "matplotlib")
print("Python", platform.python_version(), *(f"\n{name} {version(name)}" for name in packages))
