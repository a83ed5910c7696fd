"""Long chains on normal posteriors, and how far their moments are from the exact ones.

The coordinates are independent, so that one chain is hundreds of experiments: of three widths, each
with gradients of three levels of noise where there are minibatches.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pymc_sgmcmc.chain.chain import Chain
from pymc_sgmcmc.chain.frame import context_of
from pymc_sgmcmc.chain.width import Width
from pymc_sgmcmc.compile.normal_stream import Noise
from pymc_sgmcmc.conformance.models import Gaussians
from pymc_sgmcmc.conformance.report import Failed, NotApplicable
from pymc_sgmcmc.conformance.subject import Subject
from pymc_sgmcmc.dynamics.algorithm import Algorithm
from pymc_sgmcmc.dynamics.schedules import Constant
from pymc_sgmcmc.dynamics.setting import Context

__all__ = ["SHORTER", "WIDTHS", "Estimate", "Experiment", "Run", "estimate"]

PRECISIONS, SHARES = np.array([1.0, 0.5, 0.25]), np.array([0.15, 0.3, 0.45])
"""Precisions of the posterior, and what gradients add to the noise that is injected, relatively."""
EACH = 40
"""Coordinates of each precision and share."""
SHORTER = (1, 2, 4)
"""The step size is divided by these, with as many times the inner steps in a draw."""
CHAINS, DRAWS, TUNE = 6, 500, 125

WIDTHS = np.repeat(np.arange(3), 3 * EACH)
LEVELS = np.tile(np.repeat(np.arange(3), EACH), 3)
"""The number of the precision, and of the share, of each coordinate."""


@dataclass(frozen=True)
class Estimate:
    """A number with its Monte Carlo error."""

    value: float
    error: float

    def off(self, expected: float, room: float = 0.0) -> bool:
        """Return whether it is 4 errors, and `room`, away from what is expected."""
        return not abs(self.value - expected) <= 4 * self.error + room

    def __str__(self) -> str:
        return f"{self.value:.3f} ± {self.error:.3f}"


def estimate(values: np.ndarray) -> Estimate:
    """Return the mean of `values`, (chains,) or (chains, coordinates).

    Its error is the larger one of the spread over chains, which sees that coordinates depend on
    each other, and the spread over coordinates, which sees that draws do.
    """
    of_chains = values.reshape(len(values), -1).mean(axis=1)
    errors = [of_chains.std(ddof=1) / np.sqrt(len(of_chains))]
    if values.ndim > 1:
        errors.append(values.mean(axis=0).std(ddof=1) / np.sqrt(values.shape[1]))
    return Estimate(float(of_chains.mean()), float(max(errors)))


@dataclass(frozen=True, eq=False)
class Run:
    """Chains with one step size.

    Attributes
    ----------
    step_size : float
    mean : array, shape (chains, d)
        Mean of each coordinate less that of the posterior, in its sds.
    variance : array, shape (chains, d)
        About the exact mean, relative to that of the posterior.
    thermostat : array, shape (chains,)
        Mean friction of thermostats; NaN without.
    implied, direct : array, shape (chains, d)
        E[q g] by `virial`, NaN if it is not known, and as it was.
    context : Context
        The last chain at its end.
    """

    step_size: float
    mean: np.ndarray
    variance: np.ndarray
    thermostat: np.ndarray
    implied: np.ndarray
    direct: np.ndarray
    context: Context


class Experiment:
    """A sampler on normal posteriors that are known exactly.

    Parameters
    ----------
    subject : Subject
    """

    def __init__(self, subject: Subject):
        self._subject, self._h = subject, float(subject.settings["step_size"])

    @cached_property
    def gaussians(self) -> Gaussians:
        """The posterior, with gradient noise that matters at the shortest step size."""
        injected = self._subject.bare.injected_noise()
        injected = injected if np.isfinite(injected) else self._subject.bare.temperature
        h = self._h / SHORTER[-1]
        return Gaussians(PRECISIONS[WIDTHS], 2 * injected / h * SHARES[LEVELS])

    @cached_property
    def _chain(self) -> Chain:
        subject = self._subject
        if subject.has_own_model:
            raise NotApplicable("It is known for the normal posteriors of the check's own model.")
        batch = {"batch_size": Gaussians.BATCH} if subject.takes("batch_size") else {}
        return subject.step(self.gaussians.model(), **batch).chain

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm in the setting of these posteriors."""
        return self._chain.parts.algorithm

    @cached_property
    def exact(self) -> list[Run]:
        """Runs with gradients on all rows, at the step size and shorter ones."""
        return [self._run(shorter, all_rows=True) for shorter in SHORTER]

    @cached_property
    def noisy(self) -> Run:
        """That of the shortest step size, with minibatches."""
        if not self._chain.parts.target.groups:
            raise NotApplicable("It takes no minibatches.")
        return self._run(SHORTER[-1], all_rows=False)

    def _run(self, shorter: int, *, all_rows: bool) -> Run:
        parts, truth, h = self._chain.parts, self.gaussians, self._h / shorter
        algorithm, size = parts.algorithm, parts.target.size
        steps = parts.steps * shorter
        chain = Chain(
            replace(
                parts,
                algorithm=algorithm.in_setting(replace(algorithm.setting, noise_estimate=0.0)),
                schedule=Constant(h),
                steps=steps,
                every=steps,
                normals=Noise(steps * parts.kernel.n_noise * size, parts.kernel.dtype),
            )
        )
        sd = np.sqrt(algorithm.temperature / truth.precision)
        found = [self._one(chain, sd, seed, all_rows=all_rows) for seed in range(CHAINS)]
        mean, square, thermostat, implied, direct = map(np.array, zip(*found, strict=True))
        carried, frame = chain.parts.carried(chain.state), chain.frame
        context = context_of(
            parts.source, chain.state, frame.lengths, h, carried, frame.coefficients
        )
        return Run(h, mean, square, thermostat, implied, direct, context)

    def _one(self, chain: Chain, sd: np.ndarray, seed: int, *, all_rows: bool) -> tuple:
        rng, truth = np.random.default_rng(seed), self.gaussians
        chain.restart()
        if all_rows:
            lengths = tuple(int(n) for n in chain.frame.lengths)
            chain.state.tuned = replace(chain.state.tuned, batch_sizes=lengths)
        q = truth.mean + sd * rng.standard_normal(len(sd))
        for _ in range(TUNE):
            q, _ = chain.draw(q, rng)
        chain.stop_tuning()
        first, second, thermostat = np.zeros(len(sd)), np.zeros(len(sd)), 0.0
        for _ in range(DRAWS):
            q, stats = chain.draw(q, rng)
            if stats["diverging"]:
                raise Failed(
                    f"The chain diverges at step_size={stats['step_size']:.3g} where no sd is "
                    "below 1: give a smaller step_size."
                )
            away = (q - truth.mean) / sd
            first, second = first + away, second + away**2
            thermostat += stats["thermostat"]
        width, heat = Width(chain.state.running_sums), chain.parts.algorithm.temperature
        implied, direct = (width.ratio(kind) / heat for kind in ("implied", "direct"))
        return first / DRAWS, second / DRAWS, thermostat / DRAWS, implied, direct
