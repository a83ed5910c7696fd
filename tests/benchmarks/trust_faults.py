"""Runs with a fault that leaves some sd wrong by more than 10 %, though they mix."""

import numpy as np

from pymc_sgmcmc import SGHMC, SGLD, SGNHT, Santa
from pymc_sgmcmc.posterior.batch_sources import BatchSource
from tests.benchmarks import trust_models as models
from tests.benchmarks.trust_cases import Case, control, standard, words

DISTANCE = 100.0
"""Of a control variate's centre that is out of place, in posterior sds."""


def peak(width):
    return lambda: models.rounded_laplace(width)


def wrong_step():
    """Step sizes below instability."""
    cases = [
        ("Gaussian d=5", standard(5), SGLD, {"step_size": 0.45}),
        ("sharp peak", peak(0.1), SGLD, {"step_size": 1.2, "noise": "averaged"}),
        ("Gaussian d=5", standard(5), SGHMC, {"step_size": 0.75, "integrator": "euler"}),
        ("Gaussian d=5", standard(5), SGHMC,
         {"step_size": 1.3, "friction": 2.0, "integrator": "symmetric"}),
        ("sharp peak", peak(0.1), SGHMC, {"step_size": 1.4, "integrator": "symmetric"}),
        ("sharp peak", peak(0.1), SGHMC, {"step_size": 1.3}),
        ("round peak", peak(0.3), SGHMC, {"step_size": 1.55}),
        ("Gaussian d=5", standard(5), SGNHT, {"step_size": 0.32, "integrator": "euler"}),
        ("Gaussian d=5", standard(5), SGNHT,
         {"step_size": 1.6, "integrator": "symmetric", "thermal_mass": 100.0}),
        ("Student-t", models.student, SGNHT, {"step_size": 1.4, "integrator": "symmetric"}),
        ("sharp peak", peak(0.1), SGNHT, {"step_size": 1.35, "integrator": "symmetric"}),
        ("sharp peak", peak(0.1), SGNHT, {"step_size": 1.2}),
        ("round peak", peak(0.3), SGNHT, {"step_size": 1.45}),
        ("Gaussian d=5", standard(5), Santa, {"step_size": 0.32, "integrator": "euler"}),
        ("Gaussian d=5", standard(5), Santa, {"step_size": 1.8, "thermal_mass": 200.0}),
        ("sharp peak", peak(0.1), Santa, {"step_size": 1.4}),
        ("logistic regression", models.logistic, SGLD, control(step_size=0.45)),
        ("logistic regression", models.logistic, SGHMC,
         control(step_size=1.4, friction=2.0, integrator="symmetric")),
    ]  # fmt: skip
    for name, problem, sampler, settings in cases:
        title = f"{name}, {sampler.__name__}, h={words(settings)}"
        yield Case(title, "step too large", problem, sampler, settings, sampling={"tune": 300})


def noisy(variance, d=5):
    return lambda: models.means(np.full(d, variance))


def noisy_in_one(variance, d=10):
    return lambda: models.means(np.where(np.arange(d) == 0, variance, 1e-3))


def noise_uncorrected():
    plain = {"batch_size": 20, "gradient": "plain"}
    cases = [
        ("means", noisy(10.0), SGLD, {"step_size": 0.05, "steps_per_draw": 40} | plain),
        ("means", noisy(3.0), SGHMC, {"step_size": 0.2} | plain),
        ("means, noise in one of ten", noisy_in_one(7.0), SGNHT,
         {"step_size": 0.1, "steps_per_draw": 20} | plain),
        ("means, noise in one of ten", noisy_in_one(6.0), SGHMC,
         {"step_size": 0.1, "steps_per_draw": 20} | plain),
        ("logistic regression", models.logistic, SGLD,
         control(step_size=0.006, gradient="plain", steps_per_draw=200)),
        ("logistic regression", models.logistic, SGHMC,
         control(step_size=0.02, gradient="plain", friction=3.0, steps_per_draw=200)),
    ]  # fmt: skip
    for name, problem, sampler, settings in cases:
        title = f"{name}, {sampler.__name__}, plain gradients"
        yield Case(title, "noise uncorrected", problem, sampler, settings, sampling={"tune": 300})


def scaled(coefficient, factor):
    """The fault of a sampler that takes `factor` times a coefficient of its update."""

    def plant(step, problem):
        algorithm = step.algorithm
        right = algorithm.coefficients

        def wrong(context):
            numbers = right(context)
            return numbers | {coefficient: factor * numbers[coefficient]}

        object.__setattr__(algorithm, "coefficients", wrong)

    return plant


def wrong_noise():
    cases = [
        ("Gaussian d=5", standard(5), SGLD, {"step_size": 0.05, "steps_per_draw": 40},
         "temperature", 1.3),
        ("Gaussian d=5", standard(5), SGLD, {"step_size": 0.05, "steps_per_draw": 40},
         "temperature", 0.75),
        ("Gaussian d=5", standard(5), SGHMC, {"step_size": 0.3}, "diffusion", 1.3),
        ("Gaussian d=5", standard(5), SGHMC, {"step_size": 0.3}, "diffusion", 0.75),
        ("Gaussian d=5", standard(5), SGHMC, {"step_size": 0.3, "integrator": "symmetric"},
         "diffusion", 1.3),
        ("Gaussian d=5", standard(5), SGNHT, {"step_size": 0.3}, "temperature", 1.3),
        ("logistic regression", models.logistic, SGLD, {"steps_per_draw": 20}, "temperature", 1.3),
        ("logistic regression", models.logistic, SGHMC, {}, "diffusion", 1.3),
    ]  # fmt: skip
    for name, problem, sampler, settings, coefficient, factor in cases:
        kind = f"h={words(settings)}" if settings.get("step_size") else "tuned"
        title = f"{name}, {sampler.__name__}, {kind}, {factor} times its {coefficient}"
        plant, sampling = scaled(coefficient, factor), {} if kind == "tuned" else {"tune": 300}
        group = "injected noise wrong"
        yield Case(title, group, problem, sampler, settings, plant, sampling=sampling)


def cold():
    cases = [
        ("Gaussian d=5", standard(5), SGLD, {"step_size": 0.05, "steps_per_draw": 40}),
        ("Gaussian d=5", standard(5), SGHMC, {"step_size": 0.3}),
        ("Gaussian d=5", standard(5), SGNHT, {"step_size": 0.3}),
        ("Gaussian d=5", standard(5), Santa, {"step_size": 0.3}),
        ("logistic regression", models.logistic, SGLD, {"steps_per_draw": 20}),
        ("logistic regression", models.logistic, SGHMC, {}),
        ("logistic regression", models.logistic, SGNHT, {}),
        ("logistic regression", models.logistic, Santa, {}),
    ]
    for name, problem, sampler, settings in cases:
        title = f"{name}, {sampler.__name__}, {'given' if settings.get('step_size') else 'tuned'}"
        own = settings | {"temperature": 0.8}
        yield Case(f"{title}, T=0.8", "cold temperature", problem, sampler, own)


def far_centre(step, problem):
    """Move the control variate's centre: its gradient there is right."""
    tuner = step.chain.parts.tuner
    direction = np.linalg.cholesky(problem.covariance)[:, 0]
    direction = direction / np.sqrt(direction @ np.linalg.solve(problem.covariance, direction))
    anchored = tuner._anchored
    tuner._anchored = lambda tuned, q: anchored(tuned, q + DISTANCE * direction)


def centre_away():
    cases = [
        ("logistic regression", models.logistic, SGLD, {"step_size": 0.01, "steps_per_draw": 150}),
        ("logistic regression", models.logistic, SGHMC, {"step_size": 0.05, "friction": 3.0,
                                                         "steps_per_draw": 100}),
    ]  # fmt: skip
    for name, problem, sampler, settings in cases:
        title, group = f"{name}, {sampler.__name__}", "centre 100 sd away"
        own, sampling = control(**settings), {"tune": 300}
        yield Case(title, group, problem, sampler, own, far_centre, sampling=sampling)


class Unshuffled(BatchSource):
    """Contiguous blocks of the data as they are, one after the other or at random."""

    start = (0,)

    def __init__(self, groups, largest, *, in_turn):
        super().__init__(groups, largest)
        self.in_turn = in_turn

    def draw(self, state, rng, n_rows, steps, size):
        if self.in_turn:
            starts = (state[0] + size * np.arange(steps)) % n_rows
        else:
            starts = rng.integers(n_rows, size=steps)
        rows = (starts[:, None] + np.arange(size)) % n_rows
        return rows, (int(starts[-1]) + size,)


def unshuffled(in_turn):
    def plant(step, problem):
        source = Unshuffled(step.target.groups, step.target.batch_sizes, in_turn=in_turn)
        object.__setattr__(step.chain.parts, "source", source)
        step.start_chain(step.rng)

    return plant


def sorted_means(variance, d=5):
    return lambda: models.means(np.full(d, variance), sort=True)


def unshuffled_blocks():
    plain = {"batch_size": 20, "gradient": "plain"}
    cases = [
        ("at random", sorted_means(0.5), SGLD, {"step_size": 0.06, "steps_per_draw": 30}, False),
        ("at random", sorted_means(0.3), SGHMC, {"step_size": 0.1, "steps_per_draw": 20}, False),
        ("in turn", sorted_means(0.05), SGLD, {"step_size": 0.05, "steps_per_draw": 37}, True),
        ("in turn", sorted_means(0.03), SGHMC, {"step_size": 0.1, "steps_per_draw": 17}, True),
    ]
    for name, problem, sampler, settings, in_turn in cases:
        title, group = f"means, {sampler.__name__}, {name}", "sorted data in unshuffled blocks"
        own, plant, sampling = settings | plain, unshuffled(in_turn), {"tune": 300}
        yield Case(title, group, problem, sampler, own, plant, sampling=sampling)


def cases():
    parts = (wrong_step, noise_uncorrected, wrong_noise, cold, centre_away, unshuffled_blocks)
    return [case for part in parts for case in part()]
