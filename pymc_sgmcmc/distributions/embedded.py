"""Common parts of distributions on manifolds: checks of values and of shapes."""

from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pymc.distributions.distribution import Continuous
from pymc.distributions.shape_utils import convert_shape
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.rewriting.basic import node_rewriter
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.variable import TensorConstant, TensorVariable

from pymc_sgmcmc.compile.backend import register_numba_code_by_default

__all__ = ["Embedded", "OffManifoldError", "on_manifold", "on_sphere", "without_refusal"]

TOLERANCE = 1e-4
"""Largest allowed distance of a value from the manifold. Rounding errors are smaller, and steps
of samplers that leave the manifold are longer."""


class OffManifoldError(ValueError):
    """Error for a value that is not on the manifold of its distribution."""


class OnManifold(CheckAndRaise):
    """Check that raises unless a value is on its manifold, and that PyMC does not make infinite.

    Without an error a sampler that leaves the manifold would reject all its moves, or sample
    nonsense.
    """


@node_rewriter(tracks=[OnManifold])
def without_refusal(fgraph, node):
    """Remove the error, for samplers that stay on the manifold; keep -inf off the manifold."""
    return [node.inputs[0]]


def on_manifold(
    log_density: TensorVariable, gap: TensorVariable, name: str, what: str
) -> TensorVariable:
    """Return `log_density` with a check that raises if a `gap` is too large.

    `gap` is the distance from the manifold. Both have one number for each value of the distribution
    `name`. The text `what` says what such a value must be.
    """
    close = pt.le(gap, TOLERANCE)
    refusal = OnManifold(
        OffManifoldError,
        f"A value of {name} is more than {TOLERANCE:g} away from its manifold: it must be {what}. "
        "NUTS, HMC, Metropolis and ADVI leave the manifold; sample it with SGGMC, gSGNHT or GMC of "
        "pymc_sgmcmc. If the value is yours (observed or initval), normalise it.",
    )
    return refusal(pt.switch(close, log_density, -np.inf), pt.all(close))


def on_sphere(log_density: TensorVariable, value: TensorVariable, name: str) -> TensorVariable:
    """Return `log_density` with a check that raises unless `value` is unit along the last axis."""
    gap = pt.abs(pt.sqrt(pt.sum(value**2, axis=-1)) - 1.0)
    return on_manifold(log_density, gap, name, "unit vectors along the last axis")


class Embedded(Continuous):
    """A distribution on a manifold, in the coordinates of the space around it."""

    @classmethod
    def dist(cls, *parameters: Any, **kwargs: Any):
        register_numba_code_by_default()
        return super().dist(*parameters, **kwargs)

    @classmethod
    def support_shape(cls, shape: Any, axes: str) -> list[Any]:
        """Return the lengths of the last axes of `shape`, named by letters in `axes`.

        Raise ValueError if `shape` is missing or too short.
        """
        given = convert_shape(shape)
        if given is None or len(given) < len(axes):
            raise ValueError(
                f"{cls.__name__} has shape={shape!r}: give it the axes (..., {', '.join(axes)}) by "
                "shape=, dims= or observed=."
            )
        return list(given[-len(axes) :])

    @classmethod
    def vector(cls, name: str, value: Any, shape: Any) -> TensorVariable:
        """Return the parameter `value` as vectors along its last axis.

        Raise ValueError unless the vectors have length 2 or more, and fit `shape`.
        """
        value = pt.as_tensor_variable(value)
        if value.type.ndim == 0:
            raise ValueError(f"{name} of {cls.__name__} is a scalar: pass a vector, or vectors.")
        value = value.astype(pytensor.config.floatX)
        own = value.type.shape[-1]
        cls.check_length(f"the last axis of {name}", own, 2)
        given = None if shape is None else known(cls.support_shape(shape, "d")[0])
        if None not in (own, given) and own != given:
            raise ValueError(
                f"The last axis of {name} of {cls.__name__} is {own} long, and that of its "
                f"shape={shape!r} is {given}: both are the dimension of the space, d."
            )
        return value

    @classmethod
    def check_length(cls, axis: str, length: Any, least: int) -> None:
        """Raise ValueError if a length is known and below `least`."""
        if (number := known(length)) is not None and number < least:
            raise ValueError(
                f"{cls.__name__}: {axis} is {known(length)} long, and must be {least} at least."
            )


def known(length: Any) -> int | None:
    """Return a length as a number, or None if it is not known now.

    A dimension's length is a shared variable, whose present value is returned.
    """
    if isinstance(length, TensorConstant):
        return int(length.data)
    if isinstance(length, SharedVariable):
        return int(length.get_value())
    return None if isinstance(length, TensorVariable) or length is None else int(length)
