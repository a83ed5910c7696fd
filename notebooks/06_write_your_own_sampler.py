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
# # Write your own sampler
#
# A sampler that the package does not have, from the equations of a paper to one that you can
# publish with: relativistic stochastic-gradient HMC (Lu et al., 2017). You write its update, a
# PyTensor expression. Minibatches, compilation, tuning, checkpoints, seeds, parallel chains and
# the checks of the draws are then there already.
#
# **Result:** thirty lines. It is the same, draw by draw, as an independent way to write it down;
# its variances are right within 4 Monte Carlo errors where the step is short, and err as h² where
# it is long. One call left out gives a posterior that looks fine, with perfect R-hat, and sds that
# are 12 % too small: the chains say so themselves, and so does `check`.

# %%
# %matplotlib inline
import platform
from dataclasses import dataclass
from importlib.metadata import version

import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
import pytensor.tensor as pt

from pymc_sgmcmc import SGMCMC, Algorithm, Recipe, check, check_sampler, compare, report
from pymc_sgmcmc.data import wells

RANDOM_SEED = 2017
BLUE, ORANGE = "#0072B2", "#D55E00"  # of Okabe and Ito

plt.rcParams.update({"figure.constrained_layout.use": True, "figure.dpi": 90})
plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})

# %% [markdown]
# ## The algorithm
#
# In SGHMC a steep gradient makes the momentum $p$ large, and the position $q$ moves by $h p$
# however far that is. In special relativity nothing moves faster than $c$. With the kinetic energy
#
# $$K(p) = \sum_i c^2 \sqrt{1 + p_i^2 / c^2}, \qquad
# v(p) = \frac{\partial K}{\partial p} = \frac{p}{\sqrt{1 + p^2 / c^2}}$$
#
# one step is, with the gradient $g$ of $U$ (minus the log posterior, from a minibatch), the
# friction $C$ and normals $z$,
#
# $$p \leftarrow p - h\, g(q) - h\, C\, v(p) + \sqrt{2 C h}\, z, \qquad
# q \leftarrow q + h\, v(p).$$
#
# **Write the invariant law down before the code.** As $h \to 0$ it is
# $\exp(-U(q) - K(p))$: friction times velocity, not momentum, is what balances the noise. The
# marginal of $q$ is the posterior for every $c$. Gradients of variance $V$ add $h V / 2$ to the
# injected noise $C$.
#
# ## Thirty lines


# %%
@dataclass(frozen=True, kw_only=True)
class Relativistic(Algorithm):
    """Relativistic stochastic-gradient HMC: no coordinate moves faster than `speed`."""

    name = "relativistic_sghmc"
    friction: float = 1.0
    speed: float = 2.0

    def initial_state(self, rng, context):
        return {"p": np.sqrt(self.temperature) * rng.standard_normal(self.size)}

    def coefficients(self, context):
        total = self.friction * self.temperature
        diffusion = self.noise_to_inject(total, "friction x temperature", context)
        return {"friction": self.friction, "speed": self.speed, "diffusion": diffusion}

    def injected_noise(self):
        return self.friction * self.temperature

    def step_bias(self, h, curvature):
        return h**2 * curvature / 4  # seen below

    def longest_step(self, curvature):
        return 2 / np.sqrt(curvature)

    def update(self, q, p, *, grad, h, noise, friction, speed, diffusion):
        p = (
            p
            - h * grad(q)
            - h * friction * velocity(p, speed)
            + pt.sqrt(2 * diffusion * h) * noise()
        )
        return q + h * velocity(p, speed), p


def velocity(p, speed):
    return p / pt.sqrt(1 + (p / speed) ** 2)


# %% [markdown]
# An `Algorithm` is a value: its fields are its hyper-parameters, and it knows no model and no data.
# `update` returns the new values of $q$ and of what `initial_state` names. `coefficients` are
# numbers that it needs; `noise_to_inject` subtracts what gradients add, where it is measured. The
# `context` says what a chain knows by then. `injected_noise` and `step_bias` say what tuning has to
# know: how much noise is injected, and by how much a step of length h, where U has a given
# curvature, may change a variance. Without them a sampler works with a step size of your own.
# `longest_step` serves a warning. `SGMCMC` makes a step method of it.
#
# ## It runs
#
# On 3020 rows of real data, with no settings, beside NUTS:

# %%
features, switched, names = wells()
coords = {"row": range(len(switched)), "feature": names}
with pm.Model(coords=coords) as wells_model:
    X = pm.Data("X", features, dims=("row", "feature"))
    beta = pm.Normal("beta", 0, 2.5, dims="feature")
    pm.Bernoulli("switched", logit_p=X @ beta, observed=switched, dims="row")
    settings = {"chains": 4, "cores": 1, "random_seed": RANDOM_SEED, "progressbar": False}
    nuts = pm.sample(**settings)
    mine = pm.sample(step=SGMCMC(algorithm=Relativistic(), batch_size=64), **settings)

print(report(mine))

# %%
table = compare({"NUTS": nuts}, {"relativistic": mine})
print(table.T.round(3).to_string())

# %%
print(check(mine, wells_model, progressbar=False))

# %%
assert not check(mine, wells_model, progressbar=False).alarms

# %% [markdown]
# ## Is it the algorithm that you meant?
#
# The complete recipe of Ma, Chen and Fox (2015) turns an energy, a diffusion matrix and a curl
# matrix into a sampler that leaves $\exp(-H)$ invariant. Here the energy is $U(q) + K(p)$, the
# diffusion $C$ in $p$, and the curl that of all Hamiltonian dynamics. `Recipe` gets the velocity by
# automatic differentiation of $K$, so it knows nothing of the class above. Both must give the same
# draws from the same seed.


# %%
def recipe(friction, speed, **kwargs):
    return Recipe(
        D=lambda q, p: {"p": friction},
        Q=lambda q, p: {("q", "p"): -1.0},
        energy=lambda q, p: (speed**2 * pt.sqrt(1 + (p / speed) ** 2)).sum(),
        auxiliary={"p": lambda rng, d: rng.standard_normal(d)},
        **kwargs,
    )


numbers, given = {"friction": 0.7, "speed": 1.3}, {"step_size": 0.01, "batch_size": 500}
# Few draws, as what is rounded otherwise grows: tenfold in ten draws of some chains.
short = settings | {"draws": 30, "tune": 0, "compute_convergence_checks": False}
with wells_model:
    step = SGMCMC(algorithm=Relativistic(**numbers), **given)
    one = pm.sample(step=step, **short).posterior["beta"].values
    other = pm.sample(step=recipe(**numbers, **given), **short).posterior["beta"].values

print(f"largest difference of {one.size} numbers: {np.abs(one - other).max():.1e}")
assert np.abs(one - other).max() < 1e-9

# %% [markdown]
# ## Is its law right, and how does it err?
#
# On a target whose law is known. A hundred normals of different scales give the error of the
# variance at each step size $h$ in units of the scale, with a Monte Carlo error from independent
# chains.

# %%
scales = np.geomspace(0.1, 10, 100)
with pm.Model() as normals:
    pm.Normal("x", 0, scales, shape=100)


def variance(h):
    """The mean variance in units of the right one, and its standard error over 8 chains."""
    with normals:
        given = {"step_size": h, "metric": scales**2, "steps_per_draw": int(4 / h)}
        step = SGMCMC(algorithm=Relativistic(), **given)
        idata = pm.sample(step=step, draws=2500, tune=100, chains=8, **few)
    each = (idata.posterior["x"] / scales).var(("draw", "x_dim_0"))
    return float(each.mean()), float(each.std(ddof=1) / np.sqrt(8))


few = {key: settings[key] for key in ("cores", "random_seed", "progressbar")}
few["compute_convergence_checks"] = False
steps = np.array([0.05, 0.2, 0.3, 0.4])
bias, error = np.transpose([variance(h) for h in steps]) - [[1], [0]]
for h, b, e in zip(steps, bias, error, strict=True):
    print(f"h = {h:4}: variance {1 + b:.4f} ± {e:.4f}, by h²/4: {1 + h**2 / 4:.4f}")

# %%
fig, ax = plt.subplots(figsize=(6, 3.6))
fine = np.linspace(0, 0.45, 100)
ax.plot(fine, fine**2 / 4, color="0.5", label="h² / 4")
ax.errorbar(steps, bias, 2 * error, fmt="o", color=BLUE, label="measured ± 2 standard errors")
ax.set(xlabel="step size h, in sds of the target", ylabel="relative error of the variance")
ax.legend(frameon=False)
# %%
assert abs(bias[0] - steps[0] ** 2 / 4) < 4 * error[0]
slope = np.polyfit(np.log(steps[1:]), np.log(bias[1:]), 1)[0]
print(f"order of the bias: {slope:.2f}")
assert 1.7 < slope < 2.5

# %% [markdown]
# The bias is of second order, and $h^2/4$ times the curvature is near to it. That is the
# `step_bias` above: tuning chooses $h$ by it.
#
# ## Would a mistake be seen?
#
# A test that has never failed proves little. Here is the sampler with friction on the momentum,
# as in SGHMC, in place of the velocity: one call is missing.


# %%
class Mistaken(Relativistic):
    name = "mistaken"

    def update(self, q, p, *, grad, h, noise, friction, speed, diffusion):
        p = p - h * grad(q) - h * friction * p + pt.sqrt(2 * diffusion * h) * noise()
        return q + h * velocity(p, speed), p


with wells_model:
    wrong = pm.sample(step=SGMCMC(algorithm=Mistaken(), batch_size=64), **settings)

compare({"NUTS": nuts}, {"right": mine, "mistaken": wrong}).T.round(3)

# %% [markdown]
# R-hat and effective sizes are perfect: the chains agree, on a wrong posterior. Each of them has
# warned of it while it sampled, by what it knows of gradients at all its inner steps. `check` sees
# the same from all chains together, and again from exact gradients at some of the draws:

# %%
found = check(wrong, wells_model, progressbar=False)
print(found)

# %%
assert found.conclusive and len(found.alarms) >= 2

# %% [markdown]
# ## All that this package asks of its own
#
# `check_sampler` asks it in half a minute, on models of its own: of the update on bare arrays, of
# seeds, pickles, processes and schedules, and of the law of the draws as $h \to 0$.

# %%
findings = check_sampler(Relativistic(), step_size=0.5)
print(findings)

# %%
assert findings.passed

# %% [markdown]
# ## What more a sampler can say of itself
#
# - `virial`: what the mean of $q g$ is by its own balance, for a second and sharper look at the
#   width of the draws (`SGHMC` has one).
# - `stats = ("kinetic_temperature",)` for momenta with the kinetic energy $p^2 / 2$, and
#   `variance_inflation` where gradient noise acts in another way than by $h V / 2$ over
#   `injected_noise`.
# - `planned`: numbers that change with the step (Santa's temperature).
#
# The documentation of `Algorithm` lists them all, and each file in `pymc_sgmcmc/samplers/` is an
# example.

# %%
packages = ("pymc_sgmcmc", "pymc", "pytensor", "arviz", "numpy", "matplotlib")
print("Python", platform.python_version(), *(f"\n{name} {version(name)}" for name in packages))
