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
# # Step sizes and bias
#
# A sampler without an accept step is off by an amount that its step size decides, and smaller steps
# move more slowly. This notebook measures both sides of it: the Gaussian mixture of Welling and
# Teh (2011), where the steps of SGLD decrease; the order of the bias for Euler schemes and for
# symmetric splittings; and how bias and mean square error fall with the length of a run, as in the
# theorems and the synthetic experiment of Chen, Ding and Carin (2015).
#
# **Result:** biases grow as $h$ for Euler schemes and as $h^2$ for symmetric splittings, and as $h$
# for both once gradients are noisy. With the best step sizes for a run of $L$ steps the bias falls
# as $L^{-1/2}$ and $L^{-2/3}$, the mean square error as $L^{-2/3}$ and $L^{-4/5}$. Measured orders
# of the bias are those of the closed forms within Monte Carlo error, the other exponents within
# 0.1 of theory.

# %%
# %matplotlib inline
import logging
import os
import platform
from importlib.metadata import version
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm
from scipy import stats

from pymc_sgmcmc import SGHMC, SGLD, SGNHT, Polynomial, weighted_mean

RANDOM_SEED = 2011
FULL_SIZE = os.environ.get("FULL_SIZE") == "1"
RESULTS = os.environ.get("RESULTS")  # the path of a folder
LESS = 2 if os.environ.get("PYMC_SGMCMC_QUICK") == "1" else 1  # CI draws a part
BLUE, ORANGE, GREEN, PINK = "#0072B2", "#D55E00", "#009E73", "#CC79A7"  # of Okabe and Ito

# Steps that are too long on purpose would be told of, in warnings.
logging.getLogger("pymc").setLevel(logging.ERROR)
plt.rcParams.update({"figure.constrained_layout.use": True, "figure.dpi": 90})
plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})
QUIET = {"progressbar": FULL_SIZE, "compute_convergence_checks": False, "cores": 1}


def once(name, make):
    """The arrays that `make()` returns; from their file, where there is one."""
    if RESULTS is None:
        return make()
    file = Path(RESULTS) / f"{name}.npz"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(file.with_suffix(".part.npz"), **make())
        file.with_suffix(".part.npz").rename(file)  # whole, or not at all
    return dict(np.load(file))


# %% [markdown]
# ## A mixture with two modes
#
# $\theta_1 \sim N(0, 10)$, $\theta_2 \sim N(0, 1)$, and 100 observations of
# $\frac12 N(\theta_1, 2) + \frac12 N(\theta_1 + \theta_2, 2)$, drawn at $\theta = (0, 1)$. The
# paper's posterior has a second mode near $(1, -1)$. Most such data give one long ridge; these were
# chosen for two modes. As in the paper, batches are of one observation, and steps
# $h_t = a (b + t)^{-0.55}$ fall from 0.005 to 0.00005 (its $\epsilon_t$ is $2 h_t$). A grid gives
# the exact posterior.

# %%
rng = np.random.default_rng(8)
x = np.sqrt(2) * rng.standard_normal(100) + rng.integers(2, size=100)
with pm.Model() as mixture:
    theta = pm.Normal("theta", 0, np.sqrt([10, 1]), shape=2)
    means = [theta[0], theta[0] + theta[1]]
    parts = [pm.Normal.dist(mean, np.sqrt(2)) for mean in means]
    pm.Mixture("x", [0.5, 0.5], parts, observed=pm.Data("data", x))

first, second = np.linspace(-2, 3, 251), np.linspace(-3.5, 3.5, 281)
t1, t2 = np.meshgrid(first, second, indexing="ij")
log_p = stats.norm.logpdf(t1, 0, np.sqrt(10)) + stats.norm.logpdf(t2)
for value in x:
    log_p += np.logaddexp(
        stats.norm.logpdf(value, t1, np.sqrt(2)), stats.norm.logpdf(value, t1 + t2, np.sqrt(2))
    )
exact = np.exp(log_p - log_p.max())
exact /= exact.sum()

# %% [markdown]
# With decreasing steps a draw counts as much as the time that it stands for: `weighted_mean` does
# that. The mode above is that with $\theta_2 > 0$.


# %%
def moments(posterior):
    sign = (posterior["theta"][..., 1] > 0).astype(float)
    return posterior.assign(square=posterior["theta"] ** 2, above=sign)


def summary(mean, square, above):
    return [*mean, *np.sqrt(square - mean**2), above]


def sampled(step_size):
    """Two chains: what is known of them, and a thousand draws of each."""
    settings = {"draws": SWEEPS // 2, "tune": 0, "chains": 2, "random_seed": RANDOM_SEED}
    with mixture:
        step = SGLD(step_size=step_size, batch_size=1, steps_per_draw=100, backend="numba")
        idata = pm.sample(step=step, **settings, **QUIET)
    mean = weighted_mean(idata, moments)
    drawn = idata.posterior["theta"].values.reshape(-1, 2)[:: SWEEPS // 2000]
    row = summary(mean["theta"].values, mean["square"].values, float(mean["above"]))
    return {"row": row, "drawn": drawn}


SWEEPS = 200_000 if FULL_SIZE else 10_000 // LESS  # the paper: 10,000
steps = 100 * SWEEPS
ratio = 100 ** (1 / 0.55)  # of the last b + t to the first
b = steps / (ratio - 1)
decreasing = Polynomial(a=0.005 * b**0.55, b=b, gamma=0.55)
step_sizes = {"decreasing": decreasing, "h = 0.005": 0.005, "h = 0.0005": 0.0005}
runs = {name: once(f"mixture, {name}", lambda: sampled(h)) for name, h in step_sizes.items()}

# %%
grid_mean = np.array([(exact * t1).sum(), (exact * t2).sum()])
grid_square = np.array([(exact * t1**2).sum(), (exact * t2**2).sum()])
rows = {"exact": summary(grid_mean, grid_square, exact[:, second > 0].sum())}
rows |= {name: run["row"] for name, run in runs.items()}
columns = ["mean of theta1", "mean of theta2", "sd of theta1", "sd of theta2", "P(mode above)"]
table = pd.DataFrame(rows, index=columns).T
table.round(3)

# %%
fig, axes = plt.subplots(1, 3, figsize=(9, 3.2), sharex=True, sharey=True)
masses = np.sort(exact.ravel())[::-1]
levels = [masses[np.searchsorted(masses.cumsum(), p)] for p in (0.99, 0.8, 0.5)]
for ax, (name, run) in zip(axes, runs.items(), strict=True):
    ax.plot(*run["drawn"].T, ".", color=BLUE, markersize=1.5, alpha=0.6)
    ax.contour(first, second, exact.T, levels, colors="k", linewidths=1)
    ax.set(title=name, xlabel=r"$\theta_1$", xlim=(-1.8, 2.8), ylim=(-3.2, 3.2))
axes[0].set_ylabel(r"$\theta_2$")
axes[0].plot([], [], "k", label="exact: 50, 80, 99 %")
fig.legend(loc="outside upper center", frameon=False, fontsize=8)

# %% [markdown]
# With steps that fall, draws follow the posterior. With $h = 0.005$ the noise of a gradient of one
# observation, which grows as $h^2$ against the $2h$ that is injected, makes sds 1.2 and 1.3 times
# too large. With a tenth of it widths are right, but the chain changes mode seldom, as it does when
# decreasing steps have become short: what is left is Monte Carlo error in the weights of modes.

# %%
wide = table["sd of theta2"] / table["sd of theta2"]["exact"]
assert wide["h = 0.005"] > 1.15 and abs(wide["decreasing"] - 1) < 0.1
assert table["P(mode above)"].between(0.15, 0.85).all()

# %% [markdown]
# ## Bias against step size
#
# $N(0, 1)$, as a thousand independent coordinates; what is estimated is $E\,q^2 = 1$. The
# theory: biases of order $h$ for SGLD, which is an Euler scheme, and for the Euler scheme of SGNHT,
# of order $h^2$ for symmetric splittings. (The Euler scheme of SGHMC is symplectic: it errs in the
# first order in its kinetic energy only, and would not be told from a splitting here.)
#
# The last case has gradients from one of 20 observations of each coordinate. Noise of variance $V$
# adds $h V / 2C$ to $E\,q^2$, to first order, for a friction $C$, whatever the integrator: with
# noisy gradients no scheme with a fixed friction is of second order.

# %%
COPIES = 1000
with pm.Model() as gaussian:
    q = pm.Normal("q", 0, 1, shape=COPIES)
    pm.Deterministic("square", (q**2).mean())

NOISY_COPIES, N_ROWS = 100, 20
noise = rng.standard_normal((N_ROWS, NOISY_COPIES))
noise -= noise.mean(axis=0)
noise *= 2 / np.sqrt((noise**2).mean(axis=0))
with pm.Model() as noisy:  # the rows are worth one of variance 2: with the prior, N(0, 1)
    q = pm.Normal("q", 0, np.sqrt(2), shape=NOISY_COPIES)
    pm.Normal("y", q, np.sqrt(2 * N_ROWS), observed=pm.Data("rows", noise))
    pm.Deterministic("square", (q**2).mean())


def thermostatted(h):
    """The bias with symplectic Euler steps, and the friction that keeps E p^2 at 1."""
    xi = min(np.roots([h, h**2 / 2 - 2, 2]))
    return -h * xi / 2


def splitting(h, V=0):
    return (1 + V * h**2 / 4 / np.tanh(h / 2)) / (1 - h**2 / 4) - 1


short, long = np.array([0.05, 0.2]), np.array([0.2, 0.5])
one_row = {"integrator": "OBABO", "batch_size": 1}
cases = {  # sampler, its settings, step sizes, time that each copy is given, order, closed form
    "SGLD": (SGLD, {}, short, 8e3, 1, lambda h: h / (2 - h)),
    "SGNHT, euler": (SGNHT, {"integrator": "euler"}, short, 8e3, 1, thermostatted),
    "SGHMC, OBABO": (SGHMC, {"integrator": "OBABO"}, long, 5e4, 2, splitting),
    "SGNHT, ODBABDO": (SGNHT, {"integrator": "ODBABDO"}, long, 5e4, 2, splitting),
    "SGHMC, OBABO, noisy": (SGHMC, one_row, short, 8e4, 1, lambda h: splitting(h, V=1)),
}


# %%
def bias_of(model, cls, settings, h, total_time):
    """The bias of E q^2 and its standard error, from draws two units of time apart."""
    with model:
        step = cls(step_size=h, steps_per_draw=int(np.ceil(2 / h)), **settings)
        idata = pm.sample(
            draws=int(total_time / 2), tune=10, chains=1, step=step, random_seed=RANDOM_SEED,
            var_names=["square"], **QUIET,
        )  # fmt: skip
    square = idata.posterior["square"].values.ravel()
    blocks = np.array([block.mean() for block in np.array_split(square, 20)])
    return {"bias": [square.mean() - 1, blocks.std(ddof=1) / np.sqrt(20)]}


biases, rows = {}, {}
for name, (cls, settings, sizes, total_time, order, law) in cases.items():
    model = noisy if "noisy" in name else gaussian
    # A large bias is seen in less time than a small one.
    times = [total_time, total_time / 4]
    found = [
        once(f"{name}, h = {h}", lambda: bias_of(model, cls, settings, h, time))["bias"]
        for h, time in zip(sizes, times, strict=True)
    ]
    biases[name] = np.array(found)
    size, error = biases[name].T
    measured, exact = (
        np.log(of[1] / of[0]) / np.log(sizes[1] / sizes[0]) for of in (size, [*map(law, sizes)])
    )
    uncertain = np.hypot(*error / size) / np.log(sizes[1] / sizes[0])
    rows[name] = [*size, measured, uncertain, exact, order]
columns = ["bias, shorter h", "bias, longer h", "slope", "±", "closed form", "h → 0"]
slopes = pd.DataFrame(rows, index=columns).T
slopes.round(3)

# %% [markdown]
# "±" is the Monte Carlo error of the slope. The closed forms have slopes of 1.06 to 1.08 and 2.06
# at these step sizes, as the next powers of $h$ are not nothing: $E\,q^2$ is $1 / (1 - h / 2)$ for
# SGLD, $1 / (1 - h^2 / 4)$ for OBABO, $1 + \frac{h^2 V}{4} \coth \frac{h C}{2}$ times that
# with noise, and $1 - h \xi / 2$ for the Euler scheme of SGNHT, with the friction $\xi$ at which
# $E\,p^2 = 1$.

# %%
fig, ax = plt.subplots(figsize=(5.5, 3.4))
for (name, case), color in zip(cases.items(), ["k", BLUE, GREEN, PINK, ORANGE], strict=True):
    ax.errorbar(
        case[2], abs(biases[name][:, 0]), 2 * biases[name][:, 1], fmt="o-", color=color, label=name
    )
ax.text(0.085, 0.06, "first order", ha="right", va="bottom")
ax.text(0.36, 0.022, "second order", ha="left", va="top")
ax.set(xscale="log", yscale="log", xlabel="step size h", ylabel=r"|bias of $E\,q^2$|")
ax.set_xticks([0.05, 0.1, 0.2, 0.5], ["0.05", "0.1", "0.2", "0.5"], minor=False)
ax.minorticks_off()
ax.legend(frameon=False, fontsize=8)

# %%
assert (abs(slopes["slope"] - slopes["closed form"]) < 0.1).all()
assert (abs(slopes["slope"] - slopes["closed form"]) < 4 * slopes["±"]).all()
assert (slopes["±"] < 0.04).all()

# %% [markdown]
# ## Bias and mean square error against the number of steps
#
# The paper's experiment: a Gaussian, $\phi(\theta) = \theta^2$, and the average of $\phi$ over the
# first $L$ steps of a chain that starts off the target. Its theory, for an integrator of order $K$:
# the bias is at most of order $1 / (L h) + h^K$, the mean square error $1 / (L h) + h^{2 K}$. The
# best fixed steps are of order $L^{-1/(K+1)}$ for the bias, which then falls as $L^{-K/(K+1)}$, and
# $L^{-1/(2K+1)}$ for the error, which falls as $L^{-2K/(2K+1)}$; and steps that decrease as
# $l^{-1/(K+1)}$, or $l^{-1/(2K+1)}$, do as well. Each coordinate is one repetition of the
# experiment: their mean gives the bias, their mean square the error.


# %%
def sgld(h):
    return SGLD(step_size=h, steps_per_draw=1)


def obabo(h):
    return SGHMC(step_size=h, friction=2.0, integrator="OBABO", steps_per_draw=1)


def deviations(make, step_size, steps, at, start):
    """How far the averages of q^2 over the first steps are off, (len(at), repetitions)."""

    def found():
        with gaussian:
            idata = pm.sample(
                draws=steps, tune=0, chains=2 // LESS, step=make(step_size),
                random_seed=RANDOM_SEED, initvals={"q": np.full(COPIES, start)}, var_names=["q"],
                **QUIET,
            )  # fmt: skip
        square = idata.posterior["q"].values ** 2
        h = idata.sample_stats["step_size"].values[0].ravel()
        averages = [np.average(square[:, :n], axis=1, weights=h[:n]).ravel() for n in at]
        return {"deviations": np.array(averages) - 1}

    return once(f"{make.__name__}, {step_size}, {steps} from {start}", found)["deviations"]


def bias(deviation):
    return abs(deviation.mean(axis=-1))


def mean_square_error(deviation):
    return (deviation**2).mean(axis=-1)


LENGTHS = np.geomspace(100, 30_000 if FULL_SIZE else 10_000, 4).astype(int)
plans = {  # integrator, its K, what is measured, scales of fixed and decreasing h, start
    "SGLD (K = 1), bias": (sgld, 1, bias, (1.0, 0.5), 5.0),
    "OBABO (K = 2), bias": (obabo, 2, bias, (1.0, 0.5), 5.0),
    "SGLD (K = 1), MSE": (sgld, 1, mean_square_error, (1.0, 0.5), 1.0),
    "OBABO (K = 2), MSE": (obabo, 2, mean_square_error, (1.0, 0.5), 1.0),
}
curves, exponents = {}, {}
for name, (make, K, measure, scales, start) in plans.items():
    m = K + 1 if measure is bias else 2 * K + 1
    fixed = [
        deviations(make, scales[0] * n ** (-1 / m), n, [n], start)[0] for n in map(int, LENGTHS)
    ]
    falling = Polynomial(a=scales[1], b=1.0, gamma=1 / m)
    decreasing = deviations(make, falling, LENGTHS[-1], LENGTHS, start)
    curves[name] = [measure(np.array(fixed)), measure(decreasing)]
    fits = [-np.polyfit(np.log(LENGTHS), np.log(curve), 1)[0] for curve in curves[name]]
    exponents[name] = [*fits, (K if measure is bias else 2 * K) / m]
exponents = pd.DataFrame(exponents, index=["fixed h", "decreasing h", "theory"]).T
exponents.round(3)

# %% [markdown]
# Steps that decrease too fast stop moving before the start is forgotten; steps that hardly decrease
# keep their bias.

# %%
others = {}
for gamma in (0.1, 1 / 3, 0.7):
    falling = Polynomial(a=1.0, b=1.0, gamma=gamma)
    others[gamma] = bias(deviations(obabo, falling, LENGTHS[-1], LENGTHS, 3.0))

fig, axes = plt.subplots(1, 3, figsize=(9.5, 3.3))
for name, color in zip(plans, [ORANGE, BLUE, ORANGE, BLUE], strict=True):
    ax = axes[0] if "bias" in name else axes[1]
    for curve, style, how in zip(curves[name], ["o-", "s--"], ["fixed", "decreasing"], strict=True):
        ax.loglog(LENGTHS, curve, style, color=color, label=f"{name.split(',')[0]}, {how}")
for gamma, color, label in [(0.1, GREEN, "0.1"), (1 / 3, BLUE, "1/3"), (0.7, PINK, "0.7")]:
    axes[2].loglog(
        LENGTHS, others[gamma], "s--", color=color, label=rf"$h_l \propto 1 / l^{{{label}}}$"
    )
titles = ["|bias|", "mean square error", "|bias| of OBABO, other decays"]
for ax, title in zip(axes, titles, strict=True):
    ax.set(title=title, xlabel="steps L")
    ax.legend(frameon=False, fontsize=8)

# %%
for kind in ("fixed h", "decreasing h"):
    assert (abs(exponents[kind] - exponents["theory"]) < 0.1).all()
assert others[1 / 3][-1] < others[0.1][-1] / 3 and others[1 / 3][-1] < others[0.7][-1] / 3

# %% [markdown]
# What differs from the papers. Chen, Ding and Carin show curves without numbers, for the mean of
# 1000 observations; their gradients are stochastic, and their theorem 2 has a bias of second order
# all the same. Here orders are measured with exact gradients, as noise adds a bias of first order
# (above). Their symmetric splitting makes variances too small where the start makes them too large,
# so that the two cancel somewhere; OBABO, symmetric and of order two as well, makes them too large.
# Exponents of the bias are a little below theory: its bounds leave out terms of order $1 / L$ and,
# for decreasing steps, a factor $\log L$. Welling and Teh run 10,000 sweeps once, and show
# pictures.
#
# ## Full size
#
# ```sh
# FULL_SIZE=1 RESULTS=folder pytest --nbmake --nbmake-timeout=7200 \
#     notebooks/07_step_sizes_and_bias.ipynb
# ```
#
# has twenty times as many sweeps, and three times as many steps in the last section: ten minutes on
# one core beside other work. In the folder is a file for each run, and a notebook that was
# interrupted goes on.
#
# | | sd of $\theta_1$ | sd of $\theta_2$ | P(mode above) |
# |---|---|---|---|
# | exact | 0.749 | 1.469 | 0.518 |
# | decreasing | 0.772 | 1.503 | 0.460 |
# | h = 0.005 | 0.982 | 1.774 | 0.551 |
# | h = 0.0005 | 0.779 | 1.508 | 0.507 |
#
# | | fixed h | decreasing h | theory |
# |---|---|---|---|
# | SGLD (K = 1), bias | 0.479 | 0.479 | 0.500 |
# | OBABO (K = 2), bias | 0.637 | 0.661 | 0.667 |
# | SGLD (K = 1), MSE | 0.693 | 0.693 | 0.667 |
# | OBABO (K = 2), MSE | 0.802 | 0.805 | 0.800 |

# %%
packages = ("pymc_sgmcmc", "pymc", "pytensor", "arviz", "numpy", "matplotlib")
print("Python", platform.python_version(), *(f"\n{name} {version(name)}" for name in packages))
