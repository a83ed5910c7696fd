"""Every update, step by step, against an independent version in NumPy.

One of each kind is compiled. The others are interpreted: their subject is arithmetic, and that C
computes what PyTensor's interpreter does is asked of each sampler by
`tests/samplers/test_conformance.py`.
"""

import numpy as np
import pytest

import pymc_sgmcmc
from pymc_sgmcmc import PSGHMC, PSGLD, SGD, SGFS, SGHMC, SGLD, SGNHT, PowerAnnealing, Santa
from tests.helpers import (
    INTERPRETED,
    N_ROWS,
    PLAIN,
    PRIOR_SD,
    UPDATES,
    check_steps,
    coefficients_of,
    numbers,
    planned,
    poisson_step,
    subject,
)
from tests.tiers import statistics_but

D = len(PRIOR_SD)
FRICTION = np.array([0.3, 1.0, 2.5, 8.0])
ESTIMATE = np.array([0.0, 0.2, 1.1, 3.0])
INTEGRATORS = ["BAOAB", "euler", "symmetric"]
COMPILED = ["BAOAB"]
WORDS = {"SGHMC": ["ABOBA", "OBABO", "UBU"], "SGNHT": ["ABDODBA", "ODBABDO", "DUBUD"]}


@pytest.mark.compiled
def test_sgld():
    chain = subject(poisson_step(SGLD, temperature=1.7))
    check_steps(chain, UPDATES["SGLD", None], numbers(T=1.7), h=0.003)


@pytest.mark.compiled
@pytest.mark.parametrize("integrator", statistics_but(COMPILED, INTEGRATORS + WORDS["SGHMC"]))
def test_sghmc_with_vectors(integrator):
    step = poisson_step(
        SGHMC,
        friction=FRICTION,
        noise_estimate=ESTIMATE,
        temperature=1.7,
        integrator=integrator,
        **({} if integrator in COMPILED else PLAIN),
    )
    c = numbers(C=FRICTION, B=ESTIMATE, T=1.7)
    check_steps(subject(step), UPDATES["SGHMC", integrator], c)


@pytest.mark.compiled
@pytest.mark.parametrize("integrator", statistics_but(COMPILED, INTEGRATORS + WORDS["SGNHT"]))
@pytest.mark.parametrize("thermostat", statistics_but(["coordinate"], ["scalar", "coordinate"]))
def test_sgnht_with_vectors(thermostat, integrator):
    diffusion = 4.3 if thermostat == "scalar" else FRICTION
    step = poisson_step(
        SGNHT,
        diffusion=diffusion,
        thermostat=thermostat,
        thermal_mass=3.7,
        temperature=0.6,
        integrator=integrator,
        **({} if integrator in COMPILED else PLAIN),
    )
    c = numbers(A=diffusion, T=0.6, Q=3.7)
    chain, update = subject(step), UPDATES["SGNHT", integrator]
    np.testing.assert_array_equal(chain.state["xi"], diffusion)
    check_steps(chain, update, c)
    for xi in _frictions(thermostat):
        check_steps(chain, update, c, xi=xi)


@pytest.mark.statistics
def test_steps_that_are_built_one_after_the_other_are_not_mixed_up():
    """Compiled modules are used again where graphs are alike."""
    settings = {"diffusion": FRICTION, "thermostat": "coordinate", "thermal_mass": 3.7}
    c = numbers(A=FRICTION, T=0.6, Q=3.7)
    for integrator in ("DUBUD", "ODBABDO", "BAOAB"):
        step = poisson_step(SGNHT, temperature=0.6, integrator=integrator, **settings)
        check_steps(subject(step), UPDATES["SGNHT", integrator], c)


@pytest.mark.compiled
@pytest.mark.parametrize("integrator", statistics_but(["symmetric"], INTEGRATORS[1:]))
@pytest.mark.parametrize(
    "diffusion", ["metric", pytest.param(FRICTION, marks=pytest.mark.statistics, id="vector")]
)
@pytest.mark.parametrize("mass", statistics_but(["auto"], ["auto", 3.7]))
def test_santa(integrator, diffusion, mass):
    """While the metric moves, at changing temperatures, and in refinement."""
    settings = {"diffusion": diffusion, "thermal_mass": mass, "damping": 0.02}
    if (integrator, mass) != ("symmetric", "auto"):
        settings |= PLAIN
    chain = subject(poisson_step(Santa, integrator=integrator, **settings))
    c = numbers(A=1.0 if diffusion is not FRICTION else FRICTION, Q=mass, N=N_ROWS, damping=0.02,
                metric=diffusion is not FRICTION, v=np.full(D, 0.98**2))  # fmt: skip
    np.testing.assert_allclose(chain.state["v"], c.v)
    decay = np.array([0.0, 0.5, 0.9, 1.0, 0.3, 0.99, 0.8])
    temperature = np.array([2.0, 0.3, 0.3, 0.1, 0.1, 0.0, 0.0])
    for xi in (c.A * np.ones(D), np.array([-0.5, 40.0, 0.0, -6.0])):
        plan = {"decay": decay, "temperature": temperature}
        check_steps(chain, UPDATES["Santa", integrator], c, xi=xi, plan=plan)
        # The metric may shrink by far more than the bound on its share of the kick.
        c.v = c.v * np.array([1e-8, 1.0, 1e6, 1e-2])


@pytest.mark.statistics
def test_sgfs():
    step = poisson_step(SGFS, metric=np.ones(D), noise_estimate=0.2, temperature=1.7, **PLAIN)
    chain = subject(step, update=step.algorithm.update, backend=INTERPRETED)
    check_steps(chain, UPDATES["SGFS", None], numbers(T=1.7, B=0.2), h=0.003)


@pytest.mark.statistics
def test_sgd():
    step = poisson_step(SGD, step_size=0.001, metric=np.ones(D), temperature=1.7, **PLAIN)
    chain = subject(step, update=step.algorithm.update, backend=INTERPRETED)
    check_steps(chain, UPDATES["SGD", None], numbers(), h=0.003)


MOVING = {"decay": np.array([0.0, 0.5, 0.9, 1.0, 0.3, 0.99, 0.8])}


@pytest.mark.statistics
def test_psgld():
    """While the metric moves."""
    chain = subject(poisson_step(PSGLD, damping=0.02, temperature=1.7, **PLAIN))
    c = numbers(T=1.7, N=N_ROWS, damping=0.02, v=np.full(D, 0.98**2))
    np.testing.assert_allclose(chain.state["v"], c.v)
    check_steps(chain, UPDATES["PSGLD", None], c, plan=MOVING, h=0.003)


@pytest.mark.statistics
@pytest.mark.parametrize("estimate", ["metric", "none"])
def test_psghmc(estimate):
    settings = {"friction": FRICTION, "damping": 0.02, "temperature": 1.7} | PLAIN
    chain = subject(poisson_step(PSGHMC, noise_estimate=estimate, **settings))
    metric = estimate == "metric"
    c = numbers(C=FRICTION, T=1.7, N=N_ROWS, damping=0.02, metric=metric, v=np.full(D, 0.98**2))
    check_steps(chain, UPDATES["PSGHMC", "BAOAB"], c, plan=MOVING)


@pytest.mark.statistics
def test_no_noise_is_subtracted_that_is_not_that_of_independent_batches():
    assert coefficients_of(poisson_step(PSGHMC, **PLAIN))["share"] == N_ROWS**2
    for settings in ({"batches": "epochs"}, {"gradient": "control_variate"}):
        assert coefficients_of(poisson_step(PSGHMC, **settings, **PLAIN))["share"] == 0
    with pytest.raises(ValueError, match="'metric' is for batches drawn independently"):
        poisson_step(PSGHMC, batches="epochs", noise_estimate="metric")
    with pytest.raises(
        ValueError, match=r"too long for noise_estimate=0.9: with h / 2 they exceed"
    ):
        poisson_step(SGFS, metric=np.ones(D), noise_estimate=0.9, temperature=0.9001)


@pytest.mark.statistics
@pytest.mark.parametrize("sampler", [PSGLD, PSGHMC])
def test_what_rmsprop_plans(sampler):
    """It adapts while tuning, at first by plain means, and rests afterwards."""
    step, steps = (
        poisson_step(sampler, **PLAIN, decay=0.8),
        np.arange(20),
    )
    decay = np.minimum(0.8, (steps + 1) / (steps + 2))
    np.testing.assert_allclose(planned(step, steps)["decay"], decay)
    step.stop_tuning()
    np.testing.assert_array_equal(planned(step, steps)["decay"], 1.0)


@pytest.mark.statistics
def test_what_santa_plans():
    """Pure functions of the count: decay while it adapts, temperature, and when it refines."""
    step = poisson_step(Santa, **PLAIN, temperature=1.5, decay=0.8)
    steps = np.arange(20)
    decay = np.minimum(0.8, (steps + 1) / (steps + 2))
    np.testing.assert_allclose(planned(step, steps)["decay"], decay)
    np.testing.assert_array_equal(planned(step, steps)["temperature"], 1.5)
    step.stop_tuning()
    np.testing.assert_array_equal(planned(step, steps)["decay"], 1.0)
    annealing = PowerAnnealing(0.1, 2.0, 0.7)
    with pytest.warns(UserWarning, match="not from the posterior"):
        step = poisson_step(Santa, **PLAIN, temperature=1.5,
                            decay=0.8, annealing=annealing, exploration=12)  # fmt: skip
    step.stop_tuning()
    plan = planned(step, steps)
    np.testing.assert_allclose(plan["decay"], decay)
    np.testing.assert_allclose(plan["temperature"][:12], 1.5 / (0.1 * (2.0 + steps[:12]) ** 0.7))
    np.testing.assert_array_equal(plan["temperature"][12:], 0.0)


def _frictions(thermostat):
    """Near zero, zero and negative, where an Ornstein-Uhlenbeck step may lose its digits."""
    if thermostat == "scalar":
        return [0.0, 1e-12, -1e-7, 2e-4, -0.8, -6.0]
    return [np.array([0.0, -1e-9, 1e-6, -1e-3]), np.array([-0.5, 40.0, 0.0, -6.0])]


@pytest.mark.statistics
@pytest.mark.parametrize(
    ("sampler", "c"),
    [
        ("SGLD", numbers()),
        ("SGHMC", numbers()),
        ("SGNHT", numbers(Q=10 / D)),
        ("PSGLD", numbers(N=N_ROWS, v=np.full(D, (1 - 1e-5) ** 2))),
        ("PSGHMC", numbers(N=N_ROWS, metric=True, v=np.full(D, (1 - 1e-5) ** 2))),
        ("Santa", numbers(Q="auto", N=N_ROWS, v=np.full(D, (1 - 1e-5) ** 2))),
    ],
)
def test_defaults(sampler, c):
    chain = subject(poisson_step(getattr(pymc_sgmcmc, sampler), step_size=0.003, **PLAIN))
    assert chain.kernel.constant
    integrator = {"SGLD": None, "PSGLD": None, "Santa": "symmetric"}.get(sampler, "BAOAB")
    check_steps(chain, UPDATES[sampler, integrator], c, h=0.003, plan=chain.plan(np.arange(7)))


@pytest.mark.statistics
@pytest.mark.parametrize(
    ("thermostat", "diffusion", "expected"),
    [("scalar", 1.0, 10 / D), ("coordinate", 1.0, 10.0), ("scalar", 0.1, 10 / D),
     ("scalar", 20.0, 10 / D / 400), ("coordinate", np.linspace(1, 3, D), 10 / 4)],
)  # fmt: skip
def test_default_thermal_mass(thermostat, diffusion, expected):
    step = poisson_step(
        SGNHT,
        thermostat=thermostat,
        diffusion=diffusion,
        **PLAIN,
    )
    assert coefficients_of(step)["mass"] == pytest.approx(expected)


def test_ornstein_uhlenbeck_step_keeps_its_digits():
    """Through zero and in both signs: the variance (1 - exp(-2 x h)) / x by its Taylor series."""
    import pytensor.tensor as pt

    from pymc_sgmcmc.compile.in_python import interpreted
    from pymc_sgmcmc.dynamics.splittings import ornstein_uhlenbeck

    magnitudes = np.geomspace(1e-14, 3e-3, 60)
    friction = np.concatenate([-magnitudes, [0.0], magnitudes])
    h, diffusion = 0.5, 1.3
    x = 2 * h * friction
    growth = 1 - x / 2 + x**2 / 6 - x**3 / 24 + x**4 / 120
    xi = pt.dvector()
    spread = interpreted([xi], [ornstein_uhlenbeck(0.0, xi, diffusion, h, 1.0)])(friction)[0]
    np.testing.assert_allclose(spread, np.sqrt(2 * h * diffusion * growth), rtol=1e-12)
