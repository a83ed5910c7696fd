"""Uniform distribution of matrices with orthonormal columns."""

from math import log, pi
from typing import Any, ClassVar, final

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.random.op import RandomVariable

from pymc_sgmcmc._utils.arguments import check_given
from pymc_sgmcmc._utils.graph_arguments import SHAPE
from pymc_sgmcmc.distributions.embedded import Embedded, known, on_manifold
from pymc_sgmcmc.distributions.manifolds import STIEFEL

__all__ = ["UniformStiefel", "UniformStiefelRV"]


@final
class UniformStiefelRV(RandomVariable):
    """Random variable of uniform n x p matrices with orthonormal columns."""

    name = "uniform_stiefel"
    signature = "(),()->(n,p)"
    dtype = "floatX"
    _print_name = ("UniformStiefel", "\\operatorname{UniformStiefel}")
    manifold = STIEFEL

    def _supp_shape_from_params(self, dist_params, param_shapes=None):
        return [pt.squeeze(length) for length in dist_params]

    @classmethod
    def rng_fn(cls, rng, n, p, size):
        normals = rng.standard_normal((*(size or ()), np.max(n), np.max(p)))
        q, r = np.linalg.qr(normals)
        # A positive diagonal of r makes the factors unique, so that q is uniform.
        return q * np.sign(np.diagonal(r, axis1=-2, axis2=-1))[..., None, :]


@final
class UniformStiefel(Embedded):
    r"""The uniform distribution of n x p matrices X with orthonormal columns, X'X = I.

    The density with respect to the surface of the Stiefel manifold in R^(n x p) is one over its
    volume, the product of the areas of the spheres in R^n, R^(n-1), ..., R^(n-p+1), times
    2^(p (p-1) / 4)::

        p(X) = 2^(-p (p-1) / 4) prod_{m=n-p+1}^n Gamma(m/2) / (2 pi^(m/2))

    The power of two is due to the embedding: along X(t) = X exp(t A) with a skew A, each element
    of A moves two elements of X, over a distance of sqrt(2) t. Haar measure counts each element
    once and lacks the factor. For n = p the determinant of X is 1 or -1, and no path on the
    manifold connects the two.

    Parameters
    ----------
    name : str
    shape, dims, observed
        One of these arguments, with the axes (..., n, p), n >= p and n >= 2.
    **kwargs
        Other arguments of any PyMC distribution.

    Raises
    ------
    ValueError
        If there is no shape, n < p or n < 2.
    OffManifoldError
        By logp, if a value is more than 1e-4 away from the manifold, for instance under NUTS.

    References
    ----------
    Muirhead, R. J. (1982). Aspects of Multivariate Statistical Theory, theorem 2.1.15. Wiley.
    Byrne, S. and Girolami, M. (2013). Geodesic Monte Carlo on embedded manifolds. Scandinavian
    Journal of Statistics.

    Examples
    --------
    >>> import pymc as pm
    >>> from pymc_sgmcmc.distributions import UniformStiefel
    >>> with pm.Model():
    ...     loadings = UniformStiefel("loadings", shape=(10, 2))
    """

    rv_op = UniformStiefelRV()
    arguments: ClassVar = {"shape": SHAPE}

    @classmethod
    def dist(cls, *, shape: Any = None, **kwargs):
        check_given(cls, shape=shape)
        n, p = cls.support_shape(shape, "np")
        cls.check_length("n, the last axis but one,", n, 2)
        cls.check_length("p, the last axis,", p, 1)
        rows, columns = known(n), known(p)
        if rows is not None and columns is not None and rows < columns:
            raise ValueError(
                f"UniformStiefel: n={rows} is less than p={columns}, so that p columns of "
                "length n cannot be orthonormal. The last two axes are (n, p), with n >= p."
            )
        lengths = [pt.as_tensor_variable(length, dtype="int64") for length in (n, p)]
        return super().dist(lengths, shape=shape, **kwargs)

    def support_point(rv, size, n, p):
        n, p = pt.squeeze(n), pt.squeeze(p)
        return pt.broadcast_to(pt.eye(n, p, dtype=rv.dtype), pt.concatenate([size, [n, p]]))

    def logp(value, n, p):
        n, p = pt.squeeze(n), pt.squeeze(p)
        half = (n - pt.arange(p)).astype(value.dtype) / 2
        areas = log(2) + half * log(pi) - pt.gammaln(half)
        volume = pt.sum(areas) + (p * (p - 1)).astype(value.dtype) * (log(2) / 4)
        product = pt.matmul(value.mT, value)
        gap = pt.max(pt.abs(product - pt.eye(p, dtype=value.dtype)), axis=(-2, -1)) / 2
        return on_manifold(-volume, gap, "UniformStiefel", "matrices with orthonormal columns")
