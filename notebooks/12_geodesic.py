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
# # Geodesic samplers: the spherical experiments of Liu, Zhu and Song
#
# Liu, Zhu and Song (2016, Stochastic gradient geodesic MCMC methods, NIPS) show two synthetic
# experiments: a density on the circle whose gradient has noise of variance 1000, and the posterior
# of a mixture of von Mises-Fisher distributions with two modes. Here are both, by `SGGMC` and
# `gSGNHT` with minibatches, and by `GMC`, their exact sibling.
#
# **Result:** on the circle the total variation between draws and density is 0.01 for both
# samplers; without the noise estimate that of SGGMC is 0.1. In the mixture's posterior both modes
# are found, and their weights are right within 0.05.
#
# What differs from the paper: it shows both as figures, without numbers, and does not give the
# data of the mixture. The circle is theirs; the mixture has data of our own, for which a grid gives
# the exact posterior.
#
# These are the results of the full size, which the environment variable `FULL_SIZE=1` asks for, in
# six minutes. Without it chains for the mixture are a fifth as long, and Monte Carlo errors larger.
# `RESULTS=folder` keeps what each sampler has drawn there, for a run that goes on where another was
# interrupted.

# %%
# %matplotlib inline
import logging
import os
import platform
from importlib.metadata import version
from pathlib import Path

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt

from pymc_sgmcmc import GMC, SGGMC, Resumable, gSGNHT, load, save
from pymc_sgmcmc.distributions import UniformSphere, VonMisesFisher

RANDOM_SEED = 2016
FULL = os.environ.get("FULL_SIZE") == "1"
RESULTS = os.environ.get("RESULTS")  # the path of a folder
LESS = 3 if os.environ.get("PYMC_SGMCMC_QUICK") == "1" else 1  # CI draws a part
DRAWS = 3000 if FULL else 600 // LESS  # of each chain, for the mixture
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "0.8"  # of Okabe and Ito

logging.getLogger("pymc").setLevel(logging.ERROR)
plt.rcParams.update({"figure.constrained_layout.use": True, "figure.dpi": 90})
plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})


def sample(name, step, draws, tune=1000 // LESS):
    """Four chains; from their folder, where there is one."""
    cores = 2 if FULL else 1  # starting processes takes longer than short chains
    settings = {"chains": 4, "cores": cores, "random_seed": RANDOM_SEED, "progressbar": FULL}
    settings |= {"draws": draws, "tune": tune, "compute_convergence_checks": False}
    if RESULTS is None:
        return pm.sample(step=step, **settings)
    folder, step = Path(RESULTS) / name, Resumable(step)
    if not folder.exists():
        save(pm.sample(step=step, **settings), step, folder)
    return load(folder)


# %% [markdown]
# ## A circle, and gradients with noise N(0, 1000 I)
#
# The density on the unit circle is
#
# $$p(x) \propto \exp(5\, \mu_1^\top x) + 2 \exp(5\, \mu_2^\top x), \qquad
# \mu_{1, 2} = (1/2, \pm\sqrt{3}/2).$$
#
# The noise comes from real minibatches: to $U$ is added a sum over 200 rows that is zero on all of
# them and, on 10 at random, has a gradient of variance 1000 in each direction. A hundred circles
# run side by side.

# %%
MU = np.array([[0.5, np.sqrt(0.75)], [0.5, -np.sqrt(0.75)]])
ROWS, BATCH, COPIES = 200, 10, 100
rows = np.random.default_rng(RANDOM_SEED).standard_normal((ROWS, COPIES, 2))
rows -= rows.mean(axis=0)
rows *= np.sqrt(1000 * BATCH) / ROWS / rows.std(axis=0)
with pm.Model() as circles:
    x = UniformSphere("x", shape=(COPIES, 2))
    pm.Potential("density", pt.sum(pt.log(pt.exp(5 * x @ MU[0]) + 2 * pt.exp(5 * x @ MU[1]))))
    pm.CustomDist(
        "noise",
        x,
        logp=lambda row, x: pt.sum(row * x, axis=(-2, -1)),
        observed=pm.Data("rows", rows),
        signature="(k,d)->(k,d)",
    )

# %% [markdown]
# With a step size h, noise of variance V adds h V / 2 to what is injected. `SGGMC` is told so;
# `gSGNHT`'s thermostat finds out.

# %%
H = 0.01
injected = H * 1000 / 2
settings = {"step_size": H, "batch_size": BATCH, "steps_per_draw": 50}
with circles:
    found = {
        name: sample(f"circle, {name}", step, draws=400 // LESS)
        for name, step in {
            "SGGMC": SGGMC(friction=10.0, noise_estimate=injected, **settings),
            "gSGNHT": gSGNHT(diffusion=5.0, **settings),
            "SGGMC, noise ignored": SGGMC(friction=10.0, **settings),
        }.items()
    }

# %%
BINS, FINE = 48, 50
fine = (np.arange(BINS * FINE) + 0.5) / (BINS * FINE) * 2 * np.pi - np.pi
on_circle = np.stack([np.cos(fine), np.sin(fine)], axis=-1)
density = np.exp(5 * on_circle @ MU[0]) + 2 * np.exp(5 * on_circle @ MU[1])
density /= density.sum() * (fine[1] - fine[0])
exact = density.reshape(BINS, FINE).mean(axis=1) * 2 * np.pi / BINS


def angles_of(idata):
    q = idata.posterior["x"].values
    return np.arctan2(q[..., 1], q[..., 0])


def total_variation(angles):
    seen = np.histogram(angles, np.linspace(-np.pi, np.pi, BINS + 1))[0]
    return np.abs(seen / seen.sum() - exact).sum() / 2


summary = {}
for name, idata in found.items():
    angles = angles_of(idata)
    # Its error, and what chance alone would make it, from the four chains.
    each = [total_variation(chain) for chain in angles]
    summary[name] = total_variation(angles), np.std(each, ddof=1) / 2
pd.DataFrame(summary, index=["total variation", "± (from four chains)"]).T.round(4)

# %%
fig, ax = plt.subplots(figsize=(7, 3.4))
ax.fill_between(np.degrees(fine), density, color=GREY, label="exact")
edges = np.linspace(-np.pi, np.pi, BINS + 1)
for (name, idata), colour in zip(found.items(), [BLUE, ORANGE, GREEN], strict=True):
    seen = np.histogram(angles_of(idata), edges, density=True)[0]
    ax.stairs(seen, np.degrees(edges), color=colour, label=name, linewidth=1.3)
ax.set(xlabel="angle (degrees)", ylabel="density", xlim=(-180, 180), ylim=(0, None))
_ = ax.legend(frameon=False)

# %%
assert summary["SGGMC"][0] < 0.03 and summary["gSGNHT"][0] < 0.03
assert summary["SGGMC, noise ignored"][0] > 0.05

# %% [markdown]
# ## Two modes of a mixture
#
# Directions in the plane are drawn around $v_1$ or around the direction half-way between $v_1$ and
# $v_2$, with equal chances and a concentration of 25. The twelve below lie around two angles: which
# of them is $v_1$, and which the middle? The posterior of the two angles has two modes, and a grid
# gives it exactly.

# %%
CONCENTRATION, PRIOR = 25.0, 0.5
rng = np.random.default_rng(4)
data = rng.vonmises(np.repeat([-0.25, 0.25], 6), CONCENTRATION)
data = np.stack([np.cos(data), np.sin(data)], axis=-1)

n = 400
grid = (np.arange(n) + 0.5) / n * 2 * np.pi - np.pi
between = grid + np.pi / n  # never opposite to another
one, two = (np.stack([np.cos(a), np.sin(a)], axis=-1) for a in (grid, between))
middle = one[:, None] + two[None]
middle /= np.linalg.norm(middle, axis=-1, keepdims=True)
log_p = np.logaddexp(CONCENTRATION * (one @ data.T)[:, None], CONCENTRATION * middle @ data.T)
log_p = log_p.sum(axis=-1) + PRIOR * (one[:, None, 0] + two[None, :, 0])
posterior = np.exp(log_p - log_p.max())
posterior /= posterior.sum()
weight = posterior[grid > 0].sum()
print(f"weight of the mode with v1 above: {weight:.3f}")

# %%
with pm.Model() as mixture:
    v1 = VonMisesFisher("v1", [1.0, 0.0], PRIOR, shape=2)
    v2 = VonMisesFisher("v2", [1.0, 0.0], PRIOR, shape=2)
    half_way = (v1 + v2) / pt.sqrt(pt.sum((v1 + v2) ** 2))
    parts = [VonMisesFisher.dist(v, CONCENTRATION, shape=2) for v in (v1, half_way)]
    pm.Mixture("directions", [0.5, 0.5], parts, observed=pm.Data("data", data))
    settings = {"step_size": 0.005, "batch_size": 6, "steps_per_draw": 400}
    found = {
        name: sample(f"mixture, {name}", step, draws=DRAWS, tune=100)
        for name, step in {
            "GMC": GMC(step_size=0.1, leapfrog_steps=20, steps_per_draw=80),
            "SGGMC": SGGMC(friction=2.0, noise_estimate=0.5, **settings),
            "gSGNHT": gSGNHT(diffusion=2.0, **settings),
        }.items()
    }

# %%
weights = {}
for name, idata in found.items():
    above = (idata.posterior["v1"][..., 1] > 0).astype(float)
    error = float(az.mcse(above.to_dataset(name="above"))["above"])
    weights[name] = [float(above.mean()), error, weight]
weights = pd.DataFrame(weights, index=["weight", "± (Monte Carlo)", "exact"]).T
weights.round(3)

# %%
fig, axes = plt.subplots(1, 3, figsize=(9, 3.3), sharex=True, sharey=True)
for ax, (name, idata) in zip(axes, found.items(), strict=True):
    first, second = (
        np.degrees(np.arctan2(v[..., 1], v[..., 0])).ravel()[::8]
        for v in (idata.posterior["v1"].values, idata.posterior["v2"].values)
    )
    ax.plot(first, second, ".", color=BLUE, markersize=1.5, alpha=0.6)
    masses = np.sort(posterior.ravel())[::-1]
    levels = [masses[np.searchsorted(masses.cumsum(), p)] for p in (0.99, 0.8, 0.5)]
    ax.contour(np.degrees(grid), np.degrees(between), posterior.T, levels, colors="k", linewidths=1)
    ax.set(title=name, xlabel="angle of v1 (degrees)", xlim=(-60, 60), ylim=(-120, 120))
axes[0].set_ylabel("angle of v2 (degrees)")
axes[0].plot([], [], "k", label="exact: 50, 80, 99 %")
fig.legend(loc="outside upper center", frameon=False, fontsize=8)

# %%
off = weights["weight"] - weights["exact"]
assert (abs(off) < 0.05 + 2 * weights["± (Monte Carlo)"]).all()
assert (abs(off) < 4 * weights["± (Monte Carlo)"]).all()

# %%
packages = ("pymc_sgmcmc", "pymc", "pytensor", "arviz", "numpy", "matplotlib")
print("Python", platform.python_version(), *(f"\n{name} {version(name)}" for name in packages))
