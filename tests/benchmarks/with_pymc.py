"""This package in the race."""

import os
import sys

from tests.benchmarks.contender import serve

if __name__ == "__main__":
    os.environ["PYTENSOR_FLAGS"] = f"floatX={sys.argv[3]}"

import logging

import pymc as pm
import pytensor.tensor as pt

import pymc_sgmcmc
from tests.benchmarks import problems
from tests.benchmarks.problems import FRICTION, PROBLEMS


def logistic(X, y):
    beta = pm.Normal("beta", 0, 1, shape=X.shape[1])
    pm.Bernoulli("y", logit_p=pm.Data("X", X) @ beta, observed=pm.Data("labels", y))


def linear(X, y):
    beta = pm.Normal("beta", 0, 1, shape=X.shape[1])
    pm.Normal("y", pm.Data("X", X) @ beta, 1, observed=pm.Data("outcomes", y))


def hierarchical(X, group, y):
    beta, mean = pm.Normal("beta", 0, 1, shape=X.shape[1]), pm.Normal("mean", 0, 1)
    spread = pm.LogNormal("spread", 0, 1)
    intercept = mean + spread * pm.Normal("group", 0, 1, shape=problems.GROUPS)
    fitted = pm.Data("X", X) @ beta + intercept[pm.Data("member", group)]
    pm.Normal("y", fitted, 1, observed=pm.Data("outcomes", y))


def factors(user, item, y):
    U = pm.Normal("U", 0, 1, shape=(problems.USERS, problems.RANK))
    V = pm.Normal("V", 0, 1, shape=(problems.ITEMS, problems.RANK))
    fitted = pt.sum(U[pm.Data("user", user)] * V[pm.Data("item", item)], axis=1)
    pm.Normal("y", fitted, 0.5, observed=pm.Data("ratings", y))


def network(X, y):
    W = pm.Normal("W", 0, 1, shape=(problems.INPUTS, problems.HIDDEN))
    b = pm.Normal("b", 0, 1, shape=problems.HIDDEN)
    V = pm.Normal("V", 0, 1, shape=(problems.HIDDEN, problems.CLASSES))
    c = pm.Normal("c", 0, 1, shape=problems.CLASSES)
    hidden = pt.maximum(pm.Data("X", X) @ W + b, 0)
    pm.Categorical("y", logit_p=hidden @ V + c, observed=pm.Data("labels", y))


MODELS = (logistic, linear, hierarchical, factors, network)


def step_method(problem, sampler, **settings):
    """One with the problem's settings, within a model's context."""
    friction = {"SGHMC": {"friction": FRICTION}, "SGNHT": {"diffusion": FRICTION}}
    h = problem.step_size**2 if sampler == "SGLD" else problem.step_size
    settings = friction.get(sampler, {}) | settings
    cls = getattr(pymc_sgmcmc, sampler)
    return cls(
        step_size=h,
        batch_size=problem.batch,
        steps_per_draw=problem.steps,
        jitter=False,
        **settings,
    )


def prepare(name, sampler, dtype, backend="c", batches="random"):
    logging.getLogger("pymc").setLevel(logging.ERROR)
    problem = PROBLEMS[name]
    build = {model.__name__: model for model in MODELS}[problem.data.__name__]
    with pm.Model() as model:
        build(**problem.data(dtype))
        step = step_method(problem, sampler, backend=backend, batches=batches)

    def run(draws):
        with model:
            pm.sample(
                draws=draws, tune=0, chains=1, cores=1, step=step, progressbar=False,
                compute_convergence_checks=False, random_seed=1,
            )  # fmt: skip

    return run


if __name__ == "__main__":
    serve(prepare, "pymc", "pytensor", "numba")
