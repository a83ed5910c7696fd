"""A floor of the race: the step of logistic regression in plain NumPy, or in C.

Rows and normals are drawn by NumPy, for all steps of a draw at once, as in this package. In C the
step is one loop that is compiled for the machine, on gathered rows or on contiguous blocks.
"""

import ctypes
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from tests.benchmarks.contender import serve
from tests.benchmarks.problems import FRICTION, PROBLEMS

SOURCE = r"""
#include <math.h>

/* A draw of BAOAB with a thermostat (SGNHT), or of SGLD: `first` are the first rows of blocks of
   `batch`, or all rows of a batch if `gathered`. */
void draw(double *restrict q, double *restrict p, double *xi, const double *restrict X,
          const signed char *restrict y, const long *restrict first, const double *restrict Z,
          long steps, long batch, long d, double scale, double h, double diffusion,
          int gathered, int langevin)
{
    double g[d];
    for (long t = 0; t < steps; t++, Z += d) {
        for (long k = 0; k < d; k++) g[k] = 0.0;
        for (long i = 0; i < batch; i++) {
            const long row = gathered ? first[t * batch + i] : first[t] + i;
            const double *restrict x = X + row * d;
            double eta = 0.0;
            for (long k = 0; k < d; k++) eta += x[k] * q[k];
            const double residual = 1.0 / (1.0 + exp(-eta)) - y[row];
            for (long k = 0; k < d; k++) g[k] += residual * x[k];
        }
        for (long k = 0; k < d; k++) g[k] = q[k] + scale * g[k];
        if (langevin) {
            for (long k = 0; k < d; k++) q[k] += sqrt(2 * h) * Z[k] - h * g[k];
            continue;
        }
        double energy = 0.0;
        for (long k = 0; k < d; k++) {
            p[k] -= h * g[k];
            q[k] += h / 2 * p[k];
            energy += p[k] * p[k];
        }
        *xi += h / 2 * (energy / d - 1);
        const double decay = exp(-h * *xi);
        const double noise = sqrt(diffusion * (1 - decay * decay) / *xi);
        energy = 0.0;
        for (long k = 0; k < d; k++) {
            p[k] = decay * p[k] + noise * Z[k];
            q[k] += h / 2 * p[k];
            energy += p[k] * p[k];
        }
        *xi += h / 2 * (energy / d - 1);
    }
}
"""


def in_numpy(q, p, xi, X, y, rows, Z, h, sampler):
    """A draw, in place."""
    for batch, z in zip(rows, Z, strict=True):
        x = X[batch]
        g = q + len(X) / len(batch) * (x.T @ (1 / (1 + np.exp(-(x @ q))) - y[batch]))
        if sampler == "SGLD":
            q += np.sqrt(2 * h) * z - h * g
            continue
        p -= h * g
        q += h / 2 * p
        xi += h / 2 * (np.mean(p**2) - 1)
        decay = np.exp(-h * xi)
        p *= decay
        p += np.sqrt(FRICTION * (1 - decay**2) / xi) * z
        q += h / 2 * p
        xi += h / 2 * (np.mean(p**2) - 1)


def in_c(batch, gathered):
    """The same, compiled."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "step.c"), Path(folder, "step.so")
        source.write_text(SOURCE)
        flags = ["-O3", "-march=native", "-ffast-math", "-shared", "-fPIC"]
        subprocess.run(["cc", *flags, source, "-o", library, "-lm"], check=True)
        function = ctypes.CDLL(str(library)).draw

    def draw(q, p, xi, X, y, rows, Z, h, sampler):
        arrays = (a.ctypes.data_as(ctypes.c_void_p) for a in (q, p, xi, X, y, rows, Z))
        sizes = (ctypes.c_long(n) for n in (len(Z), batch, len(q)))
        numbers = (ctypes.c_double(x) for x in (len(X) / batch, h, FRICTION))
        function(*arrays, *sizes, *numbers, gathered, sampler == "SGLD")

    return draw


def prepare(name, sampler, dtype, how="numpy", batches="random"):
    problem = PROBLEMS[name]
    data = problem.data(dtype)
    X, y = np.ascontiguousarray(data["X"]), data["y"]
    (n_rows, d), gathered = X.shape, batches == "random"
    if not gathered:  # blocks may begin at any row
        X, y = (np.concatenate([a, a[: problem.batch]]) for a in (X, y))
    draw = in_numpy if how == "numpy" else in_c(problem.batch, gathered)
    h = problem.step_size**2 if sampler == "SGLD" else problem.step_size
    shape = (problem.steps, problem.batch) if gathered else problem.steps

    def run(draws):
        rng = np.random.default_rng(1)
        q, p, xi = np.zeros(d), rng.standard_normal(d), np.array([FRICTION])
        kept = np.empty((draws, d))
        for i in range(draws):
            Z = rng.standard_normal((problem.steps, d))
            draw(q, p, xi, X, y, rng.integers(n_rows, size=shape), Z, h, sampler)
            kept[i] = q

    return run


if __name__ == "__main__":
    serve(prepare, "numpy")
