"""Healthy runs: tuned, and with step sizes that leave errors of the sds below 3 %.

Where tails are long, sds need many effective draws, and so many inner steps between 4,000 of them:
with fewer the alarm of too few draws is right.
"""

import numpy as np

from pymc_sgmcmc import SGHMC, SGLD, SGNHT, Santa
from tests.benchmarks import trust_models as models
from tests.benchmarks.trust_cases import HEALTHY, Case, control, standard, words


def correlated():
    return models.gaussian(5, correlation=0.7, scales=np.geomspace(0.3, 3.0, 5))


def wide_and_narrow():
    return models.gaussian(50, scales=np.geomspace(0.1, 10.0, 50))


PROBLEMS = {
    "Gaussian d=1": standard(1),
    "Gaussian d=5": correlated,
    "Gaussian d=50": wide_and_narrow,
    "linear regression": models.linear,
    "logistic regression": models.logistic,
    "Poisson regression": models.poisson,
    "Student-t": models.student,
    "eight schools": models.eight_schools,
    "eight schools, centred": lambda: models.eight_schools(centred=True),
}


def tuned():
    """Each sampler, with no settings but enough steps between draws."""
    steps = {"Student-t": (300, 60), "eight schools": (50, 10), "eight schools, centred": (50, 10)}
    for name, problem in PROBLEMS.items():
        most, few = steps.get(name, (20, 10))
        for sampler in (SGLD, SGHMC, SGNHT, Santa):
            settings = {"steps_per_draw": most if sampler is SGLD else few}
            yield Case(f"{name}, {sampler.__name__}, tuned", HEALTHY, problem, sampler, settings)


GIVEN = {
    ("Gaussian d=1", standard(1)): [
        (SGLD, {"step_size": 0.05, "steps_per_draw": 40}),
        (SGLD, {"step_size": 0.3, "noise": "averaged"}),
        (SGHMC, {"step_size": 0.5}),
        (SGHMC, {"step_size": 0.3, "integrator": "symmetric"}),
        (SGNHT, {"step_size": 0.3}),
    ],
    ("Gaussian d=5", standard(5)): [
        (SGLD, {"step_size": 0.05, "steps_per_draw": 40}),
        (SGHMC, {"step_size": 0.1, "integrator": "euler", "steps_per_draw": 20}),
        (SGNHT, {"step_size": 0.05, "integrator": "euler", "steps_per_draw": 40}),
        (SGNHT, {"step_size": 0.3, "integrator": "symmetric"}),
        (Santa, {"step_size": 0.3}),
        (Santa, {"step_size": 0.05, "integrator": "euler", "steps_per_draw": 40}),
    ],
    ("Gaussian d=50", standard(50)): [
        (SGLD, {"step_size": 0.04, "steps_per_draw": 50}),
        (SGHMC, {"step_size": 0.4}),
        (SGNHT, {"step_size": 0.3, "thermostat": "coordinate"}),
        (Santa, {"step_size": 0.3}),
    ],
    ("linear regression", models.linear): [
        (SGLD, control(step_size=0.04, steps_per_draw=50)),
        (SGHMC, control(step_size=0.2, noise_estimate="auto")),
        (SGNHT, control(step_size=0.1, gradient="plain", batch_size=400, diffusion=4.0,
                        steps_per_draw=60)),
    ],
    ("logistic regression", models.logistic): [
        (SGLD, control(step_size=0.04, steps_per_draw=50)),
        (SGHMC, control(step_size=0.3)),
        (SGHMC, control(step_size=0.3, batches="blocks")),
        (SGNHT, control(step_size=0.3)),
        (SGNHT, control(step_size=0.3, gradient="svrg")),
        (Santa, control(step_size=0.003, diffusion=95.0)),
    ],
    ("Poisson regression", models.poisson): [
        (SGLD, control(step_size=0.2, noise="averaged")),
        (SGHMC, control(step_size=0.2, integrator="symmetric")),
        (SGNHT, control(step_size=0.2, integrator="symmetric")),
    ],
    ("Student-t", models.student): [
        (SGLD, {"step_size": 0.1, "noise": "averaged", "steps_per_draw": 450}),
        (SGHMC, {"step_size": 0.4, "steps_per_draw": 60}),
        (SGNHT, {"step_size": 0.3, "integrator": "symmetric", "steps_per_draw": 60}),
        (Santa, {"step_size": 0.3, "steps_per_draw": 60}),
    ],
    ("eight schools", models.eight_schools): [
        (SGHMC, {"step_size": 0.2, "metric": np.array([11.0, 1.0, *np.ones(8)]),
                 "steps_per_draw": 40}),
        (SGNHT, {"step_size": 0.2, "metric": np.array([11.0, 1.0, *np.ones(8)]),
                 "steps_per_draw": 40}),
    ],
}  # fmt: skip
"""With a step size of their own, small enough for an error of the sds below 3 %."""


def given():
    for (name, problem), settings in GIVEN.items():
        for sampler, own in settings:
            title = f"{name}, {sampler.__name__}, h={words(own)}"
            yield Case(title, HEALTHY, problem, sampler, own, sampling={"tune": 300})


def cases():
    return [*tuned(), *given()]
