"""What the benchmark of trust runs: a case is a problem, a sampler and its settings."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.benchmarks import trust_models as models


@dataclass(frozen=True)
class Case:
    """Runs that differ by their seed alone.

    Attributes
    ----------
    name : str
    group : str
        The row of the table to which its runs count: a key of `LIMITS`.
    problem : callable
        Returns a `Problem`.
    sampler : type
    settings : dict, or callable
        Of the step method; a function of the problem where they depend on it.
    plant : callable
        ``plant(step, problem)`` brings in the fault, where the settings are right.
    starts : callable or None
        ``starts(rng, chains)``: the `initvals` of `pm.sample`.
    sampling : dict
        Arguments of `pm.sample` that differ.
    """

    name: str
    group: str
    problem: Callable
    sampler: type
    settings: Any = field(default_factory=dict)
    plant: Callable | None = None
    starts: Callable | None = None
    sampling: dict[str, Any] = field(default_factory=dict)

    def step(self, problem):
        """The step method, compiled; within the model's context."""
        settings = self.settings(problem) if callable(self.settings) else self.settings
        step = self.sampler(**settings)
        if self.plant is not None:
            self.plant(step, problem)
        return step


HEALTHY = "healthy"
LIMITS = {
    HEALTHY: ("at most", 0.05),
    "step too large": ("at least", 0.90),
    "noise uncorrected": ("at least", 0.90),
    "injected noise wrong": ("at least", 0.90),
    "cold temperature": ("at least", 0.90),
    "centre 100 sd away": ("at least", 0.90),
    "sorted data in unshuffled blocks": ("at least", 0.90),
    "funnel": ("at least", 0.95),
    "eight schools centred": ("at least", 0.95),
    "collinear": ("at least", 0.95),
    "far start": ("at least", 0.95),
    "two modes, 4 chains": ("at least", 0.80),
    "two modes, 8 chains": ("at least", 0.95),
}
"""What the share of alarms must be."""

WIDE = tuple(LIMITS)[1:7]
"""Groups whose runs count where an sd is wrong by 10 % or more and ESS is at least 1,500."""


# What several cases share.


def standard(d):
    return lambda: models.gaussian(d)


def control(**settings):
    """With a control variate, in coordinates in which the posterior's sds are one."""

    def of(problem):
        own = {"gradient": "control_variate", "batch_size": 100, "metric": problem.covariance}
        return own | settings

    return of


def words(settings):
    """The settings in a name."""
    if callable(settings):
        settings = settings(models.Problem(None, None))
    kept = ("step_size", "integrator", "noise", "batches", "gradient", "thermostat")
    return ", ".join(f"{settings[name]}" for name in kept if name in settings)
