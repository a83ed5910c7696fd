"""Time of an inner step through `pm.sample`, against the same step in plain NumPy.

Logistic regression, N = 100,000 rows, p = 50, batch 256, float64, one core. A step's time is the
slope between a short and a long run of `pm.sample` with 50 inner steps a draw, so that its fixed
cost cancels. All contenders take turns, so that a noisy machine treats them alike.

Run: python -m tests.benchmarks.inner_step [--repeats 5] [--backends c numba] [--sampler SGNHT]
"""

import os

for _threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_threads] = "1"

import argparse
import logging
import time

import numpy as np
import pymc as pm

import pymc_sgmcmc

N, P, BATCH, STEPS = 100_000, 50, 256, 50
STEP_SIZE, DIFFUSION = 1e-3, 10.0
SHORT, LONG = 400, 4_000


def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, P))
    y = rng.random(N) < 1 / (1 + np.exp(-X @ rng.normal(size=P) / 4))
    return X, y.astype("int8")


def numpy_draws(X, y, draws, sampler):
    """The same inner steps in plain NumPy: rows, gather, gradient, noise, update."""
    rng = np.random.default_rng(1)
    q, p, xi, h = np.zeros(P), rng.standard_normal(P), DIFFUSION, STEP_SIZE
    for _ in range(draws * STEPS):
        batch, z = rng.integers(N, size=BATCH), rng.standard_normal(P)
        x = X[batch]
        residual = 1 / (1 + np.exp(-(x @ q))) - y[batch]
        g = q + (N / BATCH) * (x.T @ residual)
        if sampler == "SGLD":
            q = q - h * h * g + np.sqrt(2 * h * h) * z
            continue
        p = p - h * g
        q = q + h / 2 * p
        if sampler == "SGNHT":
            xi = xi + h / 2 * (p @ p / P - 1)
        decay = np.exp(-h * xi)
        p = decay * p + np.sqrt(DIFFUSION * (1 - decay**2) / xi) * z
        if sampler == "SGNHT":
            xi = xi + h / 2 * (p @ p / P - 1)
        q = q + h / 2 * p
    return q


def model_of(X, y):
    with pm.Model() as model:
        features, labels = pm.Data("X", X), pm.Data("y", y)
        beta = pm.Normal("beta", 0, 1, shape=P)
        pm.Bernoulli("label", logit_p=features @ beta, observed=labels)
    return model


def step_method(backend, sampler):
    settings = {"SGLD": {"step_size": STEP_SIZE**2}}.get(sampler, {"step_size": STEP_SIZE})
    settings |= {"SGHMC": {"friction": DIFFUSION}, "SGNHT": {"diffusion": DIFFUSION}}.get(
        sampler, {}
    )
    return getattr(pymc_sgmcmc, sampler)(
        **settings, batch_size=BATCH, steps_per_draw=STEPS, backend=backend
    )


def seconds(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--backends", nargs="+", default=["c", "numba"])
    parser.add_argument("--sampler", default="SGNHT", choices=["SGLD", "SGHMC", "SGNHT"])
    args = parser.parse_args()
    logging.getLogger("pymc").setLevel(logging.ERROR)
    X, y = data()
    contenders = {"numpy": lambda draws: numpy_draws(X, y, draws, args.sampler)}
    with model_of(X, y):
        for backend in args.backends:
            step = step_method(backend, args.sampler)

            def sample(draws, step=step):
                pm.sample(
                    draws=draws, tune=0, chains=1, cores=1, step=step, progressbar=False,
                    compute_convergence_checks=False, random_seed=1,
                )  # fmt: skip

            contenders[backend] = sample
        slopes = {name: [] for name in contenders}
        for _ in range(args.repeats):
            for name, run in contenders.items():
                span = seconds(lambda: run(LONG)) - seconds(lambda: run(SHORT))
                slopes[name].append(1e6 * span / ((LONG - SHORT) * STEPS))
    print(f"| {args.sampler} | microseconds a step | ratio to NumPy (range) |\n|---|---|---|")
    floor = np.array(slopes["numpy"])
    for name, values in slopes.items():
        ratios = np.array(values) / floor
        print(
            f"| {name} | {np.median(values):.1f} | "
            f"{np.median(ratios):.2f} ({ratios.min():.2f}-{ratios.max():.2f}) |"
        )


if __name__ == "__main__":
    main()
