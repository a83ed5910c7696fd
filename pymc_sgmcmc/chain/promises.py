"""What the package promises of means and sds, and the interval in which it must be kept."""

import numpy as np

__all__ = ["MEAN_PROMISE", "SD_PROMISE", "TIMES", "rounded_up"]

TIMES = 1.96
"""Monte Carlo errors that an interval of 95 % goes to each side."""

MEAN_PROMISE, SD_PROMISE = 0.1, 0.1
"""Means within 0.1 posterior sds, sds within 10 %."""


def rounded_up(number: float) -> int:
    """Return `number`, of draws, rounded up to two digits."""
    unit = 10 ** max(int(np.floor(np.log10(number))) - 1, 0)
    return int(np.ceil(number / unit)) * unit
