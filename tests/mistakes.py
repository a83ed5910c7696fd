"""Mistakes in updates, planted one by one: what tests them must see each.

`sghmc` and `sgnht` are right, in this file's own words; each mistake differs from one of them by
one change.
"""

import numpy as np
import pytensor.tensor as pt

from tests.helpers import N_ROWS

__all__ = ["OF_SGHMC", "OF_SGNHT", "TEMPERATURE", "resampled_momentum", "sghmc", "sgnht"]

TEMPERATURE = 1.3


def kick(p, grad, q, h, friction, spread, noise):
    return p - h * grad(q) - h * friction * p + spread * noise()


def sghmc(q, p, *, grad, h, noise, friction, diffusion):
    p = kick(p, grad, q, h, friction, pt.sqrt(2 * diffusion * h), noise)
    return q + h * p, p


def explicit_euler(q, p, *, grad, h, noise, friction, diffusion):
    kicked = kick(p, grad, q, h, friction, pt.sqrt(2 * diffusion * h), noise)
    return q + h * p, kicked


def noise_times_friction(q, p, *, grad, h, noise, friction, diffusion):
    p = kick(p, grad, q, h, friction, friction * pt.sqrt(2 * h), noise)
    return q + h * p, p


def noise_proportional_to_step_size(q, p, *, grad, h, noise, friction, diffusion):
    p = kick(p, grad, q, h, friction, pt.sqrt(2 * diffusion) * h, noise)
    return q + h * p, p


def twice_the_noise_variance(q, p, *, grad, h, noise, friction, diffusion):
    p = kick(p, grad, q, h, friction, pt.sqrt(4 * diffusion * h), noise)
    return q + h * p, p


def half_the_noise_variance(q, p, *, grad, h, noise, friction, diffusion):
    p = kick(p, grad, q, h, friction, pt.sqrt(diffusion * h), noise)
    return q + h * p, p


def twice_the_friction(q, p, *, grad, h, noise, friction, diffusion):
    p = kick(p, grad, q, h, 2 * friction, pt.sqrt(2 * diffusion * h), noise)
    return q + h * p, p


def half_the_friction(q, p, *, grad, h, noise, friction, diffusion):
    p = kick(p, grad, q, h, friction / 2, pt.sqrt(2 * diffusion * h), noise)
    return q + h * p, p


def mean_gradient(q, p, *, grad, h, noise, friction, diffusion):
    """Of one row, with the noise of the sum: the temperature is N times what is said."""
    p = kick(p, lambda q: grad(q) / N_ROWS, q, h, friction, pt.sqrt(2 * diffusion * h), noise)
    return q + h * p, p


def frozen_position(q, p, *, grad, h, noise, friction, diffusion):
    p = kick(p, grad, q, h, friction, pt.sqrt(2 * diffusion * h), noise)
    return q, p


def resampled_momentum(q, p, count, *, grad, h, noise, friction, diffusion):
    """Every 4 steps, in place of friction."""
    fresh = np.sqrt(TEMPERATURE) * noise()
    p = pt.switch(pt.eq(count % 4, 0), fresh, p) - h * grad(q)
    return q + h * p, p, count + 1


def sgnht(q, p, xi, *, grad, h, noise, diffusion, temperature, mass):
    p = kick(p, grad, q, h, xi, pt.sqrt(2 * diffusion * h), noise)
    return q + h * p, p, xi + h * (pt.mean(p**2) - temperature) / mass


def thermostat_of_the_norm(q, p, xi, *, grad, h, noise, diffusion, temperature, mass):
    p = kick(p, grad, q, h, xi, pt.sqrt(2 * diffusion * h), noise)
    energy = pt.sqrt(pt.sum(p**2)) / p.shape[0]
    return q + h * p, p, xi + h * (energy - temperature) / mass


def thermostat_of_the_sum(q, p, xi, *, grad, h, noise, diffusion, temperature, mass):
    p = kick(p, grad, q, h, xi, pt.sqrt(2 * diffusion * h), noise)
    return q + h * p, p, xi + h * (pt.sum(p**2) - temperature) / mass


OF_SGHMC = [
    explicit_euler,
    noise_times_friction,
    noise_proportional_to_step_size,
    twice_the_noise_variance,
    half_the_noise_variance,
    twice_the_friction,
    half_the_friction,
    mean_gradient,
    frozen_position,
]
OF_SGNHT = [thermostat_of_the_norm, thermostat_of_the_sum]
