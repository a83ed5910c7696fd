"""Contenders side by side: in turns, so that a noisy machine treats them alike."""

import json
import subprocess
import sys
from dataclasses import dataclass, field

import numpy as np

from tests.benchmarks.fresh import ROOT, clean
from tests.benchmarks.problems import PROBLEMS


@dataclass
class Contender:
    """A program of `contender.serve`.

    Attributes
    ----------
    name : str
    module : str
        In `tests.benchmarks`.
    options : tuple of str
        Arguments after the problem, the sampler and the precision.
    command : tuple of str
        What runs Python with its framework.
    share : float
        Of the problem's draws that it takes: a slow one need not take all.
    """

    name: str
    module: str
    options: tuple[str, ...] = ()
    command: tuple[str, ...] = (sys.executable,)
    share: float = 1.0
    versions: dict[str, str] = field(default_factory=dict)

    def start(self, *arguments):
        program = [*self.command, "-m", f"tests.benchmarks.{self.module}"]
        self._process = subprocess.Popen(
            [*program, *arguments, *self.options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=clean(),
        )  # fmt: skip
        self.versions = self._answer()

    def microseconds(self, problem):
        """Those of an inner step: the difference of a long and a short run."""
        short, long = (max(n, int(self.share * m)) for n, m in zip((1, 4), problem.draws))
        span = self.run(long) - self.run(short)
        return 1e6 * span / ((long - short) * problem.steps)

    def run(self, draws):
        """Seconds for a number of draws."""
        print(draws, file=self._process.stdin, flush=True)
        return self._answer()

    def stop(self):
        self._process.stdin.close()
        self._process.wait()

    def _answer(self):
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended with {self._process.wait()}")
        return json.loads(line)


def race(contenders, problem, sampler, dtype, repeats):
    """Microseconds of an inner step, (repeats,), of each contender."""
    try:
        for contender in contenders:
            contender.start(problem, sampler, dtype)
            contender.microseconds(PROBLEMS[problem])  # what compiles, compiles now
        times = {contender.name: [] for contender in contenders}
        for _ in range(repeats):
            for contender in contenders:
                times[contender.name].append(contender.microseconds(PROBLEMS[problem]))
    finally:
        for contender in contenders:
            contender.stop()
    return {name: np.array(values) for name, values in times.items()}
