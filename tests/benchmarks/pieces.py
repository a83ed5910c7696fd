"""What each piece of compile/ is worth: an inner step and the first draw without it.

Each model is a process with an empty compilation cache, where every variant is built and draws once
(seconds) and is then called in turns with the same arguments (microseconds of an inner step). The
ratio to the C code with all pieces is taken in each turn; what is printed is the median, and the
range.

Run: python -m tests.benchmarks.pieces [--only PATTERN] [model ...]; the pattern is of variants.
"""

import argparse
import json
import logging
import os
import re
import sys
import tempfile
import time
from contextlib import ExitStack
from unittest.mock import PropertyMock, patch

import numpy as np

from tests.benchmarks.fresh import answers

N, STEPS, TURNS, CALLS = 20_000, 500, 9, 3


def linear(rng, batch=1000):
    import pymc as pm

    X = rng.normal(size=(N, 20))
    beta, sigma = pm.Normal("beta", 0, 1, shape=20), pm.HalfNormal("sigma", 1)
    pm.Normal("y", X @ beta, sigma, observed=X.sum(axis=1) + rng.normal(size=N))
    return batch


def logistic(rng, batch=100):
    import pymc as pm

    X = rng.normal(size=(N, 20))
    beta = pm.Normal("beta", 0, 1, shape=20)
    y = rng.random(N) < 1 / (1 + np.exp(-X.sum(axis=1) / 4))
    pm.Bernoulli("y", logit_p=X @ beta, observed=y.astype("int8"))
    return batch


def hierarchical(rng, batch=256):
    """Group effects of intercept and slope."""
    import pymc as pm

    x, group = rng.normal(size=N), rng.integers(200, size=N)
    mean, spread = pm.Normal("mean", 0, 1, shape=2), pm.LogNormal("spread", 0, 1, shape=2)
    effects = (mean + spread * pm.Normal("effects", 0, 1, shape=(200, 2)))[group]
    fitted = effects[:, 0] + effects[:, 1] * x
    pm.Normal("y", fitted, 1, observed=x + rng.normal(size=N))
    return batch


def network(rng, batch=100):
    import pymc as pm
    import pytensor.tensor as pt

    X = rng.normal(size=(N, 20))
    W, b = pm.Normal("W", 0, 1, shape=(20, 16)), pm.Normal("b", 0, 1, shape=16)
    V, c = pm.Normal("V", 0, 1, shape=(16, 3)), pm.Normal("c", 0, 1, shape=3)
    pm.Categorical("y", logit_p=pt.tanh(X @ W + b) @ V + c, observed=rng.integers(3, size=N))
    return batch


MODELS = {model.__name__: model for model in (linear, logistic, hierarchical, network)}


def variants():
    """By name: the backend, and what is patched while the graph is compiled."""
    from pymc_sgmcmc.chain import draw_sums
    from pymc_sgmcmc.compile import backend
    from pymc_sgmcmc.posterior import batch_sources
    from pymc_sgmcmc.rows import groups

    def without(name):
        return [patch.object(backend, "FASTER_C", [n for n in backend.FASTER_C if n != name])]

    def by_index(x, rows):
        return x[rows]

    Backend = backend.Backend
    indexed = [patch.object(m, "take_rows", by_index) for m in (draw_sums, batch_sources, groups)]
    yield "C", "c", []
    yield "C without scatter_add", "c", without(backend.ADD_AT)
    yield "C without elementwise_loops", "c", without(backend.CONTIGUOUS)
    yield "C without sum_of_squares", "c", without(backend.SQUARE_SUMS)
    yield "C without c_loop", "c", without(backend.LOOP)
    yield (
        "C without c_subgraph", "c", [patch.object(Backend, "as_one", lambda self, _, made: made)]
    )  # fmt: skip
    yield "C without take_rows", "c", indexed
    plain_linker = PropertyMock(return_value=None)
    yield "C without c_linker", "c", [patch.object(Backend, "one_function", plain_linker)]
    yield "C, plain", "c", [patch.dict(os.environ, PYMC_SGMCMC_PLAIN="1")]
    yield "Numba", "numba", []
    yield "Numba without scan scalars", "numba", [patch.object(backend, "NUMBERS", "none")]
    yield "Numba without take_rows", "numba", indexed
    yield "Numba, plain", "numba", [patch.dict(os.environ, PYMC_SGMCMC_PLAIN="1")]


def child(name, only):
    """Print a line for each variant."""
    from tests.benchmarks.contender import alone

    out = alone()
    import pymc as pm

    from pymc_sgmcmc import SGNHT
    from tests.cases import sample

    logging.getLogger("pymc").setLevel(logging.ERROR)
    warm_up()
    calls, seconds = {}, {}
    with pm.Model():
        batch = MODELS[name](np.random.default_rng(0))
        for variant, backend, patches in variants():
            if variant != "C" and not re.search(only, variant):
                continue
            with ExitStack() as stack:
                for each in patches:
                    stack.enter_context(each)
                begin = time.perf_counter()
                step = SGNHT(
                    step_size=1e-3, batch_size=batch, steps_per_draw=STEPS, backend=backend
                )
                sample(step, draws=1, tune=0, chains=1)
                seconds[variant] = time.perf_counter() - begin
                calls[variant] = recorded(step, sample)
            print(variant, f"{seconds[variant]:.1f} s", file=sys.stderr, flush=True)
    times = {variant: [] for variant in calls}
    for _ in range(TURNS):
        for variant, call in calls.items():
            times[variant].append(min(call() for _ in range(CALLS)))
    for variant, values in times.items():
        ratios = np.array(values) / times["C"]
        row = {"model": name, "variant": variant, "seconds to the first draw": seconds[variant]}
        row |= {"microseconds a step": 1e6 * float(np.median(values)), "ratio": np.median(ratios)}
        print(json.dumps(row | {"from": ratios.min(), "to": ratios.max()}), file=out, flush=True)


def warm_up():
    """Compile what all share: PyTensor's own C code, and Numba's normals."""
    import pytensor.tensor as pt

    from pymc_sgmcmc.compile.backend import Backend
    from pymc_sgmcmc.compile.normal_stream import MANY, Noise

    Noise(MANY, "float64")
    x = pt.dvector("x")
    Backend("c").function([x], [pt.exp(x)])(np.zeros(2))


def recorded(step, sample):
    """A function that repeats a call of compiled code and returns seconds an inner step."""
    kernel, seen = step.chain.parts.kernel, []
    function = kernel._function
    kernel._function = lambda *args: (seen.append(args), function(*args))[1]
    sample(step, draws=1, tune=0, chains=1)
    args = [np.array(value) for value in seen[0]]
    n_steps = next(len(value) for value in args if value.ndim == 3)  # of the normals

    def call():
        begin = time.perf_counter()
        function(*args)
        return (time.perf_counter() - begin) / n_steps

    call()
    return call


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="a regular expression for variants")
    parser.add_argument("models", nargs="*", default=list(MODELS))
    args = parser.parse_args()
    for name in args.models:
        with tempfile.TemporaryDirectory() as folder:
            flags = f"base_compiledir={folder}"
            for row in answers("pieces", "--child", name, args.only, PYTENSOR_FLAGS=flags):
                numbers = [f"{k}: {v:.3g}" for k, v in row.items() if isinstance(v, float)]
                print(row["model"], row["variant"], *numbers, sep=", ", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
    else:
        main()
