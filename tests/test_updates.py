"""Every update, step by step, against an independent version in NumPy."""

import numpy as np
import pytest

import pymc_sgmcmc
from pymc_sgmcmc import SGHMC, SGLD, SGNHT
from tests.helpers import PRIOR_SD, UPDATES, check_steps, numbers, poisson_step, subject

D = len(PRIOR_SD)
FRICTION = np.array([0.3, 1.0, 2.5, 8.0])
ESTIMATE = np.array([0.0, 0.2, 1.1, 3.0])
INTEGRATORS = ["BAOAB", "euler", "symmetric"]


def test_sgld():
    chain = subject(poisson_step(SGLD, temperature=1.7))
    check_steps(chain, UPDATES["SGLD", None], numbers(T=1.7), h=0.003)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_sghmc_with_vectors(integrator):
    step = poisson_step(
        SGHMC,
        friction=FRICTION,
        noise_estimate=ESTIMATE,
        temperature=1.7,
        integrator=integrator,
    )
    c = numbers(C=FRICTION, B=ESTIMATE, T=1.7)
    check_steps(subject(step), UPDATES["SGHMC", integrator], c)


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("thermostat", ["scalar", "coordinate"])
def test_sgnht_with_vectors(thermostat, integrator):
    diffusion = 4.3 if thermostat == "scalar" else FRICTION
    step = poisson_step(
        SGNHT,
        diffusion=diffusion,
        thermostat=thermostat,
        thermal_mass=3.7,
        temperature=0.6,
        integrator=integrator,
    )
    c = numbers(A=diffusion, T=0.6, Q=3.7)
    chain, update = subject(step), UPDATES["SGNHT", integrator]
    np.testing.assert_array_equal(chain.state["xi"], diffusion)
    check_steps(chain, update, c)
    for xi in _frictions(thermostat):
        check_steps(chain, update, c, xi=xi)


def _frictions(thermostat):
    """Near zero, zero and negative, where an Ornstein-Uhlenbeck step may lose its digits."""
    if thermostat == "scalar":
        return [0.0, 1e-12, -1e-7, 2e-4, -0.8, -6.0]
    return [np.array([0.0, -1e-9, 1e-6, -1e-3]), np.array([-0.5, 40.0, 0.0, -6.0])]


@pytest.mark.parametrize(
    ("sampler", "c"),
    [
        ("SGLD", numbers()),
        ("SGHMC", numbers()),
        ("SGNHT", numbers(Q=10 / D)),
    ],
)
def test_defaults(sampler, c):
    chain = subject(poisson_step(getattr(pymc_sgmcmc, sampler)))
    check_steps(chain, UPDATES[sampler, None if sampler == "SGLD" else "BAOAB"], c, h=0.003)


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
        compile_kwargs={"mode": "FAST_COMPILE"},
    )
    assert step.coefficients()["mass"] == pytest.approx(expected)


def test_ornstein_uhlenbeck_step_keeps_its_digits():
    """Through zero and in both signs: the variance (1 - exp(-2 x h)) / x by its Taylor series."""
    import pytensor.tensor as pt

    from pymc_sgmcmc.backends import interpreted
    from pymc_sgmcmc.integrators import ornstein_uhlenbeck

    magnitudes = np.geomspace(1e-14, 3e-3, 60)
    friction = np.concatenate([-magnitudes, [0.0], magnitudes])
    h, diffusion = 0.5, 1.3
    x = 2 * h * friction
    growth = 1 - x / 2 + x**2 / 6 - x**3 / 24 + x**4 / 120
    xi = pt.dvector()
    spread = interpreted([xi], [ornstein_uhlenbeck(0.0, xi, diffusion, h, 1.0)])(friction)[0]
    np.testing.assert_allclose(spread, np.sqrt(2 * h * diffusion * growth), rtol=1e-12)
