"""Runs that have not mixed, and those on two modes."""

import numpy as np

from pymc_sgmcmc import SGHMC, SGLD, SGNHT, Santa
from tests.benchmarks import trust_models as models
from tests.benchmarks.trust_cases import Case, standard


def far(distance, same):
    """All chains at one point, or each in a direction of its own."""

    def starts(rng, chains):
        directions = rng.standard_normal((1 if same else chains, 5)) * np.ones((chains, 1))
        directions /= np.linalg.norm(directions, axis=1)[:, None]
        return [{"q": distance * direction} for direction in directions]

    return starts


def in_modes(rng, chains):
    """Each chain in a mode by a fair coin, within its width."""
    return [{"q": rng.choice(models.MODES) + rng.uniform(-1, 1)} for _ in range(chains)]


def not_mixed():
    few = {"draws": 300, "tune": 100}
    yield Case("funnel, SGNHT, tuned", "funnel", models.funnel, SGNHT)
    yield Case("funnel, SGHMC, tuned", "funnel", models.funnel, SGHMC)
    yield Case("funnel, SGNHT, h=0.1", "funnel", models.funnel, SGNHT, {"step_size": 0.1})
    group, problem = "eight schools centred", lambda: models.eight_schools(centred=True)
    for sampler in (SGHMC, SGNHT):  # with a step size of one's own, in the model's own variables
        yield Case(f"{group}, {sampler.__name__}", group, problem, sampler, {"step_size": 0.05})
    for sampler in (SGLD, SGHMC, SGNHT, Santa):
        name, diagonal = f"{sampler.__name__}, tuned, diagonal metric", {"metric": "diag"}
        yield Case(f"collinear, {name}", "collinear", models.collinear, sampler, diagonal)
    slow = {
        SGLD: {"step_size": 0.0005},
        SGHMC: {"step_size": 0.02, "friction": 30.0},
        SGNHT: {"step_size": 0.02, "diffusion": 30.0},
    }
    for sampler, settings in slow.items():
        for distance, same in ((50.0, False), (50.0, True), (1000.0, False)):
            where = f"{distance:.0f} sds away, {'the same way' if same else 'any way'}"
            title, starts = f"Gaussian d=5, {sampler.__name__}, {where}", far(distance, same)
            yield Case(title, "far start", standard(5), sampler, settings,
                       starts=starts, sampling=few)  # fmt: skip


def modes():
    for chains in (4, 8):
        samplers = ((SGLD, {}), (SGHMC, {}), (SGNHT, {}), (SGNHT, {"step_size": 0.2}))
        for sampler, settings in samplers:
            kind = "h=0.2" if settings else "tuned"
            yield Case(f"two modes, {chains} chains, {sampler.__name__}, {kind}",
                       f"two modes, {chains} chains", models.two_modes, sampler, settings,
                       starts=in_modes, sampling={"chains": chains})  # fmt: skip


def cases():
    return [*not_mixed(), *modes()]
