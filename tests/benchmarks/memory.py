"""Memory at N = 1e7, d = 20, float32, four chains under fork: what the package adds.

The peak of the memory of all processes together, shared pages counted once (Linux's PSS), of
`pm.sample` with SGNHT and of the same with a step that does nothing.
"""

import json
import sys
import threading
import time
from pathlib import Path

from tests.benchmarks.fresh import answers

N, D = 10**7, 20
MB = 1024


def child(what):
    """Print the peak in MB: before the model, with it, and in `pm.sample`."""
    import logging

    import numpy as np
    import pymc as pm

    from tests.benchmarks.nothing import Nothing

    logging.getLogger("pymc").setLevel(logging.ERROR)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D), dtype="float32")
    y = (rng.random(N, dtype="float32") < 0.5).astype("int8")
    answer = {"PyMC and the data": _used()}
    with pm.Model():
        features, labels = pm.Data("X", X), pm.Data("y", y)
        beta = pm.Normal("beta", 0, 1, shape=D)
        pm.Bernoulli("label", logit_p=features @ beta, observed=labels)
        answer["with pm.Data"] = _used()
        with _Peak() as peak:
            if what == "nothing":
                step = Nothing()
            else:
                from pymc_sgmcmc import SGNHT

                step = SGNHT()
            answer["with the step method"] = _used()
            pm.sample(
                draws=500, tune=1000, chains=4, cores=4, mp_ctx="fork", step=step,
                progressbar=False, compute_convergence_checks=False, random_seed=1,
            )  # fmt: skip
    print(json.dumps(answer | {"peak of pm.sample": peak.value}))


def _used(pid="self"):
    """MB of a process, shared pages in part."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / MB
    return 0.0


class _Peak:
    """The largest memory of this process and its children, looked at four times a second."""

    def __enter__(self):
        self.value, self._going = 0.0, True
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._going = False
        self._thread.join()

    def _watch(self):
        while self._going:
            self.value = max(self.value, sum(map(self._of, ["self", *self._children()])))
            time.sleep(0.25)

    @staticmethod
    def _children():
        tasks = Path("/proc/self/task")
        return [pid for task in tasks.iterdir() for pid in (task / "children").read_text().split()]

    @staticmethod
    def _of(pid):
        try:
            return _used(pid)
        except OSError:  # it has just ended
            return 0.0


def rows():
    """A row of the table for each step method."""
    for what in ("nothing", "SGNHT"):
        yield {"step": what} | answers("memory", what, PYTENSOR_FLAGS="floatX=float32")[0]


if __name__ == "__main__":
    child(*sys.argv[1:])
