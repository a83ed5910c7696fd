"""Modified Bessel functions of the first kind, scaled so that they never overflow.

I_n(k) k^-n is positive and smooth in k >= 0, also at 0, for every order n. This module computes its
logarithm and its ratio s_n(k) = I_{n+1}(k) / (k I_n(k)), for n >= 0 and all k. PyTensor's own
``ive`` underflows to 0 at the orders of many dimensions.
"""

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from pytensor.gradient import disconnected_type
from pytensor.scalar.basic import BinaryScalarOp, upgrade_to_float
from pytensor.tensor.elemwise import Elemwise

__all__ = ["Bessel", "bessel", "bessel_ratio", "log_bessel"]

STEPS = 30
"""Number of orders above n at which the expansion is used; below order 30 it needs more terms."""

EXPANSION = np.zeros((6, 7))
"""Coefficients of t^(m+2j) / N^m, m = 1..6, in Debye's expansion of log I_N for large orders N."""
EXPANSION[0, :2] = np.array([3, -5]) / 24
EXPANSION[1, :3] = np.array([1, -6, 5]) / 16
EXPANSION[2, :4] = np.array([375, -4779, 9945, -5525]) / 5760
EXPANSION[3, :5] = np.array([13, -284, 1062, -1356, 565]) / 128
EXPANSION[4, :6] = np.array([67599, -2252205, 13077470, -28286370, 26089875, -8696625]) / 322560
EXPANSION[5, :7] = np.array([103, -4860, 40248, -129336, 196155, -141660, 39350]) / 192


def bessel(order, k):
    """Compute log(I_n(k) k^-n) and I_{n+1}(k) / (k I_n(k)), for n = `order`; numbers or arrays.

    Debye's uniform expansion (DLMF 10.41.3, its logarithm) is used at the order N = n + 30, where
    its error is below 1e-12. The recursions s_{m-1} = 1 / (2 m + k^2 s_m) and
    I_{m-1} = I_m / (k s_{m-1}) lead down to n. All their terms are positive, so nothing cancels.
    """
    top = order + STEPS
    root = np.sqrt(top * top + k * k)
    series, slope, power = 0.0, 0.0, 1.0
    for m in range(1, len(EXPANSION) + 1):
        value, derivative = 0.0, 0.0
        for j in range(m, -1, -1):
            value = value * (top / root) ** 2 + EXPANSION[m - 1, j]
            derivative = derivative * (top / root) ** 2 + (m + 2 * j) * EXPANSION[m - 1, j]
        power = power / root
        series, slope = series + power * value, slope + power * derivative
    log_top = root - top * np.log(top + root) - 0.5 * np.log(2 * np.pi * root) + series
    ratio = 1 / (top + root) - (0.5 + slope) / root**2
    # Scale each ratio to about one, because the product would underflow in float32.
    product = 1.0
    for i in range(STEPS):
        ratio = 1 / (2 * (top - i) + k * k * ratio)
        product = product * (ratio * (top + k))
    return log_top + STEPS * np.log(top + k) - np.log(product), ratio


def _c_table() -> str:
    return ", ".join(f"{number!r}" for number in EXPANSION.ravel().tolist())


_C_CODE = f"""
#ifndef PYMC_SGMCMC_BESSEL
#define PYMC_SGMCMC_BESSEL
static double pymc_sgmcmc_bessel(double order, double k, int wants_ratio)
{{
    static const double expansion[] = {{{_c_table()}}};
    const double top = order + {STEPS}, root = sqrt(top * top + k * k);
    const double t2 = (top / root) * (top / root);
    double series = 0.0, slope = 0.0, power = 1.0, product = 1.0;
    for (int m = 1; m <= {len(EXPANSION)}; m++) {{
        const double* row = expansion + (m - 1) * {EXPANSION.shape[1]};
        double value = 0.0, derivative = 0.0;
        for (int j = m; j >= 0; j--) {{
            value = value * t2 + row[j];
            derivative = derivative * t2 + (m + 2 * j) * row[j];
        }}
        power /= root;
        series += power * value;
        slope += power * derivative;
    }}
    double ratio = 1.0 / (top + root) - (0.5 + slope) / (root * root);
    for (int i = 0; i < {STEPS}; i++) {{
        ratio = 1.0 / (2.0 * (top - i) + k * k * ratio);
        product *= ratio * (top + k);
    }}
    if (wants_ratio) return ratio;
    const double log_top = root - top * log(top + root) - 0.5 * log({2 * np.pi!r} * root) + series;
    return log_top + {STEPS} * log(top + k) - log(product);
}}
#endif
"""


class Bessel(BinaryScalarOp):
    """One of the two functions of `bessel`, differentiable in k but not in the order.

    `numba_code` has the code for Numba. Compiled code is stored on disk, so every change must raise
    the version, here and there.
    """

    place: ClassVar[int] = 0
    """Index of the function in the result of `bessel`."""

    @abstractmethod
    def derivative(self, order, k):
        """Return the derivative of the function in k."""

    def __init__(self):
        super().__init__(upgrade_to_float, name=type(self).__name__)

    def impl(self, order, k):
        return bessel(np.float64(order), np.float64(k))[self.place]

    def connection_pattern(self, node):
        return [[False], [True]]

    def L_op(self, inputs, outputs, gradients):
        return [disconnected_type(), gradients[0] * self.derivative(*inputs)]

    pullback = L_op  # its name since PyTensor 3

    def c_support_code(self, **kwargs):
        return _C_CODE

    def c_code(self, node, name, inputs, outputs, sub):
        order, k = inputs
        kind = node.outputs[0].type.dtype_specs()[1]
        return f"{outputs[0]} = ({kind}) pymc_sgmcmc_bessel({order}, {k}, {self.place});"

    def c_code_cache_version(self):
        return (1,)


class LogBessel(Bessel):
    """The function log(I_n(k) k^-n)."""

    def derivative(self, order, k):
        return k * _ratio(order, k)


class BesselRatio(Bessel):
    """The function I_{n+1}(k) / (k I_n(k))."""

    place = 1

    def derivative(self, order, k):
        own = _ratio(order, k)
        return k * own * (_ratio(order + 1.0, k) - own)


_log, _ratio = LogBessel(), BesselRatio()
log_bessel = Elemwise(_log, name="log_bessel")
bessel_ratio = Elemwise(_ratio, name="bessel_ratio")
