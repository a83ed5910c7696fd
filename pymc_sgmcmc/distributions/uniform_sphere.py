"""Uniform distribution of unit vectors."""

from math import log, pi
from typing import Any, ClassVar, final

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.random.op import RandomVariable

from pymc_sgmcmc._utils.arguments import check_given
from pymc_sgmcmc._utils.graph_arguments import SHAPE
from pymc_sgmcmc.distributions.embedded import Embedded, on_sphere
from pymc_sgmcmc.distributions.manifolds import SPHERE

__all__ = ["UniformSphere", "UniformSphereRV"]


@final
class UniformSphereRV(RandomVariable):
    """Random variable of uniform unit vectors with d entries."""

    name = "uniform_sphere"
    signature = "()->(d)"
    dtype = "floatX"
    _print_name = ("UniformSphere", "\\operatorname{UniformSphere}")
    manifold = SPHERE

    def _supp_shape_from_params(self, dist_params, param_shapes=None):
        return [pt.squeeze(dist_params[0])]

    @classmethod
    def rng_fn(cls, rng, d, size):
        return SPHERE.nearest(rng.standard_normal((*(size or ()), np.max(d))))


@final
class UniformSphere(Embedded):
    r"""The uniform distribution on the unit sphere of R^d.

    The density with respect to the surface of the sphere is one over its area::

        p(x) = Gamma(d/2) / (2 pi^(d/2)),   |x| = 1

    Values are unit vectors along the last axis, and independent copies along the other axes.

    Parameters
    ----------
    name : str
    shape, dims, observed
        One of these arguments, with the axes (..., d), d >= 2.
    **kwargs
        Other arguments of any PyMC distribution.

    Raises
    ------
    ValueError
        If there is no shape, or d < 2.
    OffManifoldError
        By logp, if a value is more than 1e-4 away from the sphere, for instance under NUTS.

    References
    ----------
    Mardia, K. V. and Jupp, P. E. (2000). Directional Statistics, section 9.3.1. Wiley.

    Examples
    --------
    >>> import pymc as pm
    >>> from pymc_sgmcmc.distributions import UniformSphere
    >>> with pm.Model(coords={"topic": range(3), "word": range(50)}):
    ...     topics = UniformSphere("topics", dims=("topic", "word"))
    """

    rv_op = UniformSphereRV()
    arguments: ClassVar = {"shape": SHAPE}

    @classmethod
    def dist(cls, *, shape: Any = None, **kwargs):
        check_given(cls, shape=shape)
        (d,) = cls.support_shape(shape, "d")
        cls.check_length("the last axis", d, 2)
        return super().dist([pt.as_tensor_variable(d, dtype="int64")], shape=shape, **kwargs)

    def support_point(rv, size, d):
        d = pt.squeeze(d)
        return pt.full(pt.concatenate([size, [d]]), 1 / pt.sqrt(d.astype(rv.dtype)))

    def logp(value, d):
        half = pt.squeeze(d).astype(value.dtype) / 2
        area = log(2) + half * log(pi) - pt.gammaln(half)
        return on_sphere(-area, value, "UniformSphere")
