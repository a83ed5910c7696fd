"""Promised accuracy of means and sds, and the width of its confidence interval."""

import numpy as np

__all__ = ["MEAN_PROMISE", "SD_PROMISE", "TIMES", "rounded_up"]

TIMES = 1.96
"""Half-width of a 95 % interval, in Monte Carlo errors."""

MEAN_PROMISE, SD_PROMISE = 0.1, 0.1
"""Promised accuracy: means within 0.1 posterior sds, sds within 10 %."""


def rounded_up(number: float) -> int:
    """Return a number of draws, rounded up to two digits."""
    unit = 10 ** max(int(np.floor(np.log10(number))) - 1, 0)
    return int(np.ceil(number / unit)) * unit
